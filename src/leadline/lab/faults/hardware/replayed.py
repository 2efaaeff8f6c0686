"""The shared part of replayed faults: one of a link, one of ranks. What a class adds is its cast and its real effect.

`start` plays what the hardware would show and makes the effect that it would have on the job, really (a port's rate, a
quota of CPU, lost packets). docs/lab/replayed-faults.md says of each fault which part is which.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import Fault, parameters_of
from leadline.lab.faults.hardware.replay import Cast, Place, Playing, as_numbers
from leadline.lab.faults.hardware.shown import shown
from leadline.lab.faults.ranks import RanksFault
from leadline.lab.realise.drops import DropRule
from leadline.lab.running import RunningLab, link_named
from leadline.lab.telemetry.gpu_model import pci_address
from leadline.lab.telemetry.sysfs_tree import nic_pci
from leadline.lab.topology import Link, Port, Topology
from leadline.lab.truth import SeenIn
from leadline.lab.workloads.base import RankProcess
from leadline.model.errors import UsageError
from leadline.model.ids import kind_of


class Replayed(Fault):
    """What both have. `_playing` and `_rules` are fields of theirs."""

    __slots__ = ()
    seen_in: ClassVar[SeenIn] = "replay"
    _playing: list[Playing]
    _rules: list[DropRule]

    @abstractmethod
    def cast(self, lab: RunningLab) -> Cast:
        """Who plays which part of `replays/<name>.yaml`."""

    @property
    def strength(self) -> float:
        """What every growth of the file is multiplied by."""
        return 1.0

    def effect(self, lab: RunningLab) -> None:
        """What it really does to the job; levers and `_rules` are let go of by `stop`."""

    def no_effect(self, lab: RunningLab) -> None:
        """Let go of what `effect` holds."""

    def start(self, lab: RunningLab) -> None:
        given = as_numbers(parameters_of(self))
        self._playing.append(Playing(lab, self.name, self.cast(lab), self.strength, given))
        self._playing[-1].start()
        self.effect(lab)

    def stop(self, lab: RunningLab) -> None:
        try:
            self.no_effect(lab)
            while self._rules:
                lab.cluster.remove_rule(self._rules.pop())
        finally:
            while self._playing:
                self._playing.pop().stop()

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        """What exporters and files tell of the cast; what the effect's rules have lost."""
        lost = {"lost_packets": sum(lab.cluster.dropped(rule) for rule in self._rules)} if self._loses else {}
        return {**shown(lab, self.name, self.cast(lab)), **lost}

    @property
    def _loses(self) -> bool:
        return bool(getattr(self, "loss_ratio", 0))


@dataclass(frozen=True, slots=True)
class ReplayedLink(Replayed):
    """A replayed fault of a link; of a host's, unless `kinds` says more."""

    kinds: ClassVar[tuple[str, ...]] = ("host",)

    link: str | None = None  # h3~leaf1, or with ports h3/eth0~leaf1/Ethernet3
    _playing: list[Playing] = field(default_factory=list, repr=False, compare=False)
    _rules: list[DropRule] = field(default_factory=list, repr=False, compare=False)

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.link else replace(self, link=lab.some_link(rng, self.kinds))

    def check(self, topology: Topology) -> None:
        Fault.check(self, topology)
        if self.link and "uplink" not in self.kinds and host_end(link_named(topology, self.link)) is None:
            raise UsageError(
                f"{self.name} befalls a host's NIC, and {self.link} has none; name a link such as h1~leaf1"
            )

    def of(self, lab: RunningLab) -> Link:
        """The link."""
        return lab.link(self.link or "")

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        ends = sorted(self.of(lab).ends, key=lambda end: kind_of(end.id) == "swport")  # a NIC first
        return (*(end.id for end in ends), self.of(lab).id)


@dataclass(frozen=True, slots=True)
class ReplayedRanks(Replayed, RanksFault):
    """A replayed fault of the GPUs or NICs of some ranks."""

    _playing: list[Playing] = field(default_factory=list, repr=False, compare=False)
    _rules: list[DropRule] = field(default_factory=list, repr=False, compare=False)

    def gpus(self, lab: RunningLab) -> list[Place]:
        """The GPUs of the ranks that it befalls."""
        return [gpu_place(one) for one in self.befallen(lab)]

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        ranks = self.befallen(lab)
        return (*dict.fromkeys(f"gpu:{one.gpu}" for one in ranks), *dict.fromkeys(f"host:{one.host}" for one in ranks))


def gpu_place(one: RankProcess) -> Place:
    """The GPU of a rank, with what its driver's lines need."""
    words = {"pci": pci_address(one.gpu), "uuid": one.gpu, "nvlink": str(one.rank % 18)}
    return Place(f"gpu:{one.gpu}", one.host, words, one.process.pid)


def port_place(lab: RunningLab, port: Port) -> Place:
    """A port of a switch, or a NIC of a host with what its driver's lines need."""
    if kind_of(port.id) == "swport":
        return Place(port.id, port.node, {"port": port.name})
    names = [each.name for each in lab.cluster.topology.node(port.node).ports if each.role == "backend"]
    pci = nic_pci(names.index(port.name) if port.name in names else 0)
    bus = f"{int(pci[5:7], 16) - 1:02x}"
    return Place(port.id, port.node, {"port": port.name, "pci": pci, "upstream": f"0000:{bus}:01.1"})


def nic_of(link: Link) -> Port:
    """The end that is a host's NIC. Errors: UsageError between switches."""
    nic = host_end(link)
    if nic is None:
        raise UsageError(f"expected a link of a host, got {link.id}")
    return nic


def switch_end(link: Link) -> Port:
    """The (first) end of a link that is a switch's: the one that queues and can be shaped."""
    return next(end for end in link.ends if kind_of(end.id) == "swport")


def host_end(link: Link) -> Port | None:
    """The end that is a host's NIC, or None between switches."""
    return next((end for end in link.ends if kind_of(end.id) == "port"), None)
