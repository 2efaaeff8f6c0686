"""The file of flows' truth: its columns, how it is written, how it is read.

While a run lasts, rows go to a journal (`NAME.flows.part`, an Arrow stream, a batch a span), which a killed run leaves
readable up to its last whole batch; at the end the journal becomes Parquet and is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from leadline.model.errors import DataError, UsageError

SUFFIX = ".flows.parquet"
_PART = ".flows.part"
_GROUP_ROWS = 1 << 17

SCHEMA = pa.schema(
    [
        pa.field("flow", pa.binary(16), nullable=False),  # as the store has it: the id's bytes, lowest first
        pa.field("src_ip", pa.string(), nullable=False),
        pa.field("dst_ip", pa.string(), nullable=False),
        pa.field("protocol", pa.int64(), nullable=False),
        pa.field("src_port", pa.int64(), nullable=False),
        pa.field("dst_port", pa.int64(), nullable=False),
        pa.field("dst_qp", pa.int64()),
        pa.field("switch", pa.string(), nullable=False),
        pa.field("in_link", pa.string()),  # null: no link that the topology knows
        pa.field("out_link", pa.string()),
        pa.field("from_ns", pa.int64(), nullable=False),
        pa.field("to_ns", pa.int64(), nullable=False),
        pa.field("packets", pa.float64(), nullable=False),  # whole, unless they are expected only
        pa.field("bytes", pa.float64(), nullable=False),  # as `flow_sample.frame_bytes`
        pa.field("sprayed", pa.bool_(), nullable=False),
    ]
)


def beside(bundle: Path) -> Path:
    """Where the truth of flows of a bundle lies: `run.leadline` has `run.flows.parquet`."""
    return bundle.with_suffix(SUFFIX)


class FlowTruthFile:
    """The file in the making. What `add` took is on disk; `finish` makes the Parquet file, whole or not at all."""

    def __init__(self, path: Path) -> None:
        """Errors: UsageError for another suffix; OSError."""
        self.path = _checked(path)
        self.rows = 0
        self._part = journal_of(path)
        path.unlink(missing_ok=True)  # nobody takes that of an earlier run for ours
        self._file = self._part.open("wb")
        self._stream = pa.ipc.new_stream(self._file, SCHEMA)
        self._told: dict[str, str] = {}

    def add(self, rows: pa.Table) -> None:
        """Append the rows of one span. Errors: OSError."""
        for batch in rows.select(SCHEMA.names).cast(SCHEMA).to_batches():
            self._stream.write_batch(batch)
        self._file.flush()
        self.rows += rows.num_rows

    def tell(self, name: str, value: object) -> None:
        """Something about the whole file, kept in its metadata: `leadline.<name>`."""
        self._told[f"leadline.{name}"] = str(value)

    def finish(self) -> None:
        """Make the Parquet file and remove the journal. Errors: OSError."""
        self.close()
        partial = self.path.with_name(self.path.name + ".part")
        schema = SCHEMA.with_metadata(self._told)
        with pq.ParquetWriter(partial, schema, compression="zstd", use_dictionary=True) as writer:
            for rows in _groups(_batches(self._part)):
                writer.write_table(rows.replace_schema_metadata(self._told))
        partial.replace(self.path)
        self._part.unlink()

    def close(self) -> None:
        """Let the journal go as it is. Harmless when it is closed."""
        if not self._file.closed:
            self._stream.close()
            self._file.close()

    def __enter__(self) -> FlowTruthFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_flow_truth(path: Path) -> pa.Table:
    """All rows of `NAME.flows.parquet`; where a run was killed those of its journal. Metadata: `leadline.<name>`.

    Errors: DataError for what is no such file, with the columns that are missing; UsageError if there is none.
    """
    part = journal_of(_checked(path))
    if not path.exists():
        if not part.exists():
            raise UsageError(f"no {path}; it is written by `leadline lab run --record ... --flow-truth`")
        return pa.Table.from_batches(_batches(part), SCHEMA)
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(str(path), "a Parquet file of flows' truth", str(error).partition("\n")[0]) from error
    if missing := [name for name in SCHEMA.names if name not in table.column_names]:
        raise DataError(str(path), f"columns {', '.join(SCHEMA.names)}", f"none of these: {', '.join(missing)}")
    try:
        return table.select(SCHEMA.names).cast(SCHEMA.with_metadata(table.schema.metadata))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise DataError(str(path), "columns of docs/lab/flow-truth.md", str(error).partition("\n")[0]) from error


def journal_of(path: Path) -> Path:
    """The journal of a file in the making."""
    return path.with_name(path.name.removesuffix(SUFFIX) + _PART)


def _batches(journal: Path) -> Iterator[pa.RecordBatch]:
    """The whole batches of a journal: one that was being written when the run was killed is left out."""
    with journal.open("rb") as file:
        try:
            yield from pa.ipc.open_stream(file)
        except (pa.ArrowInvalid, OSError):
            return


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= _GROUP_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _checked(path: Path) -> Path:
    if not path.name.endswith(SUFFIX):
        raise UsageError(f"expected NAME{SUFFIX}, got {path}")
    return path
