"""One call of an analysis: its tables in, its verdicts checked, sorted and hashed; in a worker process as in this one.

What comes back is what may be stored: only the tables and columns that the analysis declares, each row once, in the
order of its key, so that the same rows give the same bytes whoever computed them.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import importlib
import os
import signal
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.spec import Analysis, Verdicts, Window
from leadline.model.errors import DataError
from leadline.model.tables import Table
from leadline.runner.verdicts import has_windows
from leadline.runner.warm import warm
from leadline.store.bundle_rows import in_order
from leadline.store.schema import arrow_table

DONE, FAILED, CRASHED, TIMEOUT = "done", "failed", "crashed", "timeout"
ERROR_CHARACTERS_MAX = 2000
ROWS_MAX = 10_000_000  # verdicts of one call; more is a mistake, and would fill the memory of the server
REGISTRY = "leadline.analysis:ANALYSES"
_FILLED = ("cluster", "analysis", "version", "revision")  # by us, whatever an analysis says
_PR_SET_PDEATHSIG = 1


Answer = tuple[str, dict[str, bytes], bytes, str]
"""An outcome on its way between processes: state, verdicts as Arrow streams, digest, error."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call. `tables`: verdicts with revision 0, by table name, tables without rows left out.

    `digest`: 128 bits over all of them, the same for the same verdicts.
    """

    state: str
    tables: Mapping[str, pa.Table]
    digest: bytes = bytes(16)
    error: str = ""

    @property
    def rows(self) -> int:
        """How many verdicts there are."""
        return sum(table.num_rows for table in self.tables.values())


def judged(analysis: Analysis, window: Window, tables: Sequence[pa.Table]) -> Outcome:
    """Call an analysis. What it raises, and what it should not have returned, is told by the outcome."""
    try:
        return finished(analysis, window, analysis(*tables, window=window))
    except DataError as error:
        return Outcome(FAILED, {}, error=str(error)[:ERROR_CHARACTERS_MAX])
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}, line {last.lineno}, in {last.name}"
        return Outcome(FAILED, {}, error=f"{type(error).__name__}: {error} ({where})"[:ERROR_CHARACTERS_MAX])


def finished(analysis: Analysis, window: Window, verdicts: Verdicts) -> Outcome:
    """Verdicts as they are stored. Errors: DataError if they are not what the analysis declares."""
    declared = {table.name: table for table in analysis.writes}
    for name in verdicts:
        if name not in declared:
            raise DataError(f"verdicts of {analysis.name}", f"rows of {', '.join(declared)}", f"rows of {name}")
    tables: dict[str, pa.Table] = {}
    for name in sorted(verdicts):
        rows = _completed(analysis, window, declared[name], verdicts[name])
        if rows.num_rows > ROWS_MAX:
            raise DataError(f"verdicts of {analysis.name}", f"at most {ROWS_MAX} rows", f"{rows.num_rows} of {name}")
        if rows.num_rows:
            _require_own(analysis, window, declared[name], rows)
            tables[name] = in_order(declared[name], rows.unify_dictionaries().combine_chunks())
            _require_once(analysis, declared[name], tables[name])
    return Outcome(DONE, tables, digest(tables))


def _completed(analysis: Analysis, window: Window, table: Table, columns: Mapping[str, Any]) -> pa.Table:
    given = dict(columns)
    if taken := [name for name in _FILLED if name in given]:
        raise DataError(
            f"verdicts of {analysis.name} for {table.name}", "no columns that the runner fills in", ", ".join(taken)
        )
    rows = len(next(iter(given.values()))) if given else 0
    given.setdefault("tenant", _all(window.tenant, rows))
    given["cluster"], given["analysis"] = _all(window.cluster, rows), _all(analysis.name, rows)
    given["version"], given["revision"] = np.full(rows, analysis.version, np.int64), np.zeros(rows, np.int64)
    if not rows:
        return pa.table({"tenant": pa.array([], pa.string())})
    return arrow_table(table, given)


def _all(text: str, rows: int) -> pa.DictionaryArray:
    """The same text in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text], pa.string()))


def _require_own(analysis: Analysis, window: Window, table: Table, rows: pa.Table) -> None:
    """Rows of another window or job would never be replaced by what is judged later. Errors: DataError."""
    own: dict[str, object] = {"end_ns": window.to_ns, "window_ns": window.window_ns} if has_windows(table) else {}
    if table.newest:
        own[table.newest] = window.to_ns
    if window.job:
        own["tenant"] = window.tenant
        own |= {"job": window.job} if "job" in rows.column_names else {}
    for name, wanted in own.items():
        other = rows.filter(pc.not_equal(_plain(rows[name]), wanted)).slice(0, 1)  # a null is of any job
        if other.num_rows:
            where = f"verdicts of {analysis.name} for {table.name}, {name}"
            raise DataError(where, f"{wanted}, as the window has it", str(other[name][0].as_py()))


