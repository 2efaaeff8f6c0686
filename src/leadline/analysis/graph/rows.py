"""Rows of `relation` as arrays of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Codes, Floats, Ints, codes, floats, ints
from leadline.analysis.graph.kernels import Hashes

Numbers = NDArray[np.int32]
OPEN = int(np.iinfo(np.int64).max)  # an edge that still holds ends then


@dataclass(frozen=True, slots=True)
class Rows:
    """N edges: numbers of names, of words, and times in ns. `told_*` are the names as they were told, before those of
    one thing became one number: they are what makes a row itself."""

    child: Numbers
    parent: Numbers
    told_child: Numbers
    told_parent: Numbers
    kind: Numbers  # into the words, as are source and tenant
    source: Numbers
    tenant: Numbers
    from_ns: Ints
    to_ns: Ints  # OPEN while it holds
    confidence: Floats

    def __len__(self) -> int:
        return len(self.child)

    def take(self, index: Ints | Bools) -> Rows:
        """These rows only."""
        return Rows(*(getattr(self, each.name)[index] for each in fields(Rows)))

    def renumbered(self, node_M: Ints) -> Rows:
        """With places among some nodes (ascending, all ends among them) for numbers of names."""
        child, parent = (np.searchsorted(node_M, each).astype(np.int32) for each in (self.child, self.parent))
        return replace(self, child=child, parent=parent)

    def same(self, same_N: Numbers) -> Rows:
        """With the numbers of the names that are shown."""
        return replace(self, child=same_N[self.told_child], parent=same_N[self.told_parent])


def distinct(values: Ints) -> Ints:
    """Each value once, ascending. (numpy's `unique` hashes integers, which costs more for few.)"""
    values = np.sort(values)
    return values[np.r_[True, values[1:] != values[:-1]]] if len(values) else values


def among(values: Ints, sorted_S: Ints) -> Bools:
    """Whether each value is one of some ascending ones. (numpy's `isin` sorts both again.)"""
    if not len(sorted_S):
        return np.zeros(len(values), bool)
    place = np.minimum(np.searchsorted(sorted_S, values), len(sorted_S) - 1)
    return sorted_S[place] == values  # type: ignore[no-any-return]


def joined(parts: Sequence[Rows]) -> Rows:
    """One after the other."""
    return Rows(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Rows)))


