"""Rules of what makes jobs slow. Signals first: metrics and events by the names that Leadline stores them under.

Weights are nats; the same few everywhere, so that no rule is tuned by itself: `PROOF` is what the component itself calls
broken, `TELLING` what little else does, `FITTING` what comes with it, `WEAK` what comes with much else.

Sources: NVIDIA DCGM field identifiers and XID documentation; Linux mlx5 counters; cgroup v1/v2 documentation; SuperBench
(ATC'24) for row remaps; Greyhound (ATC'25) and Falcon for fail-slow of GPUs, links; C4 (HPCA'25), Minder (NSDI'25).
"""

from __future__ import annotations

from leadline.analysis.cause.rule import ANY, NETWORK, OWN_WORK, RARE, SLOW, STORED, Rule, Sign
from leadline.model.accounts import Category, Layer
from leadline.model.incidents import ActionKind as A
from leadline.model.incidents import Symptom

PROOF, TELLING, FITTING, WEAK = 6.0, 4.5, 2.5, 1.0
_PORT = r"node_(ethtool|infiniband)_"

_RETRANSMITS = (
    Sign(
        "anomaly", rf"{_PORT}(local_ack_timeout_err|packet_seq_err|req_transport_retries_exceeded).*", TELLING, "high"
    ),
    Sign("anomaly", rf"{_PORT}(out_of_sequence|roce_adp_retrans(_to)?|implied_nak_seq_err)(_total)?", TELLING, "high"),
)
_HOST_RETRANSMITS = (
    Sign("anomaly", r"node_netstat_(Tcp_RetransSegs|TcpExt_TCP(Timeouts|LostRetransmit|FastRetrans|LossProbes))", WEAK),
)
_DROPS = (
    Sign("anomaly", r"(ifOutDiscards|node_qdisc_drops_total|node_network_transmit_drop_total)", FITTING, "high"),
    Sign("anomaly", r"(node_qdisc_(backlog|current_queue_length|overlimits_total))", FITTING, "high"),
    Sign("anomaly", rf"{_PORT}(tx_discards_phy|port_xmit_discards|port_xmit_wait)(_total)?", FITTING, "high"),
)
_CARRIER = (
    Sign("event", r"link-down", PROOF, needed=True),
    Sign("failure", r"link-down", PROOF, needed=True),
    Sign("anomaly", r"node_network_carrier(_down|_up)?_changes_total", TELLING, "high", needed=True),
    Sign("anomaly", r"(node_network_(carrier|up)|ifOperStatus)", TELLING, needed=True),
    Sign("anomaly", rf"{_PORT}link_downed(_total)?", TELLING, "high", needed=True),
)

