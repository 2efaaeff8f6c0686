"""How long the analysis of paths takes on one window of 10 M flow samples of a fabric of three tiers.

    python -m bench.path [--samples N] [--flows N] [--gpus N] [--rounds N] [--json]

Made are the rows of a simulated fabric, judged is one window as the runner would hand it over: Arrow tables with the
columns that the analysis declares. Beside it, in the same process, stands what a flow collector does with the same
rows: bytes and packets by flow, switch and ports (`pyarrow.Table.group_by`), without any path.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evals.path.conditions import Condition
from evals.path.told import Switches, told_relations
from evals.path.traffic import Batch, Jobs, traffic_of

from bench.figures import Figure, conditions, tell
from leadline.analysis import BY_NAME
from leadline.analysis.spec import Analysis, Window
from leadline.runner.worker import finished
from leadline.simulator.fleet import Fleet
from leadline.simulator.flows import fabric_of_fleet
from leadline.simulator.sampling import expected_samples, flow_samples

S = 10**9
START_NS = 1_767_225_600 * S
WINDOW_NS = 10 * S
JOB_HOSTS = 64
SECONDS_TARGET = 30.0
FULL_SAMPLES = 9_900_000  # samples are drawn: 10 M of them are within this


@dataclass(frozen=True, slots=True)
class Input:
    """Tables in the order in which the analysis reads them."""

    tables: list[pa.Table]
    flows: int
    switches: int

    @property
    def samples(self) -> int:
        """Rows of `flow_sample`."""
        return int(self.tables[0].num_rows)


def made(spec: Analysis, gpus: int, flows: int, samples: int, seed: int) -> Input:
    """About so many samples of so many flows, jobs of 64 hosts each, everything told."""
    condition = Condition("bench", "bench", tiers=3, rate=1_000, flows=flows, windows=1)
    fleet = Fleet(gpus=gpus, gpus_per_host=8, pod_hosts=32)
    fabric = fabric_of_fleet(fleet)
    rng = np.random.default_rng(seed)
    jobs = _jobs(fleet, rng)
    end_ns = START_NS + WINDOW_NS
    batches = traffic_of(condition, fleet, jobs, START_NS, end_ns, rng)
    paths = [batch.paths(fabric) for batch in batches]
    streams = [each.flows(path, fleet.links, START_NS, end_ns) for each, path in zip(batches, paths, strict=True)]
    more = samples / sum(expected_samples(each, condition.rate) for each in streams)
    switches = Switches(condition, fleet, rng)
    rows = [_rows(batch, path, more, fleet, switches, rng) for batch, path in zip(batches, paths, strict=True)]
    given = {
        "flow_sample": pa.concat_tables([each for each in rows if each is not None]).unify_dictionaries(),
        "relation": told_relations(condition, fleet, jobs, batches, START_NS - 3600 * S, rng),
    }
    tables = [given[read.table.name].select(list(read.names)) for read in spec.reads]
    return Input(tables, sum(map(len, batches)), fleet.switches)


def _rows(
    batch: Batch, path_FX: np.ndarray, more: float, fleet: Fleet, switches: Switches, rng: np.random.Generator
) -> pa.Table | None:
    flows = replace(batch, bytes_F=batch.bytes_F * more).flows(path_FX, fleet.links, START_NS, START_NS + WINDOW_NS)
    return switches.rows(flows, batch.ids_F2, flow_samples(flows, switches.condition.rate, None, rng), rng)


def _jobs(fleet: Fleet, rng: np.random.Generator) -> Jobs:
    hosts = rng.permutation(fleet.hosts)
    parts = [np.sort(part) for part in np.array_split(hosts, max(1, fleet.hosts // JOB_HOSTS))]
    nics = [(part[:, None] * fleet.rails + np.arange(fleet.rails)).ravel() for part in parts]
    return Jobs([f"job-{place}" for place in range(len(parts))], ["default"] * len(parts), nics)


def collector(rows: pa.Table) -> pa.Table:
    """Bytes and packets by flow, switch and ports, scaled by the sampling rate."""
    scaled = pc.multiply(rows.column("frame_bytes"), rows.column("rate"))
    table = rows.select(["flow", "switch", "in_port", "out_port"]).append_column("bytes", scaled)
    return table.group_by(["flow", "switch", "in_port", "out_port"]).aggregate([("bytes", "sum"), ([], "count_all")])


def peak_mb(since_kb: int) -> float:
    """Most resident memory since `clear_peak`, less what there was then, MB."""
    return (_status_kb("VmHWM") - since_kb) / 1000


def clear_peak() -> int:
    """Forget the peak of resident memory; returns what is resident now, kB."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status_kb("VmRSS")


def _status_kb(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def figures(given: argparse.Namespace) -> tuple[list[Figure], dict[str, object]]:
    """The least of `rounds` of each; they take turns, so that both see the same machine."""
    spec = BY_NAME["path"]
    window = Window(START_NS, START_NS + WINDOW_NS)
    spec(*made(spec, given.gpus, 200, 2_000, given.seed).tables, window=window)  # so that all is compiled
    began = time.perf_counter()
    data = made(spec, given.gpus, given.flows, given.samples, given.seed)
    print(f"{data.samples:,} samples made in {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    ours, theirs, finishing, peak, digests, groups = [], [], [], 0.0, set(), 0
    for _ in range(given.rounds):
        since_kb = clear_peak()
        began = time.perf_counter()
        verdicts = spec(*data.tables, window=window)
        ours.append(time.perf_counter() - began)
        peak = max(peak, peak_mb(since_kb))
        began = time.perf_counter()
        digests.add(finished(spec, window, verdicts).digest.hex())
        finishing.append(time.perf_counter() - began)
        began = time.perf_counter()
        groups = collector(data.tables[0]).num_rows
        theirs.append(time.perf_counter() - began)
    assert len(digests) == 1, f"the same rows gave different verdicts: {digests}"
    anchor = {"of": "pyarrow group_by of the same rows, s", "value": round(min(theirs), 3)}
    target = SECONDS_TARGET if data.samples >= FULL_SAMPLES else None  # a small run proves nothing of it
    found = [
        Figure("seconds_10m_samples", round(min(ours), 3), "s", target, "lower", anchor),
        Figure("samples_per_second", round(data.samples / min(ours)), "samples/s"),
        Figure("times_a_plain_aggregation", round(min(ours) / min(theirs), 2), "ratio", None, "lower"),
        Figure("finishing_seconds", round(min(finishing), 3), "s", None, "lower"),
        Figure("peak_memory_mb", round(peak), "MB", None, "lower"),
    ]
    told = {"flows": data.flows, "switches": data.switches, "groups": groups, "result": digests.pop()}
    return found, {"samples": data.samples, **told}


def main(arguments: Sequence[str] | None = None) -> None:
    """Take the figures and tell them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--flows", type=int, default=40_000)
    parser.add_argument("--gpus", type=int, default=8192, help="of the fabric, eight to a host")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    found, about = figures(given)
    tell("path", conditions(given.seed, rounds=given.rounds, **about), found, given.json)


if __name__ == "__main__":
    main()
