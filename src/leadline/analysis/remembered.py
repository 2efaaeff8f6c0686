"""What was worked out of rows, kept for the next window that has the same rows.

An analysis is a function of its tables. What it derives of a table that seldom changes (who stands on what, what is
usual of an entity) is the same as long as the table is, and need not be derived anew each window. The key is all that
the value follows from, so what is remembered never changes what is said: a worker that has just started says the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from hashlib import blake2b
from typing import Generic, TypeVar, cast

import pyarrow as pa

Value = TypeVar("Value")
_NONE = object()


class Remembered(Generic[Value]):
    """Values by what they follow from. At most `most`: the one that was asked for longest ago makes room.

    Threads may ask at once: each step is one of the dictionary's own, and a value that two miss is made twice.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key; made if it is not known."""
        found = self._values.pop(key, _NONE)
        value = make() if found is _NONE else cast("Value", found)
        self._values[key] = value
        if len(self._values) > self._most:
            with suppress(KeyError):
                self._values.popitem(last=False)
        return value


def fingerprint(table: pa.Table) -> bytes:
    """128 bits that tell tables apart: by their memory, so that equal rows that lie differently may differ in it, and
    different rows never have the same one (but for the chance of a hash)."""
    found = blake2b(digest_size=16)
    for field, column in zip(table.schema, table.columns, strict=True):
        found.update(f"{field.name} {field.type} {column.num_chunks}".encode())
        for chunk in column.chunks:
            parts = (chunk.indices, chunk.dictionary) if pa.types.is_dictionary(field.type) else (chunk,)
            for part in parts:
                found.update(f"{len(part)} {part.offset}".encode())
                for buffer in part.buffers():
                    found.update(b"-" if buffer is None else f"{buffer.size} ".encode())
                    if buffer is not None:
                        found.update(buffer)
    return found.digest()
