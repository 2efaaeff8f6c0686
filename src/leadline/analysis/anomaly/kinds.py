"""What a metric's name says of how to judge it: one table, read top to bottom, first match wins.

Spelling: dots are read as underscores, as in `model/names.py`. A floor is the smallest deviation that counts as one
standard deviation, however quiet the metric has been: without it a constant that moves by nothing would be infinitely
odd. Floors are `floor` (in the metric's unit; of counters per second) and `floor_ratio` (of the level).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache


class Way(IntEnum):
    """How values become deviations."""

    LOAD = 0  # how much is done: follows the job, so a shift that all peers share says nothing of one of them
    HARM = 1  # bad by itself, whoever shares it: time lost, pressure, queues
    COUNT = 2  # bad by itself and counted in pieces: errors, drops, retransmissions; Poisson
    RARE = 3  # the same, and one is enough: ECC, link down, XID, OOM
    STATE = 4  # one of a few values; another than it was, or than its peers have, is odd


@dataclass(frozen=True, slots=True)
class Kind:
    """How metrics of these names are judged."""

    name: str  # regular expression for the whole name, dots as underscores
    way: Way
    side: int = 0  # +1: only high is odd, -1: only low, 0: both
    floor: float = 0.0
    floor_ratio: float = 0.05
    bits: int = 0  # of values that are sets of bits: those that count
    healthy: float | None = None  # what it is when all is well, so that it needs neither past nor peers
    alike: bool = False  # the same on all peers when all is well, so that few peers suffice to judge it


SKIPPED = re.compile(
    r".*_info|.*(?:_|^)(?:boot_time|start_time|time)_seconds|.*_created|.*_timestamp.*|node_load(?:5|15)"
    r"|node_network_iface_.*|ifDirection|ifIndex|ifType|ifPromiscuousMode|ifAdminStatus|.*_CORRECTABLE_REMAPPED_ROWS_MAX"
    r"|DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION|DCGM_FI_DEV_FB_FREE|DCGM_FI_PROCESS_NAME|sflow_sample_.*|ALERTS.*"
    r"|go_.*|python_.*|promhttp_.*|net_conntrack_.*|scrape_(?:samples|series).*|leadline_agent_(?:delivered|spool).*"
    r"|node_qdisc_(?:overlimits|requeues)_total"  # a shaper's, of which it has as many as packets
    r"|node_network_(?:transmit_queue_length|.*_assign_type|protocol_type|device_id|net_dev_group)"  # settings
    r"|node_(?:time|timex|textfile|scrape|exporter|entropy|filefd|arp|sockstat|nf_conntrack)_?.*"
)
"""What says nothing of the health of an entity, or says it twice, or grows for ever by its nature."""

_MIB = 2.0**20

KINDS: tuple[Kind, ...] = (
    # one is enough
    Kind(r"DCGM_(?:FI|EXP)_.*XID_ERRORS(?:_COUNT)?", Way.STATE, 1, healthy=0.0),
    Kind(r"DCGM_FI_DEV_(?:ECC_DBE|UNCORRECTABLE|RETIRED_DBE).*|DCGM_FI_DEV_ROW_REMAP_(?:FAILURE|PENDING)", Way.RARE, 1),
    Kind(r"DCGM_FI_DEV_NVLINK_.*(?:RECOVERY|REPLAY).*", Way.RARE, 1),
    Kind(r".*(?:oom_events|oom_kill).*", Way.RARE, 1),
    Kind(r".*(?:link_downed|link_error_recovery|link_down_events|carrier(?:_down|_up)?_changes).*", Way.RARE, 1),
    Kind(
        r".*(?:retries_exceeded|cqe_error|remote_access_errors|remote_invalid_request|local_length_error).*",
        Way.RARE, 1,
    ),
    Kind(r".*(?:edac|ecc|uncorrect|fatal|tx_timeout|hung|panic|mce|machine_check).*", Way.RARE, 1),
    Kind(r".*CORRECTABLE_REMAPPED_ROWS.*", Way.RARE, 1),
    # time lost, in seconds or ns a second
    Kind(
        r"DCGM_FI_DEV_(?:POWER|THERMAL|SYNC_BOOST|BOARD_LIMIT|LOW_UTIL|RELIABILITY)_VIOLATION",
        Way.HARM, 1, 2e7, healthy=0.0,
    ),
    Kind(r".*throttled.*seconds.*", Way.HARM, 1, 0.03, healthy=0.0),
    Kind(r".*(?:pressure|stalled|waiting)_?.*seconds.*", Way.HARM, 1, 0.03),
    Kind(r".*pause_duration.*", Way.HARM, 1, 2e4),
    Kind(r".*(?:throttled|throttles).*", Way.COUNT, 1),
    Kind(r"DCGM_FI_DEV_CLOCKS?_(?:EVENT|THROTTLE)_REASONS", Way.STATE, 1, bits=0x8 | 0x20 | 0x40 | 0x80, healthy=0.0),
    # states
    Kind(r"ifOperStatus|.*if_?oper_?status", Way.STATE, 1, alike=True),  # 1 is up, 2 down (IF-MIB)
    Kind(r"up|.*_up|.*carrier|.*(?:oper|link)_?status|.*source_up", Way.STATE, -1, alike=True),
    Kind(
        r".*(?:link_width|link_speed|pcie_link_gen|PCIE_LINK_(?:GEN|WIDTH)|network_speed).*|ifSpeed",
        Way.STATE, -1, alike=True,
    ),
    # errors that happen, a few at a time
    Kind(
        r".*(?:err(?:or)?s?(?:_|$)|crc|fec|symbol|discard|drop|retrans|timeout|out_of_(?:sequence|buffer)|seq_err|nak|lost"
        r"|overrun|fifo|frame|collision|replay|rcvq|prune|collapse|reset|fail|congest|cnp|ecn|CEPkts|slow_restart|pause"
        r"|overflow|abort|noroute|noport|backlogdrop|reorder|spurious|lossprobe|xmit_wait|pci_stalled"
        r"|duplicate|encapsulated|transmit_carrier|OFO|discards|InErrs|OutRsts|BufErrors|EstabResets|AttemptFails|SlowStart).*",
        Way.COUNT, 1,
    ),
    # of GPUs
    Kind(r"DCGM_FI_DEV_(?:SM|MEM|VIDEO|APP_SM|APP_MEM)_CLOCK", Way.LOAD, -1, 30.0, 0.03, alike=True),
    Kind(r".*(?:TEMP|temperature|temp_celsius).*", Way.HARM, 1, 4.0, 0.0, alike=True),
    Kind(r"DCGM_FI_DEV_POWER_USAGE", Way.LOAD, 0, 20.0, 0.05),
    Kind(r"DCGM_FI_DEV_.*_UTIL", Way.LOAD, 0, 8.0, 0.05),
    Kind(r"DCGM_FI_PROF_.*(?:ACTIVE|OCCUPANCY)", Way.LOAD, 0, 0.08, 0.05),
    Kind(r"DCGM_FI_DEV_FB_.*", Way.LOAD, 1, 512.0, 0.05),
    # of hosts and processes
    Kind(r".*mem.*(?:available|free).*bytes", Way.HARM, -1, 64 * _MIB, 0.05),
    Kind(r"container_memory_usage_bytes|process_memory_(?:usage|virtual)", Way.LOAD, 1, 64 * _MIB, 0.05),
    Kind(r"node_memory_.*_bytes|.*(?:resident|memory).*bytes", Way.LOAD, 1, 64 * _MIB, 0.1),
    Kind(r"node_load1|node_procs_running", Way.LOAD, 1, 1.5, 0.1),
    Kind(r"node_procs_blocked", Way.HARM, 1, 2.0, 0.1),
    Kind(r".*(?:backlog|queue_bytes).*", Way.HARM, 1, 64 * 1024.0, 0.1),
    Kind(r".*(?:queue_length|qlen).*", Way.HARM, 1, 16.0, 0.1),
    Kind(r"node_disk_io_time.*seconds.*", Way.HARM, 1, 0.05, 0.1),
    Kind(r".*cpu.*(?:seconds|time).*", Way.LOAD, 0, 0.08, 0.08),
    Kind(r".*(?:context_switches|interrupts|softirqs|intr|forks|paging_faults).*", Way.LOAD, 1, 200.0, 0.15),
    Kind(r".*thread_count", Way.LOAD, 1, 3.0, 0.1),
    Kind(r"scrape_duration_seconds", Way.HARM, 1, 0.1, 0.2),
    Kind(r".*bytes(?:_total)?|.*octets.*|if(?:In|Out)Octets|.*(?:xmit|rcv)_data.*", Way.LOAD, 0, 64 * 1024.0, 0.1),
    Kind(r".*(?:packets|pkts|segs|datagrams).*|if(?:In|Out).*Pkts", Way.LOAD, 0, 50.0, 0.1),
    # of steps and collectives (`derived`)
    Kind(r"step_(?:data|checkpoint|optimizer)_seconds", Way.HARM, 1, 0.01, 0.1, alike=True),
    Kind(r"step_(?:forward|compute)_seconds", Way.HARM, 1, 0.01, 0.06, alike=True),
    Kind(r"step_backward_seconds", Way.LOAD, 1, 0.01, 0.06),
    Kind(r"step_(?:samples|tokens)", Way.LOAD, 0, 1.0, 0.1, alike=True),
    Kind(r"step_seconds", Way.HARM, 1, 0.01, 0.06),
    Kind(r"collective_lateness_seconds", Way.HARM, 1, 0.005, 0.05, alike=True),
)  # fmt: skip

OTHER = Kind(r".*", Way.LOAD)


@lru_cache(maxsize=16384)  # names, not streams
def metric_kind(name: str) -> Kind | None:
    """How metrics of a name are judged; None for those that are not."""
    spelled = name.replace(".", "_")
    if SKIPPED.fullmatch(spelled):
        return None
    return next((each for each in KINDS if re.fullmatch(each.name, spelled, re.IGNORECASE)), OTHER)
