"""Build hook of the package: a wheel or an sdist without the page or the docs is no Leadline, so building it fails.

The prober (native/prober) is compiled into a wheel, which is then for Linux of one architecture. Where there is no C
compiler the wheel is for all, and its agent probes in Python.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = {"page": "scripts/build-page", "docs": "scripts/build-docs"}  # below src/leadline/server; and what builds it
PROBER = "src/leadline/host/mesh/built/leadline-prober"
PROGRAM_INTERPRETER = 3  # PT_INTERP: the loader of shared libraries; a program without one needs none
ARCHITECTURES = {62: "x86_64", 183: "aarch64"}
"""By the number in a program's head. Source: elf(5), e_machine."""


class Packaged(BuildHookInterface[Any]):
    """Looks before anything is packed. An editable installation serves what is built later."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Errors: SystemExit, naming what is missing and how to get it."""
        if version == "editable":
            return
        root = Path(self.root)
        server = root / "src" / "leadline" / "server"
        missing = [f"{what} ({how})" for what, how in NEEDED.items() if not (server / what / "index.html").is_file()]
        if missing:
            raise SystemExit(f"the package needs what is built before it: {', '.join(missing)}; or scripts/build-wheel")
        if self.target_name == "wheel" and (platform := _with_prober(root)):
            build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform}"


def _with_prober(root: Path) -> str:
    """Compile the prober; returns the platforms that it runs on, as a tag, empty where there is none.

    One that stands there already is taken where nothing can be compiled.
    """
    ran = subprocess.run([root / "scripts" / "build-prober"], capture_output=True, text=True, check=False)
    program = root / PROBER
    platform = platform_of(program.read_bytes()) if program.is_file() else ""
    if not platform:
        print(f"a wheel without the prober: {ran.stderr.strip() or 'it is for Linux'}", file=sys.stderr)
    return platform


def platform_of(program: bytes) -> str:
    """The tag of a program of Linux: its architecture, and the C library that it needs; empty: of no known one."""
    if program[:6] != b"\x7fELF\x02\x01":  # 64 bits, little endian
        return ""
    machine = ARCHITECTURES.get(struct.unpack_from("<H", program, 18)[0])
    if machine is None:
        return ""
    (first,), (bytes_each, count) = struct.unpack_from("<Q", program, 32), struct.unpack_from("<HH", program, 54)
    kinds = [struct.unpack_from("<I", program, first + bytes_each * each)[0] for each in range(count)]
    if PROGRAM_INTERPRETER not in kinds:  # any C library does: the oldest tags that pip knows
        return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
    newest = max((int(each) for each in re.findall(rb"GLIBC_2\.(\d+)", program)), default=0)
    return f"manylinux_2_{max(newest, 17)}_{machine}"
