"""Figures of the dependency graph: how fast a fleet's relations become one, and how fast it says what a job stands on.

    python bench/graph.py [--json] [--only load_1m_relations_s,...] [--gpus 100000] [--rounds 3] [--jobs 200]

The relations are those of a simulated fleet (`simulator`): hosts, GPUs, ports, switches, links, and running jobs
with their ranks; addresses, flows and queue pairs are added until there are a million. Anchors are read from the same
rows: rustworkx and networkx, which hold one object for each edge, know no time and join no names.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.figures import Figure, conditions, tell
from leadline.analysis.graph.answers import neighbourhood
from leadline.analysis.graph.conflicts import conflicts
from leadline.analysis.graph.graph import Graph, graph
from leadline.analysis.spec import Window
from leadline.model.tables import BY_NAME
from leadline.simulator.fleet import Fleet, joined, text
from leadline.simulator.happenings import of_run, standing
from leadline.simulator.run import Simulation
from leadline.simulator.spec import SimulationSpec
from leadline.simulator.targets import Run
from leadline.store import Store, StoreConfig

RELATION = BY_NAME["relation"]
COLUMNS = ("tenant", *(column.name for column in RELATION.given))
LOAD_TARGET_S, JOB_TARGET_MS = 10.0, 50.0
APPEND_ROWS = 100_000
ROWS_OF_A_GPU = 10  # so that 100,000 GPUs are a million relations


def fleet_relations(gpus: int, seed: int) -> pa.Table:
    """Rows of `relation` of a running fleet, ten for each GPU, as a store holds them; names not yet as dictionaries."""
    spec = SimulationSpec(gpus=gpus, minutes=1.0, seed=seed, detail="jobs")
    plan = Simulation(spec)
    parts = [_rows(columns, count) for columns, count in standing(plan.fleet, 1, spec.start_ns)]
    for run in plan.schedule.runs:
        parts += [_rows(columns, count) for columns, count in of_run(plan.fleet, run, spec.start_ns)]
    parts.append(_addresses(plan.fleet, spec.start_ns))
    lacking = max(0, ROWS_OF_A_GPU * gpus - sum(part.num_rows for part in parts))
    parts.append(_connections(plan.schedule.runs, plan.fleet, spec.start_ns, lacking))
    # One piece, as a batch that a sender brings: a table of hundreds of pieces takes ten times as long to append.
    return pa.concat_tables(parts).combine_chunks()


def _rows(columns: dict[str, Any], count: int) -> pa.Table:
    (kind, _), (to_ns, _), (source, _) = columns["kind"], columns["to_ns"], columns["source"]
    return pa.table(
        {
            "tenant": pa.repeat("default", count),
            "child": columns["child"].cast(pa.string()),
            "parent": columns["parent"].cast(pa.string()),
            "kind": pa.repeat(kind, count),
            "from_ns": pa.array(columns["from_ns"], pa.int64()),
            "to_ns": pa.nulls(count, pa.int64()) if to_ns is None else pa.repeat(pa.scalar(to_ns, pa.int64()), count),
            "source": pa.repeat(source, count),
            "confidence": pa.array(columns["confidence"]),
        }
    )


def _told(child: pa.Array, parent: pa.Array, kind: str, source: str, from_ns: int) -> pa.Table:
    count = len(child)
    return _rows(
        {"child": child, "parent": parent, "kind": [kind, count], "from_ns": np.full(count, from_ns),
         "to_ns": [None, count], "source": [source, count], "confidence": np.ones(count)}, count,
    )  # fmt: skip


def _addresses(fleet: Fleet, from_ns: int) -> pa.Table:
    link = np.arange(fleet.host_links)
    return _told(joined("address:", fleet.addresses(link)), joined("port:", fleet.port_names), "in", "agent/graph",
                 from_ns)  # fmt: skip


def _connections(runs: Sequence[Run], fleet: Fleet, from_ns: int, count: int) -> pa.Table:
    """So many flows, each owned by a rank: those of the first runs most."""
    ranks: list[pa.Array] = [pa.array([], pa.string())]
    for run in runs:
        ranks.append(text(f"rank:{run.job}/", np.arange(len(run.hosts) * fleet.gpus_per_host)))
    owners = pa.concat_arrays(ranks)
    number = np.arange(count if len(owners) else 0)
    flows = joined("flow:", pa.array([f"{each:032x}" for each in number.tolist()], pa.string()))
    return _told(flows, owners.take(pa.array(number % max(len(owners), 1))), "owns", "nccl-plugin", from_ns)


def changes(relation: pa.Table, at_ns: int, count: int) -> pa.Table:
    """What a second brings: so many edges end, spread over the fleet, and as many flows begin that nobody knew."""
    standing = np.flatnonzero(pc.is_null(relation["to_ns"]).to_numpy())
    ending = relation.take(pa.array(standing[np.linspace(0, len(standing) - 1, count).astype(np.int64)]))
    place = ending.schema.get_field_index("to_ns")
    ending = ending.set_column(place, "to_ns", pa.repeat(pa.scalar(at_ns, pa.int64()), count))
    flows = pa.array([f"flow:{'f' * 24}{number:08x}" for number in range(count)])
    ranks = relation.filter(pc.starts_with(relation["child"], "rank:"))["child"].combine_chunks()
    owners = ranks if len(ranks) else relation["child"].combine_chunks()
    beginning = _told(flows, owners.take(pa.array(np.arange(count) % len(owners))), "owns", "nccl-plugin", at_ns)
    return pa.concat_tables([ending, beginning.select(ending.column_names)])


def timed_s(work: Callable[[], object], rounds: int) -> list[float]:
    """Seconds that each of some rounds took; garbage of the round before is collected outside."""
    out = []
    for _ in range(rounds):
        gc.collect()
        began = time.perf_counter()
        kept = work()
        out.append(time.perf_counter() - began)
        del kept
    return out


def from_store_s(relation: pa.Table, rounds: int, told: Callable[[str], None]) -> list[float]:
    """Seconds from a store that holds nothing to a graph: append all rows, read them, build."""
    out = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="leadline-bench-") as directory:
            store = Store(StoreConfig(path=str(Path(directory) / "store")))
            store.start()
            try:
                began = time.perf_counter()
                rows = relation.append_column("cluster", pa.repeat("default", relation.num_rows))
                for at in range(0, rows.num_rows, APPEND_ROWS):
                    store.append(RELATION, rows.slice(at, APPEND_ROWS))
                appended = time.perf_counter()
                read = store.query(f"SELECT {', '.join(COLUMNS)} FROM leadline.relation FINAL")
                loaded = time.perf_counter()
                built = graph(read)
                out.append(time.perf_counter() - began)
            finally:
                store.stop()
            told(f"{len(built):,} edges: append {appended - began:.2f} s, query {loaded - appended:.2f} s, "
                 f"build {began + out[-1] - loaded:.2f} s")  # fmt: skip
    return out


def neighbourhoods_ms(whole: Graph, jobs: Sequence[str], at_ns: int) -> list[float]:
    """Milliseconds until each job's neighbourhood is there as an answer."""
    out = []
    for job in jobs:
        began = time.perf_counter()
        neighbourhood(whole, job, at_ns).as_answer()
        out.append((time.perf_counter() - began) * 1e3)
    return out


