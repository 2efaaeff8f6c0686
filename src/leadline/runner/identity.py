"""When two rows of a table in memory are the same row: 64-bit hashes of their keys."""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from leadline.model.tables import Table

Hashes = npt.NDArray[np.uint64]

# Of the key of a row 64 bits are compared. They are salted, so that nobody can send keys that meet.
_SALT = np.uint64(secrets.randbits(64) | 1)
_STIR = np.uint64(0x9E3779B97F4A7C15)


def hashes(table: Table, rows: pa.Table) -> Hashes:
    """A number for the key of each row."""
    total_N = np.full(rows.num_rows, _SALT)
    if rows.num_rows:
        for name in table.key:
            for word_N in _words(pa.concat_arrays(_one_dictionary(rows[name]).chunks)):
                total_N = (total_N ^ word_N) * _STIR
                total_N ^= total_N >> np.uint64(29)
    return total_N


def _one_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column


def _words(column: pa.Array) -> list[Hashes]:
    """A column of a key as one or more whole numbers a row."""
    null_N = column.is_null().to_numpy(zero_copy_only=False).astype(np.uint64)
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        known = np.array([hash(word) for word in column.dictionary.to_pylist()] or [0], np.int64).view(np.uint64)
        return [known[column.indices.fill_null(0).to_numpy()], null_N]
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        data = column.fill_null(bytes(width)).buffers()[1]
        words = np.frombuffer(data, np.uint64)[column.offset * width // 8 :][: len(column) * width // 8]
        return [*words.reshape(len(column), width // 8).T, null_N]
    return [np.ascontiguousarray(column.fill_null(0).to_numpy()).view(np.uint64), null_N]
