"""The faults of the lab. To add one: a file with its class, and a line here."""

from __future__ import annotations

from leadline.lab.faults.application.checkpoint_storm import CheckpointStorm
from leadline.lab.faults.application.divergence import Divergence
from leadline.lab.faults.application.imbalanced_sequences import ImbalancedSequences
from leadline.lab.faults.application.imbalanced_stage import ImbalancedStage
from leadline.lab.faults.application.loop_bug import LoopBug
from leadline.lab.faults.application.signals import Crash, Hang
from leadline.lab.faults.application.slow_loader import SlowLoader
from leadline.lab.faults.application.slow_operator import SlowOperator
from leadline.lab.faults.base import Fault
from leadline.lab.faults.hardware.gpu import DuplicateUuid, GpuThrottle, Xid
from leadline.lab.faults.hardware.gpu_lost import GpuLost
from leadline.lab.faults.hardware.marginal_optic import MarginalOptic
from leadline.lab.faults.hardware.nvlink_errors import NvlinkErrors
from leadline.lab.faults.hardware.pcie_width import PcieWidth
from leadline.lab.faults.hardware.pfc_storm import PfcStorm
from leadline.lab.faults.hardware.row_remaps import RowRemaps
from leadline.lab.faults.hardware.wrong_dscp import WrongDscp
from leadline.lab.faults.hardware.wrong_gid import WrongGid
from leadline.lab.faults.host.colocated import ColocatedNeighbour
from leadline.lab.faults.host.memory_pressure import MemoryPressure
from leadline.lab.faults.host.oom_kill import OomKill
from leadline.lab.faults.host.slow_storage import SlowStorage
from leadline.lab.faults.host.slow_worker import SlowWorker
from leadline.lab.faults.network.blackhole import Blackhole
from leadline.lab.faults.network.congestion import EcmpCollision, NeighbourCongestion
from leadline.lab.faults.network.dead_spine import DeadSpine
from leadline.lab.faults.network.incast import Incast
from leadline.lab.faults.network.link import DeadNic, FlappingLink, LossyLink, SlowLink
from leadline.lab.faults.network.wrong_mtu import WrongMtu
from leadline.lab.faults.telemetry.clock import ClockDrift, ClockStep
from leadline.lab.faults.telemetry.exporter_hangs import ExporterHangs
from leadline.lab.faults.telemetry.labels_missing import LabelsMissing
from leadline.lab.faults.telemetry.stale_source import StaleSource
from leadline.lab.faults.telemetry.switch_silent import SwitchStopsSampling

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
