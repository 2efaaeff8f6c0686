"""The simulated fleet: laws of its parts, its jobs, its rows, and that Leadline reads them as the lab's."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.lab.faults import FAULTS
from leadline.lab.harmless import HARMLESS
from leadline.lab.truth import read_truth
from leadline.model.errors import ConfigError, UsageError
from leadline.model.ids import link_id, parse_entity_id, series_id
from leadline.model.names import entity_of
from leadline.model.tables import Table
from leadline.simulator import run as run_module
from leadline.simulator.clocks import Clocks
from leadline.simulator.effects import EFFECTS, effect_of
from leadline.simulator.fleet import Fleet
from leadline.simulator.flows import address, fabric_of_fleet
from leadline.simulator.hazards import PARTS, lives, scale_of
from leadline.simulator.jobs import JobSteps
from leadline.simulator.run import Simulation
from leadline.simulator.scheduler import schedule
from leadline.simulator.spec import Planned, SimulationSpec, planned_from, planned_of
from leadline.simulator.targets import Befallen
from leadline.simulator.write import bundle_sink, require_room
from leadline.store.bundle import read_bundle
from leadline.store.bundle_redact import write_truth
from leadline.store.schema import checked_rows


class ListSink:
    """Test double of a sink: keeps the rows."""

    def __init__(self) -> None:
        self.rows: dict[str, list[pa.Table]] = {}

    def write(self, table: Table, rows: pa.Table) -> None:
        self.rows.setdefault(table.name, []).append(checked_rows(table, rows))

    def finish(self) -> int:
        return 0

    def close(self) -> None: ...

    def all(self, name: str) -> pa.Table:
        return pa.concat_tables([each.cast(self.rows[name][0].schema) for each in self.rows[name]])


def simulated(spec: SimulationSpec) -> tuple[Simulation, ListSink]:
    simulation, sink = Simulation(spec), ListSink()
    for _ in simulation.write(sink):
        pass
    return simulation, sink


ALL = SimulationSpec(gpus=256, minutes=20, seed=5, planned=planned_of("all", 1200, 5), detail="all")


@pytest.fixture(scope="module")
def whole() -> tuple[Simulation, ListSink]:
    return simulated(ALL)


# --- the fleet ---------------------------------------------------------------------------------------------------


@given(gpus=st.integers(1, 20_000), per=st.sampled_from([1, 4, 8]))
@settings(max_examples=25, deadline=None)
def test_every_link_has_two_ends_and_every_port_one_link(gpus: int, per: int) -> None:
    fleet = Fleet(gpus, per)
    ports = fleet.swports
    assert fleet.gpu_count >= gpus
    assert len(fleet.capacity_bps_L) == fleet.links
    # Of a host's link the upper end is a switch port, of every other link both are.
    ends = np.bincount(ports.link, minlength=fleet.links)
    assert (ends[: fleet.host_links] == 1).all()
    assert (ends[fleet.host_links :] == 2).all()
    assert len(set(zip(ports.switch.tolist(), ports.number.tolist(), strict=True))) == len(ports.link)
    assert ports.switch.max() < fleet.switches
    assert fabric_of_fleet(fleet).links == fleet.links


def test_names_are_those_of_the_model() -> None:
    fleet = Fleet(3000)
    assert fleet.three_tiers
    assert len(set(fleet.link_names.to_pylist())) == fleet.links
    assert len(set(fleet.swport_names.to_pylist())) == len(fleet.swports.link)
    assert len(set(fleet.addresses(np.arange(fleet.host_links)).to_pylist())) == fleet.host_links
    for name in fleet.link_names.to_pylist()[:: fleet.links // 50]:
        assert name == link_id(*parse_entity_id(name).name.split("~"))


# --- hazards -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", PARTS, ids=lambda each: each.name)
@pytest.mark.parametrize("age_days", [0.0, 300.0])
def test_lives_are_weibull_given_the_age(part, age_days: float) -> None:  # type: ignore[no-untyped-def]
    count, factor = 4000, 3.0
    life = lives(part, np.full(count, age_days), np.full(count, factor), np.random.default_rng(4))
    scale = scale_of(part)
    hazard = factor * (((age_days + life) / scale) ** part.shape - (age_days / scale) ** part.shape)
    seen = np.sort(1 - np.exp(-hazard))  # uniform, if the lives are what they should be
    distance = np.abs(seen - (np.arange(count) + 0.5) / count).max()
    assert distance < 1.95 / math.sqrt(count)  # Kolmogorov-Smirnov, one in a thousand
    assert (life >= 0).all()


def test_a_node_fails_about_as_often_as_was_reported() -> None:
    of_node = {"gpu": 8, "link": 8, "host": 1, "switch": 0}
    per_day = sum(1000 * of_node[part.of] / part.mean_days for part in PARTS)
    assert 4.0 < per_day < 10.0  # Kokolis et al.: 6.5 for RSC-1


# --- jobs --------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 1000), gpus=st.sampled_from([8, 64, 512]), random=st.booleans())
@settings(max_examples=12, deadline=None)
def test_no_host_is_given_twice_and_jobs_start_whole(seed: int, gpus: int, random: bool) -> None:
    minutes = 240.0
    spec = SimulationSpec(
        gpus=gpus, minutes=minutes, seed=seed, placement="random" if random else "packed",
        planned=planned_of("6", minutes * 60, seed),
    )  # fmt: skip
    plan = schedule(spec, Fleet(gpus))
    for host in range(Fleet(gpus).hosts):
        spans = sorted((run.start_s, run.end_s) for run in plan.runs if host in run.hosts)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert all(len(set(run.hosts.tolist())) == len(run.hosts) > 0 for run in plan.runs)
    assert all(run.end_s > run.start_s for run in plan.runs if run.end == "exit/0")
    by_job: dict[str, list[float]] = {}
    for run in plan.runs:
        by_job.setdefault(run.job, []).append(run.first_step)
    assert 0 <= plan.utilisation <= 1


# --- effects -----------------------------------------------------------------------------------------------------


def test_no_fault_of_the_lab_is_missing() -> None:
    assert {fault.name for fault in FAULTS} <= set(EFFECTS)
    assert {each.name for each in HARMLESS} <= set(EFFECTS)
    for fault in FAULTS:
        assert not EFFECTS[fault.name].harmless
        assert EFFECTS[fault.name].layer == fault.layer, fault.name
        assert EFFECTS[fault.name].fault_class == fault.fault_class, fault.name
    for each in HARMLESS:
        assert EFFECTS[each.name].harmless


# --- rows --------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_rows(whole: tuple[Simulation, ListSink]) -> None:
    again, rows = simulated(ALL)
    assert again.outcome.rows == whole[0].outcome.rows
    assert again.outcome.truth == whole[0].outcome.truth
    for name in rows.rows:
        assert rows.all(name).equals(whole[1].all(name)), name
    _, other = simulated(replace(ALL, seed=6))
    assert not other.all("step").equals(rows.all("step"))


def test_streams_are_known_by_their_labels(whole: tuple[Simulation, ListSink]) -> None:
    for group in whole[1].rows["series"]:
        for row in group.slice(0, 2).to_pylist():
            labels = dict(row["labels"]) | {"__name__": row["name"]}
            mapped = entity_of(labels)
            assert row["series"] == series_id(labels).to_bytes(16, "little")
            assert (row["entity_kind"], row["entity"], row["host"]) == (mapped.entity_kind, mapped.entity, mapped.host)


def test_samples_are_of_known_streams_once_and_counters_never_fall(whole: tuple[Simulation, ListSink]) -> None:
    sink = whole[1]
    kinds = {row["series"]: row["type"] for group in sink.rows["series"] for row in group.to_pylist()}
    samples = sink.all("metric_sample")
    keys = Counter(zip(samples["series"].to_pylist(), samples["time_ns"].to_pylist(), strict=True))
    assert max(keys.values()) == 1
    seen: dict[bytes, float] = {}
    for series, value in zip(samples["series"].to_pylist(), samples["value"].to_pylist(), strict=True):
        assert series in kinds
        if kinds[series] == "counter":
            assert value >= seen.get(series, 0.0)
            seen[series] = value


def test_what_is_broken_stands_in_the_graph(whole: tuple[Simulation, ListSink]) -> None:
    simulation, sink = whole
    relation = sink.all("relation")
    known = set(relation["child"].to_pylist()) | set(relation["parent"].to_pylist())
    found = set()
    for entry in simulation.outcome.truth["faults"]:
        assert entry["component"], entry["fault"]
        assert entry["seen_in"] == "simulated"
        for component in entry["component"]:
            parts = parse_entity_id(component).name.split("~") if component.startswith("link:") else [""]
            ends = [f"{'port' if part.startswith('h') else 'swport'}:{part}" for part in parts if part]
            assert all(each in known for each in ends or [component]), (entry["fault"], component)
        found.add(entry["fault"])
    assert {fault.name for fault in FAULTS} <= found


def test_every_sampled_flow_belongs_to_a_rank_on_the_host_that_sends_it(whole: tuple[Simulation, ListSink]) -> None:
    simulation, sink = whole
    edges = sink.all("relation").select(["child", "parent", "kind", "from_ns", "to_ns"]).to_pylist()
    # A job that comes after another on the same hosts has the same addresses, and one that starts again has other
    # hosts: the time tells them apart.
    told: dict[str, list[dict[str, Any]]] = {}
    for each in edges:
        if each["kind"] in ("owns", "runs-on") and not each["parent"].startswith("host:"):
            told.setdefault(each["child"], []).append(each)

    def parent(child: str, at_ns: int) -> str:
        found = [
            one["parent"]
            for one in told[child]
            if one["from_ns"] <= at_ns and (one["to_ns"] is None or at_ns <= one["to_ns"])
        ]
        assert len(found) == 1, (child, at_ns, told[child])
        return str(found[0])

    of_gpu = {f"gpu:{name.as_py()}": number for number, name in enumerate(simulation.fleet.gpu_names)}
    samples = sink.all("flow_sample").select(["flow", "src_ip", "dst_ip", "dst_qp", "time_ns"]).to_pylist()
    assert len(samples) > 1000
    for each in samples[:: len(samples) // 500]:
        flow, at_ns = f"flow:{int.from_bytes(each['flow'], 'little'):032x}", each["time_ns"]
        for name, ip in ((flow, each["src_ip"]), (f"qp:{each['dst_ip']}/{each['dst_qp']}", each["dst_ip"])):
            number = int(address(np.array([of_gpu[parent(parent(name, at_ns), at_ns)]]))[0])
            assert ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0)) == ip


def test_ranks_are_on_one_host_and_gpus_of_one_job_at_a_time(whole: tuple[Simulation, ListSink]) -> None:
    held: dict[str, list[tuple[int, int]]] = {}
    for row in whole[1].all("relation").to_pylist():
        if row["kind"] == "runs-on" and row["parent"].startswith("gpu:"):
            held.setdefault(row["parent"], []).append((row["from_ns"], row["to_ns"] or 2**63))
    assert held
    for spans in held.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_steps_follow_each_other_and_phases_fill_them(whole: tuple[Simulation, ListSink]) -> None:
    last: dict[tuple[str, int], tuple[int, int]] = {}
    for row in whole[1].all("step").to_pylist():
        key = (row["job"], row["rank"])
        assert row["end_ns"] > row["start_ns"]
        phases = sum(row[f"{name}_ns"] for name in ("data", "forward", "backward", "optimizer"))
        length = row["end_ns"] - row["start_ns"] - (row["checkpoint_ns"] or 0)
        assert -4 <= length - phases < 0.2 * length + 1e6, row  # what is missing is the wait for the slowest at the end
        if key in last and row["step"] == last[key][0] + 1:
            assert row["start_ns"] >= last[key][1] - 1e9  # clocks are stepped by the fault, and drift
        last[key] = (row["step"], row["end_ns"])


def test_a_slow_worker_is_slow_and_costs_what_the_model_says() -> None:
    spec = SimulationSpec(gpus=64, minutes=10, seed=3, hazards=False, detail="jobs",
                          planned=(Planned("slow-worker", 200.0, 200.0, "large"),))  # fmt: skip
    simulation, sink = simulated(spec)
    (entry,) = simulation.outcome.truth["faults"]
    rank = next(each for each in entry["component"] if each.startswith("rank:"))
    job, _, number = parse_entity_id(rank).name.rpartition("/")
    rows = [row for row in sink.all("step").to_pylist() if row["job"] == job and row["rank"] == int(number)]
    lengths: dict[bool, float] = {}
    for during in (True, False):
        those = [row for row in rows if (200e9 <= row["start_ns"] - spec.start_ns < 390e9) is during]
        lengths[during] = float(np.median([row["end_ns"] - row["start_ns"] for row in those]))
    assert lengths[True] > 1.5 * lengths[False]
    ranks = 1 + max(row["rank"] for row in sink.all("step").to_pylist() if row["job"] == job)
    expected = 200.0 * ranks * (1 - lengths[False] / lengths[True])
    assert entry["lost_gpu_seconds"] == pytest.approx(expected, rel=0.15)


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk is one period of the metrics, as in a large fleet."""
    monkeypatch.setattr(run_module, "CHUNK_ROWS", 1)


