"""Laws of explanations and alerts: no answer of a model breaks anything, no tenant's name leaves, news arrive once."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.alerts.notices import one, told
from tests.unit.views.incidents.incident_rows import FLAP, NOW, S

from leadline.alerts.config import AlertsConfig
from leadline.alerts.due import Rhythm, due
from leadline.alerts.sent import Told
from leadline.explain.check import checked, contains
from leadline.explain.redact import Redactor
from leadline.views.incidents.facts import explanation

EXPLAINED = explanation(one(FLAP))
NUMBERS = {each.number for each in EXPLAINED.facts}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.lists(st.sampled_from([
    "bert-1", "is", "slow", "because", "of", "the", "cause", "port:h3/eth0", "link-down", "host:h6", "105",
    "GPU-seconds", "93 %", "not", "gpu:GPU-9", "cpu-throttled", "drain", "7", "reboot", "seen", "event",
]), min_size=1, max_size=12).map(" ".join)  # fmt: skip
CITES = st.lists(st.integers(-1, 12), max_size=4)
SENTENCES = st.lists(st.fixed_dictionaries({"text": WORDS, "cites": CITES}) | JSON, max_size=6)
# Not as keys of known services begin: with `-bert` behind it such a name is cut as a secret, for good.
KEY = re.compile(r"sk|pk|rk|gh[opsu]|glpat|xox|hf|nvapi")
NAME = st.from_regex(r"[a-z][a-z0-9-]{2,8}[a-z0-9]", fullmatch=True).filter(lambda name: not KEY.match(name))
NAMES = st.lists(NAME, unique=True, min_size=1, max_size=5)


@given(JSON | st.fixed_dictionaries({"sentences": SENTENCES}))
@settings(max_examples=150, deadline=None)
def test_whatever_a_model_answers_what_is_kept_cites_facts_and_names_nothing_else(answer: object) -> None:
    found = checked(answer, EXPLAINED.facts)
    for sentence in found.sentences:
        assert sentence.cites
        assert set(sentence.cites) <= NUMBERS
        cited = " ".join(EXPLAINED.facts[number - 1].said for number in sentence.cites)
        for name in ("host:h6", "gpu:GPU-9", "cpu-throttled", "reboot", "drain", "link-down", "105", "93"):
            assert name not in sentence.text or contains(cited, name)
        assert not any(EXPLAINED.facts[number - 1].kind == "considered" for number in sentence.cites)


@given(
    NAMES, st.lists(st.sampled_from(["{}", "{}-bert", "job:{}/3", "x_{}", "of {}.", "'{}'"]), min_size=1, max_size=8)
)
@settings(max_examples=100, deadline=None)
def test_no_tenants_name_leaves_and_all_come_back(names: list[str], frames: list[str]) -> None:
    text = " ".join(frame.format(names[place % len(names)]) for place, frame in enumerate(frames))
    redactor = Redactor(names)
    hidden = redactor.hide(text)
    assert not any(contains(hidden, name) for name in names)
    assert redactor.restore(hidden) == text


@given(
    st.lists(st.tuples(st.sampled_from(["open", "over", "suppressed"]), st.booleans(), st.integers(0, 40)), max_size=20)
)
@settings(max_examples=150, deadline=None)
def test_a_receiver_that_answers_ends_up_knowing_how_it_stands(changes: list[tuple[str, bool, int]]) -> None:
    """However states and outages follow: an alert that was told is told to be over, and none is told over and over."""
    rhythm = Rhythm.of(AlertsConfig(), resends=False)
    before: Told | None = None
    now_ns, heard = NOW + 60 * S, []
    now = told()
    for state, answers, pause_s in changes:
        now_ns += pause_s * S
        now = replace(now, state=state, end_ns=None if state == "open" else now_ns, seen_ns=now_ns)
        if due(now, before, rhythm, now_ns) and answers:
            before = Told(now.state, now.version, now.labels, now_ns)
            heard.append(now.state)
    if due(now, before, rhythm, now_ns):
        before = Told(now.state, now.version, now.labels, now_ns)
        heard.append(now.state)
    assert not due(now, before, rhythm, now_ns)
    assert before.state == now.state if before is not None else now.state != "open"
    assert all(one != other for one, other in pairwise(heard))
