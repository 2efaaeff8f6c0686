"""Why a switch dropped a packet: the reason codes of sFlow, by their names.

0 to 15 are the codes of ICMP "destination unreachable" (RFC 1812), 256 to 262 are from sFlow version 5 (flow samples
whose output is "discarded"), the rest came with discarded-packet samples.

Source: sFlow.org, "sFlow Dropped Packet Notification Structures" (2020), enum drop_reason.
"""

from __future__ import annotations

_ICMP = (
    "net_unreachable", "host_unreachable", "protocol_unreachable", "port_unreachable", "frag_needed",
    "src_route_failed", "dst_net_unknown", "dst_host_unknown", "src_host_isolated", "dst_net_prohibited",
    "dst_host_prohibited", "dst_net_tos_unreachable", "dst_host_tos_unreachable", "comm_admin_prohibited",
    "host_precedence_violation", "precedence_cutoff",
)  # fmt: skip

_SWITCH = (
    "unknown", "ttl_exceeded", "acl", "no_buffer_space", "red", "traffic_shaping", "pkt_too_big",
    "src_mac_is_multicast", "vlan_tag_mismatch", "ingress_vlan_filter", "ingress_spanning_tree_filter",
    "port_list_is_empty", "port_loopback_filter", "blackhole_route", "non_ip", "uc_dip_over_mc_dmac",
    "dip_is_loopback_address", "sip_is_mc", "sip_is_loopback_address", "ip_header_corrupted",
    "ipv4_sip_is_limited_bc", "ipv6_mc_dip_reserved_scope", "ipv6_mc_dip_interface_local_scope",
    "unresolved_neigh", "mc_reverse_path_forwarding", "non_routable_packet", "decap_error", "overlay_smac_is_mc",
    "unknown_l2", "unknown_l3", "unknown_l3_exception", "unknown_buffer", "unknown_tunnel", "unknown_l4",
    "sip_is_unspecified", "mlag_port_isolation", "blackhole_arp_neigh", "src_mac_is_dmac", "dmac_is_reserved",
    "sip_is_class_e", "mc_dmac_mismatch", "sip_is_dip", "dip_is_local_network", "dip_is_link_local",
    "overlay_smac_is_dmac", "egress_vlan_filter", "uc_reverse_path_forwarding", "split_horizon",
)  # fmt: skip

DROP_REASONS: dict[int, str] = {**dict(enumerate(_ICMP)), **dict(enumerate(_SWITCH, 256))}
