"""Samples counted: one group for each flow, switch, in port, out port, rate, fate and span of time.

10 M rows of flow_sample --hash--> flows (F) and groups (G), sorted, whichever order the rows came in
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Ids, Ints, ids, ints
from leadline.analysis.path.group_kernels import flow_numbers, group_numbers, places, sums

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
    ip_N = (flow_N2[:, 0] | flow_N2[:, 1]) != 0
    if not ip_N.all():
        rows = rows.filter(pa.array(ip_N))
        flow_N2 = ids(rows, "flow")
    switch, enters, leaves = (_column(rows, name) for name in ("switch", "in_port", "out_port"))
    ports = sorted({*enters.used, *leaves.used})
    time_N = ints(rows, "time_ns")
    rates, rate_code_N = _small_codes(np.clip(ints(rows, "rate", 1), 1, RATE_MAX))
    flow_N, row_F = flow_numbers(flow_N2)
    # Switches are counted from 0 to S - 1, and are never null.
    place_N = places(
        switch.index_N, enters.index_N, leaves.index_N, rate_code_N, time_N, _forwarded(rows),
        switch.numbers(switch.used), enters.numbers(ports), leaves.numbers(ports), len(ports), len(rates), from_ns,
    )  # fmt: skip
    group_N, row_G = group_numbers(flow_N, place_N)
    frame_N = np.clip(ints(rows, "frame_bytes", 0), 0, FRAME_MAX)
    samples, total, squares, first, last, since = sums(group_N, len(row_G), frame_N, time_N)
    by_id = np.lexsort((flow_N2[row_F, 0], flow_N2[row_F, 1]))
    rank_F = np.empty(len(row_F), np.int64)
    rank_F[by_id] = np.arange(len(row_F))
    order = np.lexsort((place_N[row_G], rank_F[flow_N[row_G]]))
    row_G = row_G[order]
    parts = _parts(place_N[row_G], len(ports), len(rates))
    origin = int(time_N.min()) if len(time_N) else 0
    return Samples(
        flow_F2=flow_N2[row_F[by_id]],
        rows=rows,
        row_F=row_F[by_id],
        switches=switch.used,
        ports=ports,
        flow_G=rank_F[flow_N[row_G]],
        switch_G=parts[0],
        in_G=parts[1] - 1,
        out_G=parts[2] - 1,
        rate_G=rates[parts[3]],
        dropped_G=parts[4] >= 2,
        now_G=parts[4] % 2 == 1,
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


@dataclass(frozen=True)
class _Column:
    """A column of texts as it is stored: places in its dictionary, -1 for null; and the texts that occur, sorted."""

    texts: list[str]
    index_N: NDArray[np.int32]
    used: list[str]

    def numbers(self, names: list[str]) -> Ints:
        """For each text of the dictionary its place in `names`; -1 for null, at the end, and for what is not there."""
        place = {name: number for number, name in enumerate(names)}
        return np.array([*(place.get(text, -1) for text in self.texts), -1], np.int64)


def _column(rows: pa.Table, name: str) -> _Column:
    column = rows.column(name)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    if column.num_chunks == 0:
        return _Column([], np.zeros(0, np.int32), [])
    encoded = column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()
    encoded = pa.concat_arrays(encoded.chunks) if isinstance(encoded, pa.ChunkedArray) else encoded
    texts = encoded.dictionary.to_pylist()
    index = encoded.indices if encoded.null_count == 0 else pc.fill_null(encoded.indices, -1)
    index_N = np.ascontiguousarray(index.to_numpy(zero_copy_only=False), np.int32)
    seen = np.zeros(len(texts) + 1, bool)
    seen[index_N] = True  # -1 falls on the last place
    used = sorted({text for text, there in zip(texts, seen.tolist(), strict=False) if there and text is not None})
    return _Column(texts, index_N, used)


def _forwarded(rows: pa.Table) -> Bools:
    """Whether each packet was forwarded: nothing says why it was dropped."""
    column = rows.column("dropped")
    if column.null_count == len(rows):
        return np.ones(len(rows), bool)
    found: Bools = column.is_null().to_numpy()
    return found


def _parts(place_G: Ints, ports: int, rates: int) -> list[Ints]:
    """Switch, in port + 1, out port + 1, rate and fate of groups: what `places` put into one number."""
    out = []
    for size in (4, rates, ports + 1, ports + 1):
        place_G, part = np.divmod(place_G, max(size, 1))
        out.append(part)
    return [place_G, *out[::-1]]


def _small_codes(value_N: Ints) -> tuple[Ints, Ints]:
    """Distinct values and the place of each row's: fast where there are few, as of sampling rates."""
    if len(value_N) and (value_N == value_N[0]).all():
        return value_N[:1], np.zeros(len(value_N), np.int64)
    distinct, place_N = np.unique(value_N, return_inverse=True)
    return distinct, place_N.astype(np.int64)
