"""The fleet: hosts, GPUs, NICs, a rail-optimised fabric, as integers. Names are made late, many at a time.

    pod p:  hosts h -- eth r --> leaf (p, r), one leaf per rail
    two tiers    leaf l   -- uplink u --> spine u                               up to 64 leaves
    three tiers  leaf p,r -- uplink u --> spine (p, u) -- v --> super (u, v)    planes: spine u meets its supers only

Links are numbered in this order: of hosts (host * rails + rail), of leaves (leaf * uplinks + u), of spines
(spine * supers + v). End `a` of a link is the lower one; `up` is the direction from it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
HOST_BPS = 400e9
FABRIC_BPS = 800e9
TWO_TIER_LEAVES = 64


@dataclass(frozen=True)
class Fleet:
    """A fabric of this size. Everything else follows by arithmetic."""

    gpus: int
    gpus_per_host: int = 8
    pod_hosts: int = 32
    name: str = "fleet"

    @property
    def hosts(self) -> int:
        """Hosts: the last one may have GPUs that nobody asked for."""
        return -(-self.gpus // self.gpus_per_host)

    @property
    def rails(self) -> int:
        """NICs of a host, one per GPU; GPU g uses rail g."""
        return self.gpus_per_host

    @property
    def pods(self) -> int:
        return -(-self.hosts // self.pod_hosts)

    @property
    def leaves(self) -> int:
        return self.pods * self.rails

    @property
    def uplinks(self) -> int:
        """Of one leaf; at twice a host's rate, so that half as many as hosts do not oversubscribe."""
        return max(2, min(self.pod_hosts, self.hosts) // 2)

    @property
    def three_tiers(self) -> bool:
        return self.leaves > TWO_TIER_LEAVES

    @property
    def spines(self) -> int:
        return self.pods * self.uplinks if self.three_tiers else self.uplinks

    @property
    def supers_of_spine(self) -> int:
        """Uplinks of one spine: half of what it takes from its leaves, oversubscribed 2 to 1."""
        return max(1, self.rails // 2) if self.three_tiers else 0

    @property
    def supers(self) -> int:
        return self.uplinks * self.supers_of_spine

    @property
    def gpu_count(self) -> int:
        """GPUs of all hosts."""
        return self.hosts * self.gpus_per_host

    @property
    def host_links(self) -> int:
        return self.hosts * self.rails

    @property
    def leaf_links(self) -> int:
        return self.leaves * self.uplinks

    @property
    def spine_links(self) -> int:
        return self.spines * self.supers_of_spine

    @property
    def links(self) -> int:
        return self.host_links + self.leaf_links + self.spine_links

    @property
    def switches(self) -> int:
        """Leaves, then spines, then super-spines."""
        return self.leaves + self.spines + self.supers

    @cached_property
    def capacity_bps_L(self) -> NDArray[np.float64]:
        """Rate of every link."""
        out = np.full(self.links, FABRIC_BPS)
        out[: self.host_links] = HOST_BPS
        return out

    def leaf_of(self, host_N: Ints, rail_N: Ints) -> Ints:
        """The leaf that a host's NIC hangs on."""
        return host_N // self.pod_hosts * self.rails + rail_N

    @cached_property
    def leaf_of_link_L(self) -> Ints:
        """Leaf of each host link."""
        link_L = np.arange(self.host_links)
        return self.leaf_of(link_L // self.rails, link_L % self.rails)

    # -- ports of switches ------------------------------------------------------------------------------------

    @cached_property
    def swports(self) -> SwitchPorts:
        """Every switch port: its switch, number, link, and whether it is the link's lower end."""
        link_L = np.arange(self.host_links)
        parts = [_ports(self.leaf_of_link_L, link_L // self.rails % self.pod_hosts + 1, link_L, False)]
        leaf, up = np.divmod(np.arange(self.leaf_links), self.uplinks)
        link = self.host_links + np.arange(self.leaf_links)
        parts.append(_ports(leaf, self.pod_hosts + up + 1, link, True))
        pod, rail = np.divmod(leaf, self.rails)
        spine = pod * self.uplinks + up if self.three_tiers else up
        parts.append(_ports(self.leaves + spine, (rail if self.three_tiers else leaf) + 1, link, False))
        if self.three_tiers:
            spine, v = np.divmod(np.arange(self.spine_links), self.supers_of_spine)
            pod, plane = np.divmod(spine, self.uplinks)
            link = self.host_links + self.leaf_links + np.arange(self.spine_links)
            parts.append(_ports(self.leaves + spine, self.rails + v + 1, link, True))
            above = self.leaves + self.spines + plane * self.supers_of_spine + v
            parts.append(_ports(above, pod + 1, link, False))
        return SwitchPorts(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    # -- names ------------------------------------------------------------------------------------------------

    @cached_property
    def host_names(self) -> pa.StringArray:
        return text("h", np.arange(1, self.hosts + 1))

    @cached_property
    def gpu_names(self) -> pa.StringArray:
        """UUIDs, the same for the same fleet, host and place on it, as in the lab."""
        made = (
            f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{self.name}/h{host + 1}/{place}')}"
            for host in range(self.hosts)
            for place in range(self.gpus_per_host)
        )
        return pa.array(made, pa.string(), size=self.gpu_count)

    @cached_property
    def port_names(self) -> pa.StringArray:
        """`h3/eth0` for every host link."""
        link_L = np.arange(self.host_links)
        return text("h", link_L // self.rails + 1, "/eth", link_L % self.rails)

    @cached_property
    def switch_names(self) -> pa.StringArray:
        counts = (("leaf", self.leaves), ("spine", self.spines), ("super", self.supers))
        return pa.concat_arrays([text(word, np.arange(1, count + 1)) for word, count in counts])

    @cached_property
    def swport_names(self) -> pa.StringArray:
        """`leaf1/Ethernet3` for every switch port."""
        ports = self.swports
        return joined(self.switch_names.take(pa.array(ports.switch)), text("/Ethernet", ports.number))

    @cached_property
    def link_names(self) -> pa.StringArray:
        """Entity ids of the links, ends in order, as `model.ids.link_id` gives them."""
        ports = self.swports
        lower = pa.concat_arrays([self.port_names, self.swport_names.filter(pa.array(ports.lower))])
        upper_of = np.empty(self.links, np.int64)
        upper = np.flatnonzero(~ports.lower)
        upper_of[ports.link[upper]] = upper
        ends = (lower, self.swport_names.take(pa.array(upper_of)))
        first = pc.if_else(pc.less(*ends), *ends)
        second = pc.if_else(pc.less(*ends), *ends[::-1])
        return joined("link:", first, "~", second)

    def addresses(self, link_N: Ints) -> pa.StringArray:
        """IPv4 address of the host end of host links: unique, in 10.0.0.0/8."""
        number = np.asarray(link_N, np.int64) * 2 + 1
        return text("10.", number >> 16 & 255, ".", number >> 8 & 255, ".", number & 255)


@dataclass(frozen=True)
class SwitchPorts:
    """Arrays over all switch ports."""

    switch: Ints
    number: Ints
    link: Ints
    lower: NDArray[np.bool_]  # the lower end of its link: what it sends goes up


def _ports(switch: Ints, number: Ints, link: Ints, lower: bool) -> tuple[Ints, Ints, Ints, NDArray[np.bool_]]:
    return switch, np.broadcast_to(number, link.shape), link, np.full(link.shape, lower)


def text(*parts: str | Ints) -> pa.StringArray:
    """Texts from words and numbers, many at a time: `text("h", [1, 2])` is h1, h2."""
    return joined(*(part if isinstance(part, str) else pa.array(part).cast(pa.string()) for part in parts))


def joined(*parts: object) -> pa.StringArray:
    """Texts put together, element by element; words stand for themselves."""
    return pc.binary_join_element_wise(*parts, "")
