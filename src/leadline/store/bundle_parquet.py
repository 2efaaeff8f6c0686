"""The inside of a bundle: rows of one table as Parquet, and back again, checked against the table's spec.

A row group is a slice of time (`bundle_rows.slices`), its rows in the order of the key: neighbours are alike then, and
an encoding by column and ZSTD leave little. Measured on a clos8 cluster's ten minutes; see docs/formats/bundle.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leadline.model.errors import DataError, LeadlineError
from leadline.model.tables import Column, Table, Type
from leadline.store.schema import ARROW_TYPES, arrow_schema, arrow_table, checked_rows

ZSTD_LEVEL = 9  # 12 takes twice as long for 1 % less

# Limits of what is read: an honest row group is a slice of a million rows, or one busy minute.
GROUP_ROWS_MAX = 20_000_000
GROUP_BYTES_MAX = 4 << 30  # unpacked, and again of its texts written out
# A footer is some kB; these bound what its lengths may claim.
_FOOTER_LIMITS = {"thrift_string_size_limit": 16 << 20, "thrift_container_size_limit": 1 << 20}

_PLAIN: dict[Type, pa.DataType] = {**ARROW_TYPES, Type.SYM: pa.string()}

# What a column that an older Leadline did not have reads as: what the store gives stored rows, too.
_DEFAULTS: dict[Type, Any] = {
    Type.SYM: "",
    Type.STR: "",
    Type.SYMS: [],
    Type.I64: 0,
    Type.U64: 0,
    Type.U128: bytes(16),
    Type.F64: 0.0,
    Type.BOOL: False,
    Type.MAP: [],
}


# --- writing -------------------------------------------------------------------------------------------------


class TableWriter:
    """Writes one table, a row group at a time. `close` before the file is used."""

    def __init__(self, table: Table, file: BinaryIO, *, level: int = ZSTD_LEVEL, coded: bool = False) -> None:
        """`coded`: rows come with symbols as dictionaries and are written from these, which is faster."""
        self._table = table
        self._schema = arrow_schema(table) if coded else file_schema(table)
        self._writer = pq.ParquetWriter(
            file,
            self._schema,
            version="2.6",
            compression="zstd",
            compression_level=level,
            use_dictionary=[place for column in table.columns if (place := _dictionary_place(column))],
            column_encoding={column.name: _encoding(column) for column in table.columns if _encoding(column)},
            # Statistics would repeat names and cost more than they save: a bundle is read whole.
            write_statistics=False,
            store_schema=False,
            data_page_size=1 << 20,
        )
        self.rows = 0

    def write(self, rows: pa.Table) -> None:
        """Write rows, which are in order, as one group."""
        if rows.num_rows:
            self._writer.write_table(distinct(rows.cast(self._schema)), row_group_size=rows.num_rows)
            self.rows += rows.num_rows

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()


def distinct(rows: pa.Table) -> pa.Table:
    """The same rows; dictionaries name nothing twice.

    Arrow's Parquet writer takes that for granted: of one with repeats it writes a page that is longer than what it
    filled, so that memory of this process gets into the file.
    """
    for place, field in enumerate(rows.schema):
        chunks = rows.column(place).chunks
        if pa.types.is_dictionary(field.type) and any(_repeats(chunk.dictionary) for chunk in chunks):
            mended = pa.chunked_array([_distinct(chunk) for chunk in chunks], field.type)
            rows = rows.set_column(place, field, mended)
    return rows


def _repeats(names: pa.Array) -> bool:
    return bool(len(pc.unique(names)) < len(names))


def _distinct(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    coded = chunk.dictionary.dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices.take(chunk.indices), coded.dictionary)


def file_schema(table: Table) -> pa.Schema:
    """The schema in the file: symbols are plain strings there, however they are coded."""
    return pa.schema([pa.field(c.name, _PLAIN[c.type], nullable=c.nullable) for c in table.columns])


def _dictionary_place(column: Column) -> str:
    """Where the column is coded by a dictionary: words, ids that repeat, and small numbers."""
    if column.type is Type.MAP:
        return f"{column.name}.key_value.key"
    if column.type is Type.SYMS:
        return f"{column.name}.list.element"
    return "" if _encoding(column) else column.name


def _encoding(column: Column) -> str:
    """The encoding of a column that has no dictionary, empty for one that has.

    Times and counts step by little: differences. Values of a stream share their upper bytes: bytes apart.
    """
    if column.type is Type.I64 and column.unit == "ns":
        return "DELTA_BINARY_PACKED"
    if column.type is Type.U64:
        return "DELTA_BINARY_PACKED"
    return ""


# --- reading -------------------------------------------------------------------------------------------------


class TableReader:
    """Reads one table's member. What cannot be read as rows of the table is a DataError."""

    def __init__(self, table: Table, file: BinaryIO, where: str, made_by: str) -> None:
        """Reads the footer and holds it against the spec."""
        self._table = table
        self._where = where
        with _as_data_error(where):
            metadata = pq.ParquetFile(pa.PythonFile(file, mode="r"), **_FOOTER_LIMITS).metadata
            of_name = {column.name: column for column in table.columns}
            names = [(name, of_name.get(table.today(name))) for name in metadata.schema.to_arrow_schema().names]
            symbols = [name for name, column in names if column is not None and column.type is Type.SYM]
            self._schema = _opened(file, metadata, symbols).schema_arrow
            self._check_schema(self._schema, made_by)
            # Every text is read as codes first: some kB can say one text of a megabyte twenty million times.
            leaves = [metadata.schema.column(place) for place in range(metadata.num_columns)]
            self._file = _opened(file, metadata, [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"])
            self._check_sizes()
            self.rows = int(self._file.metadata.num_rows)

    def groups(self) -> Iterator[pa.Table]:
        """The rows, a row group at a time, with columns of older versions added. Errors: DataError."""
        for number in range(self._file.metadata.num_row_groups):
            at = f"{self._where}, row group {number}"
            with _as_data_error(at):
                found = self._file.read_row_group(number, use_threads=False)
                if found.num_rows != self._file.metadata.row_group(number).num_rows:
                    raise DataError(at, "the rows that the footer declares", f"{found.num_rows}")
                found.validate(full=True)  # UTF-8, offsets, dictionary indices
                written_out = (
                    found[name]
                    for name, kind in zip(self._schema.names, self._schema.types, strict=True)
                    if not pa.types.is_dictionary(kind)
                )  # symbols stay coded
                size = sum(_text_bytes(chunk) for column in written_out for chunk in column.chunks)
                if size > GROUP_BYTES_MAX:
                    raise DataError(at, f"at most {GROUP_BYTES_MAX} bytes of texts written out", str(size))
                yield self._as_declared(found.cast(self._schema))

    def _as_declared(self, found: pa.Table) -> pa.Table:
        columns: dict[str, Any] = {}
        found = found.rename_columns([self._table.today(name) for name in found.column_names])
        for column in self._table.columns:
            if column.name in found.column_names:
                words = self._table.former.words.get(column.name, ())
                columns[column.name] = _today(column, found.column(column.name), words)
            else:
                value = None if column.nullable else _DEFAULTS[column.type]
                columns[column.name] = [value] * found.num_rows
        rows = arrow_table(self._table, columns)
        return checked_rows(self._table, rows.unify_dictionaries().combine_chunks())

    def _check_schema(self, schema: pa.Schema, made_by: str) -> None:
        names = [self._table.today(name) for name in schema.names]
        if len(set(names)) != len(names):
            raise DataError(self._where, "every column once", ", ".join(names)[:300])
        declared = {column.name: column for column in self._table.columns}
        for field in schema:
            column = declared.get(self._table.today(field.name))
            if column is None:
                raise DataError(
                    self._where,
                    f"columns of {self._table.name} that this Leadline has",
                    f"{field.name!r}, made by Leadline {made_by}; read it with that one or a newer one",
                )
            if not _same_type(column, field.type):
                raise DataError(f"{self._where}, column {column.name}", str(_PLAIN[column.type]), str(field.type))
        for name in self._table.key:
            if name not in names:
                raise DataError(self._where, f"the key column {name}", ", ".join(names)[:300])

    def _check_sizes(self) -> None:
        total, rows = int(self._file.metadata.num_rows), 0
        for number in range(self._file.metadata.num_row_groups):
            group = self._file.metadata.row_group(number)
            rows += group.num_rows
            if not 0 <= group.num_rows <= GROUP_ROWS_MAX or group.total_byte_size > GROUP_BYTES_MAX:
                raise DataError(
                    f"{self._where}, row group {number}",
                    f"at most {GROUP_ROWS_MAX} rows and {GROUP_BYTES_MAX} bytes unpacked",
                    f"{group.num_rows} rows, {group.total_byte_size} bytes",
                )
        if rows != total:
            raise DataError(self._where, f"the {total} rows that the footer declares", f"{rows} in its row groups")


def _today(column: Column, values: pa.ChunkedArray, words: Iterable[tuple[str, str]]) -> pa.ChunkedArray:
    """The values of a column with the words of before (`Table.former`) as those of today; only texts have any."""
    for before, now in words:
        values = values.cast(pa.string())
        if column.type is Type.SYM:
            values = pc.if_else(pc.equal(values, before), now, values)
        else:
            values = pc.replace_substring(values, before, now)
    return values


def _opened(file: BinaryIO, metadata: pq.FileMetaData, coded: list[str]) -> pq.ParquetFile:
    source = pa.PythonFile(file, mode="r")
    return pq.ParquetFile(source, metadata=metadata, read_dictionary=coded, **_FOOTER_LIMITS)


def _text_bytes(array: pa.Array) -> int:
    """Bytes that the coded texts of an array take when they are written out."""
    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary)
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0)
    if pa.types.is_map(array.type):
        return _text_bytes(array.keys) + _text_bytes(array.items)
    return _text_bytes(array.flatten()) if pa.types.is_list(array.type) else 0


def _same_type(column: Column, got: pa.DataType) -> bool:
    """Whether a file's column has the type of the spec; what inner fields are called does not matter."""
    text = pa.string()
    if column.type is Type.SYM:
        same = got == text or (pa.types.is_dictionary(got) and got.value_type == text)
    elif column.type is Type.SYMS:
        same = pa.types.is_list(got) and got.value_type == text
    elif column.type is Type.MAP:
        same = pa.types.is_map(got) and got.key_type == text and got.item_type == text
    else:
        same = got == _PLAIN[column.type]
    return bool(same)


class _as_data_error:
    """What the Parquet library raises about bytes that are none becomes a DataError."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or isinstance(error, LeadlineError):
            return
        if isinstance(
            error, pa.ArrowException | OSError | ValueError | KeyError | IndexError | OverflowError | MemoryError
        ):
            text = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise DataError(self._where, "Parquet that holds rows of its table", text[:500]) from error
