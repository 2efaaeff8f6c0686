"""What hosts sent, received, lost and got wrong in a span, by the counters of their NICs and of the switch ports above.

Every measure is told in both directions as the host sees it: what a switch port sends to a host is inbound. Drivers
tell the same packets more than once (Ethernet and RDMA counters of one NIC), so counters are added up within a family
only, and of the families the largest speaks for the host.

    loss    packets that did not arrive, as far as somebody counted them: drops, NAKs, timers that ran out,
            retransmissions, discards of the switch port; as a share of that family's packets. Suspected, since a
            counter says how many and not why.
    errors  packets or symbols received or sent wrong, a second
    load    bytes a second of the busiest port, as a share of its speed
    delay   of `delay` (probe mesh): median over the peers of the 99th percentile, the worst of each one's paths
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.model.tables.metrics import SERIES
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.fleet.hosts import FleetHosts
from leadline.views.mesh.windows import SILENT, pairs_sql

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
IN, OUT = 0, 1
_, SWPORT, HOST = 0, 1, 2
PACKETS_MIN = 100.0
"""Of fewer packets in the span no loss is told: one of them lost would look like a flood."""
EDGE_NS = 90 * 10**9
"""A counter's growth over a long span is read from this much at both ends of it."""
_RDMA = "(?:node_)?(?:infiniband_|rdma_|ib_|hw_counters_)?"
_FAMILIES = ("netdev", "rdma", "tcp", "snmp", "switch-netdev")
_MEASURES = ("bytes", "packets", "lost", "errors")
# Name, family, measure, direction, factor. Of a switch's port the direction turns.
_COUNTERS: tuple[tuple[str, str, str, int, float], ...] = (
    ("node_network_receive_bytes_total", "netdev", "bytes", IN, 1),
    ("node_network_transmit_bytes_total", "netdev", "bytes", OUT, 1),
    ("node_network_receive_packets_total", "netdev", "packets", IN, 1),
    ("node_network_transmit_packets_total", "netdev", "packets", OUT, 1),
    ("node_network_receive_drop_total", "netdev", "lost", IN, 1),
    ("node_network_transmit_drop_total", "netdev", "lost", OUT, 1),
    ("node_network_receive_errs_total", "netdev", "errors", IN, 1),
    ("node_network_transmit_errs_total", "netdev", "errors", OUT, 1),
    (f"{_RDMA}port_(rcv_data|data_received_bytes)(_total)?", "rdma", "bytes", IN, 1),
    (f"{_RDMA}port_(xmit_data|data_transmitted_bytes)(_total)?", "rdma", "bytes", OUT, 1),
    (f"{_RDMA}port_(rcv_packets|packets_received)(_total)?", "rdma", "packets", IN, 1),
    (f"{_RDMA}port_(xmit_packets|packets_transmitted)(_total)?", "rdma", "packets", OUT, 1),
    # Not out_of_sequence: fabrics that spray packets put them out of order without losing one.
    (f"{_RDMA}(out_of_buffer|implied_nak_seq_err)(_total)?", "rdma", "lost", IN, 1),
    (f"{_RDMA}(local_ack_timeout_err|packet_seq_err|port_xmit_discards|port_discards_transmitted)(_total)?",
     "rdma", "lost", OUT, 1),
    (f"{_RDMA}(port_rcv_errors|port_errors_received|symbol_error|local_link_integrity_errors)(_total)?",
     "rdma", "errors", IN, 1),
    ("node_netstat_Tcp_OutSegs", "tcp", "packets", OUT, 1),
    ("node_netstat_Tcp_RetransSegs", "tcp", "lost", OUT, 1),
    ("node_netstat_Tcp_InSegs", "tcp", "packets", IN, 1),
    ("ifInUcastPkts", "snmp", "packets", IN, 1),
    ("ifOutUcastPkts", "snmp", "packets", OUT, 1),
    ("if(In)Discards", "snmp", "lost", IN, 1),
    ("if(Out)Discards", "snmp", "lost", OUT, 1),
    ("ifInErrors", "snmp", "errors", IN, 1),
    ("ifOutErrors", "snmp", "errors", OUT, 1),
)  # fmt: skip
_SPEED = {"node_network_speed_bytes": 1.0, "node_infiniband_rate_bytes_per_second": 1.0}  # to bytes a second
_CARRIER = ("node_network_carrier", "node_network_up")
_SIGNS = ("leadline_agent_info", "node_load1", "node_boot_time_seconds", "DCGM_FI_DEV_GPU_UTIL", "up")  # of life
_SPEED_PLACE, _CARRIER_PLACE, _SIGN_PLACE = 10, 11, 12  # beside the places of _MEASURES
_WORDS = re.compile(r"(_rcv|_xmit)_data(_total)?$")  # in words of 4 bytes, as the driver counts


