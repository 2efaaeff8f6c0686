"""Whose rows are evidence in one window: the one place where what a tenant may not say is left out.

    rows of all tenants ── load ──> Evidence ──> rows that count

window                                    rows that count
a job of tenant A                         A's; the provider's of what all stand on (`Spoken.to_all`)
a cluster, A's own verdicts (`own`)       the same: as if nobody but A and the provider were there
a cluster, the provider's verdicts        the provider's
a cluster, an analysis that is `joint`    the provider's; relations of tenants between things that they may speak of

So every verdict of A follows from the rows of A and of the provider, whatever another tenant sends, but for whose flows
are whose: there a claim counts only for what is on a host that the provider says the claimer holds. Where all rows are
those of one tenant, which the words of one column tell, they are given on as they are. See `model.speakers`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, codes, ints
from leadline.analysis.spec import Analysis, Window
from leadline.model.ids import kind_of
from leadline.model.speakers import HELD_BY, OF_EVERYBODY, PLACED_BY, Who, host_in, placed_as, spoken, who
from leadline.model.tables import Table
from leadline.model.tables.fabric import FLOW_SAMPLE, RELATION

EVER = 2**63 - 1
RELATION_NAMES = ("tenant", "cluster", "child", "parent", "kind", "from_ns", "to_ns")
FLOW_NAMES = ("tenant", "flow", "src_ip", "dst_ip")

Look = Callable[[Table, tuple[str, ...]], pa.Table]
"""Reads these columns of the rows of a table that the window's analysis may look back to, of all tenants."""
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Held:
    """Who holds which host in which spans of time, and what is where: all by the provider's word."""

    by_tenant: Mapping[str, Mapping[str, Spans]]  # tenant -> host -> [from, to), ns
    hosts_of: Mapping[str, frozenset[str]]  # GPU or address -> the hosts that it was on

    def hosts(self, entity: str) -> frozenset[str]:
        """The hosts that an entity was on; none if that is not known."""
        named = host_in(entity)
        return frozenset((named,)) if named else self.hosts_of.get(placed_as(entity), frozenset())

    def holds(self, tenant: str, host: str, begin_ns: int, end_ns: int) -> bool:
        """Whether a tenant held a host at some time from `begin_ns` to `end_ns`."""
        spans = self.by_tenant.get(tenant, {}).get(host, ())
        return any(from_ns <= end_ns and begin_ns < to_ns for from_ns, to_ns in spans)


def held(relation: pa.Table, provider: str, cluster: str) -> Held:
    """What the provider's relations say of one cluster. Inputs: columns `RELATION_NAMES`."""
    mine = pc.and_(_is(relation, "tenant", provider), _is(relation, "cluster", cluster))
    rows = relation.filter(pc.and_(mine, pc.or_(_is(relation, "kind", HELD_BY), _is(relation, "kind", PLACED_BY))))
    by_tenant: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    hosts_of: dict[str, set[str]] = defaultdict(set)
    for row in rows.select(RELATION_NAMES[2:]).to_pylist():
        child, parent, to_ns = row["child"], row["parent"], row["to_ns"]
        if row["kind"] == HELD_BY:
            if kind_of(child) == "host" and kind_of(parent) == "tenant":
                span = row["from_ns"], EVER if to_ns is None else to_ns
                by_tenant[parent.removeprefix("tenant:")][host_in(child)].append(span)
        elif kind_of(child) in ("gpu", "address") and (host := host_in(parent)):
            hosts_of[child].add(host)
    return Held(by_tenant, {entity: frozenset(hosts) for entity, hosts in hosts_of.items()})