def _require_once(analysis: Analysis, table: Table, rows: pa.Table) -> None:
    """Two rows of one key would be one in the store, and which of them would be chance. Errors: DataError."""
    keys = pa.table({name: _plain(rows[name]) for name in table.key})
    if keys.group_by(list(table.key)).aggregate([]).num_rows != rows.num_rows:
        counted = keys.group_by(list(table.key)).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, 1).to_pylist()[0]
        where = f"verdicts of {analysis.name} for {table.name}"
        raise DataError(where, f"each key ({', '.join(table.order + table.more_key)}) once", f"twice {twice}")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def digest(tables: Mapping[str, pa.Table]) -> bytes:
    """128-bit hash of rows: of their values alone, not of how Arrow lays them out (chunks, dictionaries, what lies
    under a null)."""
    hashed = hashlib.blake2b(digest_size=16)
    for name in sorted(tables):
        hashed.update(f"{name} {tables[name].num_rows}".encode())
        for field, column in zip(tables[name].schema, tables[name].columns, strict=True):
            hashed.update(field.name.encode())
            for part in _parts(_plain(column).combine_chunks()):
                hashed.update(part)
    return hashed.digest()


def _parts(array: pa.Array) -> Iterator[bytes]:
    """The bytes that tell the values of an array."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    if array.null_count:
        yield np.packbits(array.is_null().to_numpy(zero_copy_only=False)).tobytes()
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        yield np.asarray(pc.fill_null(pc.list_value_length(array), -1)).tobytes()
        for inner in [array.keys, array.items] if pa.types.is_map(kind) else [array.flatten()]:
            yield from _parts(_plain(inner))
    elif pa.types.is_string(kind):
        yield np.asarray(pc.fill_null(pc.binary_length(array), -1)).tobytes()
        yield "".join(array.drop_null().to_pylist()).encode()
    elif pa.types.is_fixed_size_binary(kind):
        yield b"".join(array.drop_null().to_pylist())
    elif pa.types.is_boolean(kind):
        yield pc.fill_null(array, False).to_numpy(zero_copy_only=False).tobytes()
    else:
        yield pc.fill_null(array, 0).to_numpy().tobytes()


def of_tenant(outcome: Outcome, tenant: str) -> Outcome:
    """An outcome with the verdicts of one tenant alone; empty: of all."""
    if not tenant or not outcome.tables:
        return outcome
    kept = {name: rows.filter(pc.equal(rows["tenant"], tenant)) for name, rows in outcome.tables.items()}
    tables = {name: rows.combine_chunks() for name, rows in kept.items() if rows.num_rows}
    return replace(outcome, tables=tables, digest=digest(tables))


# --- in a worker process ----------------------------------------------------------------------------------------


def start_worker(parent: int, nice: int) -> None:
    """What a new worker process does first: it ends with its parent even if that is killed, leaves Ctrl-C to it, steps
    back behind what takes telemetry in, and loads the kernels that analyses need."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(nice)
    gc.disable()  # kernels that are loaded are no garbage
    warm()
    gc.freeze()
    gc.enable()


def work(registry: str, name: str, window: Window, place: str, tables: int) -> Answer:
    """Judge in a worker. `place`: a file with the tables one after another, read without copying."""
    with pa.memory_map(place) as file:
        return answer(registry, name, window, file, tables)


def answer(registry: str, name: str, window: Window, file: pa.NativeFile, tables: int) -> Answer:
    """Judge from tables that stand in a file as Arrow streams, one after another."""
    outcome = judged(registered(registry)[name], window, list(_read(file, tables)))
    streams = {table: as_stream(rows) for table, rows in outcome.tables.items()}
    return outcome.state, streams, outcome.digest, outcome.error


def of_answer(found: Answer) -> Outcome:
    """The outcome that a worker told."""
    state, streams, digest, text = found
    return Outcome(state, {name: of_stream(stream) for name, stream in streams.items()}, digest, text)


def registered(registry: str) -> dict[str, Analysis]:
    """The analyses of a registry, `module:NAME`, by name."""
    module, _, name = registry.partition(":")
    found: Sequence[Analysis] = getattr(importlib.import_module(module), name)
    return {each.name: each for each in found}


def _read(file: pa.NativeFile, tables: int) -> Iterator[pa.Table]:
    for _ in range(tables):
        with pa.ipc.open_stream(file) as stream:
            yield stream.read_all()


def as_stream(rows: pa.Table) -> bytes:
    """Rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


def of_stream(stream: bytes) -> pa.Table:
    """Rows of an Arrow stream."""
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()


def warm_up() -> float:
    """Do nothing but start a worker; returns what the clock of the worker says."""
    return time.monotonic()
