"""Queues of the simulator, and the calibration against what the lab was recorded to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from bench.calibration import calibration
from bench.calibration.cases import BERTS, FRAME_BYTES, QUEUES, RINGS, TOPOLOGIES, arrivals
from bench.calibration.queues import ELASTIC_FROM, Port, departures, queue_delay_ns, waiting_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.lab.topology import load
from leadline.model.errors import DataError

RECORDED = Path(__file__).resolve().parents[3] / "bench" / "simulator_recorded.json"

bursts = st.lists(st.tuples(st.integers(0, 10_000_000), st.integers(64, 9000)), min_size=1, max_size=60)


@settings(deadline=None)
@given(bursts, st.integers(0, 60_000))
def test_a_port_is_what_a_queue_behind_a_bucket_is(drawn: list[tuple[int, int]], burst: int) -> None:
    """Held against the same told packet by packet: tokens are earned, spent, waited for."""
    drawn.sort()
    at = np.array([when for when, _ in drawn], float)
    size = np.array([octets for _, octets in drawn], float)
    port = Port(100e6, 1e9, float(burst))
    left = departures(at, size, port)
    level, last_ns = float(burst), 0.0
    for when, octets, leaves in zip(at, size, left, strict=True):
        now = max(when, last_ns)
        level = min(burst, level + (now - last_ns) * 100e6 / 8e9)
        missing = max(0.0, octets - level)  # tokens of a whole packet: it waits for those that are missing
        now += missing * 8e9 / 100e6
        level, last_ns = max(level, octets) - octets, now
        assert leaves == pytest.approx(now, abs=2)
    assert (np.diff(left) >= -1e-3).all()


def test_what_waits_rises_and_falls() -> None:
    port = Port(100e6, 30_000, 10_000)
    at, size = np.array([1e6, 1e6, 1e6]), np.full(3, 15_000.0)
    when = np.array([0.0, 999_999.0, 1e6, 2e6, 4e6, 1e7])
    # 45,000 come at once: the third has no room and is dropped; 10,000 pass, then 12,500 bytes leave each ms.
    assert waiting_bytes(at, size, port, when).tolist() == [0, 0, 20_000, 7_500, 0, 0]
    roomy = Port(100e6, 35_000, 10_000)
    assert waiting_bytes(at, size, roomy, when).tolist() == [0, 0, 35_000, 22_500, 0, 0]


def test_delay_by_load() -> None:
    load_L = np.array([0.0, 0.3, 0.6, 0.9, 0.97, ELASTIC_FROM, 1.0, 5.0])
    for quantile in (0.5, 0.99):
        delay = queue_delay_ns(load_L, np.full(len(load_L), 250e6), 250_000, quantile)
        assert (np.diff(delay) >= 0).all()
        assert delay.max() <= 8e6
        shaped = queue_delay_ns(load_L, np.full(len(load_L), 250e6), 250_000, quantile, burst_s=0.002)
        assert (shaped <= delay).all()
    assert queue_delay_ns(np.array([0.2]), np.array([1e11]), 1e6)[0] == 0.0


def test_delay_by_load_is_that_of_random_arrivals() -> None:
    rng = np.random.default_rng(0)
    load_ratio, frame = 0.9, 4214.0
    at = np.cumsum(rng.exponential(frame * 8e9 / 250e6 / load_ratio, 200_000))
    port = Port(250e6, 1e9)
    waits = port.drain_ns(waiting_bytes(at, np.full(len(at), frame), port, rng.uniform(0, at[-1], 100_000)))
    for quantile in (0.9, 0.99):
        told = queue_delay_ns(np.array([load_ratio]), np.array([250e6]), 1e9, quantile, frame)[0]
        assert told == pytest.approx(np.quantile(waits, quantile), rel=0.15)


def test_every_quantity_is_fitted_to_few_cases_and_checked_by_others() -> None:
    for cases in (RINGS, QUEUES, BERTS):
        uses = [case.use for case in cases]
        assert uses.count("fit") <= 4
        assert uses.count("check") >= 3
    names = [case.name for case in (*RINGS, *QUEUES, *BERTS)]
    assert len(set(names)) == len(names)
    assert all(load(TOPOLOGIES[case.topology]).hosts for case in (*RINGS, *QUEUES, *BERTS))


def test_the_load_of_a_case_is_what_it_says() -> None:
    for case in QUEUES:
        if case.kind == "standing":
            continue
        frames = sum(len(at) for at in arrivals(case))
        assert frames * FRAME_BYTES * 8 / case.seconds / case.rate_bps == pytest.approx(case.load, rel=0.1)


def test_the_recorded_measurement_is_met() -> None:
    """What the page says: steps, delays and volumes where nothing was fitted. A busy machine may have recorded it."""
    records, under = calibration.read_records(RECORDED)
    fitted = calibration.fit(records, under["cores"])
    rows = calibration.compare(records, fitted)
    assert len(rows) >= len(RINGS) + 2 * len(QUEUES) + len(BERTS)
    errors = {name: calibration.worst_error(rows, name) for name in ("step time", "queue", "volume")}
    assert all(error is not None and error <= 0.15 for error in errors.values()), errors
    by_case = {(row.case, row.quantity): row for row in rows}
    assert by_case[BERTS[0].name, "step time"].error_ratio < 0.01  # fitted to it
    table = calibration.as_markdown(rows)
    assert table.count("\n") == len(rows) + 2


def test_without_measurements_nothing_is_claimed() -> None:
    fitted = calibration.fit([])
    assert calibration.compare([], fitted) == []
    assert calibration.worst_error([], "queue") is None


def test_records_are_kept_and_read(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    calibration.write_records(path, [{"case": "a", "seconds": 1.0}, {"case": "b", "seconds": 2.0}], {"cores": 3})
    assert calibration.read_records(path) == (
        [{"case": "a", "seconds": 1.0}, {"case": "b", "seconds": 2.0}],
        {"cores": 3},
    )
    path.write_text(json.dumps({"records": []}))
    with pytest.raises(DataError, match="records and conditions"):
        calibration.read_records(path)


def test_the_parameters_of_bert_are_counted_as_torch_does() -> None:
    # `workloads.bert_model` has 2.0 million parameters with its defaults (its docstring, and test_bert_parts).
    assert 7.6e6 < calibration.bert_bytes() < 8.4e6
