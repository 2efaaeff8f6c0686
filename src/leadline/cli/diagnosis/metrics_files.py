"""The two files of `leadline diagnose --metrics`: a long table of readings, and relations. docs/formats/metrics.md."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from leadline.model.errors import DataError, UsageError, WorldError

T = TypeVar("T")

COLUMNS = ("time", "entity", "metric", "value")
ROWS_MAX = 20_000_000  # readings; about 100 bytes each while they are sorted into series: 2 GB
RELATIONS_MAX = 1_000_000  # as many as 100,000 GPUs have
LEAST_NS = 10**17  # 1973: a smaller integer counts seconds, milliseconds or microseconds since 1970
MS_MAX = 10**14  # 1970 to 5138 in ms; 1973 in us


@dataclass(frozen=True, slots=True)
class Relations:
    """`from` depends on `to`; with the word that was given for it."""

    kind: dict[tuple[str, str], str]  # empty where the file has none

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """In the order of the file, each once."""
        return list(self.kind)


def read_metrics(path: Path) -> pa.Table:
    """Readings, with columns of the types that `analysis.rootcause.readings` takes.

    Errors: WorldError if it cannot be read; DataError if it is not what docs/formats/metrics.md describes; UsageError
    for more than `ROWS_MAX` rows.
    """
    table = _opened(path, _parquet if path.name.endswith(".parquet") else _csv)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise DataError(str(path), f"columns {', '.join(COLUMNS)}, and to where relations have readings",
                        ", ".join(table.column_names) or "no column")  # fmt: skip
    columns = {
        "time": _times(path, table["time"]),
        "entity": _names(path, "entity", table["entity"]),
        "metric": _names(path, "metric", table["metric"]),
        "value": _values(path, table["value"]),
    }
    if "to" in table.column_names:
        columns["to"] = _texts(path, "to", table["to"])
    return pa.table(columns)


def read_relations(path: Path) -> Relations:
    """Relations. Errors: as `read_metrics`; with the line."""
    return _opened(path, _relations)


def _opened(path: Path, read: Callable[[Path], T]) -> T:
    try:
        return read(path)
    except (OSError, EOFError) as why:
        if isinstance(why, (pa.ArrowException, gzip.BadGzipFile, EOFError)):
            raise DataError(str(path), "a whole file of that kind", str(why).splitlines()[0]) from None
        raise WorldError(f"{path}: {why.strerror or why}") from why
    except pa.ArrowException as why:
        raise DataError(str(path), f"a file of the kind {_suffix(path)}", str(why).splitlines()[0][:200]) from None
    except UnicodeDecodeError as why:
        raise DataError(str(path), "UTF-8", f"byte {why.object[why.start]:#04x} at byte {why.start}") from None


def _suffix(path: Path) -> str:
    return "".join(path.suffixes[-2:]) or "CSV"


def _parquet(path: Path) -> pa.Table:
    with pq.ParquetFile(path) as file:
        _bounded(path, file.metadata.num_rows)
        names = [name for name in (*COLUMNS, "to") if name in file.schema_arrow.names]
        # The names that are there, if some are missing: the error tells them.
        return file.read(names if set(COLUMNS) <= set(names) else None)


def _csv(path: Path) -> pa.Table:
    # Text stays text: an entity called 007 is not the number 7, and an empty cell is no reading.
    types = {name: pa.string() for name in ("entity", "metric", "to")}
    options = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    batches, rows = [], 0
    with pa_csv.open_csv(path, convert_options=options) as stream:
        for batch in stream:
            rows += batch.num_rows
            _bounded(path, rows)
            batches.append(batch)
        return pa.Table.from_batches(batches, stream.schema)


def _bounded(path: Path, rows: int) -> None:
    if rows > ROWS_MAX:
        raise UsageError(f"{path}: more than {ROWS_MAX:,} readings; take less time, fewer metrics or means over longer")


def _times(path: Path, given: pa.ChunkedArray) -> pa.ChunkedArray:
    expected = "time as a timestamp, ISO 8601 (2026-11-20T20:22:16Z) or integer ns since 1970"
    _no_null(path, "time", given, expected)
    if pa.types.is_timestamp(given.type):
        # Without a zone it is UTC, as everywhere in Leadline.
        return given.cast(pa.timestamp("ns", given.type.tz)).cast(pa.int64())
    if not pa.types.is_integer(given.type):
        raise DataError(str(path), expected, f"{given.type}, such as {_first(given)}")
    times = given.cast(pa.int64())
    small = pc.less(pc.abs(times), LEAST_NS)
    if pc.any(small).as_py():
        value = abs(int(times[_row(small)].as_py()))
        unit = "seconds" if value < 10**11 else "milliseconds" if value < MS_MAX else "microseconds"
        raise DataError(f"{path}, row {_row(small) + 1}", expected, f"{value}, which looks like {unit}")
    return times


def _texts(path: Path, name: str, given: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = given.type.value_type if pa.types.is_dictionary(given.type) else given.type
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(given), pa.string())])
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise DataError(str(path), f"{name} as text", f"{kind}, such as {_first(given)}")
    return given.cast(pa.string())


def _names(path: Path, name: str, given: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = _texts(path, name, given)
    empty = pc.fill_null(pc.equal(texts, ""), True)
    if pc.any(empty).as_py():
        raise DataError(f"{path}, row {_row(empty) + 1}", f"a name in {name}", "nothing")
    return texts


def _values(path: Path, given: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = given.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise DataError(str(path), "value as a number", f"{kind}, such as {_first(given)}")
    return given.cast(pa.float64(), safe=False)


def _no_null(path: Path, name: str, given: pa.ChunkedArray, expected: str) -> None:
    if given.null_count:
        row = _row(pc.is_null(given))
        raise DataError(f"{path}, row {row + 1}", expected, f"nothing in {name}")


def _row(flags: pa.ChunkedArray) -> int:
    """The first row that is flagged, from 0."""
    return int(np.flatnonzero(flags.to_numpy())[0])


def _first(given: pa.ChunkedArray) -> str:
    known = given.drop_null()
    return repr(known[0].as_py())[:60] if len(known) else "nothing"


def _relations(path: Path) -> Relations:
    with _text(path) as file:
        reader = csv.DictReader(file)
        header = [name.strip() for name in reader.fieldnames or ()]
        if not {"from", "to"} <= set(header):
            raise DataError(f"{path}, line 1", "columns from, to[, kind]", ", ".join(header)[:100] or "nothing")
        reader.fieldnames = header
        try:
            return Relations(dict(_pairs(path, reader)))
        except csv.Error as why:
            raise DataError(f"{path}, line {reader.line_num}", "a line of CSV", str(why)) from None


def _pairs(path: Path, reader: csv.DictReader[str]) -> Iterable[tuple[tuple[str, str], str]]:
    count = 0
    for row in reader:
        ends = ((row["from"] or "").strip(), (row["to"] or "").strip())
        if not all(ends):
            side = "from" if not ends[0] else "to"
            raise DataError(f"{path}, line {reader.line_num}", f"a name in {side}", "nothing")
        count += 1
        if count > RELATIONS_MAX:
            raise UsageError(f"{path}: more than {RELATIONS_MAX:,} relations")
        yield ends, (row.get("kind") or "").strip()
    if not count:
        raise DataError(str(path), "at least one relation", "none")


def _text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")