@dataclass(frozen=True)
class Measures:
    """Of H hosts and P ports; rows of the first axis are inbound, outbound. NaN: not known."""

    loss_2H: Floats
    errors_2H: Floats  # 1/s
    load_2H: Floats
    delay_2H: Floats  # ns
    bytes_2H: Floats  # bytes/s
    carrier_P: Floats  # 1, 0
    heard_H: NDArray[np.bool_]  # a sample came in the span


def metric_names() -> tuple[str, ...]:
    """The metrics that are read, as regular expressions for whole names."""
    return (*(pattern for pattern, *_ in _COUNTERS), *_SPEED, *_CARRIER, *_SIGNS)


def measures(store: Store, asked: Asked, fleet: FleetHosts, from_ns: int) -> Measures:
    """Of the span from `from_ns` to `asked.at_ns`. Errors: StoreError."""
    rows = _grown(store, asked, from_ns)
    H, P = len(fleet.hosts), len(fleet.ports.host_P)
    kind_N, port_N, host_N = _whose(rows, fleet)
    family_N, measure_N = rows.column("family").to_numpy(), rows.column("measure").to_numpy()
    family_N = np.where((kind_N == SWPORT) & (family_N == 0), _FAMILIES.index("switch-netdev"), family_N)
    value_N = rows.column("value").to_numpy()
    way_N = np.where(kind_N == SWPORT, 1 - rows.column("way").to_numpy(), rows.column("way").to_numpy())

    sums = np.full((len(_FAMILIES), len(_MEASURES), 2, H), np.nan)
    # Of Ethernet only NIC ports: hosts have bridges and tunnels that count the same packets.
    own_N = (port_N >= 0) | (kind_N == HOST) | (family_N == _FAMILIES.index("rdma"))
    counted = np.flatnonzero((family_N >= 0) & (host_N >= 0) & own_N & ~np.isnan(value_N))
    at = (family_N[counted], measure_N[counted], way_N[counted], host_N[counted])
    sums[at] = 0.0
    np.add.at(sums, at, value_N[counted])

    speed_P = _of_ports(value_N, port_N, (measure_N == _SPEED_PLACE) & (value_N > 0), P, np.fmax)
    load_2H = np.full((2, H), np.nan)
    for way in (IN, OUT):
        of_bytes = (family_N >= 0) & (measure_N == _MEASURES.index("bytes")) & (way_N == way)
        share_P = _of_ports(value_N, port_N, of_bytes, P, np.fmax) / speed_P
        np.fmax.at(load_2H[way], fleet.ports.host_P, share_P)

    heard_H = np.zeros(H, bool)
    heard_H[host_N[(host_N >= 0) & (kind_N != SWPORT)]] = True
    return Measures(
        _loss(sums, asked.at_ns - from_ns), _largest(sums[:, _MEASURES.index("errors")]), load_2H,
        _delays(store, asked, fleet, from_ns), _largest(sums[:, _MEASURES.index("bytes")]),
        _of_ports(value_N, port_N, measure_N == _CARRIER_PLACE, P, np.fmin), heard_H,
    )  # fmt: skip


def _loss(sums: Floats, span_ns: int) -> Floats:
    """The largest share that a family tells, of those with packets enough. What arrived counts what did not as well."""
    packets, lost = sums[:, _MEASURES.index("packets")], sums[:, _MEASURES.index("lost")]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(packets * span_ns / 1e9 >= PACKETS_MIN, lost / (packets + lost), np.nan)
    return _largest(share)


def _largest(of_F2H: Floats) -> Floats:
    """Over families; NaN where none tells."""
    return np.asarray(np.fmax.reduce(of_F2H, axis=0))


def _of_ports(value_N: Floats, port_N: Ints, which_N: NDArray[np.bool_], ports: int, fold: np.ufunc) -> Floats:
    out = np.full(ports, np.nan)
    chosen = np.flatnonzero(which_N & (port_N >= 0))
    fold.at(out, port_N[chosen], value_N[chosen])
    return out


def _whose(rows: pa.Table, fleet: FleetHosts) -> tuple[Ints, Ints, Ints]:
    """Kind, NIC port and host of each row; -1 for none: a port that is no NIC port still says that its host lives."""
    entity, kind_N = rows.column("entity"), rows.column("kind").to_numpy()
    host_N = _found(rows.column("host"), pa.array(fleet.hosts, pa.string()))
    port_N = _found(entity, pc.binary_join_element_wise("port:", fleet.ports.name_P, ""))
    above_N = _found(entity, pc.binary_join_element_wise("swport:", fleet.ports.swport_P, ""))
    port_N = np.where(kind_N == SWPORT, above_N, port_N)
    if len(fleet.ports.host_P):
        host_N = np.where(port_N >= 0, fleet.ports.host_P[port_N], host_N)
    return kind_N, port_N, host_N


def _found(names: pa.Array | pa.ChunkedArray, among: pa.Array) -> Ints:
    return np.asarray(pc.fill_null(pc.index_in(names.cast(pa.string()), among), -1).to_numpy(), np.int64)


