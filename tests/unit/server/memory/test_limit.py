"""What the process may hold: half of the machine or of its control group, whichever version that has."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from leadline.server.memory.limit import BYTES_MIN, bytes_max, held_bytes, machine_bytes

GIB = 1 << 30
MEMINFO = f"MemTotal:       {64 << 20} kB\nMemFree: 1 kB\n"


def machine(root: Path, cgroup: str, **files: str) -> Path:
    """A root with the files of /proc and /sys; names of the groups' files with `__` for `/`."""
    for name, text in {"proc/meminfo": MEMINFO, "proc/self/cgroup": cgroup}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, text in files.items():
        path = (
            root
            / "sys/fs/cgroup"
            / name.replace("__", "/").replace("_max", ".max").replace("_limit", ".limit_in_bytes")
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/\n", {}, 64 * GIB),
        ("0::/\n", {"memory_max": "max\n"}, 64 * GIB),
        ("0::/\n", {"memory_max": f"{8 * GIB}\n"}, 8 * GIB),
        ("0::/a/b\n", {"a__b__memory_max": "max\n", "a__memory_max": f"{4 * GIB}\n"}, 4 * GIB),
        ("0::/of/the/host\n", {"memory_max": f"{8 * GIB}\n"}, 8 * GIB),
        ("5:cpu:/x\n4:memory:/x\n0::/\n", {"memory__x__memory_limit": f"{3 * GIB}\n"}, 3 * GIB),
        ("4:memory:/gone\n", {"memory__memory_limit": f"{3 * GIB}\n"}, 3 * GIB),
        ("4:memory:/x\n", {"memory__x__memory_limit": "9223372036854771712\n"}, 64 * GIB),
        ("nonsense\n\n", {"memory_max": "nonsense"}, 64 * GIB),
    ],
    ids=["none", "v2 max", "v2", "v2 above", "v2 in a container", "v1", "v1 in a container", "v1 none", "nonsense"],
)
def test_the_least_of_machine_and_control_groups(
    tmp_path: Path, cgroup: str, files: dict[str, str], expected: int
) -> None:
    assert machine_bytes(machine(tmp_path, cgroup, **files)) == expected


def test_the_default_is_half_and_at_least_a_gib(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/\n")
    assert bytes_max(0, root) == 32 * GIB
    assert bytes_max(5, root) == 5
    assert bytes_max(0, machine(tmp_path, "0::/\n", memory_max=f"{GIB}\n")) == BYTES_MIN
    assert bytes_max(0, tmp_path / "nothing") == BYTES_MIN


def test_what_is_held_grows_with_what_is_written(tmp_path: Path) -> None:
    # New pages of the kernel's: a process that freed a lot has as much to hand out again.
    kept = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    before = held_bytes()
    kept.write(b"x" * (64 << 20))
    assert before + (60 << 20) < held_bytes() < before + (150 << 20)
    assert len(kept) == 64 << 20
    assert held_bytes(tmp_path) == 0, "a kernel that does not tell"
