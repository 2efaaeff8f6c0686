"""Columns of Arrow tables as numpy arrays: texts as numbers into a list of names, 128-bit ids as pairs of uint64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ids = NDArray[np.uint64]  # (N, 2): low, high


@dataclass(frozen=True, slots=True)
class Codes:
    """Texts by number: `names[code_N[i]]` is the text of row i; -1 is null. Names are sorted, each occurs."""

    names: list[str]
    code_N: Ints

    def places(self) -> dict[str, int]:
        """Number of each name."""
        return {name: place for place, name in enumerate(self.names)}


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """The same, as Arrow gives it: kernels compile anew for arrays that may be written."""
    view = values.view()
    view.flags.writeable = False
    return view


def coded(table: pa.Table, name: str) -> pa.DictionaryArray:
    """A column of texts as one dictionary-encoded array; of its dictionary no order is known, nor that all occur."""
    column = table.column(name)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    elif sum(len(chunk.dictionary) for chunk in column.chunks) > len(column):
        # Many pieces with a large dictionary each: to unify them costs their product.
        column = pc.dictionary_encode(column.cast(pa.string()))
    encoded = column.unify_dictionaries().combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(encoded, pa.ChunkedArray):
        if not encoded.num_chunks:
            return pa.array([], pa.dictionary(pa.int32(), pa.string()))
        encoded = encoded.chunk(0)
    return encoded


def codes(table: pa.Table, name: str) -> Codes:
    """A column of texts, dictionary-encoded or not.

    Numbers follow the order of the names, so they do not depend on the order of rows or of the dictionary.
    """
    encoded = coded(table, name)
    code_N = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    texts = encoded.dictionary.to_pylist()
    used = np.zeros(len(texts) + 1, bool)
    used[code_N] = True  # -1 falls on the last place
    names = sorted({text for place, text in enumerate(texts) if used[place] and text is not None})
    place_of = {text: place for place, text in enumerate(names)}
    place_T = np.array([place_of.get(text, -1) if text is not None else -1 for text in texts] + [-1], np.int64)
    return Codes(names, place_T[code_N])


def ints(table: pa.Table, name: str, null: int = -1) -> Ints:
    """A column of whole numbers as int64, not to be written to, whether they had to be copied or not; unsigned ones
    above 2**63 - 1 (nothing real is) are told as that."""
    column = table.column(name)
    if column.null_count:
        column = pc.fill_null(column, null)
    found = column.to_numpy()
    if found.dtype == np.uint64:
        found = np.minimum(found, np.uint64(2**63 - 1))
    return read_only(np.ascontiguousarray(found, np.int64))


def with_bits(table: pa.Table, name: str, null: int) -> tuple[Ints, NDArray[np.uint8], int]:
    """A column of whole numbers without a copy, which rows have one, as Arrow's bits, and where these begin.

    Bits are (0,) where all rows have a number, or where numbers had to be copied and `null` stands for none.
    """
    column = table.column(name)
    if not column.null_count:
        return ints(table, name), np.zeros(0, np.uint8), 0
    whole = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    bits, values = whole.buffers()
    if whole.type != pa.int64() or bits is None:
        return ints(table, name, null), np.zeros(0, np.uint8), 0
    number_N = np.frombuffer(values, np.int64, count=len(whole), offset=8 * whole.offset)
    return number_N, np.frombuffer(bits, np.uint8), whole.offset


def floats(table: pa.Table, name: str) -> Floats:
    """A column of numbers as float64, not to be written to; null is NaN, whole numbers above 2**53 are rounded."""
    return read_only(np.ascontiguousarray(table.column(name).cast(pa.float64(), safe=False).to_numpy(), np.float64))


def ids(table: pa.Table, name: str) -> Ids:
    """A column of 128-bit ids, (N, 2): low and high 64 bits. Null is 0."""
    column = table.column(name)
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(bytes(16), pa.binary(16)))
    chunks = [
        np.frombuffer(chunk.buffers()[1], np.uint64, count=2 * len(chunk), offset=16 * chunk.offset)
        for chunk in column.chunks
        if len(chunk)
    ]
    whole = np.concatenate(chunks) if chunks else np.zeros(0, np.uint64)
    return whole.reshape(-1, 2)


def number_of(*keys_N: Ints) -> Ints:
    """A number for each row, in the order of its keys; the same for the same keys, none is left out."""
    number_N = np.unique(keys_N[0], return_inverse=True)[1]
    for key_N in keys_N[1:]:
        values, place_N = np.unique(key_N, return_inverse=True)
        number_N = np.unique(number_N * len(values) + place_N, return_inverse=True)[1]
    return number_N


def id_texts(ids_N2: Ids) -> list[str]:
    """128-bit ids as 32 hex digits."""
    return [f"{high:016x}{low:016x}" for low, high in ids_N2.tolist()]


def named(codes_N: Ints, names: list[str]) -> pa.Array:
    """Texts of numbers, null where -1: the way back from `Codes`."""
    index = pa.array(codes_N.astype(np.int32), mask=codes_N < 0)
    return pa.DictionaryArray.from_arrays(index, pa.array(names, pa.string()))