SLOW_RULES: tuple[Rule, ...] = (
    # -- GPUs ------------------------------------------------------------------------------------------------------
    Rule(
        "slow-gpu",
        "runs at a lower clock than it should: heat or power",
        ("gpu",),
        Layer.GPU,
        SLOW,
        (
            Sign(
                "anomaly", r"DCGM_FI_DEV_(THERMAL|POWER|HW_SLOWDOWN|RELIABILITY)_VIOLATION", PROOF, "high", needed=True
            ),
            Sign("anomaly", r"DCGM_FI_DEV_(SM|MEM)_CLOCK", TELLING, "low", needed=True),
            Sign("anomaly", r"DCGM_FI_DEV_CLOCKS?_(EVENT|THROTTLE)_REASONS", PROOF, needed=True),
            Sign("anomaly", r"DCGM_FI_DEV_(GPU|MEMORY)_TEMP", FITTING, "high"),
            Sign("sle_loss", r"DCGM_FI_DEV_.*(CLOCK|VIOLATION|TEMP).*", FITTING),
        ),
        OWN_WORK,
        action=A.DRAIN,
    ),
    Rule(
        "gpu-memory",
        "remaps rows of its memory, or cannot",
        ("gpu",),
        Layer.GPU,
        ANY,
        (
            Sign("event", r"xid", PROOF, code=r"48|63|64|92|94|95|140", needed=True),
            Sign(
                "anomaly", r"DCGM_FI_DEV_(UN)?CORRECTABLE_REMAPPED_ROWS|DCGM_FI_DEV_ROW_REMAP_\w+", PROOF, needed=True
            ),
            Sign("anomaly", r"DCGM_FI_DEV_ECC_\w+", TELLING, "high", needed=True),
            Sign("failure", r"xid", FITTING),
        ),
        OWN_WORK | {"died", "restart"},
        action=A.RESET_GPU,
    ),
    Rule(
        "nvlink-errors",
        "has errors on its NVLink",
        ("gpu",),
        Layer.GPU,
        ANY,
        (
            Sign("event", r"xid", PROOF, code=r"74|149", needed=True),
            Sign("event", r"sxid", TELLING, needed=True),
            Sign("anomaly", r"DCGM_FI_DEV_NVLINK_\w+ERROR\w*", PROOF, "high", needed=True),
            Sign("sle_loss", r"DCGM_FI_DEV_NVLINK.*", FITTING),
        ),
        OWN_WORK | NETWORK,
        action=A.RESET_GPU,
    ),
    Rule(
        "gpu-pcie",
        "repeats transfers on PCIe",
        ("gpu",),
        Layer.GPU,
        SLOW,
        (
            Sign("anomaly", r"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", TELLING, "high", needed=True),
            Sign("event", r"pcie-aer", FITTING),
        ),
        OWN_WORK,
        prior=RARE,
        action=A.RESET_GPU,
    ),
    # -- hosts -----------------------------------------------------------------------------------------------------
    Rule(
        "cpu-throttled",
        "gives its rank less CPU than the others have",
        ("host",),
        Layer.HOST,
        SLOW,
        (
            Sign("anomaly", r"container_cpu_cfs_throttled_(periods|seconds)_total", TELLING, "high", needed=True),
            Sign("event", r"cpu-throttle", PROOF, needed=True),
            Sign("anomaly", r"node_pressure_cpu_\w+", WEAK, "high"),
            Sign("sle_loss", r"container_cpu_cfs_throttled.*", FITTING),
        ),
        OWN_WORK | NETWORK,
        action=A.DRAIN,
    ),
    Rule(
        "cpu-contended",
        "has more to compute than its CPUs can",
        ("host",),
        Layer.HOST,
        SLOW,
        (
            Sign(
                "anomaly", r"node_pressure_cpu_(waiting|stalled)_seconds_total", FITTING, "high", "peers", needed=True
            ),
            Sign("anomaly", r"node_load1", WEAK, "high", "peers"),
            Sign("anomaly", r"node_procs_running", WEAK, "high", "peers"),
        ),
        OWN_WORK,
        prior=RARE,
        action=A.DRAIN,
    ),
    Rule(
        "memory-pressure",
        "has hardly room for its rank's memory and reclaims all the time",
        ("host",),
        Layer.HOST,
        SLOW,
        (
            Sign("anomaly", r"container_spec_memory_limit_bytes", TELLING, "low", needed=True),
            Sign("anomaly", r"container_memory_(failcnt|failures_total|events_max)", TELLING, "high", needed=True),
            Sign("anomaly", r"node_pressure_memory_\w+", FITTING, "high", needed=True),
            Sign("anomaly", r"process\.paging\.faults", TELLING, "high", needed=True),
            Sign("anomaly", r"container_memory_usage_bytes", WEAK, "high"),
            Sign("anomaly", r"process\.disk\.io|node_disk_read_bytes_total", WEAK, "high"),
        ),
        OWN_WORK,
        action=A.RESIZE,
    ),
    Rule(
        "neighbour",
        "takes CPU and network from the hosts on its machine",
        ("host",),
        Layer.HOST,
        SLOW,
        (
            Sign("anomaly", r"container_cpu_usage_seconds_total|node_cpu_seconds_total", FITTING, "high"),
            Sign("anomaly", r"node_network_(receive|transmit)_(bytes|packets)_total", FITTING, "high", needed=True),
            Sign("anomaly", r"(ifOutOctets|ifInOctets)", FITTING, "high", needed=True),
            Sign("anomaly", r"node_infiniband_port_(rcv|xmit)_(data|packets)_total", FITTING, "high", needed=True),
        ),
        OWN_WORK | NETWORK,
        action=A.AVOID,
        where="machine",
    ),
    Rule(
        "machine-check",
        "reports errors of memory, processor or PCIe",
        ("host",),
        Layer.HOST,
        ANY,
        (
            Sign("event", r"mce|edac", TELLING, severity="error|fatal|warning", needed=True),
            Sign("event", r"pcie-aer", FITTING, code="non-fatal|fatal|dpc", needed=True),
            Sign("event", r"hung-task", TELLING, needed=True),
        ),
        prior=RARE,
        action=A.REPLACE_NODE,
    ),
    # -- NICs and links --------------------------------------------------------------------------------------------
    Rule(
        "pcie-width",
        "has fewer PCIe lanes than it could",
        ("port",),
        Layer.NIC,
        SLOW,
        (
            Sign("event", r"pcie-width|pcie-bandwidth|pcie-link", PROOF, needed=True),
            Sign("anomaly", r"node_pcidevice_current_link_(width|transfers_per_second)", PROOF, "low", needed=True),
            Sign("anomaly", rf"{_PORT}outbound_pci_stalled_wr(_events)?(_total)?", TELLING, "high", needed=True),
            Sign("event", r"pcie-aer", FITTING),
        ),
        OWN_WORK | NETWORK,
        action=A.REBOOT_NODE,
    ),
    Rule(
        "pfc-storm",
        "pauses the network without end",
        ("port",),
        Layer.NIC,
        ANY,
        (
            Sign("anomaly", rf"{_PORT}tx_pause_storm_(warning|error)_events(_total)?", PROOF, "high", needed=True),
            Sign("anomaly", rf"{_PORT}tx_prio\d_pause(_duration|_transition)?(_total)?", TELLING, "high", needed=True),
            Sign("anomaly", rf"{_PORT}tx_global_pause\w*", TELLING, "high", needed=True),
            *_DROPS,
        ),
        OWN_WORK | NETWORK,
        action=A.REBOOT_NODE,
    ),
    Rule(
        "wrong-gid",
        "sends what is never acknowledged: wrong GID or no route",
        ("port",),
        Layer.NIC,
        ANY,
        (
            Sign("anomaly", rf"{_PORT}req_transport_retries_exceeded(_total)?", TELLING, "high", needed=True),
            Sign("anomaly", rf"{_PORT}local_ack_timeout_err(_total)?", FITTING, "high"),
            Sign("anomaly", rf"{_PORT}roce_adp_retrans(_to)?(_total)?", WEAK, "high"),
            Sign("conflict", r"wrong-gid|gid-.*", PROOF, needed=True),
        ),
        NETWORK | OWN_WORK,
        prior=RARE,
        action=A.CONTACT_SUPPORT,
        works=False,
    ),
    Rule(
        "wrong-dscp",
        "sends in a traffic class that is dropped",
        ("port",),
        Layer.NIC,
        ANY,
        (
            Sign(
                "anomaly",
                rf"{_PORT}rx_prio[0124567]_(discards|buf_discard|cong_discard)(_total)?",
                PROOF,
                "high",
                needed=True,
            ),
            Sign("anomaly", r"flow\.dscp", PROOF, needed=True),
            Sign("anomaly", rf"{_PORT}rx_discards_phy(_total)?", WEAK, "high"),
            *_RETRANSMITS,
        ),
        NETWORK | OWN_WORK,
        action=A.CONTACT_SUPPORT,
    ),
    Rule(
        "link-down",
        "lost its carrier",
        ("link", "port"),
        Layer.NIC,
        ANY,
        (*_CARRIER, Sign("anomaly", r"node_network_transmit_carrier_total", WEAK, "high"), *_RETRANSMITS),
        NETWORK | OWN_WORK | {"restart"},
        action=A.CHECK_CABLE,
        works=False,
    ),
    Rule(
        "marginal-optic",
        "receives too little light",
        ("link", "port"),
        Layer.NIC,
        ANY,
        (
            Sign("anomaly", rf"({_PORT})?transceiver_\w*rx_power\w*", PROOF, "low", needed=True),
            Sign("anomaly", rf"{_PORT}rx_corrected_bits_phy(_total)?", TELLING, "high", needed=True),
            Sign(
                "anomaly",
                rf"{_PORT}(rx_(pcs_)?symbol_err_phy|symbol_error|link_error_recovery)(_total)?",
                PROOF,
                "high",
                needed=True,
            ),
            Sign("anomaly", r"dot3Stats(SymbolErrors|FCSErrors)", PROOF, "high", needed=True),
            Sign("anomaly", r"(ifInErrors|node_network_receive_errs_total)", FITTING, "high"),
            *_RETRANSMITS,
        ),
        NETWORK | OWN_WORK,
        action=A.CHECK_CABLE,
    ),
    Rule(
        "link-errors",
        "damages or loses packets",
        ("link",),
        Layer.NIC,
        ANY,
        (
            Sign(
                "anomaly",
                r"(ifInErrors|ifOutErrors|node_network_(receive|transmit)_errs_total)",
                TELLING,
                "high",
                needed=True,
            ),
            Sign("anomaly", r"node_infiniband_port_rcv_errors_total", TELLING, "high", needed=True),
            Sign("anomaly", rf"{_PORT}(local_ack_timeout_err|packet_seq_err)(_total)?", TELLING, "high", needed=True),
            Sign("anomaly", rf"{_PORT}(out_of_sequence|roce_adp_retrans(_to)?)(_total)?", TELLING, "high", needed=True),
            *_HOST_RETRANSMITS,
        ),
        NETWORK,
        action=A.CHECK_CABLE,
    ),
    Rule(
        "wrong-mtu",
        "drops packets that are too long for it",
        ("link",),
        Layer.FABRIC,
        ANY,
        (
            Sign("conflict", r"mtu|wrong-mtu|two-mtus", PROOF, needed=True),
            Sign("anomaly", r"node_network_mtu_bytes", PROOF, needed=True),
            Sign("anomaly", r"node_network_receive_drop_total", FITTING, "high", needed=True),
            Sign("anomaly", r"ifInDiscards", FITTING, "high", needed=True),
            Sign("anomaly", r"node_netstat_Ip_Frag(Fails|Creates)", TELLING, "high", needed=True),
        ),
        NETWORK,
        prior=RARE,
        action=A.CONTACT_SUPPORT,
    ),
    Rule(
        "slow-link",
        "carries less than its rate",
        ("link",),
        Layer.NIC,
        SLOW,
        (
            Sign(
                "anomaly",
                r"(node_network_speed_bytes|ifSpeed|node_infiniband_rate_bytes_per_second)",
                PROOF,
                "low",
                needed=True,
            ),
            Sign(
                "anomaly", r"node_qdisc_(backlog|current_queue_length|overlimits_total)", TELLING, "high", needed=True
            ),
            Sign(
                "anomaly",
                r"(ifOutDiscards|node_qdisc_drops_total|node_network_transmit_drop_total)",
                FITTING,
                "high",
                needed=True,
            ),
            Sign("anomaly", rf"{_PORT}(port_xmit_wait|tx_discards_phy)(_total)?", FITTING, "high", needed=True),
            Sign("anomaly", r"(ifOutOctets|node_network_transmit_bytes_total)", WEAK, "low"),
            *_HOST_RETRANSMITS,
        ),
        NETWORK,
        action=A.CHECK_CABLE,
    ),
    Rule(
        "congestion",
        "is filled by traffic of others",
        ("link",),
        Layer.FABRIC,
        SLOW,
        (
            Sign("traffic", r"others", TELLING, needed=True),
            Sign(
                "anomaly",
                r"(ifOutOctets|node_network_transmit_bytes_total|node_network_receive_bytes_total)",
                FITTING,
                "high",
            ),
            Sign("anomaly", r"node_infiniband_port_(rcv|xmit)_data_total", WEAK, "high"),
            *_DROPS,
        ),
        NETWORK | OWN_WORK,
        action=A.PACE,
    ),
    Rule(
        "switch-down",
        "lost many of its links at once",
        ("switch",),
        Layer.FABRIC,
        ANY,
        _CARRIER,
        NETWORK | OWN_WORK | {"restart"},
        prior=RARE,
        action=A.CONTACT_SUPPORT,
        works=False,
        wide=True,
    ),
    Rule(
        "switch-loss",
        "loses packets of several links and counts none of them",
        ("switch",),
        Layer.FABRIC,
        ANY,
        (
            Sign(
                "anomaly",
                rf"{_PORT}(local_ack_timeout_err|packet_seq_err|out_of_sequence|roce_adp_retrans(_to)?)(_total)?",
                FITTING,
                "high",
                needed=True,
            ),
            Sign("event", r"path-dead|blackhole", PROOF, needed=True),
            Sign("anomaly", r"sflow_dropped\w*", FITTING, "high", needed=True),
            Sign("conflict", r"off-path|loop|never-arrives", FITTING, needed=True),
        ),
        NETWORK,
        prior=RARE,
        action=A.REROUTE,
        wide=True,
    ),
    # -- storage ---------------------------------------------------------------------------------------------------
    Rule(
        "checkpoint-storm",
        "writes checkpoints much more often or larger than it did",
        ("job",),
        Layer.STORAGE,
        SLOW,
        (
            Sign("anomaly", r"step\.checkpoint_seconds", TELLING, "high", needed=True),
            Sign("event", r"checkpoint-begin|checkpoint", WEAK),
        ),
        frozenset({Category.CHECKPOINT.value}),
        action=A.CONTACT_SUPPORT,
        wide=True,
        alone=True,
        strength=1.5,
    ),
    Rule(
        "slow-storage",
        "answers late",
        ("storage",),
        Layer.STORAGE,
        ANY,
        (
            Sign("event", r"storage-error|storage-slow|log", TELLING, severity="error|fatal|warning"),
            Sign(
                "anomaly",
                r"(ifOutDiscards|node_qdisc_\w+|ifOutOctets|ifInOctets|node_network_\w+_(bytes|drop)_total)",
                FITTING,
            ),
        ),
        STORED,
        action=A.CONTACT_SUPPORT,
        where="storage",
        alone=True,
        strength=2.0,
    ),
    # -- application -----------------------------------------------------------------------------------------------
    Rule(
        "slow-input",
        "waits for its data",
        ("rank",),
        Layer.APPLICATION,
        SLOW,
        (
            Sign("anomaly", r"step\.(data|input)_seconds", TELLING, "high", needed=False),
            Sign("sle_loss", r"step\.data.*", FITTING),
        ),
        frozenset({Category.INPUT.value}),
        action=A.REBALANCE,
        alone=True,
        strength=4.0,
    ),
    Rule(
        "imbalanced-work",
        "gets longer sequences or more work than the others",
        ("rank",),
        Layer.APPLICATION,
        SLOW,
        (
            Sign("anomaly", r"step\.(tokens|samples)", PROOF, "high", needed=True),
            Sign("anomaly", r"step\.(forward|backward|compute)_seconds", WEAK, "high"),
        ),
        OWN_WORK,
        action=A.REBALANCE,
    ),
    Rule(
        "late-rank",
        "computes longer than the others, and nothing below it shows why",
        ("rank",),
        Layer.APPLICATION,
        SLOW,
        (
            Sign("anomaly", r"step\.(forward|backward|compute|optimizer)_seconds", WEAK, "high"),
            Sign("anomaly", r"collective\.lateness", WEAK, "high"),
        ),
        frozenset({Category.LATE_RANK.value, "slow"}),
        action=A.REBALANCE,
        alone=True,
        strength=2.0,
        fallback=True,
    ),
    Rule(
        "new-software",
        "computes longer on all ranks since its software changed",
        ("job",),
        Layer.APPLICATION,
        SLOW,
        (
            Sign("event", r"software-version|recompilation|run-info|deploy|rollout", TELLING, needed=True),
            Sign("anomaly", r"step\.(forward|backward|compute)_seconds", WEAK, "high"),
        ),
        frozenset({Category.COMPUTE.value, Category.UNKNOWN.value, Category.LATE_RANK.value}),
        action=A.CONTACT_SUPPORT,
    ),
    Rule(
        "loop-bug",
        "trains on the same data again and again",
        ("job",),
        Layer.APPLICATION,
        frozenset({Symptom.SLE}),
        (Sign("anomaly", r"step\.(loss|batch)", FITTING, "low", needed=True),),
        prior=RARE,
        action=A.CONTACT_SUPPORT,
        wide=True,
    ),
    # -- time and telemetry: never a cause of lost time ---------------------------------------------------------------
    Rule(
        "clock-off",
        "has a clock that is wrong",
        ("host",),
        Layer.TIME,
        frozenset({Symptom.SLE}),
        (
            Sign("anomaly", r"node_timex_\w+", TELLING, needed=True),
            Sign("sle_loss", r"node_timex_\w+|clock\w*", TELLING, needed=True),
            Sign("event", r"clock-step|clock-\w+", TELLING, needed=True),
        ),
        action=A.CONTACT_SUPPORT,
    ),
    Rule(
        "source-silent",
        "tells nothing any more",
        ("service", "host", "switch", "gpu"),
        Layer.TELEMETRY,
        frozenset({Symptom.SLE}),
        (
            Sign("anomaly", r"(up|leadline_agent_(source_up|delivery_failures))", TELLING, needed=True),
            Sign("sle_loss", r"(up|leadline_agent_.*|DCGM_FI_\*|if\*|node_\*)", TELLING, needed=True),
        ),
        action=A.CONTACT_SUPPORT,
    ),
)
