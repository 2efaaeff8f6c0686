"""The library that makes faults, built and steered: a file of shared memory, laid out as in `preload.c`."""

from __future__ import annotations

import ctypes
import mmap
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from leadline.model.errors import WorldError

SOURCE = Path(__file__).parent / "preload.c"
STRIKES = 64  # that are kept with their path
EVERY = 2**31 - 1  # strikes, and so no limit


class Call(IntEnum):
    """What a process asks of its disk."""

    WRITE = 0  # write, pwrite, writev, pwritev, pwritev2
    SYNC = 1  # fsync, fdatasync
    SPACE = 2  # ftruncate, truncate, fallocate, posix_fallocate
    CREATE = 3  # open and its like with O_CREAT or O_TRUNC
    RENAME = 4  # rename, renameat, renameat2: told by the old name
    LINK = 5
    MKDIR = 6


class Stage(IntEnum):
    """What of the engine a file belongs to, by its path."""

    INSERT = 0  # tmp_insert_...: a part that an append makes
    MERGE = 1  # tmp_merge_...
    MUTATE = 2  # tmp_mut_...
    REMOVE = 3  # delete_tmp_...
    DETACHED = 4
    PART = 5  # in its place already
    METADATA = 6  # statements that make tables
    OTHER = 7  # what lies beside: our own files, the engine's state


class Kind(IntEnum):
    """Kind of file."""

    DATA = 0
    MARKS = 1
    PRIMARY = 2
    CHECKSUMS = 3
    SMALL = 4  # count.txt, columns.txt, ...
    DIRECTORY = 5


class Fault(IntEnum):
    """What befalls a call."""

    FULL = 1  # ENOSPC
    IO_ERROR = 2  # EIO
    SHORT = 3  # half of the bytes are written, and that is what the call says
    SHORT_THEN_FULL = 4  # and the next write of the file gets ENOSPC
    STALL = 5  # the call does not return before the fault is lifted or over, and then does what it was asked


@dataclass(frozen=True, slots=True)
class Site:
    """Where a fault strikes."""

    call: Call
    stage: Stage
    kind: Kind

    def __str__(self) -> str:
        return f"{self.call.name.lower()} {self.stage.name.lower()}/{self.kind.name.lower()}"


_Counts = ctypes.c_uint64 * len(Kind) * len(Stage) * len(Call)


class _Strike(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("call", "stage", "kind", "fault")),
        ("path", ctypes.c_char * 200),
    )


class _Shared(ctypes.Structure):
    _fields_ = (
        ("until_ns", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("armed", "fault", "calls", "stages", "kinds")),
        *((name, ctypes.c_int32) for name in ("skip", "left")),
        ("made", ctypes.c_uint32),
        ("seen", _Counts),
        ("struck", _Counts),
        ("strikes", _Strike * STRIKES),
    )


def built(directory: Path) -> Path:
    """The library, compiled. Errors: WorldError without a C compiler, or on another machine than x86-64."""
    compiler = shutil.which("cc")
    if compiler is None or platform.machine() != "x86_64":
        raise WorldError(
            f"faults of the disk need a C compiler and x86-64, got {compiler or 'no cc'} on {platform.machine()}; "
            "install one (apt-get install gcc libc6-dev)"
        )
    made = directory / "disk-faults.so"
    said = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(SOURCE)], capture_output=True, text=True, check=False
    )
    if said.returncode:
        raise WorldError(f"{SOURCE.name} cannot be compiled: {said.stderr[-1000:]}")
    return made


class Control:
    """Shared memory with the processes that were started with `environ`. Close it, or use it in a `with`."""

    def __init__(self, library: Path, directory: Path, file: Path) -> None:
        """`directory`: faults strike below it alone. `file`: made anew; it must not lie below."""
        self.environ: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "DISK_FAULTS_BELOW": str(directory.resolve()),
            "DISK_FAULTS_CONTROL": str(file),
        }
        with file.open("wb+") as opened:
            opened.truncate(ctypes.sizeof(_Shared))
            self._map = mmap.mmap(opened.fileno(), 0)
        self._shared: _Shared | None = _Shared.from_buffer(self._map)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lift what is armed, and let go of the memory."""
        if self._shared is not None:
            self.lift()
            self._shared = None  # it holds the map
            self._map.close()

    def arm(
        self, site: Site | Stage | None, fault: Fault, *, skip: int = 0, strikes: int = EVERY, seconds: float
    ) -> None:
        """From now on for `seconds`, strike `strikes` calls at a site or stage after `skip` of them passed; None: at
        any."""
        shared = self._here()
        self.lift()
        everything = 2**32 - 1
        stage = site.stage if isinstance(site, Site) else site
        shared.calls = 1 << site.call if isinstance(site, Site) else everything
        shared.stages = everything if stage is None else 1 << stage
        shared.kinds = 1 << site.kind if isinstance(site, Site) else everything
        shared.fault, shared.skip, shared.left, shared.made = fault, skip, strikes, 0
        shared.until_ns = time.monotonic_ns() + round(seconds * 1e9)
        shared.armed = 1

    def lift(self) -> None:
        """No fault any more."""
        self._here().armed = 0

    @property
    def made(self) -> int:
        """Strikes since it was armed."""
        return int(self._here().made)

    def strikes(self) -> list[tuple[Site, str]]:
        """The first STRIKES of them: where, and the path below the directory."""
        shared = self._here()
        return [
            (Site(Call(each.call), Stage(each.stage), Kind(each.kind)), each.path.decode(errors="replace"))
            for each in shared.strikes[: min(shared.made, STRIKES)]
        ]

    def seen(self) -> dict[Site, int]:
        """Calls since the start, struck or not."""
        return _sites(self._here().seen)

    def struck(self) -> dict[Site, int]:
        """Strikes since the start."""
        return _sites(self._here().struck)

    def _here(self) -> _Shared:
        assert self._shared is not None, "closed"
        return self._shared


def _sites(counts: ctypes.Array[ctypes.Array[ctypes.Array[ctypes.c_uint64]]]) -> dict[Site, int]:
    return {
        Site(call, stage, kind): int(counts[call][stage][kind])
        for call in Call
        for stage in Stage
        for kind in Kind
        if counts[call][stage][kind]
    }
