"""From a symptom to its ranked causes in a job of 10,240 ranks.

    python -m bench.cause [--ranks N] [--steps N] [--rounds N] [--json]

Made are ten minutes of a job: collectives and steps as the torch hook writes them, who runs where, flows with their
ways, what the anomaly detector says of its counters on a bad day (2,000 rows), 5,000 events, an index of 320,000
metrics. In the last 20 s one GPU throttles, and its rank arrives last.

`seconds_10240_ranks` is one window of `slowdowns` (which finds the symptom and whom it blames) and one of `cause`
(which finds the GPU), one after the other, as the runner hands them over: Arrow tables in, columns of verdicts out,
each with the look-back that it declares. Not in it: loading rows from the store, and the anomaly detector, which judges
all metrics every five seconds whether a job hurts or not (`bench.anomaly`). A wrong name is no figure: the GPU must be
named.

Beside it stand the times that others published for their systems, on data of their own: Minder 3.6 s (NSDI 2025),
Mycroft 20 s in 60 % of cases (SOSP 2025), Holmes 30.3 s (NSDI 2025).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.figures import Figure, conditions, tell
from bench.ledger import JOB, MS, START_NS, STEP_NS, Input, S, collectives_and_steps
from leadline.analysis.cause.cause import cause
from leadline.analysis.spec import Analysis, Window
from leadline.analysis.symptoms.slowdowns import slowdowns
from leadline.model.ids import link_id
from leadline.model.tables import BY_NAME
from leadline.store.schema import ARROW_TYPES, arrow_table

SECONDS_TARGET = 1.0
ANCHOR = {"of": "Minder, on its own data", "value": 3.6}
GPUS, LEAF_HOSTS, SPINES = 8, 16, 32  # GPUs and NICs of a host, hosts of a leaf
SLOW_STEPS = 4  # at the end
FLOWS = 4  # of a rank to the next
FULL_RANKS = 10_240
THREADS = 2
NOISE = (
    "node_load1", "node_netstat_Tcp_RetransSegs", "node_network_receive_drop_total", "ifOutDiscards",
    "node_memory_Dirty_bytes",
)  # fmt: skip
PLAIN: Mapping[str, object] = {
    "tenant": "default", "cluster": "default", "host": "h0", "clock": "h0/1", "confidence": 1.0, "probability": 1.0,
    "labels": {}, "attributes": {}, "batch": 1, "batch_row": 0, "revision": 0, "version": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Site:
    """Rows by table name, and the GPU that throttles."""

    tables: Mapping[str, pa.Table]
    gpu: str
    to_ns: int


def made(ranks: int, steps: int, seed: int) -> Site:
    """A job that became slow in its last steps."""
    rng = np.random.default_rng(seed)
    late = ranks // 3
    slow = np.zeros(steps)
    slow[-SLOW_STEPS:] = 2400 * MS  # as long again as its work: a clock at half its rate
    work: Input = collectives_and_steps(ranks, steps, 4, rng, late, slow)
    to_ns = START_NS + steps * STEP_NS
    tables = {"collective": work.collective, "step": work.step, **_places(ranks), **_flows(ranks, to_ns)}
    tables |= {
        "anomaly": _anomalies(ranks, late, to_ns, rng),
        "event": _events(ranks, to_ns, rng),
        "series": _series(ranks),
    }
    return Site(tables, f"gpu:GPU-{late}", to_ns)


def _host(rank: int) -> int:
    return rank // GPUS


def _port(rank: int) -> str:
    return f"port:h{_host(rank)}/eth{rank % GPUS}"


def _swport(rank: int) -> str:
    return f"swport:leaf{_host(rank) // LEAF_HOSTS}/E{rank % (GPUS * LEAF_HOSTS)}"


def _places(ranks: int) -> dict[str, pa.Table]:
    """Ranks, processes, GPUs, hosts, NICs, switches."""
    pairs: list[tuple[str, str, str]] = []
    for rank in range(ranks):
        name, host, gpu = f"rank:{JOB}/{rank}", f"host:h{_host(rank)}", f"gpu:GPU-{rank}"
        pairs += [(name, f"job:{JOB}", "in"), (name, gpu, "runs-on"), (name, host, "runs-on"), (gpu, host, "in")]
        pairs += [(name, f"comm:{JOB}/0x9c", "member"), (name, f"process:h{_host(rank)}/{rank}", "runs-on")]
        pairs += [(_port(rank), host, "in"), (_port(rank), _swport(rank), "linked")]
        pairs += [(_swport(rank), f"switch:leaf{_host(rank) // LEAF_HOSTS}", "in")]
    for leaf in range(-(-ranks // (GPUS * LEAF_HOSTS))):
        for spine in range(SPINES):
            up, down = f"swport:leaf{leaf}/U{spine}", f"swport:spine{spine}/E{leaf}"
            pairs += [(up, down, "linked"), (up, f"switch:leaf{leaf}", "in"), (down, f"switch:spine{spine}", "in")]
    columns = dict(zip(("child", "parent", "kind"), map(list, zip(*pairs, strict=True)), strict=True))
    return {"relation": _table("relation", len(pairs), {**columns, "from_ns": START_NS - 600 * S, "source": "bench"})}


def _flows(ranks: int, to_ns: int) -> dict[str, pa.Table]:
    """Flows of a ring over the ranks' NICs, four a rank, with the four links of each; six windows of ten seconds."""
    paths: dict[str, list[object]] = {name: [] for name in ("flow", "src_rank", "dst_rank", "src", "dst")}
    volumes: dict[str, list[object]] = {name: [] for name in ("flow", "link")}
    for rank in range(ranks):
        to = (rank + GPUS) % ranks
        for flow in range(FLOWS):
            spine, number = (rank + flow) % SPINES, rank * FLOWS + flow + 1
            for name, value in zip(
                paths, (number, f"rank:{JOB}/{rank}", f"rank:{JOB}/{to}", _port(rank), _port(to)), strict=True
            ):
                paths[name].append(value)
            for link in _way(rank, to, spine):
                volumes["flow"].append(number)
                volumes["link"].append(link)
    ends = [to_ns - back * 10 * S for back in range(6)]
    whole = [_windows("flow_path", paths, ends, src_ip="10.0.0.1", dst_ip="10.0.0.2", state="known", why="")]
    whole += [_windows("flow_volume", volumes, ends, bytes=1e9, low=9e8, high=1.1e9)]
    return dict(zip(("flow_path", "flow_volume"), whole, strict=True))


