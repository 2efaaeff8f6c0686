"""Rules of NICs, links and switches. Signals by the names that Leadline stores them under.

Sources: Linux, mlx5 counters and sysfs-class-infiniband; EtherLike-MIB; C4 (HPCA'25); Gill et al., "Understanding
Network Failures in Data Centers" (SIGCOMM'11); Zhuo et al., "Understanding and Mitigating Packet Corruption in Data
Center Networks" (SIGCOMM'17).
"""

from __future__ import annotations

from dataclasses import replace

from leadline.analysis.cause.rules.rule import (
    ANY,
    FITTING,
    NETWORK,
    OWN_WORK,
    PROOF,
    RARE,
    SLOW,
    TELLING,
    WEAK,
    Rule,
    Sign,
)
from leadline.model.accounts import Layer
from leadline.model.incidents import ActionKind as A

_PORT = r"node_(ethtool|infiniband)_"

# Counted end to end: whose link lost them they do not say. On four of 13 that were broken, and on 78 of 621 others.
_RETRANSMITS = (
    Sign("anomaly", rf"{_PORT}(local_ack_timeout_err|packet_seq_err|req_transport_retries_exceeded).*", WEAK, "high"),
    Sign("anomaly", rf"{_PORT}(out_of_sequence|roce_adp_retrans(_to)?|implied_nak_seq_err)(_total)?", WEAK, "high"),
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

# What the probe mesh alone says: nothing in 300 sound fabrics was named, and what was broken in each of 290
# (docs/figures.md).
_PROBES_LOSE = Sign("suspect", r"loss-by-probes", PROOF, needed=True)
_PROBES_DIE = Sign("suspect", r"dead-by-probes", PROOF, needed=True)
# A queue is where it is told. One that stood for more than so many seconds before the job became slow is its own, of
# flows that share a link: a queue is told over windows of 25 s. Source: judgement.
_PROBES_WAIT = Sign("suspect", r"queue-by-probes", TELLING, within_s=30)

NETWORK_RULES: tuple[Rule, ...] = (
    # -- NICs and links --------------------------------------------------------------------------------------------
    Rule(
        "pcie-width",
        "has fewer PCIe lanes than it could",
        ("port", "host"),
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
        ("link", "port"),
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
        (
            *_CARRIER,
            _PROBES_DIE,
            Sign("anomaly", r"node_network_transmit_carrier_total", WEAK, "high"),
            *_RETRANSMITS,
        ),
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
            Sign("suspect", r"loss", PROOF, needed=True),
            _PROBES_LOSE,
            Sign("suspect", r"loss-perhaps(-by-probes)?", WEAK, needed=True),
            # Counted end to end: whose link it was that lost them they do not say.
            Sign("anomaly", rf"{_PORT}(local_ack_timeout_err|packet_seq_err)(_total)?", WEAK, "high"),
            Sign("anomaly", rf"{_PORT}(out_of_sequence|roce_adp_retrans(_to)?)(_total)?", WEAK, "high"),
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
            # EtherLike-MIB (RFC 3635): received, and longer than the port takes.
            Sign("anomaly", r"dot3StatsFrameTooLongs", PROOF, "high", needed=True),
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
                WEAK,  # bursts of whatever else is wrong drop at uplinks as well: four of 23 runs with other faults
                "high",
                needed=True,
            ),
            Sign("anomaly", rf"{_PORT}(port_xmit_wait|tx_discards_phy)(_total)?", FITTING, "high", needed=True),
            Sign("anomaly", r"(ifOutOctets|node_network_transmit_bytes_total)", WEAK, "low"),
            Sign("suspect", r"queue", FITTING, needed=True),
            replace(_PROBES_WAIT, needed=True),
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
            Sign("suspect", r"queue", FITTING),
            _PROBES_WAIT,
            *_DROPS,
        ),
        NETWORK | OWN_WORK,
        action=A.PACE,
    ),
    Rule(
        "congesting-job",
        "fills links that another job needs",
        ("job",),
        Layer.FABRIC,
        SLOW,
        (Sign("traffic", r"job", TELLING, needed=True),),
        NETWORK | OWN_WORK,
        action=A.PACE,
    ),
    Rule(
        "switch-down",
        "lost many of its links at once",
        ("switch",),
        Layer.FABRIC,
        ANY,
        (*_CARRIER, _PROBES_DIE),
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
            _PROBES_LOSE,
            Sign("suspect", r"loss-perhaps-by-probes", WEAK, needed=True),
            Sign("anomaly", r"sflow_dropped\w*", FITTING, "high", needed=True),
            Sign("conflict", r"off-path|loop|never-arrives", FITTING, needed=True),
        ),
        NETWORK,
        prior=RARE,
        action=A.REROUTE,
        wide=True,
    ),
)
