"""Every number that decides a verdict says in what unit it is, why it is that, and whence; shared ones stand once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench.house_parts.constants import ANALYSIS, SOURCES, constants, constants_of, without_reason

from leadline.analysis.cause import symptoms
from leadline.analysis.ledger import baseline, expected, ledger, presence
from leadline.analysis.symptoms import calls, crashes, slowdowns, spans

SAID = "# Seconds, because steps take less. Source: judgement.\n"


def lacking(text: str) -> dict[str, tuple[str, ...]]:
    """What each constant of a module lacks, by its name."""
    path = ANALYSIS / "cause" / "written.py"
    return {each.name: tuple(one.partition(" (")[0] for one in each.lacks) for each in constants_of(path, text)}


def test_each_has_unit_reason_and_source() -> None:
    assert without_reason() == []


def test_numbers_that_two_analyses_share_agree() -> None:
    """They do not import each other, so each has its own."""
    assert slowdowns.BEST_SHARE == baseline.BEST_SHARE
    assert slowdowns.CHECKPOINT_TIMES == expected.CHECKPOINT_RATIO
    assert slowdowns.BASELINE_NS == ledger.BASELINE_NS
    assert calls.RANKS_MAX == presence.RANKS_MAX
    assert crashes.TOGETHER_NS == presence.TOGETHER_NS
    assert symptoms.NEAR_NS == spans.NEAR_NS


def test_each_kind_of_source_is_used() -> None:
    assert {each.source for each in constants()} == set(SOURCES)


@pytest.mark.parametrize("number", [r"1\.4826", r"0\.7413", r"^S = 10\*\*9", r"^NOISE_RATIO\b.* = "])
def test_what_several_modules_need_stands_once(number: str) -> None:
    found = [
        path
        for path in ANALYSIS.parent.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(number, line.partition("  #")[0])
    ]
    assert len(found) == 1, found


@pytest.mark.parametrize(
    "text",
    [
        "LONG_S = 3.0  # seconds of patience, because healthy steps take less. Source: judgement.\n",
        "# Seconds of patience, because healthy steps\n# take less. Source: judgement.\nLONG_S = 3.0\n",
        'LONG_S = 3.0\n"""Seconds of patience, because healthy steps take less. Source: judgement."""\n',
    ],
)
def test_it_may_be_said_beside_above_or_below(text: str) -> None:
    assert lacking(text) == {"LONG_S": ()}


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("LONG = 3.0\n", ("a source", "a unit", "a reason", "words of its own")),
        ("LONG = 3.0  # as long as healthy ones may take it, by our own lights. Source: judgement.\n", ("a unit",)),
        ("LONG = 3.0  # seconds. Source: judgement.\n", ("a reason",)),
        ("LONG = 3.0  # seconds of patience, because healthy steps of jobs take less.\n", ("a source",)),
        ("LONG = 3.0  # seconds of patience, because healthy steps take less. Source: I like it.\n", ("a source",)),
    ],
)
def test_what_is_not_said_is_named(text: str, lacks: tuple[str, ...]) -> None:
    assert lacking(text) == {"LONG": lacks}


def test_one_block_may_head_several_of_which_each_has_words_of_its_own() -> None:
    head = "# Probabilities told with rows, so that a reader can weigh them. Source: judgement.\n"
    assert lacking(head + "SURE = 0.9  # with clocks\nLESS = 0.8  # without any\nBARE = 0.7\n") == {
        "SURE": (),
        "LESS": (),
        "BARE": ("words of its own",),
    }
    assert lacking(head + "SURE = 0.9  # with clocks\n\nFAR = 0.8  # without any\n")["FAR"]


def test_defaults_and_numbers_in_tables_of_rules_are_constants_too() -> None:
    text = (
        "def chosen(share: float = 0.25, first: int = 0) -> None: ...\n"
        "class Kept:\n    most: int = 7\n    count: int = 0\n"
        'RULES = (Rule("a", strength=2.5),)\n'
    )
    assert set(lacking(text)) == {"chosen(share)", "Kept.most", "2.5 of a rule"}


def test_names_of_cases_types_and_patterns_are_none() -> None:
    text = (
        'A, B, C = 0, 1, 2\n_TEXT = pa.list_(pa.int8(), 3)\n_WORD = re.compile(r"\\d+", 2)\nNAMES = ("a", "b")\nx = 3\n'
    )
    assert lacking(text) == {}


def test_where_it_stands_is_told() -> None:
    (found,) = constants_of(ANALYSIS / "cause" / "written.py", f"\n{SAID}LONG_S = 3\n")
    assert found.where == "analysis/cause/written.py:3 LONG_S"
    assert found.source == "judgement"
    assert isinstance(found.path, Path)
