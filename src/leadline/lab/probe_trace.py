"""Probe traces with their truth: what probes of a lab said of each edge, and what its clocks really showed.

    NAME.leadline ── edge_fit ──┐
    NAME.truth.json ── clocks ──┴──> NAME.probes.parquet    columns of edge_fit, and three more

`true_offset_ns` is the other prober's clock less this one's at the end of the window, from the clocks that were given
to them; null where one of them had none. `true_ns` is when that was, by this machine's own clock. `error_ns` is how far
off the edge's own line was: its delays there are too short by that, those back too long.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from leadline.lab.oscillators import Injected, Oscillator, read_told
from leadline.model.errors import DataError
from leadline.model.tables.fabric import EDGE_FIT
from leadline.store.bundle import read_bundle

SUFFIX = ".probes.parquet"
TRUTH = ("true_ns", "true_offset_ns", "error_ns")
LEFT_OUT = ("tenant", "cluster", "source", "batch", "batch_row")  # say nothing in a lab


def beside(bundle: Path) -> Path:
    """Where the probe trace of a bundle lies: `run.leadline` has `run.probes.parquet`."""
    return bundle.with_suffix(SUFFIX)


def with_truth(edge_fit: pa.Table, clocks: Mapping[str, Injected]) -> pa.Table:
    """The rows with `TRUTH`, in the order of their time. `clocks`: by host."""
    plain = [pa.string() if pa.types.is_dictionary(each.type) else each.type for each in edge_fit.schema]
    edge_fit = edge_fit.cast(pa.schema([pa.field(n, t) for n, t in zip(edge_fit.column_names, plain, strict=True)]))
    edge_fit = edge_fit.sort_by([("end_ns", "ascending"), ("src", "ascending"), ("dst", "ascending")])
    src, dst = (np.array(edge_fit[name].to_pylist(), object) for name in ("src", "dst"))
    probe_N = edge_fit["probe_ns"].to_numpy()
    true_N, other_N = np.zeros(len(src), np.int64), np.zeros(len(src), np.int64)
    known_N, both_N = np.zeros(len(src), bool), np.zeros(len(src), bool)
    shown = {host: Oscillator(clock) for host, clock in clocks.items()}
    for host, clock in shown.items():
        mine_N = src == host
        true_N[mine_N] = clock.raw(probe_N[mine_N])
        known_N |= mine_N
    for host, clock in shown.items():
        to_N = (dst == host) & (src != host) & known_N
        other_N[to_N] = clock.shown(true_N[to_N])
        both_N |= to_N
    offset_N = other_N - probe_N
    valid_N = both_N & edge_fit["offset_ns"].is_valid().to_numpy()
    error_N = edge_fit["offset_ns"].fill_null(0).to_numpy() - offset_N
    base_ns = next(iter(clocks.values())).base_ns if clocks else 0
    for name, value_N, is_N in (
        ("true_ns", true_N + base_ns, known_N), ("true_offset_ns", offset_N, both_N), ("error_ns", error_N, valid_N),
    ):  # fmt: skip
        edge_fit = edge_fit.append_column(name, pa.array(value_N, pa.int64(), mask=~is_N))
    return edge_fit


def write_probe_trace(bundle: Path, truth: Path) -> int:
    """Write it beside a bundle; rows that it has, 0: there were no probes, and no file is written.

    Errors: DataError; OSError if it cannot be written.
    """
    target = beside(bundle)
    target.unlink(missing_ok=True)  # nobody takes that of an earlier run for ours
    with read_bundle(bundle) as found:
        rows = found.rows(EDGE_FIT)
    if not rows.num_rows:
        return 0
    try:
        told = json.loads(truth.read_text())
    except ValueError as error:
        raise DataError(str(truth), "a truth file", str(error)) from error
    clocks = read_told(told, str(truth))
    table = with_truth(rows, clocks)
    table = table.select([name for name in table.column_names if name not in LEFT_OUT])
    about = {"leadline.clocks": json.dumps(told.get("clocks", {}))}
    partial = target.with_name(target.name + ".part")
    pq.write_table(table.replace_schema_metadata(about), partial, compression="zstd")
    partial.replace(target)
    return int(table.num_rows)
