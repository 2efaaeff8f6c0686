"""`leadline diagnose` and `show incidents`: what they print of each kind of answer, and how they end."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from rich.console import Console
from tests.builders.incident import Names, rows_of
from tests.senders.running import RunningLeadline
from tests.unit.cli.conftest import Run
from tests.unit.views.incidents.incident_rows import FLAP, NOW, QUIET, ROWS, THIN, WORKER, S, newest

from leadline.analysis.cause.rules import BY_NAME as RULES
from leadline.cli.diagnosis import offline as diagnosis_offline
from leadline.cli.diagnosis.words import (
    SUPPRESSED,
    moment,
    state_line,
    sure,
    tell,
)
from leadline.cli.picture.diagnosis import diagnosis_picture
from leadline.cli.show.incidents import tell as tell_list
from leadline.lab.incidents import incident
from leadline.model.incidents import Suppressed, Symptom, symptom_words
from leadline.model.tables import BY_NAME
from leadline.store.schema import arrow_table
from leadline.views.incidents.actions import incident_json
from leadline.views.incidents.diagnosis import Watched, WatchedJob, diagnosis
from leadline.views.incidents.view import incidents_of
from leadline.views.ledger.config import LedgerConfig

HOWTO = Path(__file__).parents[3] / "docs" / "how-to" / "diagnose.md"
FOUND = incidents_of(newest("incident"), ROWS["cause"], ROWS["symptom"], {"gpu:GPU-6": "host:h6"})
WATCHED = Watched((WatchedJob("bert-1", 8, 48, NOW - 100 * S, NOW - 2 * S, 2.0),), {"step": NOW - 2 * S},
                  {"stalls": NOW - 2 * S, "slowdowns": NOW - 2 * S})  # fmt: skip


def answer(*names: str, about: str = "bert-1", recorded: bool = False, price: float | None = 2.5) -> dict[str, Any]:
    some = [one for one in FOUND if one.incident in names]
    return diagnosis(about, some, WATCHED, NOW, LedgerConfig(price), recorded=recorded)


def printed(found: dict[str, Any], every: bool = False, width: int = 100) -> str:
    out = Console(width=width, file=io.StringIO(), highlight=False, markup=False, color_system=None)
    tell(out, found, every)
    return str(out.file.getvalue())  # type: ignore[attr-defined]


def lines(text: str) -> list[str]:
    return [re.sub(r" +", " ", line).strip() for line in text.splitlines()]


def test_one_screen_says_what_since_when_why_what_to_do_and_what_waiting_costs() -> None:
    text = printed(answer(FLAP, WORKER, THIN, QUIET, about=""))
    assert len(text.splitlines()) <= 40
    text = printed(answer(FLAP, WORKER))
    assert len(text.splitlines()) <= 40
    assert lines(text)[:6] == [
        "CRITICAL Port h3/eth0 lost its carrier: bert-1 lost 105 GPU-s",
        "bert-1 is slow: 50.0 % of its GPU time is lost (8 GPUs)",
        "since 2025-06-15 15:05:52Z (48 s ago), reported 8.0 s later",
        "105 GPU-s (0.073 EUR) lost so far",
        "cause port:h3/eth0 on h3: link down very likely (0.93)",
        f"it {RULES['link-down'].words} (layer nic)",
    ]
    for words in (
        "1 0.4 s before h3/eth0 lost its carrier 5 times in 30 s",
        "2 3.0 s after rank:bert-1/2: rank 2 arrives last, by 900 ms",
        "3 0.3 s before ? swport:leaf1/Ethernet3: the other end went down too",
        "transient: it comes and goes by itself",
        "not host:h6 cpu throttled (0.04): throttled only 8 s after.",
        "do CHECK_CABLE: Check cable and transceiver of port:h3/eth0 at both ends: clean, reseat,",
        "$ ssh h3 'ethtool eth0; sudo ethtool --module-info eth0'",
        "saves 1.50 GPU-h (3.75 EUR) in the next hour",
        "waiting ten minutes more cost 900 GPU-s (0.625 EUR)",
    ):
        assert any(words in line for line in lines(text)), words
    assert "clocks too uncertain to order" in text
    also = " ".join(lines(text))
    assert "GPU-6 on h6 runs at a lower clock than it should: bert-1 lost 100 GPU-s, for 3 min" in also
    assert f"(0.80) [{WORKER}]" in also


def test_without_a_price_there_is_no_money_and_without_gaps_no_remark_on_clocks() -> None:
    assert "EUR" not in printed(answer(FLAP, price=None))
    assert "clocks" not in printed(answer(QUIET))


def test_an_unknown_cause_says_what_is_missing() -> None:
    text = printed(answer(THIN, about="resnet-2"))
    assert "WARNING" in text
    assert "cause unknown: the evidence is thin" in lines(text)
    assert "missing collectives of resnet-2" in lines(text)
    # 200 GPU-seconds in 20 s
    assert "waiting ten minutes more cost 1.67 GPU-h (4.17 EUR), if it goes on as so far" in lines(text)


def test_a_long_line_of_a_kernel_does_not_fill_the_screen() -> None:
    found = answer(FLAP)
    found["incidents"][0]["causes"][0]["evidence"][0]["text"] = "oom-kill:" + "x" * 1000
    assert "x…" in printed(found)
    assert len(printed(found, width=80).splitlines()) <= 32


def test_an_open_one_that_was_not_judged_lately_says_of_when_it_is() -> None:
    found = answer(FLAP)
    assert "lags by" not in printed(found)
    late = lines(printed({**found, "at_ns": NOW + 90 * S}))
    assert "checked up to 15:06:40Z only: the analysis lags by 90 s (`leadline doctor`)" in late
    assert "lags by" not in printed({**found, "at_ns": NOW + 90 * S, "recorded": True})


def test_a_suppressed_one_says_because_of_what() -> None:
    text = printed(answer(QUIET, about="moe-3"))
    assert "suppressed because its hosts are under maintenance: no alerts are sent" in lines(text)
    assert "in the next hour" not in text  # to do nothing saves nothing


def test_where_nothing_hurts_it_says_what_was_watched_and_tells_the_last_one() -> None:
    text = printed(answer(WORKER))
    assert lines(text)[0] == "OK bert-1: no problem found"
    assert re.fullmatch(r"checked up to [\d:]+Z: bert-1 \(step 48 of 8 ranks, 2.0 s ago\)", lines(text)[-1])
    assert "before the last incident ended 100 s ago; see below" in lines(text)
    assert [line for line in lines(text) if "GPU-6 on" in line or "was slow" in line][:2] == [
        "OVER GPU-6 on h6 runs at a lower clock than it should: bert-1 lost 100 GPU-s",
        "bert-1 was slow (8 GPUs)",
    ]
    assert "If it returns: let no new job onto h6" in " ".join(text.split())
    commands = [line for line in lines(text) if line.startswith("$ ")]
    assert [each.split()[1] for each in commands] == ["scontrol", "kubectl"]


def test_where_nothing_can_be_said_it_says_why() -> None:
    text = printed(answer(about="bert-2"))
    assert lines(text)[:2] == ["UNKNOWN bert-2: cannot tell",
                               "no data for a job or incident 'bert-2'; did you mean bert-1?"]  # fmt: skip


def test_in_a_recording_all_that_happened_is_told() -> None:
    text = printed(answer(WORKER, recorded=True), every=True)
    assert lines(text)[1] == "bert-1 was slow (8 GPUs)"
    assert "lost so far" not in text


def test_lines_are_as_wide_as_the_screen() -> None:
    for width in (80, 100, 200):
        text = printed(answer(FLAP, WORKER, THIN, QUIET), every=True, width=width)
        assert max(len(line) for line in text.splitlines()) <= min(width, 100)


@pytest.mark.parametrize(
    ("probability", "words"),
    [(0.9999, "almost certain (>0.99)"), (0.96, "almost certain (0.96)"), (0.8, "very likely (0.80)"),
     (0.79, "likely (0.79)"), (0.4, "about as likely as not (0.40)"), (0.0, "a guess (<0.01)")],
)  # fmt: skip
def test_a_probability_in_words(probability: float, words: str) -> None:
    assert sure({"probability": probability}) == words


def test_a_moment_without_a_time_or_within_the_bounds() -> None:
    assert moment({"after_s": None, "order": "unknown"}) == "-"
    assert moment({"after_s": 0.4, "order": "together"}) == "with it"


def test_every_word_of_the_model_has_words() -> None:
    for ongoing in (True, False):
        assert all(symptom_words(each, ongoing=ongoing) != each for each in Symptom)
    assert set(SUPPRESSED) == set(Suppressed)


def test_one_line_for_monitoring() -> None:
    assert state_line(answer(FLAP)) == "CRITICAL: Port h3/eth0 lost its carrier: bert-1 lost 105 GPU-s"
    unknown = state_line(answer(THIN, about="resnet-2"))
    assert unknown == "WARNING: resnet-2 stands still and lost 200 GPU-s, cause unknown"
    assert state_line(answer(WORKER, recorded=True)).startswith("CRITICAL: GPU-6 on h6 runs")
    assert state_line(answer()) == "OK: bert-1: no problem found"


def test_the_list_has_a_line_for_each() -> None:
    out = Console(width=200, file=io.StringIO(), color_system=None)
    found = {"incidents_total": 4, "to_ns": NOW, "incidents": [incident_json(one) for one in FOUND]}
    tell_list(out, found)
    told = lines(str(out.file.getvalue()))  # type: ignore[attr-defined]
    assert told[0] == "incidents: 4, of which 3 open"
    flap = next(line for line in told if FLAP in line)
    for words in ("open", "48 s", "Port h3/eth0 lost its carrier: bert-1 lost 105 GPU-s", "CHECK_CABLE"):
        assert words in flap
    assert "suppressed: maintenance" in next(line for line in told if QUIET in line)


# --- a recording ------------------------------------------------------------------------------------------------------


def verdicts(*names: str) -> dict[str, pa.Table]:
    """What `judge_bundle` would conclude: incidents by name, with their causes and symptoms."""
    found = {}
    for table in ("incident", "cause", "symptom"):
        rows = [row for row in newest(table) if table == "symptom" or row["incident"] in names]
        if rows:
            columns = {column.name: [row[column.name] for row in rows] for column in BY_NAME[table].columns}
            found[table] = arrow_table(BY_NAME[table], columns)
    return found


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> dict[str, pa.Table]:
    """What judging concludes; a test changes it."""
    found: dict[str, pa.Table] = {}

    def judge(_: Path, progress: Callable[[float], None] | None) -> dict[str, pa.Table]:
        for share in (0.1, 0.3, 0.4, 0.8, 1.0) if progress else ():
            progress(share)
        return found

    monkeypatch.setattr("leadline.runner.offline.judge_bundle", judge)
    monkeypatch.setattr(diagnosis_offline, "looking", lambda: ("stalls", "slowdowns"))
    return found


def test_a_recording_with_nothing_in_it_says_what_was_watched(leadline_cli: Run, judged: dict[str, pa.Table]) -> None:
    ran = leadline_cli("diagnose", str(incident("healthy")))
    assert ran.code == 0
    assert "healthy.leadline: no problem found" in ran.out
    assert re.search(r"bert-1 \(step \d+ of 8 ranks, [\d.]+ s before the end of the recording\)\n$", ran.out)
    assert ran.err.splitlines()[0].startswith("analysing ")
    assert [line.split()[-4] for line in ran.err.splitlines()[1:]] == ["30%", "80%", "100%"]


def test_a_server_that_the_environment_names_does_not_contradict_a_file(
    leadline_cli: Run, judged: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_SERVER", "http://127.0.0.1:1")
    assert leadline_cli("diagnose", str(incident("healthy"))).code == 0
    refused = leadline_cli("diagnose", str(incident("healthy")), "--server", "http://127.0.0.1:2")
    assert (refused.code, "need a running Leadline" in refused.err) == (3, True)


def failed_runs(*names: str) -> pa.Table:
    """A window of each of these analyses that could not be judged."""
    rows = [
        {
            "analysis": name,
            "end_ns": NOW + place * S,
            "window_ns": S,
            "version": 1,
            "state": "failed",
            "error": "by zero",
        }
        for place, name in enumerate(names)
    ]
    return rows_of(BY_NAME["analysis_run"], rows, Names())


def test_a_recording_of_which_a_window_could_not_be_judged_says_so(
    leadline_cli: Run, judged: dict[str, pa.Table]
) -> None:
    judged["analysis_run"] = failed_runs("stalls")
    ran = leadline_cli("diagnose", str(incident("healthy")))
    assert ran.code == 3, "nobody knows that there is no problem"
    assert "cannot tell" in ran.out
    assert "1 window could not be analysed" in ran.out
    assert "stalls, window that ends at" in ran.out
    assert "by zero" in ran.out
    judged |= verdicts(FLAP, WORKER) | {"analysis_run": failed_runs(*["cause"] * 5)}
    ran = leadline_cli("diagnose", str(incident("demo")))
    assert ran.code == 2, "what hurts is known"
    assert "5 windows could not be analysed" in ran.out
    assert "and 2 more" in ran.out
    assert len(json.loads(leadline_cli("diagnose", str(incident("demo")), "-o", "json").out)["failed"]) == 5


def test_a_recording_is_held_against_its_truth_only_when_asked(leadline_cli: Run, judged: dict[str, pa.Table]) -> None:
    judged |= verdicts(FLAP, WORKER)
    ran = leadline_cli("diagnose", str(incident("demo")), "-o", "json")
    found = json.loads(ran.out)
    assert (ran.code, found["state"], found["recorded"]) == (2, "critical", True)
    assert "truth" not in found
    assert ran.err == ""
    assert [one["incident"] for one in found["incidents"]] == [FLAP, WORKER]
    told = json.loads(leadline_cli("diagnose", str(incident("demo")), "--truth", "-o", "json").out)["truth"]
    assert [(each["fault"], each["verdict"]) for each in told] == [
        ("flapping-link", "missed"), ("slow-worker", "missed"), (None, "wrong"), (None, "wrong")]  # fmt: skip
    assert "compared with the recorded ground truth" in leadline_cli("diagnose", str(incident("demo")), "--truth").out


@pytest.mark.slow
def test_the_page_shows_what_is_printed(leadline_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "98")
    ran = leadline_cli("diagnose", str(incident("demo")), "--truth")
    found, _, truth = ran.out.partition("\n\ncompared with")
    page = HOWTO.read_text(encoding="utf-8")
    for block in (found, "compared with" + truth.rstrip()):
        assert f"\n{block}\n```\n" in page, f"not in {HOWTO.name}, which shows a block such as this:\n{block}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.leadline"], "nothing.leadline"),
        (["bert-1", "--truth"], "--truth is for a recording (NAME.leadline), got 'bert-1'"),
        ([str(incident("demo")), "--at", "-5m"], "a recording is analysed here, as a whole"),
        (["bert-1", "--server", "http://127.0.0.1:1"], "no Leadline answers at http://127.0.0.1:1"),
        ([__file__], "test_diagnose.py"),
    ],
)
def test_what_cannot_be_said_ends_with_3_and_says_why(leadline_cli: Run, arguments: list[str], message: str) -> None:
    ran = leadline_cli("diagnose", *arguments)
    assert ran.code == 3
    assert message in ran.err
    ran = leadline_cli("diagnose", *arguments, "-o", "yaml")
    assert ran.code == 3
    found = yaml.safe_load(ran.out)
    assert (found["schema"], found["state"]) == (1, "unknown")
    assert message in found["why"]
    assert leadline_cli("diagnose", *arguments, "--check").out.startswith("UNKNOWN: ")


def test_one_incident_of_a_recording_is_told_by_its_id(leadline_cli: Run, judged: dict[str, pa.Table]) -> None:
    judged |= verdicts(FLAP, WORKER)
    for name, incident_ids in ((WORKER, [WORKER]), ("bert-1", [FLAP, WORKER]), ("port:h3/eth0", [FLAP])):
        ran = leadline_cli("diagnose", str(incident("demo")), name, "-o", "json")
        found = json.loads(ran.out)
        assert (ran.code, found["about"]) == (2, name)
        assert [one["incident"] for one in found["incidents"]] == incident_ids
    ran = leadline_cli("diagnose", str(incident("demo")), "bert-1-slow-7")
    assert ran.code == 3
    assert "did you mean bert-1-slow-1 or bert-1-slow-0" in ran.err
    assert leadline_cli("diagnose", "bert-1", "bert-2").code == 3


# --- a running server -------------------------------------------------------------------------------------------------


def test_a_running_server_that_knows_of_no_job(leadline: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("diagnose", "bert-9", "--server", leadline.url)
    assert ran.code == 3
    assert "no job, incident or entity 'bert-9' is known" in ran.out
    assert leadline_cli("diagnose", "--check", "--server", leadline.url).code == 3
    listed = leadline_cli("show", "incidents", "--server", leadline.url)
    assert (listed.code, lines(listed.out)[0]) == (0, "incidents: 0, of which 0 open")
    refused = leadline_cli("show", "incidents", "--state", "asleep", "--server", leadline.url)
    assert "expected open or over, got 'asleep'" in refused.err
    gone = leadline.http.get("/api/v1/incidents/nobody")
    assert (gone.status_code, gone.json()["error"]["reason"]) == (404, "unknown_incident")


# --- picture and page -------------------------------------------------------------------------------------------------


def test_every_key_of_an_answer_is_documented() -> None:
    documented = set(re.findall(r"`(\w+)`", HOWTO.read_text(encoding="utf-8")))
    found = answer(FLAP, WORKER)

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {key for name, each in value.items() if name not in _FREE for key in keys(each)}
        return {key for each in value for key in keys(each)} if isinstance(value, (list, tuple)) else set()

    assert keys(found) - documented == set()


_FREE = {"score", "until_ns", "judged_ns"}  # keys of these are names of parts, tables, analyses


@pytest.mark.parametrize("names", [(FLAP, WORKER), (THIN,), ()])
def test_the_picture_is_whole(names: tuple[str, ...]) -> None:
    svg = diagnosis_picture(answer(*names, about='b"<&>\x00'), "now")
    assert svg.startswith("<svg")
    assert "\x00" not in svg
