"""Three tenants in one cluster, out of one recorded run: whose each row is, and a word in all that is acme's.

    neighbour-congestion.leadline ──> bert-1 ──> acme       renamed: every name of acme's has a canary in it
                                      bulk-1 ──> bob        with steps of its own
                                      the rest ──> provider hosts, switches, links, flows

Pure: a bundle's rows go in, rows as `/api/v1/rows` takes them come out, moved to end at a given time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from leadline.model.tables import BY_NAME, Type

ACME, BOB, PROVIDER = "acme", "bob", "provider"
TENANTS = (ACME, BOB, PROVIDER)
STEM = "zqv"  # of every canary; no word of Leadline or of the recording has it
NUMBER = 8_675_309_000_000.0  # acme's distinctive numbers begin with these seven digits
ITS_JOB, JOB = "bert-1", "zqvbert-7"
NEIGHBOUR = "bulk-1"
ALONE = ("h1", "h2", "h4", "h5", "h6", "h7")  # hosts on which acme runs alone; h3 and h8 it shares with bob
SHARED = {2: 0, 7: 1}  # ranks of acme on the shared hosts: the rank of bob's beside it
THIN = 5  # of 54,000 flow samples
EPOCH_NS = 10**18  # numbers above are times, below are lengths of time
METRIC = "zqv_training_loss"
# Of the recording's 2,800 streams those that analyses read most; all would make the two servers busy for minutes.
METRICS = re.compile(r"node_network_(receive|transmit)_bytes_total|DCGM_FI_DEV_(GPU_UTIL|SM_CLOCK|GPU_TEMP)|node_load1")

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]
_HOST = re.compile(rf"(?<![\w-])({'|'.join(ALONE)})(?![\w-])")


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of samples: labels with `__name__`, and (time in ms, value)."""

    labels: Mapping[str, str]
    samples: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Scene:
    """What each tenant sends."""

    from_ns: int
    to_ns: int
    rows: Mapping[str, Rows]  # by tenant and table
    streams: Mapping[str, Sequence[Stream]]
    flows: pa.Table = field(repr=False)  # of flow_sample, the provider's: too many for rows one by one


def renamed(text: str) -> str:
    """A text of the recording with acme's names as they are called here."""
    return _HOST.sub(rf"{STEM}\1", text.replace(ITS_JOB, JOB))


def plain(table: str, rows: pa.Table, shift_ns: int) -> Iterator[Row]:
    """Rows of a bundle as `/api/v1/rows` takes them, `shift_ns` later and renamed."""
    spec = BY_NAME[table]
    columns = [each for each in spec.columns if each.name not in ("tenant", "cluster", "batch", "batch_row")]
    for row in rows.to_pylist():
        yield {each.name: _value(row[each.name], each.type, shift_ns) for each in columns}


def _value(value: Any, kind: Type, shift_ns: int) -> Any:
    if value is None:
        return None
    if kind is Type.I64:
        return value + shift_ns if value > EPOCH_NS else value
    if kind is Type.U128:
        return value[::-1].hex()
    if kind is Type.MAP:
        return {renamed(name): renamed(text) for name, text in value}
    if kind is Type.SYMS:
        return [renamed(each) for each in value]
    return renamed(value) if isinstance(value, str) else value


# --- whose a row is -------------------------------------------------------------------------------------------


def owner(row: Row, processes: Mapping[str, str]) -> str:
    """Whose a row is, by the job that it names; `processes` are those of ranks, by entity."""
    texts = [value for value in row.values() if isinstance(value, str)]
    if any(JOB in text for text in texts):
        return ACME
    if any(NEIGHBOUR in text for text in texts):
        return BOB
    return next((processes[text] for text in texts if text in processes), PROVIDER)


def processes_of(relations: Iterable[Row]) -> dict[str, str]:
    """Whose each process is: that of the rank which runs as it."""
    found = {}
    for row in relations:
        for process, rank in ((row["child"], row["parent"]), (row["parent"], row["child"])):
            if process.startswith("process:") and rank.startswith("rank:"):
                found[process] = ACME if JOB in rank else BOB
    return found


# --- what is made -----------------------------------------------------------------------------------------------


def marked(row: Row, number: int) -> Row:
    """A step of acme with numbers that nobody else has."""
    return {**row, "samples": NUMBER + number, "tokens": NUMBER + 1000 + number}


