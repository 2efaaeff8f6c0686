"""Operation traces of the what-if study of stragglers: a CSV with one operation a line, times from the step's begin.

    dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,...

Source: ByteDance-Seed/StragglerAnalysis, folder data/ (there as Parquet), the artifact of Lin et al., "Understanding
Stragglers in Large Model Training Using What-if Analysis", OSDI 2025. Seconds as decimal numbers; `mc` is the model
chunk, `mb_id` the micro-batch.
"""

from __future__ import annotations

import csv
import io

import numpy as np

from leadline.model.errors import DataError
from leadline.wire.traces.trace_file import TraceFile

NUMBERS = ("dp_rank", "stage", "rank", "step")
OPTIONAL = ("seq_id", "mc", "mb_id")
SECONDS = ("start_ts", "duration")
COLUMNS = (*NUMBERS, "optype", *SECONDS)
FORMAT = "what-if CSV"
WANTED = f"a trace of the PyTorch profiler (traceEvents), of Chakra (workload_graph) or a CSV of {', '.join(COLUMNS)}"


def read_whatif_csv(where: str, text: str) -> TraceFile:
    """The operations of a CSV. A line without one of its numbers is left out and counted in `notes`.

    Errors: DataError if a column is missing or no line can be read.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        return _read(where, reader)
    except csv.Error as error:
        raise DataError(f"{where}, line {reader.line_num}", "a line of a CSV", str(error)) from None


def _read(where: str, reader: csv.DictReader[str]) -> TraceFile:
    lacking = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if lacking:
        first = ", ".join(map(str, reader.fieldnames or ()))[:80]
        if len(lacking) == len(COLUMNS):
            raise DataError(where, WANTED, f"a file that begins with {first!r}" if first else "an empty file")
        raise DataError(where, f"the columns {', '.join(COLUMNS)}", f"{first}, without {', '.join(lacking)}")
    kinds: list[str] = []
    rows: list[list[int]] = []
    bad = 0
    for row in reader:
        numbers = _numbers(row)
        if numbers is None:
            bad += 1
            continue
        rows.append(numbers)
        kinds.append(row["optype"] or "")
    if not rows:
        raise DataError(where, "operations, one a line", f"{bad} lines that cannot be read" if bad else "no line")
    column = np.array(rows, np.int64).T
    dp_rank, stage, rank, step, begin, duration, seq, chunk, micro_batch = column
    notes = [f"{bad} lines could not be read"] if bad else []
    return TraceFile(
        FORMAT, rank, stage, dp_rank, step, kinds, begin, duration, seq, micro_batch, chunk, by_step=True, notes=notes
    )


def _numbers(row: dict[str, str]) -> list[int] | None:
    """Whole numbers and times in ns of one line; None if one that must be there is not a number."""
    try:
        found = [int(float(row[name])) for name in NUMBERS]
        found += [round(float(row[name]) * 1e9) for name in SECONDS]
        found += [int(float(row.get(name) or -1)) for name in OPTIONAL]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return found if max(map(abs, found)) < 2**62 else None
