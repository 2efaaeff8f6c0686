"""`leadline show sle` and `leadline show expectations` against a running server with hand-made verdicts."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.senders.running import RunningLeadline, ndjson
from tests.unit.cli.conftest import Run
from tests.unit.views.sle.sle_rows import GPU, PORT, held, loss

from leadline.cli.show.sle import share, verdict
from leadline.model.tables import BY_NAME
from leadline.views.sle.spans import MINUTE_NS

HOWTO = Path(__file__).parents[3] / "docs" / "how-to" / "hold-expectations.md"
HOT = """\
- name: hot-gpus
  layer: gpu
  of: gpu
  match: [gpu:GPU-5c1e]
  objective: 0.999
  bounds:
    - {metric: DCGM_FI_DEV_GPU_TEMP, above: 70, for_s: 30}
"""


def given(name: str, rows: list[dict[str, Any]]) -> bytes:
    names = [column.name for column in BY_NAME[name].given]
    return ndjson([{column: row[column] for column in names} for row in rows])


@pytest.fixture(scope="module")
def sle_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    """An hour in which a GPU was hot for its last 12 minutes, a port well, and another not seen."""
    directory = tmp_path_factory.mktemp("sle")
    end_ns = time.time_ns() // MINUTE_NS * MINUTE_NS
    rows, losses = [], []
    for place in range(60):
        bad = 60.0 if place < 12 else 0.0
        row = held(GPU, end_ns - place * MINUTE_NS, 60.0 - bad, bad, lost_gpu_seconds=bad)
        rows.append(row)
        if bad:
            losses.append(loss(row, "DCGM_FI_DEV_GPU_TEMP above 70", 40.0))
            losses.append(loss(row, "throttled", 20.0, culprit="host:h3"))
        rows.append(held(PORT, end_ns - place * MINUTE_NS, 60.0, 0.0, expectation="link-flaps", layer="nic"))
        rows.append(held("port:h4/eth0", end_ns - place * MINUTE_NS, 0, 0, 60, expectation="link-flaps", layer="nic"))
    file = directory / "expectations.yaml"
    file.write_text(HOT)
    with RunningLeadline(directory, {"LEADLINE_SLE__EXPECTATIONS": str(file)}) as server:
        for name, some in (("sle", rows), ("sle_loss", losses)):
            headers = {"content-type": "application/x-ndjson"}
            answer = server.http.post(f"/api/v1/rows/{name}", content=given(name, some), headers=headers)
            assert answer.status_code == 200, answer.text
        yield server


def test_the_worst_comes_first_with_what_made_it_bad(sle_server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("show", "sle", "--server", sle_server.url)
    assert (ran.code, ran.err) == (0, "")
    text = " ".join(ran.out.split())
    assert "critical gpu-temperature gpu:GPU-5c1e 80.0 % 99 % exceeded 20x 100 20 0.83 burns fast 12 min 12.0" in text
    assert "GPU temperature above 70 8 min" in text
    assert "throttled (host:h3) 4 min" in text
    assert "unknown link-flaps port:h4/eth0 -" in text
    assert "missing: DCGM_FI_DEV_GPU_TEMP" in text
    assert PORT not in ran.out  # it is well
    assert "and 1 that are better" in ran.out


@pytest.mark.parametrize(
    ("choice", "code", "line"),
    [
        ((), 2, "critical 1 critical, 1 unknown, 1 ok of 3 over 1h; worst: gpu-temperature of gpu:GPU-5c1e"),
        (("--entity", PORT), 0, "ok 1 ok of 1 over 1h"),
        (("--entity", "port:h4/eth0"), 3, "unknown 1 unknown of 1 over 1h; worst: link-flaps of port:h4/eth0"),
        (("--layer", "nic", "--window", "24h"), 0, "ok 1 unknown, 1 ok of 2 over 24h"),
        (("--expectation", "no-such"), 3, "unknown no expectation no-such was analysed in this time"),
    ],
)
def test_a_check_ends_as_nagios_plug_ins_do(
    sle_server: RunningLeadline, leadline_cli: Run, choice: tuple[str, ...], code: int, line: str
) -> None:
    ran = leadline_cli("show", "sle", "--check", *choice, "--server", sle_server.url)
    assert ran.code == code
    assert ran.out.splitlines()[0] == line
    unknown = "no-such" in choice  # a name that nobody knows ends with 3 in every verb
    assert leadline_cli("show", "sle", *choice, "--server", sle_server.url).code == (3 if unknown else 0)


def test_what_holds_is_listed_with_its_source(sle_server: RunningLeadline, leadline_cli: Run) -> None:
    found = json.loads(leadline_cli("show", "expectations", "--server", sle_server.url, "-o", "json").out)
    by_name = {each["expectation"]: each for each in found["expectations"]}
    assert by_name["hot-gpus"]["source"].endswith("expectations.yaml")
    assert by_name["hot-gpus"]["from_ns"] <= time.time_ns()
    assert {each["source"] for name, each in by_name.items() if name != "hot-gpus"} == {"defaults"}
    ran = leadline_cli("show", "expectations", "--layer", "gpu", "--server", sle_server.url)
    assert "hot-gpus" in ran.out
    assert "DCGM_FI_DEV_GPU_TEMP above 70 for 30" in " ".join(ran.out.split())  # the rest may be on the next line
    assert "99.9 %" in ran.out
    assert "application" not in ran.out


def test_wrong_questions_are_told(sle_server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("show", "sle", "--window", "2h", "--server", sle_server.url)
    assert (ran.code, ran.err) == (2, "leadline: window: expected one of 5m, 1h, 24h, 30d, got '2h'\n")


def test_a_layer_that_there_is_not_is_refused(sle_server: RunningLeadline, leadline_cli: Run) -> None:
    for verb in ("sle", "expectations"):
        ran = leadline_cli("show", verb, "--layer", "gpus", "--server", sle_server.url)
        assert ran.code == 2
        assert "layer: expected one of application," in ran.err


def test_before_anything_was_judged_that_is_told(sle_server: RunningLeadline, leadline_cli: Run) -> None:
    ran = leadline_cli("show", "sle", "--check", "--at", "2001-01-01T00:00:00Z", "--server", sle_server.url)
    assert ran.code == 3
    assert "nothing was analysed by then" in ran.out


def test_every_key_of_an_answer_is_documented(sle_server: RunningLeadline, leadline_cli: Run) -> None:
    found = json.loads(leadline_cli("show", "sle", "--server", sle_server.url, "-o", "json").out)
    documented = set(re.findall(r"`(\w+)`", HOWTO.read_text(encoding="utf-8")))
    assert found.keys() | found["layers"][0].keys() | found["held"][0].keys() <= documented
    assert found["held"][0]["classifiers"][0].keys() <= documented
    told = json.loads(leadline_cli("show", "expectations", "--server", sle_server.url, "-o", "json").out)
    assert told.keys() | told["expectations"][0].keys() <= documented


def test_a_share_with_something_bad_in_it_is_never_whole() -> None:
    assert share(1e9 - 1, 1e9) == "99.999 %"
    assert (share(60, 60), share(0, 60)) == ("100 %", "0.0 %")
    assert (share(26.2, 100), share(99.12, 100), share(99.9634, 100)) == ("26.2 %", "99.12 %", "99.963 %")
    assert share(0, 0) == "-"


def test_what_is_mostly_dark_is_not_well() -> None:
    layer = {"critical": 0, "warning": 0, "unknown": 5, "ok": 4}
    state, line = verdict({"layers": [layer], "held_total": 9, "held": [], "window": "1h"})
    assert (state, line) == ("unknown", "5 unknown, 4 ok of 9 over 1h")
