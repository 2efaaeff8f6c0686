"""Figures of the house: what its tests cost, how it starts, what nothing reaches, whether verdicts are what they were.

    python -m bench.house [--json] [--only readme_words,...] [--clone] [--record-verdicts]

Without --clone: what can be read from this checkout, and what its installed environment starts. With it, in a fresh
clone of the last commit in a temporary folder: `make up` until it is ready, `make check` and `make test`, one after the
other (some 25 minutes; needs the network once). --record-verdicts makes today's verdicts the ones that later ones are
held against: part of a commit that says why they changed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, conditions, tell
from bench.house_parts import constants, imports, ready, verdicts

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "leadline"
LINES_BEFORE = 105_337  # of the source on 2026-11-23, at the audit that this bench was written for
READY = "Leadline is at"  # what `leadline up` prints once it answers
ENDS_S = 60.0  # patience with a `make up` that was told to end


def source_lines() -> float:
    """Lines of all Python files of the source."""
    return sum(len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py"))


def server_files() -> float:
    """Files that stand flat in the server's folder."""
    return len(list((SOURCE / "server").glob("*.py")))


def flat_files_max() -> float:
    """Python files of the fullest folder."""
    folders = {path.parent for top in ("src", "tests", "bench", "evals") for path in (ROOT / top).rglob("*.py")}
    return max(len(list(folder.glob("*.py"))) for folder in folders)


def readme_words() -> float:
    """Words of README.md, as `wc -w` counts them."""
    return len((ROOT / "README.md").read_text().split())


def import_circles() -> float:
    """0, or 1 if files import each other in a circle, for types alone included."""
    return float(bool(imports.circle(imports.imports_of_modules())))


def unreached_modules() -> float:
    """Modules that no program comes to."""
    return len(imports.unreached())


def verdicts_changed() -> float:
    """Tables of recordings whose verdicts differ from those recorded."""
    return len(verdicts.changed(verdicts.recorded(), verdicts.digests(verdicts.recordings())))


def constants_without_reason() -> float:
    """Numbers that decide verdicts and lack unit, reason or source."""
    return len(constants.without_reason())


@dataclass(frozen=True, slots=True)
class Wanted:
    """A figure that is read from this checkout."""

    take: Callable[[], float]
    unit: str
    target: float | None = None
    better: str = "lower"


HERE: dict[str, Wanted] = {
    "import_circles": Wanted(import_circles, "circles", 0),
    "unreached_modules": Wanted(unreached_modules, "modules", 0),
    "constants_without_reason": Wanted(constants_without_reason, "numbers", 0),
    "source_lines": Wanted(source_lines, "lines", LINES_BEFORE),
    "server_files": Wanted(server_files, "files", 30),
    "flat_files_max": Wanted(flat_files_max, "files", 30),
    "readme_words": Wanted(readme_words, "words", 900),
    "verdicts_changed": Wanted(verdicts_changed, "tables", 0),
    "ready_cpu_s": Wanted(ready.ready_cpu_s, "s", 5),
    "kernels": Wanted(ready.kernels, "functions"),
    "compile_s": Wanted(ready.compile_s, "s"),
}
IN_CLONE: dict[str, float] = {"install_s": 180, "make_check_s": 120, "make_test_s": 900}


def figures_here(only: Sequence[str], told: Callable[[str], None]) -> list[Figure]:
    """What can be read from this checkout, in the order of `HERE`."""
    found = []
    for name, wanted in HERE.items():
        if only and name not in only:
            continue
        told(name)
        found.append(Figure(name, float(wanted.take()), wanted.unit, wanted.target, wanted.better))
    return found


def figures_in_clone(told: Callable[[str], None]) -> list[Figure]:
    """Seconds of what a stranger does first, each in a fresh clone of the last commit."""
    with tempfile.TemporaryDirectory(prefix="leadline-house-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        told("make up, until it is ready")
        taken = [("install_s", *_until_ready(clone))]
        _seconds(["make", "format"], clone, Path(folder))  # installs what `make check` is to find
        told("make check")
        taken += [("make_check_s", *_seconds(["make", "check"], clone, Path(folder)))]
        subprocess.run(["git", "clean", "-qfdx"], cwd=clone, check=True)
        told("make test, from nothing again")
        taken += [("make_test_s", *_seconds(["make", "test"], clone, Path(folder)))]
    return [Figure(name, value, "s", IN_CLONE[name], "lower", reason=why) for name, value, why in taken]


def _until_ready(clone: Path) -> tuple[float | None, str | None]:
    """Seconds until `make up` has printed its address, or why it did not; it is ended then, as by Ctrl-C."""
    begun = time.monotonic()
    running = subprocess.Popen(
        ["make", "up"], cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert running.stdout
    lines: list[str] = []
    try:
        for line in running.stdout:
            lines.append(line.rstrip())
            if READY in line:
                return time.monotonic() - begun, None
    finally:
        os.killpg(running.pid, signal.SIGINT)
        running.stdout.close()
        running.wait(ENDS_S)
    return None, f"make up ended before it was ready: {lines[-1:]}"


def _seconds(command: list[str], clone: Path, folder: Path) -> tuple[float | None, str | None]:
    """Seconds that a command took, or why it failed."""
    log = folder / "output.txt"
    begun = time.monotonic()
    with log.open("w") as output:
        code = subprocess.run(command, cwd=clone, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    took_s = time.monotonic() - begun
    if code:
        return None, f"exit code {code} after {took_s:.0f} s: {log.read_text().strip()[-300:]}"
    return took_s, None


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the figures that are asked for and print them. Exit code 0."""
    given = _parser().parse_args(arguments)
    only = [name for name in given.only.split(",") if name]

    def told(what: str) -> None:
        print(f"house: {what} ...", file=sys.stderr, flush=True)

    if given.record_verdicts:
        verdicts.record(verdicts.digests(verdicts.recordings()))
        return 0
    under = conditions()
    figures = figures_here(only, told) + (figures_in_clone(told) if given.clone else [])
    tell("house", under, figures, given.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.house", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--only", default="", help=f"comma-separated, of {', '.join(HERE)}")
    parser.add_argument("--clone", action="store_true", help="also time install, make check and make test in a clone")
    parser.add_argument("--record-verdicts", action="store_true", help="make today's verdicts the ones to keep")
    return parser


if __name__ == "__main__":
    sys.exit(main())
