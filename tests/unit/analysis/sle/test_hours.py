from __future__ import annotations

from tests.builders.expectation_hours import HOUR, loss, minute, minutes
from tests.builders.small_job import table
from tests.common.analysis_laws import judged, rows_of

from leadline.analysis.sle.hours import sle_hours


def test_an_hour_is_the_sum_of_its_minutes_and_of_nothing_else() -> None:
    found = rows_of(sle_hours, judged(sle_hours, minutes(), HOUR), HOUR)
    held = {row["entity"]: row for row in found["sle"]}
    assert float.fromhex(held["gpu:GPU-0"]["good_s"]) == 59 * 60
    one = held["gpu:GPU-1"]
    assert [float.fromhex(one[name]) for name in ("good_s", "bad_s", "missing_s")] == [10, 70, 40]
    assert float.fromhex(one["lost_gpu_seconds"]) == 1.0
    assert one["why_missing"] == "DCGM_FI_DEV_GPU_TEMP"
    assert held["gpu:GPU-0"]["why_missing"] is None
    losses = {row["classifier"]: float.fromhex(row["seconds"]) for row in found["sle_loss"]}
    assert losses == {"hot": 50.0, "hotter": 20.0}


def test_what_most_missing_seconds_lacked_is_told_and_the_newest_objective() -> None:
    held = [
        minute("gpu:GPU-0", 60, 0, 0, 10, why_missing="b"),
        minute("gpu:GPU-0", 120, 0, 0, 30, why_missing="c"),
        minute("gpu:GPU-0", 180, 0, 0, 25, why_missing="b", objective=0.5, layer="host"),
    ]
    tables = {"sle": table("sle", held), "sle_loss": table("sle_loss", [loss("gpu:GPU-0", 60, 1.0)])}
    (row,) = rows_of(sle_hours, judged(sle_hours, tables, HOUR), HOUR)["sle"]
    assert row["why_missing"] == "b"
    assert float.fromhex(row["objective"]) == 0.5
    assert row["layer"] == "host"
