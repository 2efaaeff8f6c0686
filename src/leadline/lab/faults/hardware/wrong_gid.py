"""Wrong GID: ranks open their RoCE connections with another entry of the GID table than the fabric routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from leadline.lab.faults.background import later
from leadline.lab.faults.hardware.replay import Cast
from leadline.lab.faults.hardware.replayed import ReplayedRanks, port_place
from leadline.lab.running import RunningLab
from leadline.lab.topology import Port, Topology
from leadline.lab.workloads.base import RankProcess
from leadline.model.errors import UsageError

# How NCCL tells its setting, and a completion with an error (NVIDIA/nccl, issue 1814).
COMPLETION = (
    "{host}:{pid}:{pid} [0] NCCL WARN NET/IB : Got completion from peer {peer}<4791> with status=12 opcode=0 len=0 "
    "vendor err 129 (Send) localGid {local} remoteGids::ffff:{peer}\n"
)
INDEX = "{host}:{pid}:{pid} [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to {index}.\n"


@dataclass(frozen=True, slots=True)
class WrongGid(ReplayedRanks):
    """Replayed: the rank's connection log, retransmissions and timeouts of its NIC.

    Real: nothing that the NIC sends comes through its leaf, as frames of RoCE v1, which nobody routes; TCP waits.
    """

    name = "wrong-gid"
    layer = "network"
    fault_class = "persistent"
    signal = "connection_errors"
    magnitudes: ClassVar = {"small": {"found_s": 4.0}, "large": {"ranks": 3}}

    index: int = 0  # RoCE v1 on mlx5; 3 is usual for RoCE v2 over IPv4
    loss_ratio: float = 1.0
    found_s: float = 0.0  # connections are made anew with the right one after that; 0: when it is mended
    _now: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def check(self, topology: Topology) -> None:
        ReplayedRanks.check(self, topology)
        if not 0 < self.loss_ratio <= 1 or self.found_s < 0 or self.index < 0:
            raise UsageError("wrong-gid: loss_ratio is over 0 and up to 1, found_s and index are >= 0")

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        ranks = self.befallen(lab)
        nics = dict.fromkeys(_nic(lab, one).id for one in ranks)
        return (*(f"rank:{self.job}/{one.rank}" for one in ranks), *nics)

    def cast(self, lab: RunningLab) -> Cast:
        nics = dict.fromkeys(_nic(lab, one) for one in self.befallen(lab))
        return {"nic": [port_place(lab, nic) for nic in nics]}

    def effect(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            self._complain(lab, one)
        for nic in dict.fromkeys(_nic(lab, one) for one in self.befallen(lab)):
            leaf = lab.cluster.topology.neighbour(nic)
            rule = lab.cluster.drop_rule(leaf.node, leaf.name, probability=self.loss_ratio, direction="received")
            self._rules.append(rule)
        if self.found_s:
            self._now["later"] = later("gid-found", self.found_s, lambda: self._mend(lab))

    def no_effect(self, lab: RunningLab) -> None:
        if "later" in self._now:
            self._now.pop("later").end()

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        logs = [_log(one) for one in self.befallen(lab)]
        errors = sum(log.read_text().count("status=12") for log in logs if log.exists())
        told = ReplayedRanks.seen(self, lab)
        lost = sum(lab.cluster.dropped(rule) for rule in self._rules) + self._now.get("lost", 0)
        return {**told, "lost_packets": lost, "connection_errors": errors}

    def _mend(self, lab: RunningLab) -> None:
        while self._rules:
            self._now["lost"] = self._now.get("lost", 0) + lab.cluster.dropped(self._rules[-1])
            lab.cluster.remove_rule(self._rules.pop())

    def _complain(self, lab: RunningLab, one: RankProcess) -> None:
        """Write what NCCL would, into a log beside the rank's (NCCL_DEBUG_FILE)."""
        peers = [each for each in lab.ranks(self.job) if each.host != one.host] or [one]
        peer = lab.cluster.address(peers[one.rank % len(peers)].host)
        words = {
            "host": one.host,
            "pid": one.process.pid,
            "index": self.index,
            "peer": peer,
            "local": _link_local(lab, one),
        }
        _log(one).parent.mkdir(parents=True, exist_ok=True)
        with _log(one).open("a") as log:
            log.write(INDEX.format(**words) + COMPLETION.format(**words))


def _nic(lab: RunningLab, one: RankProcess) -> Port:
    return lab.cluster.topology.host(one.host).primary


def _link_local(lab: RunningLab, one: RankProcess) -> str:
    """The GID that stands first in the table: link-local, from the MAC address (RFC 4291, modified EUI-64)."""
    octets = [int(part, 16) for part in _nic(lab, one).mac.split(":")]
    octets[0] ^= 2
    wide = [*octets[:3], 0xFF, 0xFE, *octets[3:]]
    return "fe80::" + ":".join(f"{wide[n] << 8 | wide[n + 1]:x}" for n in range(0, 8, 2))


def _log(one: RankProcess) -> Path:
    return one.log.with_suffix(".nccl.log")
