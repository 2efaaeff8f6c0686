"""The edge `shares-machine` of the graph: what the table `colocation` says, as rows of `relation`."""

from __future__ import annotations

import pyarrow as pa

SHARES, UNKNOWN = "shares-machine", "unknown"
SOURCE = "analysis/colocation"
# Of `colocation`, what an edge is made of.
COLUMNS = ("entity", "others", "probability", "kind", "start_ns", "end_ns", "seen_ns")


def machine_edges(colocation: pa.Table) -> pa.Table:
    """Pairs of hosts on one machine, each once a tenant, with the columns of `relation` that need nobody's word.

    Input: rows of `colocation` (`COLUMNS`, and perhaps `tenant`), any kind. What is unknown is no edge.
    """
    found: dict[tuple[str, str, str | None], tuple[int, int | None, float]] = {}
    rows = colocation.to_pylist()
    for row in sorted(rows, key=lambda row: (row["entity"], row["start_ns"], row["seen_ns"])):
        for other in row["others"] or () if row["kind"] == SHARES else ():
            pair = min(row["entity"], other), max(row["entity"], other), row.get("tenant")
            found[pair] = (row["start_ns"], row["end_ns"], row["probability"])
    pairs = sorted(found, key=lambda pair: (*pair[:2], pair[2] or ""))
    columns = {
        "child": [other for _, other, _ in pairs], "parent": [one for one, _, _ in pairs],
        "kind": [SHARES] * len(pairs),
        "from_ns": [found[pair][0] for pair in pairs], "to_ns": [found[pair][1] for pair in pairs],
        "tenant": [tenant for _, _, tenant in pairs], "source": [SOURCE] * len(pairs),
        "confidence": [found[pair][2] for pair in pairs],
    }  # fmt: skip
    types = {"from_ns": pa.int64(), "to_ns": pa.int64(), "confidence": pa.float64()}
    return pa.table({name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()})


def with_machines(relation: pa.Table, colocation: pa.Table) -> pa.Table:
    """Rows of `relation` with those edges: columns as `relation` has them; those that no edge has are null."""
    edges = machine_edges(colocation)
    if not edges.num_rows:
        return relation
    told = {
        field.name: edges[field.name].cast(_plain(field.type)) if field.name in edges.column_names
        else pa.nulls(edges.num_rows, _plain(field.type))
        for field in relation.schema
    }  # fmt: skip
    plain = pa.table({field.name: relation[field.name].cast(_plain(field.type)) for field in relation.schema})
    return pa.concat_tables([plain, pa.table(told)])


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
