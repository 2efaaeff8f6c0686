"""Two jobs recorded in the lab: what switches sampled is what their kernels counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from leadline.lab.flow_truth import beside, read_flow_truth, volumes, ways
from leadline.lab.truth import read_truth
from leadline.model.ids import link_id
from leadline.model.tables import BY_NAME
from leadline.store.bundle import read_bundle

BUNDLE = Path(__file__).parent / "lab_two_jobs" / "two_jobs.leadline"
BYTES_LEAST = 5e6  # of a flow that carries the data of a job
EVER = 1 << 62


@pytest.fixture(scope="module")
def recorded() -> dict[str, pa.Table]:
    with read_bundle(BUNDLE) as bundle:
        return {name: bundle.rows(BY_NAME[name]) for name in ("relation", "flow_sample")}


@pytest.fixture(scope="module")
def truth() -> pa.Table:
    return read_flow_truth(beside(BUNDLE))


def test_nothing_broke_and_nothing_was_missed(truth: pa.Table) -> None:
    assert read_truth(BUNDLE.with_suffix(".truth.json")) == ([], 1, "two-jobs")
    assert truth.schema.metadata[b"leadline.packets_missed"] == b"0"
    assert truth.schema.metadata[b"leadline.readings_failed"] == b"0"
    assert not pc.any(truth["sprayed"]).as_py()


def test_every_flow_that_was_sampled_was_counted_where_it_was_sampled(
    recorded: dict[str, pa.Table], truth: pa.Table
) -> None:
    """At the same switch, between the same ports, with the same addresses, ports and queue pair."""
    links = {}
    for row in recorded["relation"].filter(pc.field("kind") == "linked").to_pylist():
        for end in (row["child"], row["parent"]):
            links[end] = link_id(row["child"], row["parent"])
    names = ["flow", "src_ip", "dst_ip", "protocol", "src_port", "dst_port", "dst_qp", "switch"]
    counted = {tuple(row.values()) for row in truth.select([*names, "in_link", "out_link"]).to_pylist()}
    for row in recorded["flow_sample"].select([*names, "in_port", "out_port"]).to_pylist():
        ends = [links[f"swport:{row['switch']}/{row.pop(name)}"] for name in ("in_port", "out_port")]
        assert (*row.values(), *ends) in counted


def test_samples_estimate_what_was_counted(recorded: dict[str, pa.Table], truth: pa.Table) -> None:
    """Frames times the rate, by flow and switch: within what sampling one in 12 scatters by, and without a bias."""
    sampled = pa.TableGroupBy(recorded["flow_sample"], ["flow", "switch"]).aggregate(
        [("frame_bytes", "sum"), ("frame_bytes", "count"), ("rate", "max")]
    )
    counted = pa.TableGroupBy(truth, ["flow", "switch"]).aggregate([("bytes", "sum")])
    both = counted.join(sampled, ["flow", "switch"]).filter(pc.field("bytes_sum") > BYTES_LEAST)
    estimate = both["frame_bytes_sum"].to_numpy() * both["rate_max"].to_numpy()
    off = (estimate / both["bytes_sum"].to_numpy() - 1) * np.sqrt(both["frame_bytes_count"].to_numpy())
    assert len(off) == 16 * 3
    assert np.abs(off).max() < 5
    assert abs(off.mean()) < 4 / np.sqrt(len(off))


def test_each_flow_of_a_job_stays_on_one_way_over_a_spine(truth: pa.Table) -> None:
    found = {flow: each for flow, each in ways(truth, 0, EVER).items() if each[0].bytes > BYTES_LEAST}
    assert len(found) == 16
    spines = set()
    for [way] in found.values():
        assert way.share > 0.99
        assert len(way.links) == 4
        assert way.links[1].partition("~")[2][:6] == way.links[2].partition("~")[2][:6]
        spines.add(way.links[1].partition("~")[2][:6])
    assert spines == {"spine1", "spine2"}


def test_all_links_of_a_flow_carried_the_same(truth: pa.Table) -> None:
    """But for what was under way when the switches were read, one after the other."""
    rows = volumes(truth, 0, EVER)
    by_flow = pa.TableGroupBy(rows, ["flow"]).aggregate([("bytes", "min"), ("bytes", "max"), ("link", "count")])
    large = by_flow.filter(pc.field("bytes_max") > BYTES_LEAST)
    assert set(large["link_count"].to_pylist()) == {4}
    assert pc.min(pc.divide(large["bytes_min"], large["bytes_max"])).as_py() > 0.999
