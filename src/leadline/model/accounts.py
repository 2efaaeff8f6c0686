"""Words of the accounts: what a second of a job can be, what a failure can be of, which layers promise something."""

from __future__ import annotations

from enum import StrEnum

TICK_S = 2.0**-20
"""Seconds in the ledger are multiples of this (about a microsecond): sums of them are exact in floating point."""

EVERYWHERE = ""
"""The cluster of a row that holds in each of them: of what an operator promises."""


class Category(StrEnum):
    """What a wall second of a job went to."""

    COMPUTE = "compute"
    INPUT = "input"  # waiting for data
    COMMUNICATION = "communication"  # exposed: nothing else went on meanwhile
    STRAGGLER = "straggler"  # the others waited for one rank, beyond what ranks take in the median
    CHECKPOINT = "checkpoint"
    RESTART = "restart"  # start-up, and steps done again
    IDLE = "idle"  # GPUs held, nothing run
    UNKNOWN = "unknown"


class Depth(StrEnum):
    """What a row of the ledger was told from, the best first."""

    OPERATIONS = "operations"
    COLLECTIVES = "collectives"
    STEPS = "steps"
    EVENTS = "events"
    NONE = "none"


class FailureClass(StrEnum):
    """What a failure is of, as the papers class them."""

    GPU = "gpu"
    NETWORK = "network"
    HOST = "host"
    MEMORY = "memory"
    STORAGE = "storage"
    SOFTWARE = "software"
    OPERATOR = "operator"  # somebody asked for it: preemption, maintenance, a stop
    UNKNOWN = "unknown"


class Layer(StrEnum):
    """Layers that expectations are held in."""

    APPLICATION = "application"
    COLLECTIVE = "collective"
    GPU = "gpu"
    HOST = "host"
    NIC = "nic"
    FABRIC = "fabric"
    STORAGE = "storage"
    TIME = "time"
    TELEMETRY = "telemetry"
