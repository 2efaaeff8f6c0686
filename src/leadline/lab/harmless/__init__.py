"""Harmless things that look like faults: what a healthy cluster does every day. To add one: its file, a line here.

They stand in the truth as decoys: whoever blames one of them is wrong. `BESIDE` are those that may accompany any
fault (`with_decoy`): they need no job's obedience and touch nothing that a job uses.
"""

from __future__ import annotations

from leadline.lab.faults.base import Fault
from leadline.lab.harmless.decoys import CronJob, LogNoise, UnusedNicFlaps
from leadline.lab.harmless.job import ExtraCheckpoint, Recompilation, Reinitialisation, VariableSequences
from leadline.lab.harmless.operations import ExporterRestarts, Maintenance, RollingUpgrade
from leadline.lab.harmless.preemption import Preemption

HARMLESS: tuple[type[Fault], ...] = (
    Recompilation,
    VariableSequences,
    Reinitialisation,
    ExtraCheckpoint,
    Preemption,
    Maintenance,
    RollingUpgrade,
    ExporterRestarts,
    LogNoise,
    CronJob,
    UnusedNicFlaps,
)
HARMLESS_BY_NAME = {each.name: each for each in HARMLESS}
BESIDE: tuple[type[Fault], ...] = (LogNoise, CronJob, UnusedNicFlaps, ExporterRestarts)
