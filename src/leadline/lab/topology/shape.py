"""The few numbers that a cluster is made from, and which of them go together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

NAME = re.compile(r"[a-z][a-z0-9]{0,15}\Z")
LINK = re.compile(r"[A-Za-z0-9/:]{1,64}~[A-Za-z0-9/:]{1,64}\Z")  # leaf1~spine1, h3/eth0~leaf1

# Addresses are 10.<leaf>.<host>.x and 10.<200 + spine>.<leaf>.x, hence the bounds of leaves, spines and hosts.
LEAVES_MAX, SPINES_MAX, HOSTS_MAX, STORAGE_MAX = 199, 55, 240, 15


def _number(default: float, doc: str, low: float, high: float) -> Any:
    return field(default=default, metadata={"doc": doc, "min": low, "max": high})


@dataclass(frozen=True, slots=True)
class Shape:
    """Parameters of a Clos cluster; 0 where a field says "derived"."""

    name: str = field(metadata={"doc": "name of the topology; GPU ids derive from it"})
    hosts: int = _number(2, "training hosts", 1, HOSTS_MAX)
    leaves: int = _number(1, "leaf switches", 1, LEAVES_MAX)
    spines: int = _number(0, "spine switches; at least 1 where there are several leaves", 0, SPINES_MAX)
    homes: int = _number(1, "backend NICs (rails) of a host, each on another leaf", 1, 8)
    gpus: int = _number(1, "emulated GPUs of a host", 0, 16)
    ranks_per_host: int = _number(1, "ranks that a training job puts on a host, each on a GPU of its own", 1, 16)
    hosts_per_machine: int = _number(1, "virtual hosts on one emulated machine, which share its uplink", 1, 16)
    machine_order: int = _number(0, "seed that deals a pod's hosts to its machines; 0: h1, h2, ... in order", 0, 2**31)
    hosts_per_rack: int = _number(0, "hosts of a rack; derived: all hosts of a pod", 0, HOSTS_MAX)
    host_rate_bps: int = _number(250_000_000, "rate of a host's port", 1_000_000, 10**11)
    uplink_rate_bps: int = _number(0, "rate of a leaf-spine link; derived from oversubscription", 0, 10**11)
    oversubscription: float = _number(0, "capacity of a leaf's hosts over that of its uplinks; derived: 1", 0, 1000)
    machine_rate_bps: int = _number(0, "what a machine's hosts share at each leaf; derived: host_rate_bps", 0, 10**11)
    queue_bytes: int = _number(250_000, "queue of a backend switch port", 3_000, 10**9)
    mtu_bytes: int = _number(4200, "longest packet; the usual one where RoCE carries 4096 bytes", 1280, 9216)
    storage: int = _number(1, "storage hosts at the front end", 0, STORAGE_MAX)
    frontend_rate_bps: int = _number(250_000_000, "rate of a front-end port", 1_000_000, 10**11)
    frontend_queue_bytes: int = _number(250_000, "queue of a front-end switch port", 3_000, 10**9)
    links_down: tuple[str, ...] = field(default=(), metadata={"doc": "links of the full Clos that are not there"})

    def __post_init__(self) -> None:
        # As it comes back from the JSON of a lab's record.
        object.__setattr__(self, "links_down", tuple(self.links_down))

    @property
    def pods(self) -> int:
        """Groups of `homes` leaves that have the same hosts."""
        return self.leaves // self.homes

    def pod_of(self, host: int) -> int:
        """Pod (from 0) of host k (from 1): hosts are dealt to pods in order, as evenly as possible."""
        return (host - 1) * self.pods // self.hosts

    @property
    def uplink_bps(self) -> int:
        """Rate of one leaf-spine link."""
        if self.uplink_rate_bps or not self.spines:
            return self.uplink_rate_bps
        hosts_of_leaf = math.ceil(self.hosts / self.pods)
        return max(1_000_000, round(hosts_of_leaf * self.host_rate_bps / self.spines / (self.oversubscription or 1)))

    @property
    def machine_bps(self) -> int:
        """What the hosts of one machine share at each leaf; 0 where every host is a machine of its own."""
        return (self.machine_rate_bps or self.host_rate_bps) if self.hosts_per_machine > 1 else 0


# (key at fault, whether the shape is wrong, what was expected): what no single field can say.
TOGETHER: tuple[tuple[str, Callable[[Shape], bool], str], ...] = (
    ("spines", lambda s: s.leaves > 1 and s.spines == 0, "at least 1 where there are several leaves"),
    ("homes", lambda s: s.leaves % s.homes != 0, "a divisor of `leaves`: a host has a NIC on every leaf of its pod"),
    ("hosts", lambda s: s.hosts < s.leaves // s.homes, "at least one host for each pod (`leaves` / `homes`)"),
    ("ranks_per_host", lambda s: s.ranks_per_host > max(1, s.gpus), "at most `gpus`: a rank has a GPU of its own"),
    ("uplink_rate_bps", lambda s: s.uplink_rate_bps * s.oversubscription > 0, "this or `oversubscription`, not both"),
    ("uplink_rate_bps", lambda s: 0 < s.uplink_rate_bps < 1_000_000, "at least 1000000, or 0 for derived"),
    ("machine_rate_bps", lambda s: 0 < s.machine_rate_bps < 1_000_000, "at least 1000000, or 0 for derived"),
    ("machine_rate_bps", lambda s: s.machine_rate_bps > 0 and s.hosts_per_machine == 1, "several hosts_per_machine"),
    ("machine_order", lambda s: s.machine_order > 0 and s.hosts_per_machine == 1, "several hosts_per_machine"),
)


def complaint(name: str, value: object) -> str | None:
    """What was expected of a field where `value` cannot be it, else None. Errors: KeyError for an unknown field."""
    known = {each.name: each for each in fields(Shape)}[name]
    if name == "name":
        fits = isinstance(value, str) and NAME.match(value) is not None
        return None if fits else "lower-case letters and digits, a letter first, at most 16"
    if name == "links_down":
        listed = isinstance(value, list | tuple) and all(isinstance(each, str) and LINK.match(each) for each in value)
        return None if listed else "a list of links like [leaf1~spine1, h3/eth0~leaf1]"
    low, high = known.metadata["min"], known.metadata["max"]
    whole = name != "oversubscription"
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    # A rate may be written 2.5e+8; what is counted may not be a fraction.
    if low <= number <= high and (not whole or number == int(number)):
        return None
    return f"{'a whole number' if whole else 'a number'} from {low} to {high}"
