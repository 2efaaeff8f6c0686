"""The defaults on what the lab recorded, beside its truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leadline.analysis.sle.sle import sles
from leadline.lab.incidents import incident
from leadline.runner.offline import judge_bundle


def losses(path: Path) -> list[dict[str, Any]]:
    """The bad seconds of a recording, without the ledger's."""
    rows: list[dict[str, Any]] = judge_bundle(path, (sles,))["sle_loss"].to_pylist()
    return rows


def test_a_throttled_gpu_is_the_only_one_that_breaks_its_promise() -> None:
    path = incident("gpu-throttle")
    (fault,) = json.loads(path.with_suffix(".truth.json").read_text())["faults"]
    gpu, host = fault["component"]
    rows = losses(path)
    assert {row["entity"] for row in rows if row["layer"] in ("gpu", "collective")} == {gpu}
    assert {row["entity"] for row in rows if row["layer"] == "host"} == {host}
    length_s = (fault["end_ns"] - fault["onset_ns"]) / 1e9
    bad_s = sum(row["seconds"] for row in rows if row["expectation"] == "gpu-clock")
    assert length_s - 10 <= bad_s <= length_s + 10  # DCGM is read every 5 s, at each end


def test_in_health_nothing_is_bad_but_that_the_recording_ends() -> None:
    assert {row["layer"] for row in losses(incident("healthy"))} <= {"telemetry"}
