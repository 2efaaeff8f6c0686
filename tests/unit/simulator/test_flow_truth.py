"""What simulated flows really carry: the truth that is written beside the samples, and switches that hide it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.lab.flow_truth import FlowTruthFile, read_flow_truth, volumes, ways
from leadline.model.errors import UsageError
from leadline.model.ids import link_id
from leadline.model.tables import Table
from leadline.simulator.fleet import Fleet
from leadline.simulator.flows import fabric_of_fleet
from leadline.simulator.run import Simulation
from leadline.simulator.spec import SimulationSpec
from leadline.simulator.spraying import possible_paths
from leadline.simulator.switch_faults import switch_faults

EVER = 1 << 62
TWO_TIERS = {"gpus": 32, "gpus_per_host": 2, "pod_hosts": 4}
THREE_TIERS = {"gpus": 140, "gpus_per_host": 2, "pod_hosts": 2}
RATE = 100_000
KEY = ("flow", "switch", "in_link", "out_link")


class Kept:
    """Test double of a sink: keeps flow samples and relations."""

    def __init__(self) -> None:
        self.rows: dict[str, list[pa.Table]] = {"flow_sample": [], "relation": []}

    def write(self, table: Table, rows: pa.Table) -> None:
        if table.name in self.rows:
            self.rows[table.name].append(rows)

    def finish(self) -> int:
        return 0

    def close(self) -> None: ...

    def all(self, name: str) -> list[dict[str, Any]]:
        return [row for rows in self.rows[name] for row in rows.to_pylist()]


class Made:
    """One simulated fleet with its samples and their truth."""

    def __init__(self, path: Path, **given: Any) -> None:
        spec = SimulationSpec(minutes=2, seed=4, hazards=False, utilisation=0.9, sampling=RATE, metrics_s=60.0, **given)
        self.simulation, sink = Simulation(spec), Kept()
        with FlowTruthFile(path / "fleet.flows.parquet") as file:
            list(self.simulation.write(sink, file))
            file.finish()
        self.truth = read_flow_truth(file.path)
        self.samples = sink.all("flow_sample")
        self.relations = sink.all("relation")
        linked = [(row["child"], row["parent"]) for row in self.relations if row["kind"] == "linked"]
        self._links = {end: link_id(*ends) for ends in linked for end in ends}

    def sampled(self) -> Counter[tuple[Any, ...]]:
        """Samples by flow, switch, and the links at the ports that the switch named."""
        return Counter(
            (row["flow"], row["switch"], *(self._links[f"swport:{row['switch']}/{row[each]}"] for each in PORTS))
            for row in self.samples
        )

    def counted(self, column: str = "packets") -> dict[tuple[Any, ...], float]:
        """What the truth has of each flow, switch and pair of links."""
        found = pa.TableGroupBy(self.truth, list(KEY)).aggregate([(column, "sum")])
        return {tuple(row[each] for each in KEY): row[f"{column}_sum"] for row in found.to_pylist()}


PORTS = ("in_port", "out_port")


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("steady"), **TWO_TIERS)


@pytest.fixture(scope="module")
def sprayed(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("sprayed"), spray=True, **TWO_TIERS)


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Made:
    given: dict[str, Any] = {"silent_switches": 0.25, "lying_switches": 0.25, "failing_links": 0.2}
    return Made(tmp_path_factory.mktemp("troubled"), **given, **TWO_TIERS)


@pytest.mark.parametrize("which", ["steady", "sprayed", "three tiers", "three tiers, sprayed"])
def test_samples_come_from_where_flows_are_and_are_as_many(
    steady: Made, sprayed: Made, tmp_path: Path, which: str
) -> None:
    spray = "sprayed" in which
    large = "three" in which
    made = Made(tmp_path, spray=spray, **THREE_TIERS) if large else sprayed if spray else steady
    assert made.simulation.fleet.three_tiers is large
    counted, sampled = made.counted(), made.sampled()
    assert sampled.keys() <= counted.keys()
    expected = np.array([counted[key] / RATE for key in sampled])
    off = (np.array(list(sampled.values())) - expected)[expected > 30] / np.sqrt(expected[expected > 30])
    assert len(off) > 20
    assert np.abs(off).max() < 5.5
    total = sum(counted.values()) / RATE
    assert abs(sum(sampled.values()) - total) < 5 * np.sqrt(total)
    assert set(made.truth["sprayed"].to_pylist()) == {spray}


def test_a_flow_has_one_way_unless_it_is_sprayed(steady: Made, sprayed: Made) -> None:
    alone, spread = ways(steady.truth, 0, EVER), ways(sprayed.truth, 0, EVER)
    assert {len(each) for each in alone.values()} == {1}
    assert alone.keys() == spread.keys()
    over = [flow for flow, [way] in alone.items() if len(way.links) == 4]
    assert over
    for flow in over:
        assert len(spread[flow]) == 2  # uplinks of a leaf
        assert [way.share for way in spread[flow]] == pytest.approx([0.5, 0.5])


def test_each_link_of_a_steady_flow_carries_the_same_bytes(steady: Made) -> None:
    rows = pa.TableGroupBy(volumes(steady.truth, 0, EVER), ["flow"]).aggregate([("bytes", "min"), ("bytes", "max")])
    assert rows["bytes_min"].to_pylist() == pytest.approx(rows["bytes_max"].to_pylist())


def test_flows_move_when_links_fail_and_the_truth_says_so(troubled: Made) -> None:
    made = troubled
    told = made.simulation.outcome.truth["telemetry"]["failing_links"]
    assert told
    moved = [each for each in ways(made.truth, 0, EVER).values() if len(each) > 1]
    assert moved
    over = {each["link"]: (each["from_ns"], each["to_ns"]) for each in told}
    for row in made.truth.filter(pc.is_in(pc.field("out_link"), pa.array(list(over)))).to_pylist():
        begin, end = over[row["out_link"]]
        others = {each["link"] for each in told if each["from_ns"] < row["to_ns"] and each["to_ns"] > row["from_ns"]}
        # It carries nothing while it is down, unless nothing else leads there.
        assert row["to_ns"] <= begin or row["from_ns"] >= end or len(others) > 1


def test_silent_switches_tell_nothing_and_liars_name_wrong_ports(troubled: Made) -> None:
    made = troubled
    told = made.simulation.outcome.truth["telemetry"]
    silent, liars = set(told["silent_switches"]), set(told["lying_switches"])
    assert silent
    assert liars
    assert not silent & liars
    assert set(told["lying_switches"].values()) <= {"swapped", "shifted"}
    speaking = {row["switch"] for row in made.samples}
    assert not speaking & silent
    counted = made.counted()
    assert {key[1] for key in counted} & silent, "they carry all the same"
    wrong = {key[1] for key in made.sampled() if key not in counted}
    assert wrong == speaking & liars


def test_the_same_seed_gives_the_same_and_asking_for_the_truth_changes_no_sample(
    troubled: Made, tmp_path: Path
) -> None:
    spec, again, plain = troubled.simulation.spec, Kept(), Kept()
    with FlowTruthFile(tmp_path / "fleet.flows.parquet") as file:
        list(Simulation(spec).write(again, file))
        file.finish()
    list(Simulation(spec).write(plain))
    assert read_flow_truth(file.path).equals(troubled.truth)
    assert again.all("flow_sample") == plain.all("flow_sample") == troubled.samples
    assert plain.all("relation") == troubled.relations


def test_addresses_of_the_flows_belong_to_the_ports_of_their_ranks(steady: Made) -> None:
    made = steady
    port_of = {
        row["child"].removeprefix("address:"): row["parent"]
        for row in made.relations
        if row["child"].startswith("address:") and row["parent"].startswith("port:h")  # switches have some, too
    }
    assert len(port_of) == made.simulation.fleet.host_links
    for row in made.truth.select(["src_ip", "in_link", "dst_ip", "out_link", "switch"]).to_pylist():
        if "h" in row["in_link"].removeprefix("link:")[:1]:
            assert row["in_link"].startswith(port_of[row["src_ip"]].replace("port:", "link:") + "~")


@pytest.mark.parametrize(
    "spec",
    [SimulationSpec(silent_switches=1.5), SimulationSpec(lying_switches=-0.1), SimulationSpec(failing_links=1.0)],
)
def test_shares_that_cannot_be_are_refused(spec: SimulationSpec) -> None:
    with pytest.raises(UsageError, match="must be 0 to"):
        spec.check()


@given(
    hosts=st.integers(2, 24),
    pod_hosts=st.integers(1, 6),
    per_host=st.sampled_from([1, 4]),
    failing=st.sampled_from([0.0, 0.3, 0.9]),
    seed=st.integers(0, 50),
)
@settings(max_examples=30, deadline=None)
def test_all_paths_that_are_counted_out_are_those_that_hashes_draw(
    hosts: int, pod_hosts: int, per_host: int, failing: float, seed: int
) -> None:
    fleet = Fleet(hosts * per_host, per_host, pod_hosts)
    fabric = fabric_of_fleet(fleet)
    rng = np.random.default_rng(seed)
    src, rail, dst_rail = rng.integers(0, hosts, 3), rng.integers(0, per_host, 3), rng.integers(0, per_host, 3)
    dst = (src + rng.integers(1, hosts, 3)) % hosts
    [*_, (_, _, up)] = switch_faults(fleet, 0, 0, failing, 100.0, seed).spans(40, 41, fleet.links)
    possible = possible_paths(fabric, src, rail, dst, dst_rail, up)
    assert np.bincount(possible.flow_P, weights=possible.share_P, minlength=3) == pytest.approx(np.ones(3))
    drawn = 500
    for flow in range(3):
        one, two, three, four = (np.full(drawn, each[flow]) for each in (src, rail, dst, dst_rail))
        seen = _counts(fabric.paths(one, two, three, four, rng.integers(0, 2**62, drawn), up))
        mine = np.flatnonzero(possible.flow_P == flow)
        shares = dict(zip(_keys(possible.path_PX[mine]), possible.share_P[mine].tolist(), strict=True))
        assert seen.keys() <= shares.keys()
        for path, share in shares.items():
            assert abs(seen[path] - drawn * share) <= 6 * np.sqrt(drawn * share * (1 - share)) + 1e-6


def _keys(path_NX: Iterable[Any]) -> list[tuple[int, ...]]:
    return [tuple(int(each) for each in row) for row in path_NX]


def _counts(path_NX: Iterable[Any]) -> Counter[tuple[int, ...]]:
    return Counter(_keys(path_NX))
