"""Counters of network interfaces, from rtnetlink: one request tells all of them with 64-bit counters.

Told under node_exporter's names (its netdev and netclass collectors), with the sums that it makes: `receive_drop` is
rx_dropped and rx_missed together, `frame` all kinds of broken frames.
"""

from __future__ import annotations

from collections.abc import Callable

from leadline.host.found import Found, Sample, Stream
from leadline.host.sources.access import Access, Grant, host_network
from leadline.host.sources.links import all_links
from leadline.host.sources.site import Site, read_if_there
from leadline.host.sources.source import Source
from leadline.model.errors import WorldError
from leadline.wire.netlink.links import IFF_UP, Link

# Name, unit, and the places in rtnl_link_stats64 whose sum it is.
COUNTERS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("node_network_receive_packets_total", "packets", (0,)),
    ("node_network_transmit_packets_total", "packets", (1,)),
    ("node_network_receive_bytes_total", "bytes", (2,)),
    ("node_network_transmit_bytes_total", "bytes", (3,)),
    ("node_network_receive_errs_total", "packets", (4,)),
    ("node_network_transmit_errs_total", "packets", (5,)),
    ("node_network_receive_drop_total", "packets", (6, 15)),
    ("node_network_transmit_drop_total", "packets", (7,)),
    ("node_network_receive_multicast_total", "packets", (8,)),
    ("node_network_receive_frame_total", "packets", (10, 11, 12, 13)),
    ("node_network_receive_fifo_total", "packets", (14,)),
    ("node_network_transmit_carrier_total", "packets", (16, 17, 19, 20)),
    ("node_network_transmit_fifo_total", "packets", (18,)),
)
CARRIER_CHANGES = "node_network_carrier_changes_total"
UP, CARRIER, SPEED = "node_network_up", "node_network_carrier", "node_network_speed_bytes"
NAMED_MAX = 4  # interfaces, where a person is told which there are


def _counters(site: Site) -> str:
    """Read the counters of all interfaces. Errors: OSError, WorldError where none is told of."""
    names = [link.name for link in all_links() if site.counts_interface(link.name)]
    if not names:
        raise WorldError("there is no interface but those that agent.interfaces_not leaves out")
    return ", ".join(names[:NAMED_MAX]) + (f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else "")


class Nic(Source):
    """Counters of every interface."""

    name = "nic"
    reports = "64-bit counters of every interface, by rtnetlink"
    told_as = "`node_network_*` of the port"
    as_node_exporter = (*(name for name, _, _ in COUNTERS), CARRIER_CHANGES, UP, CARRIER, SPEED)
    accesses = (
        Access(
            "counters of interfaces (netlink)",
            _counters,
            "traffic, drops and errors of this host's ports are unknown",
            Grant(service="AF_NETLINK in RestrictAddressFamilies of its unit"),
            ("link-errors", "slow-link", "congestion", "wrong-mtu", "neighbour"),
        ),
        Access(
            "network of the host",
            host_network,
            "counters, links and flows are the container's, not the host's",
            Grant(
                service="no PrivateNetwork in its unit, and podman or docker run --network host",
                pod="hostNetwork: true",
            ),
            ("link-down", "link-errors", "slow-link", "congestion"),
        ),
    )

    def poll(self, now_ns: int) -> Found:
        links = [link for link in all_links() if self.site.counts_interface(link.name)]
        return Found(samples=parse_counters(links, self._speed_mbps, now_ns))

    def _speed_mbps(self, interface: str) -> int:
        text = read_if_there(self.site.config.sys_root / "class" / "net" / interface / "speed").strip()
        return int(text) if text.isdigit() else 0  # -1, or no such file: not known


def parse_counters(links: list[Link], speed_mbps: Callable[[str], int], now_ns: int) -> list[Sample]:
    """The samples of these links at that time. A speed of 0 is not known and not told."""
    samples = []
    for link in links:
        labels = (("device", link.name),)
        if link.stats:
            samples += [
                Sample(Stream(name, labels, True, unit), now_ns, sum(link.stats[place] for place in places))
                for name, unit, places in COUNTERS
            ]
        if link.carrier_changes is not None:
            samples.append(Sample(Stream(CARRIER_CHANGES, labels, True, "1"), now_ns, link.carrier_changes))
        samples.append(Sample(Stream(UP, labels, unit="1"), now_ns, link.operstate == "up"))
        if link.flags & IFF_UP:  # the kernel does not tell the carrier of one that is down
            samples.append(Sample(Stream(CARRIER, labels, unit="1"), now_ns, link.running))
        speed = speed_mbps(link.name)
        if speed:
            samples.append(Sample(Stream(SPEED, labels, unit="bytes/s"), now_ns, speed * 125_000))
    return samples