class Evidence:
    """Chooses the rows that count in one window, of the tables that its analysis reads."""

    def __init__(self, analysis: Analysis, window: Window, look: Look) -> None:
        self._analysis, self._window, self._look = analysis, window, look
        self._joint = analysis.joint and not window.own

    def needed(self, table: Table, wanted: Sequence[str]) -> tuple[str, ...]:
        """The columns to read of a table, so that `counting` can choose."""
        more = RELATION_NAMES if self._joint and table is RELATION else ("tenant",)
        return tuple(dict.fromkeys((*wanted, *more)))

    def counting(self, table: Table, rows: pa.Table) -> pa.Table:
        """Of the rows of a table, with the columns of `needed`, those that count."""
        said, window = spoken(table), self._window
        if table.name in OF_EVERYBODY or (self._joint and said.joint):
            return rows
        counted = {window.whose, window.provider} if said.to_all else {window.whose}
        if words(rows["tenant"]) <= counted:
            return rows
        keep = _among(rows["tenant"], counted)
        if self._joint and table is RELATION:
            others = rows.filter(pc.invert(keep))
            return pa.concat_tables([rows.filter(keep), self._of_holders(others)])
        return rows.filter(keep)

    def _of_holders(self, rows: pa.Table) -> pa.Table:
        """Of tenants' relations those between things that they may speak of."""
        known = held(self._look(RELATION, RELATION_NAMES), self._window.provider, self._window.cluster)
        rows = rows.filter(_among(rows["tenant"], set(known.by_tenant)))
        if not rows.num_rows:
            return rows
        ends = self._ends_of_flows(rows)
        tenant, child, parent = (codes(rows, name) for name in ("tenant", "child", "parent"))
        begin_N, end_N = ints(rows, "from_ns"), ints(rows, "to_ns", EVER)
        # An edge that began long ago counts by who holds the host now: those of a former holder end with its hold.
        begin_N, end_N = np.maximum(begin_N, self._window.from_ns), np.minimum(end_N, self._window.to_ns)
        key_N = np.column_stack([tenant.code_N, child.code_N, parent.code_N, begin_N, np.maximum(begin_N, end_N)])
        key_U, place_N = np.unique(key_N, axis=0, return_inverse=True)
        keep_U: Bools = np.array(
            [
                all(
                    _may_speak(known, ends, tenant.names[whose], of, begin_ns, end_ns)
                    for of in (child.names[low], parent.names[high])
                )
                for whose, low, high, begin_ns, end_ns in key_U.tolist()
            ],
            bool,
        )
        return rows.filter(pa.array(keep_U[place_N.reshape(-1)]))

    def _ends_of_flows(self, rows: pa.Table) -> dict[str, set[str]]:
        """The addresses at the ends of flows that relations name, by what the provider's switches sampled."""
        named = {name for column in ("child", "parent") for name in words(rows[column]) if kind_of(name) == "flow"}
        if not named or not any(read.table is FLOW_SAMPLE for read in self._analysis.reads):
            return {}
        numbers = {number: name for name in named if (number := _number(name)) is not None}
        found = self._look(FLOW_SAMPLE, FLOW_NAMES)
        wanted = pc.is_in(found["flow"], value_set=pa.array(sorted(numbers), found["flow"].type))
        found = found.filter(pc.and_(wanted, _is(found, "tenant", self._window.provider)))
        plain = pa.table({name: _plain(found[name]) for name in FLOW_NAMES[1:]})
        ends: dict[str, set[str]] = defaultdict(set)
        for row in plain.group_by(list(FLOW_NAMES[1:])).aggregate([]).to_pylist():
            ends[numbers[row["flow"]]] |= {f"address:{row['src_ip']}", f"address:{row['dst_ip']}"}
        return ends


def _may_speak(known: Held, ends: Mapping[str, set[str]], tenant: str, entity: str, begin_ns: int, end_ns: int) -> bool:
    """Whether a tenant may speak of an entity: its own, or on a host that it held then."""
    by = who(entity)
    if by is not Who.HOLDER:
        return by is Who.TENANT
    if kind_of(entity) == "flow":  # one end is enough: the rank at it owns what it sends and what it receives
        return any(_may_speak(known, {}, tenant, end, begin_ns, end_ns) for end in ends.get(entity, ()))
    hosts = known.hosts(entity)
    return bool(hosts) and all(known.holds(tenant, host, begin_ns, end_ns) for host in hosts)


def _number(flow: str) -> bytes | None:
    """The number of `flow:<32 hex>` as it is stored; None if that is none."""
    try:
        return int(flow.removeprefix("flow:"), 16).to_bytes(16, "little")
    except (ValueError, OverflowError):
        return None


def words(column: pa.ChunkedArray) -> set[str]:
    """The different texts of a column. Where its dictionary has one word, rows are not looked at: the usual case."""
    if not pa.types.is_dictionary(column.type):
        return {word or "" for word in pc.unique(column).to_pylist()}
    known = {word for chunk in column.chunks for word in chunk.dictionary.to_pylist() if len(chunk)}
    if len(known) > 1 or column.null_count:  # not every word of a dictionary needs to occur
        known = {
            word
            for chunk in column.chunks
            for word in chunk.dictionary.take(pc.unique(chunk.indices).drop_null()).to_pylist()
        }
        known |= {""} if column.null_count else set()
    return {word or "" for word in known}


def _is(rows: pa.Table, name: str, word: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(rows[name], word), False)


def _among(column: pa.ChunkedArray, wanted: set[str]) -> pa.ChunkedArray:
    """Whether each text is one of some words."""
    return pc.fill_null(pc.is_in(_plain(column), value_set=pa.array(sorted(wanted), pa.string())), False)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
