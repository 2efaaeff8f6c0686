"""Rows of the truth of flows (`lab.flow_truth`) from simulated flows and their paths."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from leadline.lab.flow_truth import SCHEMA
from leadline.simulator.fabric import Bools, Floats, Ints
from leadline.simulator.fleet import Fleet
from leadline.simulator.sampling import Flows, addresses, frames_of, receiving_port
from leadline.simulator.spraying import Possible


def truth_rows(
    flows: Flows, ids_F2: np.ndarray[tuple[int, int], np.dtype[np.uint64]], fleet: Fleet, switch_of_port: Ints,
    sprayed: Possible | None,
) -> pa.Table:  # fmt: skip
    """One row for each flow, switch and pair of links: exact, or expected where flows are sprayed.

    Inputs: `switch_of_port`, the switch of each port number (`sampling`); `sprayed`, where packets may go, or None for
    the flows' own paths. Frames and their bytes are those that sampling takes: full ones and a last one, with headers.
    """
    count = len(flows)
    frames_F = frames_of(flows.bytes_F, flows.segment_bytes)
    carried_F = flows.bytes_F + frames_F * flows.header_bytes
    given = sprayed or Possible(np.arange(count), flows.path_FX, np.ones(count))
    given = _kept(given, (frames_F > 0) & (flows.end_ns_F > flows.begin_ns_F))
    flow_R, in_R, out_R, share_R = _hops(given, 2 * flows.links)
    links = fleet.link_names
    switch_R = switch_of_port[receiving_port(in_R, flows.links)]
    pair_R = flows.dst_qp_F[flow_R]
    columns = {
        "flow": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), len(flow_R), [None, pa.py_buffer(np.ascontiguousarray(ids_F2[flow_R]).tobytes())]
        ),
        "src_ip": pa.array(addresses(flows.src_ip_F), pa.string()).take(pa.array(flow_R)),
        "dst_ip": pa.array(addresses(flows.dst_ip_F), pa.string()).take(pa.array(flow_R)),
        "protocol": flows.protocol_F[flow_R],
        "src_port": flows.src_port_F[flow_R],
        "dst_port": flows.dst_port_F[flow_R],
        "dst_qp": pa.array(pair_R, mask=pair_R < 0),
        "switch": fleet.switch_names.take(pa.array(switch_R)),
        "in_link": links.take(pa.array(in_R % flows.links)),
        "out_link": links.take(pa.array(out_R % flows.links)),
        "from_ns": flows.begin_ns_F[flow_R],
        "to_ns": flows.end_ns_F[flow_R],
        "packets": frames_F[flow_R] * share_R,
        "bytes": carried_F[flow_R] * share_R,
        "sprayed": np.full(len(flow_R), sprayed is not None),
    }
    return pa.table(columns, SCHEMA)


def _hops(given: Possible, directions: int) -> tuple[Ints, Ints, Ints, Floats]:
    """Flow, direction in, direction out, share: each once, in their order."""
    parts: list[tuple[Ints, Floats]] = []  # flow, direction in and out as one number; share
    for place in range(given.path_PX.shape[1] - 1):
        here = given.path_PX[:, place]
        behind = np.full(len(here), -1, np.int64)
        for later in range(given.path_PX.shape[1] - 1, place, -1):
            behind = np.where(given.path_PX[:, later] >= 0, given.path_PX[:, later], behind)
        used = np.flatnonzero((here >= 0) & (behind >= 0))
        parts.append(((given.flow_P[used] * directions + here[used]) * directions + behind[used], given.share_P[used]))
    key, number = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    share = np.zeros(len(key))
    np.add.at(share, number, np.concatenate([part[1] for part in parts]))
    rest = key // directions
    return rest // directions, rest % directions, key % directions, share


def _kept(given: Possible, keep_F: Bools) -> Possible:
    keep_P = keep_F[given.flow_P]
    return Possible(given.flow_P[keep_P], given.path_PX[keep_P], given.share_P[keep_P])
