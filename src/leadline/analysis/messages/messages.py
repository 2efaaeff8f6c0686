"""Both ends of each transfer joined, and what collectives waited for, by edge: the analysis `messages`.

message_end --ends--> keys --pairs--> messages ------------> message
collective ---------------------------spans, held--> edges -> edge
relation ----flows--------------------^
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Ids, Ints, named
from leadline.analysis.messages.edges import Edges, edges, flow_ids
from leadline.analysis.messages.ends import LOOK_BACK_NS, ends_of
from leadline.analysis.messages.flows import Rode, rode
from leadline.analysis.messages.group_kernels import grouped, listed
from leadline.analysis.messages.pairs import Delays, Messages, State, delays, messages_of
from leadline.analysis.messages.spans import spans
from leadline.analysis.spec import Part, Read, Verdicts, Window, analysis
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import COLLECTIVE, EDGE, MESSAGE, MESSAGE_END

END_COLUMNS = (
    "job", "comm", "channel", "seq", "step", "side", "rank", "peer", "bytes", "begin_ns", "end_ns", "flow", "clock",
)  # fmt: skip
COLLECTIVE_COLUMNS = ("job", "comm", "rank", "seq", "op", "enqueued_ns", "finished_ns", "source")


@analysis(
    name="messages",
    version=1,
    reads=(
        Read(MESSAGE_END, END_COLUMNS, look_back_ns=LOOK_BACK_NS),
        Read(COLLECTIVE, COLLECTIVE_COLUMNS, look_back_ns=LOOK_BACK_NS),
        Read(RELATION, ("tenant", "child", "parent", "kind"), valid=True),
    ),
    writes=(MESSAGE, EDGE),
    window_s=10,
    grace_s=2,
    part=Part.JOB,
)
def messages(message_end: pa.Table, collective: pa.Table, relation: pa.Table, *, window: Window) -> Verdicts:
    """Joins both ends of each transfer, and says which edges the collectives of a job waited for."""
    ends = ends_of(message_end, window.from_ns, window.to_ns)
    if not len(ends):
        return {}
    found = messages_of(ends)
    told = found.where((found.told_M >= window.from_ns) & (found.told_M < window.to_ns))
    way, flow = delays(told), rode(told, relation, window.job, window.tenant)
    summed = edges(told, way, flow, found, spans(found, collective, window))
    return {
        MESSAGE.name: message_rows(told, way, flow, window),
        EDGE.name: edge_rows(summed, ends.comms, flow, window),
    }


def message_rows(told: Messages, way: Delays, flow: Rode, window: Window) -> dict[str, Any]:
    """Columns of `message`. Messages of one key are one row, the first of them, and conflicting."""
    ends, row_M = told.ends, told.any_M
    state_G, first_G = _first(told)
    row_G, send_G, recv_G = row_M[first_G], told.send_M[first_G], told.recv_M[first_G]
    bound_G, known_G = way.bound_M[first_G], way.known_M[first_G]
    count = len(first_G)
    return {
        "job": pa.repeat(window.job, count),
        "comm": named(ends.comm_N[row_G], ends.comms),
        "channel": ends.channel_N[row_G],
        "seq": ends.seq_N[row_G].astype(np.uint64),
        "step": ends.step_N[row_G],
        "src_rank": ends.src_N[row_G],
        "dst_rank": ends.dst_N[row_G],
        "end_ns": np.full(count, window.to_ns),
        "window_ns": np.full(count, window.window_ns),
        "state": named(state_G, [state.word for state in State]),
        "bytes": ends.bytes_N[row_G].astype(np.uint64),
        "send_posted_ns": _or_null(ends.begin_N[send_G], send_G < 0),
        "sent_ns": _or_null(ends.end_N[send_G], send_G < 0),
        "recv_posted_ns": _or_null(ends.begin_N[recv_G], recv_G < 0),
        "received_ns": _or_null(ends.end_N[recv_G], recv_G < 0),
        "delay_ns": _or_null(way.delay_M[first_G], ~known_G),
        "bound_ns": _or_null(bound_G, bound_G < 0),
        "flow": _flow_column(flow.flow_M[first_G], flow.flow_F2),
        "flows": flow.flows_M[first_G],
    }


def _first(told: Messages) -> tuple[Ints, Ints]:
    """State of each key, and which of its messages is told: the first, by what it says and not by its place."""
    if not len(told) or np.bincount(told.key_M).max() == 1:
        return told.state_M, np.arange(len(told))
    group_M, first_G = grouped(told.key_M[:, np.newaxis])
    begin_G, order_M = listed(group_M, len(first_G))
    first_G = order_M[begin_G[:-1]]
    state_G = told.state_M[first_G]
    for g in np.flatnonzero(np.diff(begin_G) > 1).tolist():  # contradictions only: few, or nothing makes sense
        rows = order_M[begin_G[g] : begin_G[g + 1]]
        ends = told.ends
        by = [np.where(each >= 0, ends.begin_N[each], -1) for each in (told.recv_M[rows], told.send_M[rows])]
        ended = [np.where(each >= 0, ends.end_N[each], -1) for each in (told.recv_M[rows], told.send_M[rows])]
        size = ends.bytes_N[told.any_M[rows]]
        first_G[g] = rows[np.lexsort((size, *by, *ended, told.told_M[rows]))[0]]
        state_G[g] = State.CONFLICTING
    return state_G, first_G


def edge_rows(found: Edges, comms: list[str], flow: Rode, window: Window) -> dict[str, Any]:
    """Columns of `edge`."""
    count = len(found.src_E)
    no_delay, no_transfer = found.delays_E == 0, found.transfer_E2[:, 0] < 0
    return {
        "job": pa.repeat(window.job, count),
        "comm": named(found.comm_E, comms),
        "src_rank": found.src_E,
        "dst_rank": found.dst_E,
        "end_ns": np.full(count, window.to_ns),
        "window_ns": np.full(count, window.window_ns),
        "messages": found.messages_E.astype(np.uint64),
        "unpaired": found.unpaired_E.astype(np.uint64),
        "conflicting": found.conflicting_E.astype(np.uint64),
        "bytes": found.bytes_E,
        "held_s": found.held_ns_E / 1e9,
        "collectives_s": found.collectives_ns_E / 1e9,
        "transfer_p50_ns": _or_null(found.transfer_E2[:, 0], no_transfer),
        "transfer_p99_ns": _or_null(found.transfer_E2[:, 1], no_transfer),
        "delay_p50_ns": _or_null(found.delay_E2[:, 0], no_delay),
        "delay_p99_ns": _or_null(found.delay_E2[:, 1], no_delay),
        "bound_ns": _or_null(found.bound_ns_E, no_delay),
        "flow": _flow_column(found.flow_E, flow.flow_F2),
        "flows": found.flows_E,
    }


def _or_null(value_N: Ints, null_N: Bools) -> pa.Array:
    return pa.array(value_N, pa.int64(), mask=null_N)


def _flow_column(place_N: Ints, flow_F2: Ids) -> pa.Array:
    """Flows as 16-byte ids, null where there is none."""
    id_N2, none_N = flow_ids(place_N, flow_F2)
    plain = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), len(id_N2), [None, pa.py_buffer(np.ascontiguousarray(id_N2))]
    )
    return pa.compute.if_else(pa.array(none_N), pa.scalar(None, pa.binary(16)), plain)
