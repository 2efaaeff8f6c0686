"""A recorded probe mesh with the clocks that were given to it: what is told of clocks holds what they really showed."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from leadline.analysis.clock.clock import clock
from leadline.analysis.clock.mesh import solved
from leadline.analysis.spec import Window
from leadline.lab.oscillators import read_told
from leadline.lab.probe_trace import TRUTH, with_truth
from leadline.model.tables.fabric import EDGE_FIT

TRACE = Path(__file__).parent / "lab_probes" / "quad.probes.parquet"
HOSTS = ("h1", "h2", "h3", "h4")
S = 10**9


@cache
def trace() -> pa.Table:
    return pq.read_table(TRACE)


@cache
def column(name: str) -> np.ndarray[Any, Any]:
    return np.array(trace()[name].to_pylist(), object)


def test_its_truth_is_what_the_clocks_in_it_showed() -> None:
    clocks = read_told({"clocks": json.loads(trace().schema.metadata[b"leadline.clocks"])}, str(TRACE))
    assert set(clocks) == set(HOSTS)
    again = with_truth(trace().drop_columns(TRUTH), clocks)
    for name in TRUTH:
        was, now = (np.array(table[name].fill_null(0).to_pylist(), np.int64) for table in (trace(), again))
        assert np.abs(was - now).max() <= 2, name
        assert trace()[name].null_count == again[name].null_count


def test_no_line_is_further_off_than_its_bound() -> None:
    valid = column("state") == "valid"
    assert valid.sum() > 800
    error, bound = (column(name)[valid].astype(np.float64) for name in ("error_ns", "bound_ns"))
    assert np.abs(error).max() > 10_000, "the hosts were busy: some lines are bad"
    assert (np.abs(error) <= bound).all()
    assert np.median(np.abs(error)) < 500


def test_the_mesh_is_nearer_to_the_truth_than_its_edges() -> None:
    src, dst = ([HOSTS.index(name) for name in column(end)] for end in ("src", "dst"))
    rows_at = defaultdict(list)
    first_ns = min(column("true_ns"))
    for row in np.flatnonzero(column("state") == "valid").tolist():
        rows_at[(column("true_ns")[row] - first_ns) // S].append(row)
    of_mesh, of_edges = [], []
    for rows in rows_at.values():
        src_E, dst_E = np.array(src)[rows], np.array(dst)[rows]
        error_E = column("error_ns")[rows].astype(np.float64)  # lines less the truth, whose loops sum to nothing
        found = solved(src_E, dst_E, error_E, column("noise_ns")[rows].astype(np.float64), len(HOSTS))
        of_edges += np.abs(error_E).tolist()
        for one, other in itertools.combinations(range(len(HOSTS)), 2):
            if found.island_H[one] == found.island_H[other]:
                of_mesh.append(abs(found.x_H[one] - found.x_H[other]))
    assert len(of_mesh) > 300
    for percentile in (50, 90, 99):
        assert np.percentile(of_mesh, percentile) < np.percentile(of_edges, percentile)
    assert np.median(of_mesh) < 200


def test_hosts_that_share_a_clock_are_told_to_show_the_same_to_within_their_bounds() -> None:
    """All hosts of a lab show this machine's time, whatever their probers' clocks do."""
    rows = trace().drop_columns(TRUTH)
    for name in ("tenant", "cluster"):
        rows = rows.append_column(name, pa.array([""] * rows.num_rows))
    for each in EDGE_FIT.columns:  # those that came later
        if each.name not in rows.column_names and each.nullable:
            rows = rows.append_column(each.name, pa.nulls(rows.num_rows, pa.int64()))
    fields = [
        pa.field(each.name, pa.dictionary(pa.int32(), pa.string()) if each.type == pa.string() else each.type)
        for each in rows.schema
    ]
    rows = rows.cast(pa.schema(fields))
    (read,) = clock.reads
    end_N = column("end_ns").astype(np.int64)
    within = []
    for to_ns in range((int(end_N.min()) // (5 * S) + 3) * 5 * S, int(end_N.max()), 5 * S):
        seen = (end_N >= to_ns - 5 * S - read.look_back_ns) & (end_N < to_ns)
        fits = clock(rows.filter(pa.array(seen)), window=Window(to_ns - 5 * S, to_ns))["clock_fit"]
        at: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for end_ns, offset_ns, bound_ns in zip(fits["end_ns"], fits["offset_ns"], fits["bound_ns"], strict=True):
            at[end_ns].append((offset_ns, bound_ns))
        for told in at.values():
            for (one, known_one), (other, known_other) in itertools.combinations(told, 2):
                within.append(abs(one - other) <= known_one + known_other)
    assert len(within) >= 50
    assert np.mean(within) >= 0.999