def bobs(table: str, row: Row) -> Row | None:
    """What bob's job did on a host that it shares with acme, told from what acme's did; None for other hosts."""
    rank = SHARED.get(row["rank"])
    if rank is None:
        return None
    mine = {**row, "job": NEIGHBOUR, "rank": rank}
    if table == "collective":
        mine |= {"comm": f"{NEIGHBOUR}/0xb0b", "ranks": 2}
    return mine


def said_by_acme(at_ns: int) -> list[Row]:
    """Log lines of acme, a canary in each of their texts."""
    return [
        {
            "time_ns": at_ns - number * 10**9,
            "entity_kind": "rank",
            "entity": f"rank:{JOB}/{number % 8}",
            "kind": f"{STEM}-kind",
            "severity": "error",
            "code": f"{STEM}-code-{number}",
            "message": f"{STEM}-message of {number}: value {NUMBER + number:.0f}",
            "attributes": {f"{STEM}-key": f"{STEM}-value-{number}"},
            "source": f"{STEM}-source",
            "host": f"{STEM}h1",
            "clock": f"{STEM}h1/0",
        }
        for number in range(20)
    ]


def acmes_streams(at_ms: int) -> list[Stream]:
    """Metrics of acme's own: name, labels and values tell whose they are."""
    return [
        Stream(
            {"__name__": METRIC, "job": JOB, "rank": str(rank), f"{STEM}_label": f"{STEM}-text-{rank}"},
            [(at_ms - 1000 * second, NUMBER + 100 * rank + second) for second in range(60, 0, -1)],
        )
        for rank in range(8)
    ]


def recorded_streams(series: pa.Table, samples: pa.Table, shift_ns: int) -> list[Stream]:
    """The provider's metrics: those of hosts, ports and GPUs that analyses read."""
    wanted = {
        row["series"]: {"__name__": row["name"], **{k: renamed(v) for k, v in row["labels"]}}
        for row in series.to_pylist()
        if METRICS.fullmatch(row["name"])
    }
    values: dict[bytes, list[tuple[int, float]]] = {each: [] for each in wanted}
    for row in samples.filter(pa.compute.is_in(samples["series"], pa.array(list(wanted), pa.binary(16)))).to_pylist():
        if math.isfinite(row["value"]):
            values[row["series"]].append(((row["time_ns"] + shift_ns) // 10**6, row["value"]))
    return [Stream(labels, sorted(dict(values[each]).items())) for each, labels in wanted.items() if values[each]]


def thinned(flows: pa.Table) -> pa.Table:
    """One of THIN samples, each for THIN times as many packets: the volumes stay, the time to judge them does not."""
    some = flows.take(list(range(0, flows.num_rows, THIN)))
    rate = pa.compute.multiply(some["rate"], pa.scalar(THIN, some["rate"].type))
    return some.set_column(some.schema.get_field_index("rate"), "rate", rate)


def scene_of(tables: Mapping[str, pa.Table], span: tuple[int, int], ends_ns: int) -> Scene:
    """The three tenants' rows of a recording, moved so that it ends at `ends_ns`."""
    shift_ns = ends_ns - span[1]
    rows: dict[str, dict[str, list[Row]]] = {tenant: {} for tenant in TENANTS}
    whole = {name: list(plain(name, tables[name], shift_ns)) for name in ("relation", "event", "step", "collective")}
    processes = processes_of(whole["relation"])
    for name, each in whole.items():
        for number, row in enumerate(each):
            tenant = owner(row, processes)
            mine = marked(row, number) if name == "step" else row
            rows[tenant].setdefault(name, []).append(mine)
            if name in ("step", "collective") and (beside := bobs(name, row)):
                rows[BOB].setdefault(name, []).append(beside)
    rows[ACME].setdefault("event", []).extend(said_by_acme(ends_ns))
    flows = thinned(tables["flow_sample"]).drop_columns(["tenant", "cluster", "batch", "batch_row"])
    later = pa.compute.add(flows["time_ns"], shift_ns)
    streams = {
        ACME: acmes_streams(ends_ns // 10**6),
        BOB: [Stream({"__name__": "bobs_loss", "job": NEIGHBOUR}, [(ends_ns // 10**6 - 1000, 0.5)])],
        PROVIDER: recorded_streams(tables["series"], tables["metric_sample"], shift_ns),
    }
    moved = flows.set_column(flows.schema.get_field_index("time_ns"), "time_ns", later)
    return Scene(span[0] + shift_ns, ends_ns, rows, streams, moved)