class Words:
    """Relations, sources and tenants: a few distinct texts by number. It only ever grows."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.texts = list(texts)
        self._number = {text: place for place, text in enumerate(texts)}

    def number(self, text: str) -> int:
        """Number of a text; a new one gets the next."""
        number = self._number.get(text)
        if number is None:
            number = self._number[text] = len(self.texts)
            self.texts.append(text)
        return number

    def numbers(self, told: Codes) -> Numbers:
        """Numbers of a column."""
        number_T = np.array([*(self.number(name) for name in told.names), self.number("")], np.int32)
        return number_T[told.code_N]


def vocabulary(relation: pa.Table) -> tuple[pa.StringArray, Numbers, Numbers]:
    """The distinct names of children and parents, and their numbers, row by row. Null is the empty name."""
    told = [_strings(relation.column(name)) for name in ("child", "parent")]
    dictionary = any(pa.types.is_dictionary(each.type) for each in told)
    if dictionary and _dictionaries(told) > relation.num_rows:
        # Many parts, each with the dictionary of the whole: to unify those costs parts times names.
        told, dictionary = [each.cast(pa.string()) for each in told], False
    if dictionary:
        told = [each if pa.types.is_dictionary(each.type) else each.dictionary_encode() for each in told]
    both = pa.chunked_array([chunk for each in told for chunk in each.chunks], told[0].type)
    both = both.unify_dictionaries() if dictionary else both.dictionary_encode()
    if not both.num_chunks or not len(both):
        return pa.array([], pa.string()), np.zeros(0, np.int32), np.zeros(0, np.int32)
    number_N = np.concatenate([chunk.indices.fill_null(0).to_numpy(zero_copy_only=False) for chunk in both.chunks])
    texts, number_N = _used(both.chunk(0).dictionary, number_N.astype(np.int32))
    return texts, number_N[: relation.num_rows], number_N[relation.num_rows :]


def _dictionaries(columns: list[pa.ChunkedArray]) -> int:
    """Names in all dictionaries of all parts."""
    chunks = [chunk for column in columns for chunk in column.chunks if pa.types.is_dictionary(chunk.type)]
    return sum(len(chunk.dictionary) for chunk in chunks)


def _strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.dictionary(pa.int32(), pa.string()))
        return column.cast(pa.string()) if column.null_count else column
    return column.cast(pa.string()) if not column.null_count else pc.fill_null(column.cast(pa.string()), "")


def _used(texts: pa.StringArray, number_N: Numbers) -> tuple[pa.StringArray, Numbers]:
    """Without texts that no row has: a part of a table may carry the dictionary of the whole."""
    used_T = np.zeros(len(texts), bool)
    used_T[number_N] = True
    if used_T.all():
        return texts, number_N
    new_T = np.cumsum(used_T, dtype=np.int32) - 1
    return texts.filter(pa.array(used_T)), new_T[number_N]


def read_rows(relation: pa.Table, child_N: Numbers, parent_N: Numbers, words: Words) -> Rows:
    """The columns of `relation` beside its names. Times must be there; an unknown confidence is 0."""
    to_ns = relation.column("to_ns")
    tenant_N = words.numbers(codes(relation, "tenant")) if "tenant" in relation.column_names else None
    count = relation.num_rows
    return Rows(
        child=child_N,
        parent=parent_N,
        told_child=child_N,
        told_parent=parent_N,
        kind=words.numbers(codes(relation, "kind")),
        source=words.numbers(codes(relation, "source")),
        tenant=np.full(count, words.number(""), np.int32) if tenant_N is None else tenant_N,
        from_ns=ints(relation, "from_ns", 0),
        to_ns=ints(relation.set_column(0, "to_ns", pc.fill_null(to_ns.cast(pa.int64()), OPEN)).select([0]), "to_ns"),
        confidence=np.clip(np.nan_to_num(floats(relation, "confidence")), 0.0, 1.0),
    )


_MIX = np.uint64(0x9E3779B97F4A7C15)


def keys(rows: Rows) -> Hashes:
    """A hash of what makes each row itself: names as told, relation, beginning, source and tenant."""
    value: Any = rows.from_ns.astype(np.uint64)
    for column in (rows.told_child, rows.told_parent, rows.kind, rows.source, rows.tenant):
        value = (value ^ (value >> np.uint64(29)) ^ column.astype(np.uint64)) * _MIX
    return value ^ (value >> np.uint64(32))  # type: ignore[no-any-return]


def same_key(a: Rows, a_N: Ints, b: Rows, b_N: Ints) -> Bools:
    """Whether row a_N[i] of `a` is the same as row b_N[i] of `b`, but for its end and its confidence."""
    out = np.ones(len(a_N), bool)
    for name in ("told_child", "told_parent", "kind", "source", "tenant", "from_ns"):
        out &= getattr(a, name)[a_N] == getattr(b, name)[b_N]
    return out


def last_of_each(rows: Rows) -> Ints:
    """Indices of the rows that count: of those with one key the last, as in the store; in their order."""
    hash_N = keys(rows)
    order_N = np.argsort(hash_N, kind="stable")
    twice = hash_N[order_N][1:] == hash_N[order_N][:-1]
    keep_N = np.ones(len(rows), bool)
    earlier_N, later_N = order_N[:-1][twice], order_N[1:][twice]
    keep_N[earlier_N[same_key(rows, earlier_N, rows, later_N)]] = False
    return np.flatnonzero(keep_N)
