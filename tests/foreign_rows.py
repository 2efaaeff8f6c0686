"""A recording of the lab whose rows belong to several tenants, and what another tenant says of the same things.

recording, all of `default` ──> alone: all of tenant acme
                            └─> let:   hosts, fabric, metrics of the provider; jobs of acme, which holds the hosts
+ rows of tenant bob ──> judged by the analyses as they are
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis import ANALYSES
from leadline.analysis.spec import Analysis
from leadline.model.tables import BY_NAME, Identity, Table, Type
from leadline.runner.offline import judge_rows, without_failures
from leadline.store.bundle import read_bundle
from leadline.store.schema import arrow_schema, arrow_table

S = 10**9
PROVIDER, ACME, BOB = "default", "acme", "bob"
OF_JOBS = ("job", "rank", "comm", "qp", "flow", "process", "service", "pod")
# What a tenant's token may send: by rows, rings, and the metric ways.
SENT = (
    "event", "step", "collective", "message_end", "operation", "flow_sample", "flow_sent", "probe", "relation",
    "watermark", "series", "metric_sample",
)  # fmt: skip
Rows = dict[str, pa.Table]


def recorded(path: Path, seconds: float) -> tuple[Rows, int, int]:
    """The first seconds of a bundle without what was concluded then; their span, ns."""
    with read_bundle(path) as bundle:
        from_ns = bundle.manifest.from_ns
        to_ns = min(bundle.manifest.to_ns, from_ns + round(seconds * S))
        rows = {
            table.name: pa.concat_tables(bundle.groups(table)).unify_dictionaries().combine_chunks()
            for table in bundle.tables
            if table.identity is not Identity.REVISION and table.name != "analysis_run"
        }
    kept = {
        name: found if name in ("series", "relation") else found.filter(pc.less(found[BY_NAME[name].time], to_ns))
        for name, found in rows.items()
    }
    return kept, from_ns, to_ns


def of(tenant: str, rows: pa.Table) -> pa.Table:
    """The same rows, of a tenant."""
    place = rows.column_names.index("tenant")
    words = pa.array([tenant] * rows.num_rows, pa.string()).dictionary_encode()
    return rows.set_column(place, rows.schema.field(place), words.cast(rows.schema.field(place).type))


def alone(rows: Rows, tenant: str = ACME) -> Rows:
    """All rows of one tenant."""
    return {name: of(tenant, each) for name, each in rows.items()}


def let(rows: Rows, from_ns: int) -> Rows:
    """Jobs are acme's, all else the provider's, who says that acme holds the hosts."""
    out: Rows = {}
    for name, each in rows.items():
        if name in ("step", "collective", "message_end", "operation"):
            out[name] = of(ACME, each)
        elif name in ("relation", "event"):
            column = each["child" if name == "relation" else "entity"].cast(pa.string())
            jobs = np.array([text.partition(":")[0] in OF_JOBS for text in column.to_pylist()], bool)
            out[name] = pa.concat_tables([of(ACME, each.filter(pa.array(jobs))), each.filter(pa.array(~jobs))])
        else:
            out[name] = each
    hosts = sorted({text for text in rows["relation"]["parent"].to_pylist() if text.startswith("host:")})
    holds = [relation(host, "held-by", f"tenant:{ACME}", from_ns - 3600 * S) for host in hosts]
    return with_more(out, {"relation": rows_of("relation", holds, PROVIDER)})


def relation(child: str, kind: str, parent: str, from_ns: int, to_ns: int | None = None) -> dict[str, Any]:
    """A row of `relation`."""
    return {"child": child, "kind": kind, "parent": parent, "from_ns": from_ns, "to_ns": to_ns, "source": "test",
            "confidence": 1.0}  # fmt: skip


def rows_of(name: str, rows: Sequence[Mapping[str, Any]], tenant: str) -> pa.Table:
    """Rows of a table; what they do not say is null or blank."""
    table = BY_NAME[name]
    blank = {Type.I64: 0, Type.U64: 0, Type.U128: 0, Type.F64: 0.0, Type.MAP: {}, Type.SYMS: []}
    usual = {"tenant": tenant, "cluster": "default"}
    whole = [{**usual, **row} for row in rows]
    return arrow_table(
        table,
        {
            column.name: [
                row.get(column.name, None if column.nullable else blank.get(column.type, "")) for row in whole
            ]
            for column in table.columns
        },
    )


def with_more(rows: Rows, more: Rows) -> Rows:
    """Rows, and more of them."""
    out = dict(rows)
    for name, each in more.items():
        out[name] = pa.concat_tables([out[name], each.cast(out[name].schema)]) if name in out else each
    return {name: each.unify_dictionaries().combine_chunks() for name, each in out.items()}


def verdicts(
    rows: Rows, span: tuple[int, int], but: str = BOB, analyses: Sequence[Analysis] = ANALYSES
) -> dict[str, pa.Table]:
    """All verdicts but those of one tenant, by table, words as texts; tables without rows left out."""
    found = without_failures(judge_rows(rows, *span, analyses, provider=PROVIDER))
    kept = {name: plain(each.filter(pc.not_equal(each["tenant"], but))) for name, each in found.items()}
    return {name: each for name, each in kept.items() if each.num_rows}


def plain(rows: pa.Table) -> pa.Table:
    """Rows with words as texts, in one piece."""
    columns = {
        name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    }
    return pa.table(columns).combine_chunks()


# --- what another tenant says -----------------------------------------------------------------------------------


def forged(rows: Rows, span: tuple[int, int], seed: int, count: int = 60, host: str = "") -> Rows:
    """Rows of bob of every table that it may send, about whatever is named in `rows`. `host`: what it says saw them."""
    rng = np.random.default_rng(seed)
    names = _names(rows)
    out = {}
    for name in SENT:
        table = BY_NAME[name]
        there = rows.get(name)
        given = _drawn(table, there, names, span, rng, count)
        if host and "host" in given.column_names and name != "series":
            given = _all(given, "host", host)
            given = _all(given, "clock", f"{host}/1") if "clock" in given.column_names else given
        out[name] = of(BOB, given)
    return out


def _names(rows: Rows) -> dict[str, list[str]]:
    """Everything that rows name, by kind; hosts and jobs also by their plain names."""
    told = [rows["relation"][end].cast(pa.string()) for end in ("child", "parent")]
    entities = sorted({text for column in told for text in column.to_pylist()})
    found: dict[str, list[str]] = {"entity": entities}
    for text in entities:
        found.setdefault(text.partition(":")[0], []).append(text.partition(":")[2])
    links = ["link:leaf1/eth1~spine1/eth1", "swport:leaf1/eth1", "switch:spine1"]
    return {**found, "entity": [*entities, *links]}


def _drawn(
    table: Table, there: pa.Table | None, names: dict[str, list[str]], span: tuple[int, int], rng: Any, count: int
) -> pa.Table:
    """Rows whose columns are drawn one by one: of the rows that there are, of names, of numbers."""
    columns: dict[str, Any] = {}
    for column in table.columns:
        if there is not None and there.num_rows and rng.random() < 0.8:
            taken = there[column.name].take(pa.array(rng.integers(0, there.num_rows, count)))
            columns[column.name] = taken.cast(pa.string()) if pa.types.is_dictionary(taken.type) else taken
        else:
            columns[column.name] = [_value(column.name, column.type, column.nullable, names, span, rng)
                                    for _ in range(count)]  # fmt: skip
    if table.identity is Identity.BATCH:
        columns["batch_row"] = list(range(count))
        columns["batch"] = [int(rng.integers(1, 2**60))] * count
    columns["cluster"] = ["default"] * count
    if table.name in ("event", "relation"):  # half of them of known kinds, about what is known
        kinds = ("xid", "oom-kill", "link-down", "process-exit", "nccl-timeout", "debugger-begin", "maintenance")
        if table.name == "relation":
            kinds = ("in", "runs-on", "owns", "member", "linked", "has", "mounts", "shares-machine", "held-by")
        columns["kind"] = [str(rng.choice(kinds)) for _ in range(count)]
        for name in ("entity",) if table.name == "event" else ("child", "parent"):
            columns[name] = [str(rng.choice(names["entity"])) for _ in range(count)]
    whole = arrow_table(table, columns)
    return pa.table([whole[field.name].cast(field.type) for field in arrow_schema(table)], schema=arrow_schema(table))


def _value(name: str, kind: Type, nullable: bool, names: dict[str, list[str]], span: tuple[int, int], rng: Any) -> Any:
    if nullable and rng.random() < 0.3:
        return None
    if name.endswith("_ns"):
        long = name.startswith(("window", "duration", "data", "forward", "backward", "optimizer", "checkpoint", "rtt"))
        return int(rng.integers(0, S)) if long or name == "busy_ns" else int(rng.integers(span[0] - 60 * S, span[1]))
    pool = {"host": "host", "src": "host", "dst": "host", "sender": "host", "job": "job", "switch": "switch"}.get(name)
    if pool and names.get(pool):
        return str(rng.choice(names[pool]))
    if name in ("entity", "child", "parent"):
        return str(rng.choice(names["entity"]))
    if name.endswith("clock"):
        return f"{rng.choice(names['host'])}/{rng.integers(0, 3)}"
    match kind:
        case Type.I64 | Type.U64:
            return int(rng.integers(0, 8))
        case Type.U128:
            return int(rng.integers(0, 2**62))
        case Type.F64:
            return float(rng.normal())
        case Type.MAP:
            return {}
        case Type.SYMS:
            return []
        case Type.BOOL:
            return bool(rng.integers(0, 2))
    return str(rng.choice([*names.get("address", []), "10.1.1.1", "open", "ended", "finished", "all_reduce", "x"]))


def _all(rows: pa.Table, name: str, text: str) -> pa.Table:
    field = rows.schema.field(name)
    words = pa.array([text] * rows.num_rows, pa.string()).dictionary_encode().cast(field.type)
    return rows.set_column(rows.column_names.index(name), field, words)