def values_of(sink: ListSink, name: str) -> dict[str, list[float]]:
    """Values of a metric by entity, in the order of time."""
    of = {row["series"]: row["entity"] for group in sink.rows["series"] for row in group.to_pylist()
          if row["name"] == name}  # fmt: skip
    out: dict[str, list[float]] = {}
    for group in sink.rows["metric_sample"]:
        for series, value in zip(group["series"].to_pylist(), group["value"].to_pylist(), strict=True):
            if series in of:
                out.setdefault(of[series], []).append(value)
    return out


@pytest.mark.usefixtures("short_chunks")
def test_what_ends_at_the_border_of_chunks_is_told_once() -> None:
    planned = (Planned("sigsegv", 60.0, 30.0), Planned("oom-kill", 150.0, 60.0))
    spec = SimulationSpec(gpus=64, minutes=4, seed=7, hazards=False, planned=planned)
    simulation, sink = simulated(spec)
    ended = [each for each in simulation.schedule.runs if each.end]
    assert {each.end_s for each in ended} == {60.0, 150.0}
    kinds = Counter(sink.all("event")["kind"].to_pylist())
    assert kinds["job-end"] == len(ended)
    assert kinds["process-exit"] == sum(len(each.hosts) * spec.gpus_per_host for each in ended)
    # One kill is one kill, however long the fault stands in the truth.
    killed = values_of(sink, "container_oom_events_total")
    assert sorted(last[-1] for last in killed.values() if last[-1]) == [1.0]