def _grown(store: Store, asked: Asked, from_ns: int) -> pa.Table:
    """Rates of counters and last values of gauges, by entity, family, measure and direction.

    A counter that became smaller began anew: it grew by what it shows.
    """
    mine = "".join(f" AND {each}" for each in asked.conditions())
    known = f"SELECT DISTINCT toString(name) AS name FROM leadline.{SERIES.name} WHERE entity_kind IN {_KINDS}{mine}"
    names = [str(name) for name in store.query(known, asked.parameters(known)).column("name").to_pylist()]
    roles = {name: role for name in names if (role := _role(name)) is not None} or {"": (-1, _SIGN_PLACE, 0, 0.0)}
    family, measure, way, factor = (list(each) for each in zip(*roles.values(), strict=True))
    ends = "time_ns > {from_ns:Int64} AND time_ns <= {at_ns:Int64}"
    if asked.at_ns - from_ns > 3 * EDGE_NS:
        ends += f" AND (time_ns <= {{from_ns:Int64}} + {EDGE_NS} OR time_ns > {{at_ns:Int64}} - {EDGE_NS})"
    sql = _GROWN.replace("(mine)", mine).replace("(ends)", ends)
    more = {
        "names": list(roles),
        "family": family,
        "measure": measure,
        "way": way,
        "factor": factor,
        "from_ns": from_ns,
    }
    return store.query(sql, {**asked.parameters(sql), **more})


_KINDS = "('port', 'swport', 'host', 'gpu', 'service')"
# Gauges have no family: of speeds (measure 10) the largest is meant, of carriers the smallest. Rows that were appended
# twice change nothing here, so they need not be made one (`final`), which takes half of the time.
_GROWN = """
    WITH named AS (
        SELECT series, toString(any(entity)) AS entity, ifNull(toString(any(host)), '') AS host,
            transform(toString(any(entity_kind)), ['port', 'swport', 'host'], [0, 1, 2], 3) AS kind,
            indexOf({names:Array(String)}, toString(any(name))) AS place
        FROM leadline.series
        WHERE name IN {names:Array(String)} AND entity_kind IN ('port', 'swport', 'host', 'gpu', 'service') (mine)
        GROUP BY series
    ), grown AS (
        SELECT series, argMin(value, time_ns) AS a, argMax(value, time_ns) AS b, min(time_ns) AS t0,
            max(time_ns) AS t1
        FROM leadline.metric_sample
        WHERE (ends) AND NOT isNaN(value) AND series IN (SELECT series FROM named) (mine) GROUP BY series
    )
    SELECT entity, toInt64(kind) AS kind, any(host) AS host,
        toInt64({family:Array(Int64)}[place]) AS family, toInt64({measure:Array(Int64)}[place]) AS measure,
        toInt64({way:Array(Int64)}[place]) AS way,
        toFloat64(multiIf(
            family >= 0, sumOrNull(if(t1 > t0,
                {factor:Array(Float64)}[place] * if(b >= a, b - a, b) / (t1 - t0) * 1e9, NULL)),
            measure = 10, max(b), min(b))) AS value
    FROM grown INNER JOIN named USING (series) GROUP BY entity, kind, family, measure, way
    SETTINGS final = 0"""


def _role(name: str) -> tuple[int, int, int, float] | None:
    """Family, measure, direction, factor; a family of -1: a gauge."""
    if name in _SPEED:
        return -1, _SPEED_PLACE, 0, _SPEED[name]
    if name in _CARRIER:
        return -1, _CARRIER_PLACE, 0, 1.0
    if name in _SIGNS:
        return -1, _SIGN_PLACE, 0, 1.0
    for pattern, family, measure, way, factor in _COUNTERS:
        if re.fullmatch(pattern, name):
            words = 4.0 if _WORDS.search(name) else factor
            return _FAMILIES.index(family), _MEASURES.index(measure), way, words
    return None


def _delays(store: Store, asked: Asked, fleet: FleetHosts, from_ns: int) -> Floats:
    """Of each host as receiver and as sender: the median over its peers, so that one bad peer does not colour it.
    Peers from which nothing arrives have no delay; the loss says it."""
    pairs = pairs_sql(asked, from_ns, newest=True)
    sql = (
        "SELECT ends.1 AS way, replaceRegexpOne(ends.2, '^host:', '') AS host, quantileExact(0.5)(p99_ns) AS p99_ns "
        f"FROM ({pairs}) ARRAY JOIN [({IN}, dst), ({OUT}, src)] AS ends WHERE NOT {SILENT} GROUP BY way, host"
    )
    rows = store.query(sql, asked.parameters(sql))
    out = np.full((2, len(fleet.hosts)), np.nan)
    at = _found(rows.column("host"), pa.array(fleet.hosts, pa.string()))
    known = at >= 0
    out[rows.column("way").to_numpy()[known], at[known]] = rows.column("p99_ns").to_numpy().astype(float)[known]
    return out