def _way(rank: int, to: int, spine: int) -> list[str]:
    first, last = _host(rank) // LEAF_HOSTS, _host(to) // LEAF_HOSTS
    ends = [link_id(_port(rank), _swport(rank)), link_id(_port(to), _swport(to))]
    if first == last:
        return ends
    up = [link_id(f"swport:leaf{leaf}/U{spine}", f"swport:spine{spine}/E{leaf}") for leaf in (first, last)]
    return [ends[0], *up, ends[1]]


def _windows(name: str, columns: Mapping[str, list[object]], ends: Sequence[int], **more: object) -> pa.Table:
    count = len(columns["flow"])
    own = {**columns, **more, "job": JOB, "window_ns": 10 * S}
    return pa.concat_tables(_table(name, count, {**own, "end_ns": end_ns}) for end_ns in ends)


def _anomalies(ranks: int, late: int, to_ns: int, rng: np.random.Generator) -> pa.Table:
    """The GPU's own, and 2,000 of a bad day: counters of hosts and ports, all over the site and the ten minutes."""
    onset_ns = to_ns - SLOW_STEPS * STEP_NS
    gpu = f"gpu:GPU-{late}"
    odd = [(gpu, "DCGM_FI_DEV_THERMAL_VIOLATION", onset_ns + S, 20.0), (gpu, "DCGM_FI_DEV_GPU_TEMP", onset_ns + S, 9.0)]
    for rank in rng.integers(0, ranks, 2000).tolist():
        metric = NOISE[rank % len(NOISE)]
        port = _swport(rank) if metric.startswith("if") else _port(rank) if "network" in metric else ""
        at_ns = to_ns - int(rng.integers(0, 600 * S))
        odd.append((port or f"host:h{_host(rank)}", metric, at_ns, 8.0))
    start = [each[2] for each in odd]
    own = {
        "entity_kind": [each[0].partition(":")[0] for each in odd],
        "entity": [each[0] for each in odd],
        "metric": [each[1] for each in odd],
        "start_ns": start,
        "earliest_ns": [at_ns - 5 * S for at_ns in start],
        "score": [each[3] for each in odd],
    }
    baseline = {"bound_ns": 20_000, "share": 0.5, "direction": "high", "witness": "peers", "expected": 1.0, "seen": 9.0}
    return _table("anomaly", len(odd), {**own, **baseline, "reported_ns": to_ns, "seen_ns": to_ns})


def _events(ranks: int, to_ns: int, rng: np.random.Generator) -> pa.Table:
    """Checkpoints."""
    count = min(5000, 2 * ranks)
    told = {
        "time_ns": (to_ns - rng.integers(0, 600 * S, count)).tolist(),
        "entity": [f"rank:{JOB}/{each}" for each in rng.integers(0, ranks, count).tolist()],
    }
    baseline = {"entity_kind": "rank", "kind": "checkpoint", "severity": "info", "message": "23068672 bytes"}
    return _table("event", count, {**told, **baseline, "source": "torch-hook"})


