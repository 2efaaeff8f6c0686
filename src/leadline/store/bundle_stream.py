"""A bundle made from rows as they come, without a store: every table has its writer open until the end.

For who makes rows rather than stores them (the fleet simulator). Rows of a call become one row group; groups of a
table follow each other in time, and within one the caller keeps the order of the key.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from leadline.model.tables import Table
from leadline.store.bundle import Draft
from leadline.store.bundle_parquet import TableWriter

# A simulated fleet is remade from its seed: level 1 writes five times as fast as 9 and takes an eighth more room.
LEVEL = 1


class StreamedTables:
    """The tables of a draft while rows come. `finish` hands them to the draft."""

    def __init__(self, draft: Draft, directory: Path | None) -> None:
        self._draft, self._directory = draft, directory
        self._stack = ExitStack()
        self._open: dict[str, tuple[Table, BinaryIO, TableWriter]] = {}

    def write(self, table: Table, rows: pa.Table) -> None:
        """Write rows as one group. Errors: WorldError for a full disk."""
        if not rows.num_rows:
            return
        with self._draft.disk(table):
            if table.name not in self._open:
                file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 (closed by the stack)
                self._stack.callback(file.close)
                self._open[table.name] = (table, file, TableWriter(table, file, level=LEVEL, coded=True))
            self._open[table.name][2].write(rows)

    def finish(self) -> None:
        """Write the footers; the files are the draft's from now on."""
        for table, file, writer in self._open.values():
            with self._draft.disk(table):
                writer.close()
                self._draft.adopt(table, file, writer.rows)
        self._open.clear()
        self._stack.pop_all()

    def close(self) -> None:
        """Let go of what was not finished."""
        self._stack.close()
