"""The faults of the lab. To add one: a file with its class, and a line here."""

from __future__ import annotations

from leadline.lab.faults.base import Fault
from leadline.lab.faults.blackhole import Blackhole
from leadline.lab.faults.congestion import EcmpCollision, NeighbourCongestion
from leadline.lab.faults.divergence import Divergence
from leadline.lab.faults.exporter_hangs import ExporterHangs
from leadline.lab.faults.gpu import DuplicateUuid, GpuThrottle, Xid
from leadline.lab.faults.link import DeadNic, FlappingLink, LossyLink, SlowLink
from leadline.lab.faults.oom_kill import OomKill
from leadline.lab.faults.signals import Crash, Hang
from leadline.lab.faults.slow_loader import SlowLoader
from leadline.lab.faults.slow_worker import SlowWorker

FAULTS: tuple[type[Fault], ...] = (
    SlowWorker,
    SlowLoader,
    OomKill,
    Hang,
    Crash,
    Divergence,
    GpuThrottle,
    Xid,
    LossyLink,
    SlowLink,
    FlappingLink,
    DeadNic,
    Blackhole,
    EcmpCollision,
    NeighbourCongestion,
    ExporterHangs,
    DuplicateUuid,
)
BY_NAME = {fault.name: fault for fault in FAULTS}