def _series(ranks: int) -> pa.Table:
    """An index of metrics: 12 of each GPU and NIC port, 60 of each host."""
    entity = [name for rank in range(ranks) for name in (f"gpu:GPU-{rank}", _port(rank)) for _ in range(12)]
    entity += [f"host:h{host}" for host in range(-(-ranks // GPUS)) for _ in range(60)]
    times = {"first_ns": START_NS, "last_ns": START_NS + 300 * S}
    own = {"series": list(range(len(entity))), "name": "m", "entity_kind": "gpu", "entity": entity}
    return _table("series", len(entity), {**own, **times, "source": "scrape"})


def _table(name: str, count: int, told: Mapping[str, object]) -> pa.Table:
    """Rows of a table from columns, or one value for all rows; what is not told is plain."""
    spec, columns = BY_NAME[name], {}
    plain: dict[str, object] = {**PLAIN, "analysis": "bench"}
    zero = {"STR": "", "SYM": "", "I64": 0, "U64": 0, "F64": 0.0, "U128": 0, "BOOL": False}
    for column in spec.columns:
        baseline = plain.get(column.name, None if column.nullable else zero.get(column.type.name))
        value = told.get(column.name, baseline)
        columns[column.name] = value if isinstance(value, list) else [value] * count
    return arrow_table(spec, columns)


def _given(item: Analysis, tables: Mapping[str, pa.Table], from_ns: int) -> list[pa.Table]:
    """What the runner would give: columns, and rows not older than the look-back."""
    out = []
    for read in item.reads:
        rows = tables.get(read.table.name, _empty(read.table.name))
        for name in read.names:
            if name not in rows.column_names:
                empty = pa.array(np.full(len(rows), 20_000)) if name == "bound_ns" else pa.nulls(len(rows), pa.string())
                rows = rows.append_column(name, empty)
        if not read.valid and len(rows):
            at = rows[read.table.time].to_numpy()
            rows = rows.filter(pa.array(at >= from_ns - read.look_back_ns))
        out.append(rows.select(list(read.names)))
    return out


def _empty(name: str) -> pa.Table:
    return pa.table({each.name: pa.array([], ARROW_TYPES[each.type]) for each in BY_NAME[name].columns})


def timed(site: Site) -> tuple[float, float]:
    """Seconds of one window of `slowdowns`, and of one of `cause` on what it says."""
    window = Window(site.to_ns - 5 * S, site.to_ns, job=JOB)
    given = _given(slowdowns, site.tables, window.from_ns)
    begin = time.perf_counter()
    told = slowdowns(*given, window=window)["symptom"]
    symptom_s = time.perf_counter() - begin
    rows = len(told["entity"])
    assert rows == 1, f"one symptom was made, {rows} were told"
    symptom = _table("symptom", rows, {name: list(values) for name, values in told.items()})
    later = Window(site.to_ns, site.to_ns + 2 * S)
    given = _given(cause, {**site.tables, "symptom": symptom}, later.from_ns)
    begin = time.perf_counter()
    causes = cause(*given, window=later)["cause"]
    cause_s = time.perf_counter() - begin
    named = [entity for entity, chosen in zip(causes["entity"], causes["chosen"], strict=True) if chosen]
    assert named == [site.gpu], f"{site.gpu} throttles, named is {named}"
    return symptom_s, cause_s


def figures(given: argparse.Namespace) -> tuple[list[Figure], dict[str, object]]:
    """Take them."""
    pa.set_cpu_count(THREADS)
    site = made(given.ranks, given.steps, given.seed)
    timed(made(64, 24, given.seed))  # kernels are compiled
    rounds = [timed(site) for _ in range(given.rounds)]
    symptom_s, cause_s = (float(np.median([each[place] for each in rounds])) for place in (0, 1))
    whole = given.ranks == FULL_RANKS
    reason = None if whole else f"of {given.ranks} ranks"
    found = [
        Figure(
            "seconds_10240_ranks", symptom_s + cause_s, "s", SECONDS_TARGET if whole else None, "lower", ANCHOR, reason
        ),
        Figure("seconds_symptom", symptom_s, "s", better="lower", reason=reason),
        Figure("seconds_cause", cause_s, "s", better="lower", reason=reason),
    ]
    about = {
        "ranks": given.ranks,
        "steps": given.steps,
        **{f"{name}_rows": len(rows) for name, rows in site.tables.items()},
    }
    return found, about


def main(arguments: Sequence[str] | None = None) -> None:
    """Take the figures and tell them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, default=FULL_RANKS)
    parser.add_argument("--steps", type=int, default=120, help="of five seconds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    found, about = figures(given)
    tell("cause", conditions(given.seed, rounds=given.rounds, **about), found, given.json)


if __name__ == "__main__":
    main()
