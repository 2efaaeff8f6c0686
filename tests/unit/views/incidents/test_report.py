"""The report of an incident: whole, by itself, and safe whatever telemetry says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.incidents.incident_rows import FLAP, NOW, ROWS, S, step
from tests.unit.views.paths.path_rows import append, filled

from leadline.model.errors import RefusedError
from leadline.model.incidents import Mark
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.marks import Feedback, marks_answer, save_mark
from leadline.views.incidents.report import report
from leadline.views.incidents.report_plot import drawn, figure, gap_after

ASKED = Asked(Principal(), "default", NOW, latest=True)
EVIL = "<script>alert(1)</script>"
ODD_ID = "evil $(id)"  # ids of incidents hold names of jobs
SPAN = (NOW - 100 * S, NOW)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("report"), ROWS) as store:
        append(store, {"step": [step("bert-1", 100 + at, -100 + 2 * at) for at in range(50)]})
        odd = {"table": "anomaly", "entity": "host:h6", "what": "temp", "time_ns": NOW - 50 * S, "bound_ns": None,
               "text": f"temp {EVIL}"}  # fmt: skip
        rows = [each | {"evidence": json.dumps([odd]), "text": EVIL} for each in ROWS["cause"][-1:]]
        name = {**ROWS["incident"][1], "incident": ODD_ID, "start_ns": NOW - 48 * S}
        append(store, {
            "incident": [name],
            "cause": [{**rows[0], "incident": ODD_ID, "chosen": True, "position": 1, "seen_ns": NOW}],
            "series": [row("series", series=7, name="temp", entity="host:h6", entity_kind="host", type="gauge",
                           tenant=name["tenant"], last_ns=NOW)],
            "metric_sample": [row("metric_sample", series=7, time_ns=NOW - (90 - at) * S, value=float(at),
                                  tenant=name["tenant"]) for at in range(60)],
        })  # fmt: skip
        yield store


def test_a_report_needs_nothing_else(store: Store) -> None:
    save_mark(store, Principal(), Feedback(FLAP, Mark.RIGHT, reason="swapped it", actor="ann"), NOW)
    text = report(store, ASKED, FLAP)
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', text)
    assert "<script" not in text
    assert "port:h3/eth0" in text
    assert "Considered, and not named" in text
    assert "swapped it" in text
    assert text.count("<svg") == 1  # the steps; its evidence are events
    assert "hatched: nothing was told" in text


def test_names_from_telemetry_are_text(store: Store) -> None:
    text = report(store, ASKED, ODD_ID)
    assert EVIL not in text
    assert "&lt;script&gt;" in text
    assert "temp of host:h6" in text  # its plot
    for command in ("leadline mark {} right", "leadline diagnose {}"):
        assert command.format(f"&#39;{ODD_ID}&#39;") in text, "a command to copy is quoted for the shell"


def test_only_ones_own_incidents_have_a_report(store: Store) -> None:
    beta = Asked(Principal("beta", "default", Role.TENANT_READ), "default", NOW, latest=True)
    with pytest.raises(RefusedError, match="no incident"):
        report(store, beta, FLAP)


def test_marks_are_told_newest_first_and_to_whom_they_belong(store: Store) -> None:
    save_mark(store, Principal(), Feedback(FLAP, Mark.DISMISSED, reason="known", actor="bob"), NOW + S)
    found = marks_answer(store, ASKED, FLAP)["marks"]
    assert [(each["mark"], each["reason"]) for each in found][:1] == [("dismissed", "known")]
    assert found[0]["time_ns"] == NOW + S
    assert "bob" in found[0]["actor"]
    beta = Asked(Principal("beta", "default", Role.TENANT_READ), "default", NOW)
    assert marks_answer(store, beta, FLAP)["marks"] == []


def test_a_silence_is_hatched_and_lifts_the_pen() -> None:
    times = [NOW - (100 - at) * S for at in (0, 5, 10, 60, 65, 70)]
    found = drawn(times, [("host:h1", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])], SPAN, "s", NOW - 50 * S)
    assert found.paths[0][2].count("M") == 2
    assert len(found.gaps) == 2  # in the middle and at the end
    assert found.onset_x is not None
    assert found.words == "1 s to 6 s"
    assert gap_after([], []) == 3 * S // 2


def test_a_plot_of_nothing_says_so() -> None:
    found = drawn([], [], SPAN, "1", NOW - 500 * S)
    assert (found.paths, found.words, found.onset_x) == ((), "no values", None)
    assert len(found.gaps) == 1


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.21, "s", "210 ms"), (3.1, "s", "3.1 s"), (5e9, "By/s", "40 Gbit/s"), (0.5, "1/s", "0.5 /s"),
     (40.0, "Cel", "40 °C"), (2_000_000.0, "By", "2 MB"), (0.0, "1", "0"), (float("nan"), "1", "unknown"),
     (123_456.0, "1", "123,456")],
)  # fmt: skip
def test_figures_are_as_people_read_them(value: float, unit: str, text: str) -> None:
    assert figure(value, unit) == text


@pytest.mark.parametrize(
    "values", [[0.0, 5.48], [60.0, 62.0], [-3.0, -1.0], [1e-9, 3e-9], [7.0, 7.0], [0.0, 0.0], [1e12, 9e12]]
)
def test_the_value_axis_has_round_marks_within_its_ends(values: list[float]) -> None:
    found = drawn([NOW - 9 * S, NOW - 8 * S], [("a", values)], SPAN, "1", NOW)
    assert 2 <= len(found.values) <= 6
    assert all(0 <= y <= 150 for y, _ in found.values)
