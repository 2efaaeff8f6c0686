"""The measuring side of the calibration on a small cluster. What it says about time is the machine's; bytes are not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.calibration import calibration, measuring
from bench.calibration.cases import CLOS4, KIB, MBIT, QUEUES, RingCase

from leadline.lab.realise.cluster import Cluster
from leadline.lab.topology import load


def test_rings_carry_the_bytes_that_the_simulator_says(lab_name: str) -> None:
    cases = [RingCase("tiny", 250 * MBIT, size * KIB, "check", iterations=3) for size in (256, 512)]
    records = measuring.rings_on("tiny", lab_name, [cases])
    assert [record["case"] for record in records] == [cases[0].name, cases[1].name, f"{cases[0].group} volume"]
    predicted = calibration.predicted_ring_bytes(cases, calibration.fit([]))
    carried = records[-1]["bytes"]
    assert isinstance(carried, dict)
    assert carried == {port: pytest.approx(value, rel=0.03) for port, value in predicted.items()}


def test_probes_see_the_loaded_port(lab_name: str) -> None:
    case = replace(next(case for case in QUEUES if case.kind == "bursts"), seconds=1.0)
    with Cluster(load(CLOS4), lab_name) as cluster:
        record = measuring.queue_record(cluster, case)
    assert 0 <= int(str(record["p50_ns"])) <= int(str(record["p99_ns"]))
    assert int(str(record["probes"])) > 40
    sent = record["bytes"]
    assert isinstance(sent, dict)
    # The load of 1 s at 40 % of 250 Mbit/s, and the probes.
    assert next(iter(sent.values())) == pytest.approx(0.4 * 250e6 / 8, rel=0.15)