def rustworkx_load_s(relation: pa.Table) -> tuple[float, Callable[[str], int]]:
    """rustworkx: seconds to a graph of the same edges, and what counts all that a job reaches in it."""
    import rustworkx

    began = time.perf_counter()
    pairs = _dependencies(relation)
    number = {name: place for place, name in enumerate(dict.fromkeys(name for pair in pairs for name in pair))}
    whole = rustworkx.PyDiGraph(multigraph=True)
    whole.add_nodes_from(list(number))
    whole.add_edges_from_no_data([(number[upper], number[lower]) for upper, lower in pairs])
    took = time.perf_counter() - began
    return took, lambda job: len(rustworkx.descendants(whole, number[job]))


def networkx_load_s(relation: pa.Table) -> tuple[float, Callable[[str], int]]:
    """networkx: the same."""
    networkx = importlib.import_module("networkx")  # no dependency of ours; measured where it happens to be
    began = time.perf_counter()
    whole = networkx.MultiDiGraph()
    whole.add_edges_from(_dependencies(relation))
    took = time.perf_counter() - began
    return took, lambda job: len(networkx.descendants(whole, job))


def _dependencies(relation: pa.Table) -> list[tuple[str, str]]:
    """Pairs (what stands, what it stands on), from the job down to its leaf switches; a link leads up only."""
    upwards = ("job:", "host:", "storage:")  # the parents that stand on their children
    return [
        (parent, child) if kind == "in" and parent.startswith(upwards) and not child.startswith("gpu:")
        else (child, parent)
        for child, parent, kind in zip(
            *(relation.column(name).to_pylist() for name in ("child", "parent", "kind")), strict=True
        )
        if kind != "owns"
    ]  # fmt: skip


def jobs_of(relation: pa.Table) -> dict[str, int]:
    """Jobs that run at the end, and how many ranks each has."""
    running = relation.filter(pc.and_(pc.equal(relation["kind"], "in"), pc.starts_with(relation["parent"], "job:")))
    counts = pc.value_counts(running.filter(pc.is_null(running["to_ns"]))["parent"])
    return {each["values"]: each["counts"] for each in counts.to_pylist()}


