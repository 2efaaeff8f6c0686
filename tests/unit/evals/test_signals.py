"""What metrics of a broken part did, in a table: changes at it, none elsewhere, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from evals.runs.signals import Change, changes, main, related, table
from evals.simulated import simulated

from leadline.simulator.spec import Names, Planned, SimulationSpec
from leadline.store.bundle_redact import truth_path


def recorded(path: Path, fault: str, names: Names = "all") -> Path:
    simulated(
        SimulationSpec(
            gpus=16, minutes=3, seed=2, planned=(Planned(fault, 60.0, 60.0, "large"),), hazards=False, metrics_s=10.0,
            probes=False, names=names,
        ),
        path,
    )  # fmt: skip
    return path


def test_what_a_fault_changes_is_told_and_nothing_else(tmp_path: Path) -> None:
    fault, found = changes(recorded(tmp_path / "pfc.leadline", "pfc-storm"))
    told = {name for name, change in found.items() if change is not None}
    assert fault == "pfc-storm"
    assert {"node_ethtool_tx_prio3_pause", "node_ethtool_rx_prio3_pause_duration"} <= told
    storm = found["node_ethtool_tx_prio3_pause"]
    assert storm is not None
    assert storm.before == 0
    assert storm.during == pytest.approx(2980, rel=0.05)
    assert not {"node_qdisc_backlog", "dot3StatsFCSErrors", "transceiver_laser_rx_power_dbm"} & told
    assert found["dot3StatsFCSErrors"] is None


def test_recordings_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = recorded(tmp_path / "whole.leadline", "marginal-optic")
    few = recorded(tmp_path / "few.leadline", "marginal-optic", "few")
    assert main([str(whole), str(few)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[1:] == ["whole:", "marginal-optic", "few:", "marginal-optic"]
    optic = next(line for line in lines if line.startswith("transceiver_laser_rx_power_dbm"))
    assert "-2.5 > -14 (xcvr)" in optic
    assert optic.endswith(" -"), "the other has no such metric"


def test_a_metric_that_did_not_change_is_not_one_that_is_missing() -> None:
    rows = table([("a", {"x": Change("host:h1", 1.0, 5.0), "y": None}), ("b", {"x": None})])
    assert rows == [["metric", "a", "b"], ["x", "1 > 5 (host)", "="]]


def test_ends_hosts_and_other_names_of_what_is_broken() -> None:
    relation = [
        {"child": "port:h1/eth0", "parent": "host:h1", "kind": "in"},
        {"child": "rank:j/3", "parent": "host:h2", "kind": "runs-on"},
        {"child": "rank:j/3", "parent": "job:j", "kind": "in"},
    ]
    found = related(["link:h1/eth0~leaf1/Ethernet3", "rank:j/3"], relation)
    assert {"port:h1/eth0", "swport:leaf1/Ethernet3", "port:h1/mlx5_0", "xcvr:h1/eth0", "host:h1", "host:h2"} <= found
    assert "job:j" not in found


def test_what_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path / "some.leadline", "slow-link")
    truth = json.loads(truth_path(path).read_text())
    truth_path(path).write_text(json.dumps({**truth, "faults": []}))
    assert main([str(path)]) == 2
    assert "expected a fault in its truth, found none" in capsys.readouterr().err
    truth_path(path).unlink()
    assert main([str(path)]) == 2
    assert "expected a truth file" in capsys.readouterr().err
