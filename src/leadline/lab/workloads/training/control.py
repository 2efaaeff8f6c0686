"""What the control file makes a training rank do beside training: the lab's faults as its program feels them.

All of it is real work: memory that is written to, a file that is read back, bytes that cross the front end, an
operator that is computed more often. Names: docs/lab/workloads.md. Numbers are bounded, because a typing error in a
scenario should not fill the machine.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn

from leadline.lab.workloads.control import Control
from leadline.lab.workloads.storage.client import StorageClient

PAUSE_S_MAX = 60.0
SCAN_MB_MAX = 2048.0
OBJECT_MB_MAX = 200.0  # the storage host takes 256 MiB
STRETCH_MAX = 16.0
REPEATS_MAX = 100_000
CHUNK_BYTES = 1 << 20
# Lengths of the steps while they vary: half to one and a half, so that on average a step is as long as ever.
VARIED = (1.0, 0.5, 1.25, 0.75, 1.5, 0.625, 1.375, 0.875, 1.125)
OPERATOR = "layer_norm"
NORMS = (nn.LayerNorm, nn.GroupNorm)  # the same operator over other axes

Event = Callable[..., None]  # of a Watch


class SlowOperator:
    """Layer norm, computed so many times more in every forward pass: a kernel that got slower with a new version."""

    def __init__(self, *models: nn.Module | None) -> None:
        self._norms = [
            one for model in models if model is not None for one in model.modules() if isinstance(one, NORMS)
        ]
        self._handles: list[Any] = []
        self.repeats = 0

    def set(self, repeats: float) -> None:
        """0: as it was. The hooks are only there as long as they have something to do: PyTorch has a fast path."""
        self.repeats = int(min(max(repeats, 0), REPEATS_MAX))
        if self.repeats and not self._handles:
            self._handles = [one.register_forward_hook(self._again) for one in self._norms]
        elif not self.repeats:
            while self._handles:
                self._handles.pop().remove()

    def _again(self, module: nn.Module, inputs: tuple[Any, ...], output: object) -> None:
        with torch.no_grad():
            for _ in range(self.repeats):
                module.forward(*inputs)


class Obedience:
    """Does what the control file asks of one rank, step by step. `event` tells it, if anybody watches."""

    def __init__(
        self, control: Control, directory: Path, rank: int, storage: StorageClient, operator: SlowOperator, event: Event
    ) -> None:
        """`directory` is where a file may lie that is written and read each step."""
        self._control, self._storage, self._operator, self._event = control, storage, operator, event
        self._rank, self._directory = rank, directory
        self._file: IO[bytes] | None = None
        self._pause_number = 0.0
        self._version = ""
        self._hog: list[bytearray] = []
        self._object = b""

    def begin(self) -> None:
        """At the start: say with what this rank computes, and take note of numbers of earlier times."""
        self._control.changed()
        self._pause_number = self._control.number("pause_number")
        self._version = self._control.text("operator_version")
        self._tell_versions()

    def before_step(self, changed: bool) -> None:
        """Obey what has changed, and pause."""
        if not changed:
            return
        self._operator.set(self._control.number("operator_repeats"))
        version = self._control.text("operator_version")
        if version != self._version:
            self._version = version
            self._tell_versions()
        number = self._control.number("pause_number")
        if number != self._pause_number:
            self._pause_number = number
            if number:
                self._pause(min(max(self._control.number("pause_s"), 0.0), PAUSE_S_MAX))

    def delay(self) -> None:
        """Before a batch: be late with it."""
        delay_s = self._control.number("data_delay_s")
        if delay_s > 0:
            time.sleep(min(delay_s, PAUSE_S_MAX))

    def stretch(self, number: int, varied: bool) -> float:
        """How much longer than usual the sequences of this step are on this rank."""
        factor = self._control.number("sequence_factor") or 1.0
        return min(max(factor, 1 / STRETCH_MAX), STRETCH_MAX) * (VARIED[number % len(VARIED)] if varied else 1.0)

    def grow(self) -> None:
        """Keep more memory than before."""
        megabytes = self._control.number("allocate_mb_per_step")
        if megabytes > 0:
            # Written to, not only asked for: untouched memory costs no page.
            self._hog.append(bytearray(b"\x01") * int(megabytes * 1e6))

    def scan(self) -> None:
        """Write a file and read it back, as a loader does that keeps its samples on the local disk."""
        megabytes = min(self._control.number("scan_mb_per_step"), SCAN_MB_MAX)
        if megabytes <= 0:
            if self._file is not None:
                self._file.close()
                self._file = None
            return
        if self._file is None:  # without a name: it goes with the process, however that ends
            self._file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115, kept open from step to step
        chunk = os.urandom(CHUNK_BYTES)
        self._file.seek(0)
        for _ in range(max(1, round(megabytes * 1e6 / CHUNK_BYTES))):
            self._file.write(chunk)
        self._file.truncate()
        self._file.seek(0)
        while self._file.read(CHUNK_BYTES):
            pass

    @property
    def storage_bytes(self) -> int:
        """How much this rank is to write to its storage host in this step."""
        return int(min(max(self._control.number("checkpoint_mb_per_step"), 0.0), OBJECT_MB_MAX) * 1e6)

    def burden_storage(self, number: int) -> None:
        """Write so much. Errors: WorldError from the storage host."""
        if len(self._object) != self.storage_bytes:
            self._object = os.urandom(self.storage_bytes)
        self._storage.put(f"burst-rank{self._rank}/step{number:06d}", self._object)

    def _pause(self, seconds: float) -> None:
        began = time.perf_counter()
        time.sleep(seconds)
        took = f"{time.perf_counter() - began:.3f}"
        self._event("recompilation", f"the graph is compiled anew, {took} s", attributes={"seconds": took})

    def _tell_versions(self) -> None:
        told = {"torch": str(torch.__version__), "python": platform.python_version()}
        if self._version:
            told[OPERATOR] = self._version
        text = ", ".join(f"{name} {version}" for name, version in told.items())
        self._event("software-version", text, attributes=told)


def scan_directory(control_path: str | None, mounts: str) -> Path:
    """Where the file of `scan_mb_per_step` lies: beside the control file, if that is on a disk.

    `mounts` is /proc/self/mounts. In tmpfs a file is not page cache: under a limit its pages cannot be taken back, and
    instead of pressure there would be a kill.
    """
    home = Path(control_path).parent if control_path else Path("/var/tmp")
    kinds = {fields[1]: fields[2] for fields in map(str.split, mounts.splitlines()) if len(fields) > 2}
    for place in (home, *home.parents):
        if kind := kinds.get(str(place)):
            return Path("/var/tmp") if kind in ("tmpfs", "ramfs") else home
    return home
