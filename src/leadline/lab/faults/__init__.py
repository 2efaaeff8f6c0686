"""The faults of the lab. To add one: a file with its class, and a line here."""

from __future__ import annotations

from leadline.lab.faults.base import Fault
from leadline.lab.faults.blackhole import Blackhole
from leadline.lab.faults.checkpoint_storm import CheckpointStorm
from leadline.lab.faults.clock import ClockDrift, ClockStep
from leadline.lab.faults.colocated import ColocatedNeighbour
from leadline.lab.faults.congestion import EcmpCollision, NeighbourCongestion
from leadline.lab.faults.dead_spine import DeadSpine
from leadline.lab.faults.divergence import Divergence
from leadline.lab.faults.exporter_hangs import ExporterHangs
from leadline.lab.faults.gpu import DuplicateUuid, GpuThrottle, Xid
from leadline.lab.faults.gpu_lost import GpuLost
from leadline.lab.faults.imbalanced_sequences import ImbalancedSequences
from leadline.lab.faults.imbalanced_stage import ImbalancedStage
from leadline.lab.faults.incast import Incast
from leadline.lab.faults.labels_missing import LabelsMissing
from leadline.lab.faults.link import DeadNic, FlappingLink, LossyLink, SlowLink
from leadline.lab.faults.loop_bug import LoopBug
from leadline.lab.faults.marginal_optic import MarginalOptic
from leadline.lab.faults.memory_pressure import MemoryPressure
from leadline.lab.faults.nvlink_errors import NvlinkErrors
from leadline.lab.faults.oom_kill import OomKill
from leadline.lab.faults.pcie_width import PcieWidth
from leadline.lab.faults.pfc_storm import PfcStorm
from leadline.lab.faults.row_remaps import RowRemaps
from leadline.lab.faults.signals import Crash, Hang
from leadline.lab.faults.slow_loader import SlowLoader
from leadline.lab.faults.slow_operator import SlowOperator
from leadline.lab.faults.slow_storage import SlowStorage
from leadline.lab.faults.slow_worker import SlowWorker
from leadline.lab.faults.stale_source import StaleSource
from leadline.lab.faults.switch_silent import SwitchStopsSampling
from leadline.lab.faults.wrong_dscp import WrongDscp
from leadline.lab.faults.wrong_gid import WrongGid
from leadline.lab.faults.wrong_mtu import WrongMtu

FAULTS: tuple[type[Fault], ...] = (
    SlowWorker,
    SlowLoader,
    ImbalancedSequences,
    ImbalancedStage,
    MemoryPressure,
    ColocatedNeighbour,
    OomKill,
    Hang,
    Crash,
    Divergence,
    LoopBug,
    SlowOperator,
    SlowStorage,
    CheckpointStorm,
    GpuThrottle,
    Xid,
    GpuLost,
    RowRemaps,
    NvlinkErrors,
    PfcStorm,
    MarginalOptic,
    WrongGid,
    WrongDscp,
    PcieWidth,
    LossyLink,
    SlowLink,
    FlappingLink,
    DeadNic,
    Blackhole,
    EcmpCollision,
    NeighbourCongestion,
    DeadSpine,
    Incast,
    WrongMtu,
    ClockStep,
    ClockDrift,
    SwitchStopsSampling,
    LabelsMissing,
    StaleSource,
    ExporterHangs,
    DuplicateUuid,
)
BY_NAME = {fault.name: fault for fault in FAULTS}
