"""Samples counted: one group for each flow, switch, in port, out port, rate, fate and span of time.

10 M rows of flow_sample --hash--> flows (F) and groups (G), sorted, whichever order the rows came in
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Codes, Ids, Ints, codes, ids, ints
from leadline.analysis.path.group_kernels import flow_numbers, group_numbers, sums

FRAME_MAX = 2**20  # bytes: what is larger is no frame; it keeps squares summable
RATE_MAX = 2**40


@dataclass(frozen=True)
class Samples:
    """Samples of a window and its look-back, counted. Arrays over F (flows, by id) and G (groups, by flow and place).

    `switch_G`, `in_G`, `out_G`: places in `switches` and `ports`; -1 for a port that was not told.
    """

    flow_F2: Ids
    rows: pa.Table
    row_F: Ints  # a row of each flow: its five-tuple is the same in all of them
    switches: list[str]
    ports: list[str]  # names at their switch: `Ethernet3`
    flow_G: Ints
    switch_G: Ints
    in_G: Ints
    out_G: Ints
    rate_G: Ints
    dropped_G: Bools
    now_G: Bools  # in the window; the others are of the look-back
    samples_G: Ints
    bytes_G: Ints
    squares_G: Ints
    first_ns_G: Ints
    last_ns_G: Ints
    mean_ns_G: Ints


def grouped(rows: pa.Table, from_ns: int) -> Samples:
    """Count rows of `flow_sample`: the window's are those from `from_ns` on. Frames without IP are left out."""
    flow_N2 = ids(rows, "flow")
    if len(flow_N2) and not flow_N2.any(axis=1).all():
        rows = rows.filter(pa.array(flow_N2.any(axis=1)))
        flow_N2 = ids(rows, "flow")
    switch, enters, leaves = (codes(rows, name) for name in ("switch", "in_port", "out_port"))
    ports = sorted({*enters.names, *leaves.names})
    in_N, out_N = _among(enters, ports), _among(leaves, ports)
    time_N = ints(rows, "time_ns")
    rate_N = np.clip(ints(rows, "rate", 1), 1, RATE_MAX)
    rates, rate_code_N = _small_codes(rate_N)
    now_N = time_N >= from_ns
    dropped_N = rows.column("dropped").is_valid().to_numpy()
    flow_N, row_F = flow_numbers(flow_N2)
    sizes = (len(ports) + 1, len(ports) + 1, len(rates), 4)
    place_N = switch.code_N
    for size, part_N in zip(sizes, (in_N + 1, out_N + 1, rate_code_N, 2 * dropped_N + now_N), strict=True):
        place_N = place_N * size + part_N
    group_N, row_G = group_numbers(flow_N, place_N)
    frame_N = np.clip(ints(rows, "frame_bytes", 0), 0, FRAME_MAX)
    samples, total, squares, first, last, since = sums(group_N, len(row_G), frame_N, time_N)
    by_id = np.lexsort((flow_N2[row_F, 0], flow_N2[row_F, 1]))
    rank_F = np.empty(len(row_F), np.int64)
    rank_F[by_id] = np.arange(len(row_F))
    order = np.lexsort((place_N[row_G], rank_F[flow_N[row_G]]))
    row_G = row_G[order]
    origin = int(time_N.min()) if len(time_N) else 0
    return Samples(
        flow_F2=flow_N2[row_F[by_id]],
        rows=rows,
        row_F=row_F[by_id],
        switches=switch.names,
        ports=ports,
        flow_G=rank_F[flow_N[row_G]],
        switch_G=switch.code_N[row_G],
        in_G=in_N[row_G],
        out_G=out_N[row_G],
        rate_G=rate_N[row_G],
        dropped_G=dropped_N[row_G],
        now_G=now_N[row_G],
        samples_G=samples[order],
        bytes_G=total[order],
        squares_G=squares[order],
        first_ns_G=first[order],
        last_ns_G=last[order],
        mean_ns_G=origin + since[order] // np.maximum(samples[order], 1) * 1000,
    )


def of_the_window(samples: Samples) -> Samples:
    """Without the flows that were seen in the look-back only."""
    flows = len(samples.flow_F2)
    seen_F = np.bincount(samples.flow_G[samples.now_G], minlength=flows) > 0
    if seen_F.all():
        return samples
    kept_G = seen_F[samples.flow_G]
    place_F = np.cumsum(seen_F) - 1
    of_group = {name: getattr(samples, name)[kept_G] for name in _OF_GROUP}
    of_group["flow_G"] = place_F[of_group["flow_G"]]
    return replace(samples, flow_F2=samples.flow_F2[seen_F], row_F=samples.row_F[seen_F], **of_group)


_OF_GROUP = tuple(each.name for each in fields(Samples) if each.name.endswith("_G"))


def _among(given: Codes, names: list[str]) -> Ints:
    """Codes as places in a longer list of names."""
    place = {name: number for number, name in enumerate(names)}
    place_T = np.array([place[name] for name in given.names] + [-1], np.int64)
    found: Ints = place_T[given.code_N]
    return found


def _small_codes(value_N: Ints) -> tuple[Ints, Ints]:
    """Distinct values and the place of each row's: fast where there are few, as of sampling rates."""
    if len(value_N) and (value_N == value_N[0]).all():
        return value_N[:1], np.zeros(len(value_N), np.int64)
    distinct, place_N = np.unique(value_N, return_inverse=True)
    return distinct, place_N.astype(np.int64)
