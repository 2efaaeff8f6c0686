"""Files that people bring: traces of profilers, recordings."""

from __future__ import annotations

import contextlib
import io

from tests.fuzz.targets.tables import TABLES

from leadline.model.errors import DataError, RefusedError
from leadline.model.tables import BY_NAME
from leadline.store.bundle import Bundle
from leadline.store.bundle_parquet import TableReader
from leadline.wire.traces.read import read_trace_file
from leadline.wire.traces.trace_file import operation_rows

WORDS = {
    "trace": ['"traceEvents":[', '"ph":"X"', '"cat":"kernel"', '"cat":"user_annotation"', '"ts":', '"dur":', '"name":',
              "ProfilerStep#", "ncclDevKernel_", '"distributedInfo":{', '"rank":', '"baseTimeNanoseconds":',
              '"workload_graph":[', '"Id":', '"runtime":', '"data_deps":[', '"ctrlDeps":[', '"is_cpu_op":', "NaN",
              "1e308", "-Infinity", "null", "dp_rank", "optype", "start_ts", "seq_id", "mb_id", "9" * 30],
    "bundle": ['"format":', '"from_ns":', '"to_ns":', '"tenant":', '"members":{', '"sha256":', '"rows":', '"bytes":',
               "manifest.json", "config.yaml", "event.parquet", "ustar"],
    "bundle_table": sorted({column.name for name in TABLES for column in BY_NAME[name].columns}),
}  # fmt: skip
END_NS = 1_760_000_000 * 10**9


def trace(data: bytes) -> None:
    """A trace file: what-if CSV, Kineto or Chakra, gzip or not."""
    with contextlib.suppress(DataError):
        found = read_trace_file("a trace", data)
        count = len(found)
        for column in (found.rank_N, found.stage_N, found.dp_rank_N, found.begin_N, found.duration_N, found.seq_N):
            assert len(column) == count
        rows = operation_rows([found], "job", END_NS)
        rows.validate(full=True)
        assert rows.num_rows == count


def bundle(data: bytes) -> None:
    """A recording, whole."""
    with contextlib.suppress(DataError), Bundle(io.BytesIO(data), "a recording") as one:
        for name, rows in one.manifest.rows().items():
            assert sum(group.num_rows for group in one.groups(BY_NAME[name])) == rows


def bundle_table(data: bytes) -> None:
    """One table of a recording, whose hash is right."""
    if not data:
        return
    table = BY_NAME[TABLES[data[0] % len(TABLES)]]
    with contextlib.suppress(DataError, RefusedError):
        reader = TableReader(table, io.BytesIO(data[1:]), "a table", "?")
        rows = 0
        for group in reader.groups():
            group.validate(full=True)
            rows += group.num_rows
        assert rows == reader.rows
