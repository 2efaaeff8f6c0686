"""The dependency graph in memory: a million edges as arrays, what stands on what at a time, changes as they come.

    relation rows ── names to numbers ── base: arrays, sorted by child and by parent (searched, never copied)
    newer rows    ───────────────────── delta: the same, small; a newer row hides the older one of its key

A graph never changes: `updated` gives another one that shares the base. When the delta has grown to an eighth of the
base, both become a new base.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.graph.depends import KIND, RELATION_NUMBER, RULE_OF, UNKNOWN_RELATION
from leadline.analysis.graph.entities import Ambiguous, Identity, Names, identity, may_change, names, spelled_so
from leadline.analysis.graph.kernels import Hashes
from leadline.analysis.graph.rows import (
    Numbers,
    Rows,
    Words,
    distinct,
    joined,
    keys,
    last_of_each,
    read_rows,
    same_key,
    vocabulary,
)
from leadline.model.ids import kind_of

DELTA_MIN = 50_000  # edges: below that a delta is never worth a new base
DELTA_SHARE = 8


@dataclass(frozen=True, slots=True)
class Part:
    """Edges with what finds them: by child, by parent, by key."""

    rows: Rows
    child_order_N: Ints
    child_sorted_N: Numbers
    parent_order_N: Ints
    parent_sorted_N: Numbers
    key_order_N: Ints
    key_sorted_N: Hashes
    counts_N: Bools  # not hidden by a newer row

    def touching(self, node_M: Ints) -> Ints:
        """Indices of the edges that have one of these nodes at an end, each once."""
        found = [
            _within(self.child_order_N, self.child_sorted_N, node_M),
            _within(self.parent_order_N, self.parent_sorted_N, node_M),
        ]
        index = distinct(np.concatenate(found))
        return index[self.counts_N[index]]

    def without(self, newer: Rows) -> Part:
        """With the rows hidden that have the key of a newer one."""
        wanted_M = keys(newer)
        low_M = np.searchsorted(self.key_sorted_N, wanted_M, "left")
        high_M = np.searchsorted(self.key_sorted_N, wanted_M, "right")
        newer_K = np.repeat(np.arange(len(newer)), high_M - low_M)
        own_K = self.key_order_N[_ranges(low_M, high_M)]
        hidden_K = own_K[same_key(self.rows, own_K, newer, newer_K)]
        if not len(hidden_K):
            return self
        counts_N = self.counts_N.copy()
        counts_N[hidden_K] = False
        return replace(self, counts_N=counts_N)

    def counted(self) -> Rows:
        """The rows that are not hidden."""
        return self.rows if self.counts_N.all() else self.rows.take(self.counts_N)


def _part(rows: Rows) -> Part:
    child_order_N, parent_order_N = np.argsort(rows.child), np.argsort(rows.parent)
    key_N = keys(rows)
    key_order_N = np.argsort(key_N)
    return Part(
        rows, child_order_N, rows.child[child_order_N], parent_order_N, rows.parent[parent_order_N],
        key_order_N, key_N[key_order_N], np.ones(len(rows), bool),
    )  # fmt: skip


def _within(order_N: Ints, sorted_N: Numbers, node_M: Ints) -> Ints:
    node_M = node_M.astype(np.int32)
    return order_N[_ranges(np.searchsorted(sorted_N, node_M, "left"), np.searchsorted(sorted_N, node_M, "right"))]


def _ranges(low_M: Ints, high_M: Ints) -> Ints:
    """The numbers low..high-1 of each range, one range after the other."""
    count_M = high_M - low_M
    begin_M = np.cumsum(count_M) - count_M
    return np.repeat(low_M - begin_M, count_M) + np.arange(int(count_M.sum()))


@dataclass(frozen=True, slots=True)
class Graph:
    """What stands on what. Made by `graph`; asked by `leadline.analysis.graph.walk`, or by the methods here."""

    names: Names
    same: Identity
    words: Words
    base: Part
    delta: Part
    nameless: int = 0  # rows without a child or a parent: they say nothing, and are left out

    def __len__(self) -> int:
        """Edges, those that no longer hold among them."""
        return int(self.base.counts_N.sum() + self.delta.counts_N.sum())

    @property
    def ambiguous(self) -> tuple[Ambiguous, ...]:
        """Short names that fit several hosts or switches."""
        return self.same.ambiguous

    def number(self, entity: str) -> int:
        """Number of an entity, by any of its names; -1 if no edge has it. A GPU's UUID may be in any case."""
        number = self.names.number(entity)
        if number < 0 and kind_of(entity.lower()) == "gpu":
            number = self._gpu(entity)
        return -1 if number < 0 else int(self.same.same_N[number])

    def shown(self, entity: str) -> str:
        """The name by which answers tell of an entity; as it is where no edge has it."""
        number = self.number(entity)
        return entity if number < 0 else self.names.text(number)

    def _gpu(self, entity: str) -> int:
        """A GPU whose UUID is spelled as no source does."""
        number_N = np.flatnonzero(self.names.kind_N == KIND["gpu"])
        return next((int(number_N[place]) for place in spelled_so(self.names.take(number_N), entity)), -1)

    def kinds(self, node_N: Ints) -> Ints:
        """Kinds of entities, as numbers of `depends.KINDS`."""
        return self.names.kind_N[node_N].astype(np.int64)

    def touching(self, node_M: Ints) -> Ints:
        """Indices, for `take`, of all edges of all times with one of these nodes at an end."""
        found = self.base.touching(node_M)
        if not len(self.delta.rows):
            return found
        return np.concatenate([found, self.delta.touching(node_M) + len(self.base.rows)])

    def take(self, index: Ints) -> Rows:
        """Edges by their indices."""
        first = len(self.base.rows)
        parts = [self.base.rows.take(index[index < first]), self.delta.rows.take(index[index >= first] - first)]
        return joined(parts) if len(parts[1]) else parts[0]

    def rows(self) -> Rows:
        """All edges."""
        return joined([self.base.counted(), self.delta.counted()]) if len(self.delta.rows) else self.base.counted()

    def rules(self, rows: Rows) -> Ints:
        """Place of each edge's rule in `depends.RULES`; -1 where none fits."""
        return rule_of(rows, self.names, self.words)

    def updated(self, relation: pa.Table) -> Graph:
        """With newer rows: a row with the key of an older one takes its place, as an edge that is closed does.

        Costs what the newer rows and the delta cost, not the base: milliseconds for thousands of rows, and once in a
        while a new base. The same as `graph` of all rows, older ones first.
        """
        if not relation.num_rows:
            return self
        texts, child_N, parent_N = vocabulary(relation)
        new_names = self.names.extended(texts)
        number_T = new_names.numbers(texts).astype(np.int32)
        words = Words(self.words.texts)
        newer = read_rows(relation, number_T[child_N], number_T[parent_N], words)
        named = _named(newer, new_names)
        nameless = self.nameless + len(newer) - int(named.sum())
        newer = newer.take(named)
        rows = joined([self.delta.counted(), newer])
        rows = rows.take(last_of_each(rows))
        same = self._identity(new_names)
        moved = not np.array_equal(same.same_N[: len(self.same.same_N)], self.same.same_N)
        if moved or len(rows) > max(DELTA_MIN, len(self.base.rows) // DELTA_SHARE):
            return _whole(joined([self.base.without(newer).counted(), rows]), new_names, words, nameless)
        base = self.base.without(newer)
        return Graph(new_names, same, words, base, _part(rows.same(same.same_N)), nameless)

    def _identity(self, new_names: Names) -> Identity:
        """Only names of GPUs, and of hosts with domains, can change what is the same."""
        old = len(self.same.same_N)
        if may_change(new_names.more[len(self.names.more) :], self.same.has_domains):
            return identity(new_names)
        same_N = np.concatenate([self.same.same_N, np.arange(old, len(new_names), dtype=np.int32)])
        return replace(self.same, same_N=same_N)

    def counts(self) -> Mapping[str, int]:
        """How many edges there are, and how many say nothing that we understand: by reason."""
        rows = self.rows()
        return {
            "edges": len(rows),
            "entities": len(np.unique(np.concatenate([rows.child, rows.parent]))),
            "nameless": self.nameless,
            "ends-before-it-begins": int((rows.to_ns < rows.from_ns).sum()),
            "unknown-relation": int((self.rules(rows) < 0).sum()),
            "ambiguous-name": len(self.ambiguous),
        }


def rule_of(rows: Rows, known: Names, words: Words) -> Ints:
    """Place of each edge's rule in `depends.RULES`; -1 where none fits."""
    relation_W = np.array([RELATION_NUMBER.get(word, UNKNOWN_RELATION) for word in words.texts], np.int64)
    kind_N = known.kind_N
    return RULE_OF[kind_N[rows.child], relation_W[rows.kind], kind_N[rows.parent]].astype(np.int64)


def _named(rows: Rows, known: Names) -> Bools:
    empty = known.number("")
    named: Bools = (rows.told_child != empty) & (rows.told_parent != empty)
    return named


def _whole(rows: Rows, known: Names, words: Words, nameless: int) -> Graph:
    """A graph whose base are these rows."""
    if known.more:
        known = names(known.whole())
    same = identity(known)
    rows = rows.same(same.same_N)
    return Graph(known, same, words, _part(rows), _part(rows.take(np.zeros(0, np.int64))), nameless)


def graph(relation: pa.Table) -> Graph:
    """The graph of rows of `relation`.

    Inputs: a table with child, parent, kind, from_ns, to_ns, source, confidence and perhaps tenant; texts as such or
    as dictionaries. Of several rows with one key (child, parent, kind, from_ns, source, tenant) the last counts.
    Rows that contradict each other are all kept. Rows of one cluster: names mean the same thing in all of them.
    Errors: none for what rows say; KeyError if a column is missing.
    """
    texts, child_N, parent_N = vocabulary(relation)
    known, words = names(texts), Words()
    rows = read_rows(relation, child_N, parent_N, words)
    named = _named(rows, known)
    nameless = len(rows) - int(named.sum())
    if nameless:
        rows = rows.take(named)
    counted_N = last_of_each(rows)
    return _whole(rows if len(counted_N) == len(rows) else rows.take(counted_N), known, words, nameless)