@pytest.mark.usefixtures("short_chunks")
def test_a_stale_source_repeats_one_value_until_it_ends() -> None:
    spec = SimulationSpec(gpus=64, minutes=4, seed=7, hazards=False, planned=(Planned("stale-source", 50.0, 150.0),))
    simulation, sink = simulated(spec)
    stale = {f"gpu:{simulation.fleet.gpu_names[gpu]}" for gpu in simulation.schedule.faults[0].gpus}
    for entity, values in values_of(sink, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION").items():
        assert (len(set(values[2:7])) == 1) is (entity in stale)
        assert values[7] > values[6]


def test_counters_show_a_hang_while_it_lasts() -> None:
    spec = SimulationSpec(gpus=64, minutes=6, seed=7, hazards=False, planned=(Planned("sigstop", 120.0, 120.0),))
    simulation, sink = simulated(spec)
    (fault,) = simulation.schedule.faults
    held = f"gpu:{simulation.fleet.gpu_names[fault.gpus[0]]}"
    busy = values_of(sink, "DCGM_FI_DEV_GPU_UTIL")[held]
    assert max(busy[5:8]) < 5 < min([*busy[:4], *busy[9:]])


def test_ranks_that_diverge_enter_another_collective_and_nobody_leaves_it() -> None:
    spec = SimulationSpec(
        gpus=64, minutes=3, seed=3, hazards=False, probes=False, names="few",
        planned=(Planned("divergence", 100.0, 60.0),),
    )  # fmt: skip
    simulation, sink = simulated(spec)
    rows = sink.all("collective").to_pylist()
    odd = [row for row in rows if row["op"] == "broadcast"]
    broken = {each.partition("/")[2] for each in simulation.outcome.truth["faults"][0]["component"]}
    run = simulation.schedule.runs[simulation.schedule.faults[0].run]
    assert {row["job"] for row in odd} == {run.job}
    assert len({row["seq"] for row in odd}) == 1
    assert {str(row["rank"]) for row in odd} == broken
    comms = {row["comm"] for row in odd}
    together = [row for row in rows if row["comm"] in comms and row["seq"] == odd[0]["seq"]]
    assert len(together) > len(odd), "the others are in theirs"
    ended = [row for row in together if row["state"] == "finished"]
    assert all(row["finished_ns"] - row["enqueued_ns"] >= 60 * 10**9 for row in ended)
    last = max(row["enqueued_ns"] for row in together) - spec.start_ns
    assert last < 112 * 10**9, "all of them have come"


def test_ranks_of_one_replica_come_together_and_none_of_them_looks_slow() -> None:
    spec = SimulationSpec(
        gpus=64, minutes=5, seed=11, hazards=False, names="few", probes=False,
        planned=(Planned("gpu-throttle", 100.0, 60.0),),
    )  # fmt: skip
    simulation, sink = simulated(spec)
    fault = simulation.schedule.faults[0]
    run = simulation.schedule.runs[fault.run]
    assert run.archetype.tensor_parallel == 8, "this seed throttles a job that is split over the GPUs of a host"
    rows = [row for row in sink.all("step").to_pylist() if row["job"] == run.job]
    during = [row for row in rows if 105 < (row["start_ns"] - spec.start_ns) / 1e9 < 150]
    host = f"h{fault.hosts[0] + 1}"
    step = during[0]["step"]
    own = {row["data_ns"] + row["forward_ns"] for row in during if row["host"] == host and row["step"] == step}
    other = {row["data_ns"] + row["forward_ns"] for row in during if row["host"] != host and row["step"] == step}
    assert len(own) == 1
    assert min(own) > 1.4 * max(other)
    entered = [row for row in sink.all("collective").to_pylist() if row["job"] == run.job]
    seq = next(row["seq"] for row in entered if (row["enqueued_ns"] - spec.start_ns) / 1e9 > 110)
    lag = {}
    for row in entered:
        if row["seq"] == seq:
            lag.setdefault(row["host"], set()).add(row["enqueued_ns"])
    assert all(len(times) == 1 for times in lag.values()), "a host's ranks come at one moment"


def test_ranks_with_longer_sequences_tell_more_tokens() -> None:
    spec = SimulationSpec(
        gpus=64, minutes=5, seed=4, hazards=False, detail="jobs",
        planned=(Planned("imbalanced-sequences", 100.0, 60.0),),
    )  # fmt: skip
    simulation, sink = simulated(spec)
    broken = {each for each in simulation.outcome.truth["faults"][0]["component"] if each.startswith("rank:")}
    told = [row for row in sink.all("step").to_pylist() if row["tokens"]]
    usual = {row["job"]: row["tokens"] for row in told if row["start_ns"] - spec.start_ns < 90 * 10**9}
    more = {f"rank:{row['job']}/{row['rank']}" for row in told if row["tokens"] != usual[row["job"]]}
    assert more == (broken if simulation.schedule.runs[simulation.schedule.faults[0].run].archetype.tokens else set())


@pytest.mark.parametrize(("gpus", "pods"), [(8, 1), (64, 2), (512, 2), (2048, 8)])
def test_small_fleets_have_two_pods_so_that_their_jobs_cross_spines(gpus: int, pods: int) -> None:
    spec = SimulationSpec(gpus=gpus)
    assert Fleet(gpus, 8, spec.hosts_of_pod).pods == pods


@pytest.mark.parametrize("name", ["dead-spine", "blackhole", "ecmp-collision"])
def test_a_job_below_one_leaf_does_not_feel_the_spines(name: str) -> None:
    for seed in range(4):
        simulation = Simulation(
            SimulationSpec(gpus=64, minutes=4, seed=seed, hazards=False, planned=(Planned(name, 60.0, 60.0),))
        )
        for run in simulation.schedule.runs:
            if run.faults:
                assert len({host // 4 for host in run.hosts.tolist()}) == 2


@pytest.mark.usefixtures("short_chunks")
def test_a_loop_bug_feeds_one_batch_from_its_onset() -> None:
    spec = SimulationSpec(gpus=64, minutes=6, seed=7, hazards=False, detail="jobs",
                          planned=(Planned("loop-bug", 60.0, 290.0),))  # fmt: skip
    simulation, _ = simulated(spec)
    (fault,) = simulation.schedule.faults
    first = JobSteps(simulation.schedule.runs[fault.run], simulation.fleet, spec.start_ns, spec.seed)
    begun = sum(len(each.checkpoint_T) for each in first.until(spec.start_ns + 60 * 10**9))
    assert abs(fault.stuck_step - simulation.schedule.runs[fault.run].first_step - begun) <= 1


@pytest.mark.parametrize("name", ["exporter-hangs", "row-remaps", "switch-stops-sampling", "clock-step", "loop-bug"])
def test_what_slows_no_step_costs_nothing(name: str) -> None:
    spec = SimulationSpec(
        gpus=256, minutes=3, seed=7, hazards=False, detail="jobs", planned=(Planned(name, 18.0, 45.0),)
    )
    simulation, _ = simulated(spec)
    assert [entry["lost_gpu_seconds"] for entry in simulation.outcome.truth["faults"]] == [0.0]


def test_a_stall_comes_once_however_long_the_step_before_it_was() -> None:
    planned = tuple(Planned("extra-checkpoint", float(at_s)) for at_s in range(10, 1700, 37))
    spec = SimulationSpec(gpus=64, minutes=30, seed=7, hazards=False, detail="jobs", planned=planned)
    simulation, sink = simulated(spec)
    stalls: Counter[str] = Counter()
    for fault in simulation.schedule.faults:
        stalls[simulation.schedule.runs[fault.run].job] += 1
    for job, count in stalls.items():
        rows = [row for row in sink.all("step").to_pylist() if (row["job"], row["rank"]) == (job, 0)]
        assert sum(row["data_ns"] > 5e9 for row in rows) == count


def test_what_is_dropped_is_counted_and_absent() -> None:
    spec = SimulationSpec(gpus=64, minutes=10, seed=3, detail="all", hazards=False)
    full, _ = simulated(spec)
    holed, _ = simulated(replace(spec, drop_share=0.1, silent_share=0.5))
    for name in ("metric_sample", "step", "collective"):
        lost = sum(count for key, count in holed.outcome.lost.items() if key.startswith(f"{name}/"))
        assert lost + holed.outcome.rows[name] == full.outcome.rows[name]
    dropped = holed.outcome.lost["step/dropped"] / full.outcome.rows["step"]
    assert 0.07 < dropped < 0.13
    assert holed.outcome.truth["telemetry"]["rows_lost"] == dict(holed.outcome.lost)


def test_a_quiet_fleet_has_only_decoys() -> None:
    simulation, _ = simulated(SimulationSpec(gpus=512, minutes=600, seed=2, quiet=True, detail="jobs"))
    faults = simulation.outcome.truth["faults"]
    assert faults
    assert all(entry["decoy"] for entry in faults)
    assert simulation.outcome.truth["fleet"]["node_days"] == pytest.approx(64 * 600 / 1440)


def test_clocks_step_and_drift_as_the_truth_says() -> None:
    clocks = Clocks(8, 2, 1e6, 5000.0, 10**18, 1)
    assert clocks.drift_ppb_H[0] == clocks.drift_ppb_H[1]
    at = np.full(8, 10**18 + 100 * 10**9)
    step = Befallen(effect_of("clock-step"), "medium", 50.0, 150.0, hosts=(0, 1))
    moved = clocks.told(np.arange(8), at, [step]) - clocks.told(np.arange(8), at, [])
    assert moved.tolist() == [10**8] * 2 + [0] * 6


def test_a_bundle_is_read_back_with_its_truth(tmp_path: Path) -> None:
    spec = SimulationSpec(gpus=32, minutes=3, seed=1, planned=planned_of("xid,slow-link/large", 180, 1))
    simulation = Simulation(spec)
    path = tmp_path / "f.leadline"
    sink = bundle_sink(path, spec.start_ns, spec.end_ns, "simulation: {}\n")
    for _ in simulation.write(sink):
        pass
    sink.close()
    write_truth(tmp_path / "f.truth.json", simulation.outcome.truth)
    with read_bundle(path) as bundle:
        rows = {table.name: sum(group.num_rows for group in bundle.groups(table)) for table in bundle.tables}
    assert rows == dict(simulation.outcome.rows)
    assert path.stat().st_size == simulation.outcome.bytes
    entries, seed, _ = read_truth(tmp_path / "f.truth.json")
    assert [each.fault for each in entries] == ["xid", "slow-link"]
    assert seed == 1
    assert len(json.loads((tmp_path / "f.truth.json").read_text())["clocks"]["offset_ns"]) == 4
    assert not list(tmp_path.glob(".*"))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """Chunks in which a job has several spans of steps name its communicators several times."""
    spec = SimulationSpec(gpus=128, minutes=3, seed=7, planned=planned_of("4", 180, 7))
    made = []
    for path in (tmp_path / "a.leadline", tmp_path / "b.leadline"):
        simulation = Simulation(spec)
        sink = bundle_sink(path, spec.start_ns, spec.end_ns, "")
        for _ in simulation.write(sink):
            pass
        sink.close()
        made.append(path.read_bytes())
    assert made[0] == made[1]


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ("faults: [{fault: nonsense, at_s: 1}]", "fault must be one of"),
        ("faults: [{fault: xid, at_s: -1}]", "at_s must be seconds >= 0"),
        ("faults: [{fault: xid, magnitude: huge}]", "magnitude must be one of"),
        ("faults: 7", "line 1: faults must be a list"),
        ("faults: [7]", "line 1: expected a mapping"),
        ("faults:\n  - {fault: xid, at_s: 1}\n  - {fault: preemption}", "line 3: fault must be one of"),
        ("harmless: [{harmless: xid}]", "harmless must be one of"),
        ("topology: tiny", "expected a list `faults:`"),
        ("[]", "expected a mapping"),
        ("a: [", "expected YAML"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused(given_: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        planned_from(given_, "there.yaml")


@pytest.mark.parametrize(
    "wrong",
    [{"gpus": 0}, {"minutes": 0}, {"drop_share": 1.5}, {"detail": "most"}, {"placement": "best"}, {"sampling": 0},
     {"quiet": True, "planned": (Planned("xid", 1.0),)}, {"planned": (Planned("xid", 1e6),)}],
)  # fmt: skip
def test_a_fleet_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Simulation(replace(SimulationSpec(gpus=8, minutes=1), **wrong))  # type: ignore[arg-type]


def test_a_disk_that_cannot_hold_it_is_told_before(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no directory; make it first"):
        require_room(tmp_path / "nowhere", 1000)
    require_room(tmp_path, 1000)
    with pytest.raises(UsageError, match="GB are needed"):
        require_room(tmp_path, 10**18)


def test_where_every_way_is_gone_ranks_enter_a_collective_and_wait() -> None:
    """A job that stands still is seen by the calls that it made, though it never told the step that they belong to."""
    spec = SimulationSpec(
        gpus=64, minutes=3, seed=4, hazards=False, probes=False, names="few",
        planned=(Planned("dead-spine", 60.0, 60.0, "large"),),
    )  # fmt: skip
    simulation, sink = simulated(spec)
    fault = simulation.schedule.faults[0]
    run = simulation.schedule.runs[fault.run]
    assert len(fault.switches) == 2, "all of them"
    onset_ns = spec.start_ns + 60 * 10**9
    rows = [row for row in sink.all("collective").to_pylist() if row["job"] == run.job]
    waiting = [row for row in rows if row["state"] == "enqueued" and row["enqueued_ns"] > onset_ns + 10**9]
    last = max(row["seq"] for row in waiting)
    ended = [row for row in rows if row["seq"] == last and (row["finished_ns"] or spec.end_ns) < spec.end_ns]
    entered = {(row["comm"], row["rank"]) for row in waiting if row["seq"] == last}
    assert len({rank for _, rank in entered}) == len(run.hosts) * simulation.fleet.gpus_per_host
    assert not ended
    steps = [row["end_ns"] for row in sink.all("step").to_pylist() if row["job"] == run.job]
    assert max(steps) < max(row["enqueued_ns"] for row in waiting)
