"""From rows of flows' truth to what is compared: bytes of each flow over each link, and its paths. Pure.

A window that does not fit the spans takes the part of each span that it covers, as if its bytes were spread evenly.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SHARE_LEAST = 0.005  # switches are read a few ms one after the other: what is less is no path of its own
_HOPS_MAX = 16


@dataclass(frozen=True, slots=True)
class Way:
    """One path that a flow took in a window.

    `links` in order from the sender. `from_ns`, `to_ns`: of the spans in which all its links carried something, so that
    the way with the latest end is the one that a flow which moved took last. `share`: of the flow's bytes in the
    window. A way that ends before the receiver is that of bytes which were lost behind its last link.
    """

    links: tuple[str, ...]
    share: float
    bytes: float
    from_ns: int
    to_ns: int


def volumes(truth: pa.Table, from_ns: int, to_ns: int) -> pa.Table:
    """Bytes and packets of each flow over each link in [from_ns, to_ns).

    Inputs: rows of `table.SCHEMA`. Returns: columns flow, link, bytes (float64), packets (float64), sorted by flow and
    link. A link between two switches is counted by the one that receives: what got lost on it did not cross it.
    """
    rows = within(truth, from_ns, to_ns)
    received, sent = (_by_link(rows, name) for name in ("in_link", "out_link"))
    both = received.join(sent, ["flow", "link"], join_type="full outer", right_suffix="_sent")
    return pa.table(
        {
            "flow": both["flow"],
            "link": both["link"],
            **{name: pc.coalesce(both[name], both[f"{name}_sent"]) for name in ("bytes", "packets")},
        }
    ).sort_by([("flow", "ascending"), ("link", "ascending")])


def ways(truth: pa.Table, from_ns: int, to_ns: int) -> dict[bytes, list[Way]]:
    """The paths of each flow in [from_ns, to_ns), the one that carried most first; equal ones by their links.

    Inputs: rows of `table.SCHEMA`. Returns: by the id's 16 bytes. A sprayed flow has as many as there are.
    Method: the flow's bytes from link to link are taken apart into paths, always along the largest part; in a Clos two
    ways of a flow do not meet between the switches where they part and join, so that there is one such division.
    Ways with less than 0.5 % of the bytes are left out.
    """
    rows = within(truth, from_ns, to_ns)
    hops = pa.TableGroupBy(rows, ["flow", "in_link", "out_link"]).aggregate(
        [("bytes", "sum"), ("from_ns", "min"), ("to_ns", "max")]
    )
    edges: dict[bytes, dict[tuple[str, str], _Hop]] = defaultdict(dict)
    names = ("flow", "in_link", "out_link", "bytes_sum", "from_ns_min", "to_ns_max")
    for flow, first, second, size, begin, end in zip(*(hops[name].to_pylist() for name in names), strict=True):
        if first is not None and second is not None:
            edges[flow][first, second] = _Hop(size, begin, end)
    return {flow: _taken_apart(edges[flow]) for flow in sorted(edges)}


def within(truth: pa.Table, from_ns: int, to_ns: int) -> pa.Table:
    """The rows that a window touches, times cut to it, bytes and packets in proportion."""
    touched = truth.filter((pc.field("from_ns") < to_ns) & (pc.field("to_ns") > from_ns))
    begin, end = (touched[name].to_numpy() for name in ("from_ns", "to_ns"))
    first, last = np.maximum(begin, from_ns), np.minimum(end, to_ns)
    part = (last - first) / np.maximum(end - begin, 1)
    changed = {
        "from_ns": first,
        "to_ns": last,
        "packets": touched["packets"].to_numpy() * part,
        "bytes": touched["bytes"].to_numpy() * part,
    }
    for name, values in changed.items():
        touched = touched.set_column(touched.column_names.index(name), name, pa.array(values))
    return touched


@dataclass(slots=True)
class _Hop:
    """Bytes from one link to another through a switch, and the spans that had any."""

    left: float
    from_ns: int
    to_ns: int


def _by_link(rows: pa.Table, name: str) -> pa.Table:
    known = rows.filter(pc.field(name).is_valid())
    found = pa.TableGroupBy(known, ["flow", name]).aggregate([("bytes", "sum"), ("packets", "sum")])
    return found.select(["flow", name, "bytes_sum", "packets_sum"]).rename_columns(["flow", "link", "bytes", "packets"])


def _taken_apart(hops: dict[tuple[str, str], _Hop]) -> list[Way]:
    after: dict[str, list[str]] = defaultdict(list)
    for first, second in sorted(hops):
        after[first].append(second)
    entered = {second for _, second in hops}
    starts = sorted(first for first in after if first not in entered) or sorted(after)[:1]  # all of it a loop
    total = sum(hops[first, second].left for first in starts for second in after[first])
    found: list[Way] = []
    for first in starts:
        while (way := _widest(hops, after, first, total)) is not None:
            found.append(way)
    return sorted(found, key=lambda each: (-each.bytes, each.links))


def _widest(hops: dict[tuple[str, str], _Hop], after: dict[str, list[str]], first: str, total: float) -> Way | None:
    """The way from a link along the largest part that is left, taken out of `hops`; None if nothing is."""
    links = [first]
    used: list[_Hop] = []
    while len(links) <= _HOPS_MAX and after.get(links[-1]):
        here = links[-1]
        there = max(after[here], key=lambda each: hops[here, each].left)
        hop = hops[here, there]
        if hop.left < SHARE_LEAST * total or hop.left <= 0 or there in links:
            break
        links.append(there)
        used.append(hop)
    if not used:
        return None
    size = min(hop.left for hop in used)
    for hop in used:
        hop.left -= size
    return Way(tuple(links), size / total, size, max(hop.from_ns for hop in used), min(hop.to_ns for hop in used))
