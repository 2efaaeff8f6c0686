"""What `relation` says about who owns flows and queue pairs, as arrays: a claim is a row, names are numbers.

    flow:<32 hex> owns rank:J/N       the rank is one end of the flow; both ends may say so, or the sender alone
    qp:<address>/<number> owns rank   the rank receives what goes to the queue pair
    ... owns process:<host>/<pid>     as the rank that the process is (`process member rank`, `rank runs-on process`)

An edge that still holds ends at `OPEN`. No row is looked at one by one: a million take about a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Ids, Ints, codes, ints
from leadline.analysis.path.reverse import spelled
from leadline.model.ids import EntityId

OPEN = 2**63 - 1  # ns: the end of what still holds
NUMBER_MAX = 2**32 - 1  # of a queue pair; InfiniBand's have 24 bits

_HEX = np.full(256, 255, np.uint8)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


@dataclass(frozen=True, slots=True)
class Edges:
    """Rows of `relation` of one kind between some kinds of entities, arrays over C; whole entities as names."""

    child_C: pa.Array  # texts
    parent_C: pa.Array
    from_ns_C: Ints
    to_ns_C: Ints
    source_C: pa.Array
    tenant_C: pa.Array

    def __len__(self) -> int:
        return len(self.from_ns_C)

    def between(self, child: str, parent: str = "") -> Edges:
        """Those between these kinds of entities; empty is any."""
        wanted = np.ones(len(self), bool)
        for text_C, kind in ((self.child_C, child), (self.parent_C, parent)):
            if kind:
                wanted &= np.array(pc.starts_with(text_C, f"{kind}:"), bool)
        return self if wanted.all() else self.where(wanted)

    def where(self, chosen: Bools | Ints) -> Edges:
        """Some of them: a mask, or places (a row may be taken several times)."""
        place = pa.array(np.arange(len(self))[chosen])
        texts = (each.take(place) for each in (self.child_C, self.parent_C, self.source_C, self.tenant_C))
        child, parent, source, tenant = texts
        return Edges(child, parent, self.from_ns_C[chosen], self.to_ns_C[chosen], source, tenant)


def edges_of(relation: pa.Table, kinds: Sequence[str]) -> dict[str, Edges]:
    """Rows of each of these kinds."""
    kind_N = codes(relation, "kind")
    number = kind_N.places()
    found = {}
    for kind in kinds:
        rows = relation.filter(pa.array(kind_N.code_N == number.get(kind, -2)))
        found[kind] = Edges(
            _texts(rows, "child"),
            _texts(rows, "parent"),
            ints(rows, "from_ns"),
            ints(rows, "to_ns", OPEN),
            _texts(rows, "source"),
            _texts(rows, "tenant"),
        )
    return found


def numbered(*columns: pa.Array) -> tuple[list[str], list[Ints]]:
    """Texts of several columns as numbers into one sorted list of names."""
    whole = pa.concat_arrays([column.cast(pa.string()) for column in columns])
    found = codes(pa.table({"text": whole}), "text")
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return found.names, np.split(found.code_N, ends)


def flow_numbers(text_C: pa.Array) -> tuple[Ids, Bools]:
    """Ids (C, 2) of entities `flow:<32 hex>`, and which of them are: others are 0."""
    ids_C2 = np.zeros((len(text_C), 2), np.uint64)
    fits_C: Bools = np.array(pc.equal(pc.binary_length(text_C), 37), bool)
    whole = text_C.filter(pa.array(fits_C))
    if not len(whole):
        return ids_C2, fits_C
    start = np.frombuffer(whole.buffers()[1], np.int32)[whole.offset]
    bytes_M37 = np.frombuffer(whole.buffers()[2], np.uint8, 37 * len(whole), start).reshape(-1, 37)
    digit_M32 = _HEX[bytes_M37[:, 5:]]
    good_M: Bools = np.all(digit_M32 < 16, axis=1)
    octet_M16 = digit_M32[:, 0::2] << 4 | digit_M32[:, 1::2]
    # As text the higher half stands first.
    high_low_M2 = np.ascontiguousarray(octet_M16).view(">u8").astype(np.uint64)
    ids_C2[fits_C] = np.where(good_M[:, None], high_low_M2[:, ::-1], 0)
    fits_C[fits_C] = good_M
    return ids_C2, fits_C


def queue_pairs(text_C: pa.Array) -> tuple[pa.Array, Ints, Bools]:
    """Addresses and numbers of entities `qp:<address>/<number>`, and which of them are."""
    fits_C: Bools = np.array(pc.equal(pc.count_substring(text_C, "/"), 1), bool)
    whole = text_C.filter(pa.array(fits_C))
    parts = pc.split_pattern(whole, "/").flatten()
    address, number = (
        parts.take(pa.array(np.arange(0, len(parts), 2))),
        parts.take(pa.array(np.arange(1, len(parts), 2))),
    )
    plain = pc.and_(pc.ascii_is_decimal(number), pc.less_equal(pc.binary_length(number), 10))
    number_M = pc.if_else(plain, number, "0").cast(pa.int64()).to_numpy()
    good_M: Bools = np.array(plain, bool) & (number_M <= NUMBER_MAX)
    fits_C[fits_C] = good_M
    kept = pa.array(good_M)
    return pc.utf8_slice_codeunits(address.filter(kept), 3), number_M[good_M], fits_C


def as_spelled(names: Sequence[str]) -> tuple[list[str], Ints]:
    """Names of addresses in one spelling: the distinct ones, and the place of each given name among them."""
    plain = [spelled(name) for name in names]
    distinct = sorted(set(plain))
    place = {name: number for number, name in enumerate(distinct)}
    return distinct, np.array([place[name] for name in plain], np.int64)


def matched(left_N: NDArray[np.generic], right_M: NDArray[np.generic]) -> tuple[Ints, Ints]:
    """Places (n, m) of all pairs with equal keys, by n, then m."""
    order_M = np.argsort(right_M, kind="stable")
    sorted_M = right_M[order_M]
    first_N = np.searchsorted(sorted_M, left_N, "left")
    count_N = np.searchsorted(sorted_M, left_N, "right") - first_N
    left_P = np.repeat(np.arange(len(left_N)), count_N)
    within_P = np.arange(len(left_P)) - np.repeat(np.cumsum(count_N) - count_N, count_N)
    return left_P, order_M[first_N[left_P] + within_P]


def gap_ns(at_P: Ints, from_P: Ints, to_P: Ints) -> Ints:
    """How far a time lies outside a span, 0 inside."""
    found: Ints = np.maximum(np.maximum(from_P - at_P, at_P - to_P), 0)
    return found


def job_of_rank(name: str) -> str:
    """The job that a rank's own name tells: `rank:bert-1/0` is of `bert-1`."""
    return EntityId.of(name).holder


def _texts(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name).cast(pa.string())
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