def some(jobs: dict[str, int], count: int, seed: int) -> list[str]:
    """So many jobs, drawn by chance."""
    return np.random.default_rng(seed).choice(sorted(jobs), count).tolist() if jobs else []


def anchors(relation: pa.Table, jobs: Sequence[str], told: Callable[[str], None]) -> dict[str, Any]:
    """What rustworkx and networkx take for the same edges: seconds to load, median ms for what a job reaches."""
    out: dict[str, Any] = {}
    for name, load in (("rustworkx", rustworkx_load_s), ("networkx", networkx_load_s)):
        try:
            took, descend = load(relation)
        except ImportError:
            told(f"{name} is not installed")
            continue
        spans = []
        for job in jobs:
            began = time.perf_counter()
            descend(job)
            spans.append((time.perf_counter() - began) * 1e3)
        out[name] = {"load_s": round(took, 2), "job_ms": round(median(spans), 2) if spans else None}
        told(f"{name}: {out[name]}")
    return out


def figures(given: argparse.Namespace, told: Callable[[str], None]) -> tuple[list[Figure], dict[str, Any]]:
    """All that were asked for, and what they are of."""
    relation = fleet_relations(given.gpus, given.seed)
    graph(relation.slice(0, 1000))  # kernels are compiled
    jobs = jobs_of(relation)
    at_ns = int(pc.max(relation["from_ns"]).as_py())
    whole = graph(relation)
    chosen = some(jobs, given.jobs, given.seed)
    needs = {"build_1m_relations_s", "job_neighbourhood_ms"}
    beside = anchors(relation, chosen[: given.anchor_jobs], told) if not given.only or needs & {*given.only} else {}
    rust = beside.get("rustworkx")
    found = []

    def wanted(name: str) -> bool:
        return not given.only or name in given.only

    if wanted("load_1m_relations_s"):
        seconds = median(from_store_s(relation, given.rounds, told))
        found.append(Figure("load_1m_relations_s", round(seconds, 2), "s", LOAD_TARGET_S, "lower"))
    if wanted("build_1m_relations_s"):
        seconds = median(timed_s(lambda: graph(relation), given.rounds))
        anchor = rust and {"of": "rustworkx", "value": rust["load_s"]}
        found.append(Figure("build_1m_relations_s", round(seconds, 2), "s", None, "lower", anchor))
    if wanted("update_1000_relations_ms"):
        newer = changes(relation, at_ns + 1, min(500, relation.num_rows))
        milliseconds = 1e3 * median(timed_s(lambda: whole.updated(newer), given.rounds))
        found.append(Figure("update_1000_relations_ms", round(milliseconds, 1), "ms", None, "lower"))
    if wanted("job_neighbourhood_ms"):
        spans = neighbourhoods_ms(whole, chosen, at_ns)
        anchor = rust and {"of": "rustworkx (names only)", "value": rust["job_ms"]}
        reason = None if spans else "no job runs in a fleet this small"
        value = round(median(spans), 1) if spans else None
        found.append(Figure("job_neighbourhood_ms", value, "ms", JOB_TARGET_MS, "lower", anchor, reason))
    if wanted("job_of_1024_ranks_ms") and jobs:
        near = min(jobs, key=lambda job: (abs(jobs[job] - 1024), job))
        told(f"{near} has {jobs[near]:,} ranks")
        spans = neighbourhoods_ms(whole, [near] * given.rounds, at_ns)
        found.append(Figure("job_of_1024_ranks_ms", round(median(spans), 1), "ms", JOB_TARGET_MS, "lower"))
    if wanted("conflicts_1m_relations_s"):
        window = Window(at_ns, at_ns + conflicts.window_ns)
        seconds = median(timed_s(lambda: conflicts(relation, window=window), given.rounds))
        found.append(Figure("conflicts_1m_relations_s", round(seconds, 2), "s", None, "lower"))
    return found, {"relations": relation.num_rows, "jobs": len(jobs), "anchors": beside}


def main(arguments: Sequence[str] | None = None) -> None:
    """Take the figures and tell them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", default="", type=lambda text: [each for each in text.split(",") if each])
    parser.add_argument("--gpus", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=200, help="jobs whose neighbourhoods are looked at")
    parser.add_argument("--anchor-jobs", type=int, default=20, help="of them, by rustworkx and networkx too")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    found, of = figures(given, lambda text: print(text, file=sys.stderr, flush=True))
    tell("graph", conditions(given.seed, gpus=given.gpus, rounds=given.rounds, **of), found, given.json)


if __name__ == "__main__":
    main()
