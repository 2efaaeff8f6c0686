"""What events say of failures: which are one by themselves, which only where a job dies soon after, of which class.

Sources: `model.hardware_codes` for XIDs; Cui et al., "Characterizing GPU Resilience" (Delta, 2025) for errors that kill
jobs; the kinds are those of `wire/kernel_log/events.py`, the agent and schedulers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from leadline.model.accounts import FailureClass
from leadline.model.hardware_codes import Suspect, xid_of

EXITS = frozenset({"process-exit", "job-end"})
BACK = {"link-up": "link-down", "process-continued": "process-stopped", "host-ready": "host-not-ready"}
"""Kinds that end a failure of the same entity: back -> what it was."""
GPU_READY, DRIVER_LOADED = "gpu-ready", "gpu-driver-loaded"
"""Kinds after which GPUs that were dead are not: of the GPU by somebody who looked, and of all GPUs of a host, since a
driver that is loaded anew has reset them."""
OF_GPUS = frozenset({"xid", "gpu-lost"})
"""Kinds of failures of GPUs."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an event says. `alone`: it is a failure without anything else; otherwise only if a job dies of it."""

    of: FailureClass
    alone: bool


_KINDS: Mapping[str, Meaning] = {
    "gpu-lost": Meaning(FailureClass.GPU, alone=True),
    "link-down": Meaning(FailureClass.NETWORK, alone=True),
    "process-stopped": Meaning(FailureClass.UNKNOWN, alone=True),
    "host-not-ready": Meaning(FailureClass.HOST, alone=True),
    "tx-timeout": Meaning(FailureClass.NETWORK, alone=False),
    "mce": Meaning(FailureClass.HOST, alone=False),
    "hung-task": Meaning(FailureClass.HOST, alone=False),
    "storage-error": Meaning(FailureClass.STORAGE, alone=False),
    "maintenance": Meaning(FailureClass.OPERATOR, alone=True),
    "preemption": Meaning(FailureClass.OPERATOR, alone=False),
    "oom-kill": Meaning(FailureClass.MEMORY, alone=False),
}
_STORAGE_LOG = re.compile(
    r"I/O error|nfs: server \S+ not responding|Remounting filesystem read-only|EXT4-fs error|LustreError", re.IGNORECASE
)


def meaning(kind: str, code: str, severity: str, entity_kind: str, message: str) -> Meaning | None:
    """What an event that is no exit says of failures; None: nothing."""
    if kind == "xid":
        return _xid(code)
    if kind == "sxid":
        return Meaning(FailureClass.GPU, alone=False) if severity == "fatal" else None
    if kind == "edac":  # corrected errors are no failure
        return Meaning(FailureClass.MEMORY, alone=False) if code == "UE" else None
    if kind == "pcie-aer":
        return Meaning(FailureClass.HOST, alone=False) if code in ("fatal", "dpc") else None
    if kind in _KINDS:
        return _KINDS[kind]
    if severity not in ("error", "fatal"):
        return None
    if entity_kind == "storage" or (kind == "log" and _STORAGE_LOG.search(message)):
        return _KINDS["storage-error"]
    return None


def _xid(code: str) -> Meaning | None:
    """A GPU that is dead is a failure by itself; hardware that goes on, or a program, only where a job dies of it."""
    known = xid_of(code)
    if known is None or known.suspect is Suspect.FOLLOWS:
        return None
    of = FailureClass.SOFTWARE if known.suspect is Suspect.PROGRAM else FailureClass.GPU
    return Meaning(of, alone=known.dead)


@dataclass(frozen=True, slots=True)
class Exit:
    """What the end of a process says by itself. `sure`: no other event would make it something else.

    `telling`: of several ends at once, the one with the least is what the others followed.
    """

    kind: str
    of: FailureClass
    sure: bool
    telling: int


_ASKED = frozenset({"signal/SIGTERM", "signal/SIGINT", "exit/143", "exit/130"})  # 128 + signal: a shell's way to say it
_CRASHED = frozenset({"signal/SIGSEGV", "signal/SIGBUS", "signal/SIGFPE", "signal/SIGILL"})


def exit_meaning(code: str, severity: str, reason: str) -> Exit | None:
    """What an exit says; None where all went well.

    A program that ends with a code of its own gave up: of software, unless something else befell it before. A kill
    from outside (SIGKILL) is of unknown cause, unless the control group counts an OOM kill.
    """
    if code == "exit/0" or (not code and severity not in ("error", "fatal")):
        return None
    if reason == "oom-kill":
        return Exit("oom-kill", FailureClass.MEMORY, sure=True, telling=0)
    if code in _ASKED:
        return Exit("process-exit", FailureClass.OPERATOR, sure=False, telling=4)
    if code in _CRASHED:
        return Exit("process-exit", FailureClass.SOFTWARE, sure=True, telling=1)
    if code.startswith("signal/SIGABRT"):
        return Exit("process-exit", FailureClass.SOFTWARE, sure=False, telling=1)
    if code.startswith("exit/"):
        return Exit("process-exit", FailureClass.SOFTWARE, sure=False, telling=3)
    return Exit("process-exit", FailureClass.UNKNOWN, sure=False, telling=2)
