"""Mutated inputs for everything that reads bytes from outside, a minute each, led by coverage; and what they found.

    python -m bench.fuzz [--seconds 60] [--target sflow,http] [--quick] [--keep] [--json]
    python -m bench.fuzz --replay [--target sflow FILE ...]

The targets are in tests/fuzz: any bytes are decoded or refused with a clear error, within seconds and bounded memory;
two ways to read the same bytes say the same. What numba scans is mutated for half of the time interpreted, each load
compared with its bounds, so that coverage leads, and for half as it ships, on inputs behind which memory ends.

It needs atheris (libFuzzer for Python): `pip install -e '.[fuzz]'`. Inputs that reach something new stay in
build/fuzz/TARGET/corpus for the next run; with --keep some of them are packed into tests/fuzz/corpora, which
`make test` replays. Exit code 1 if something was found: the file that does it is told. --replay runs what is kept, or
FILEs, through a target without atheris: to see a finding's trace, and that it is mended. Then put the file into
tests/fuzz/corpora/TARGET under a name that says what it was.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, conditions, tell

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "fuzz"
QUICK_S = 2
STARTS_S = 240  # importing traced modules takes 2 to 20 s, on a busy machine ten times that
NOISE = ("INFO:", "WARNING: Failed to find", "#", "stat::", "0x", "MS:", "Base64:", "artifact_prefix")
TRACE_LINES = 25  # of a finding, on standard error


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run of a target came to."""

    inputs: int
    edges: int
    features: int
    exit_code: int
    findings: tuple[Path, ...]
    said: str


def targets() -> dict[str, bool]:
    """All targets, and whether numba scans them."""
    listed = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.replay", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, bool] = json.loads(listed.stdout)
    return found


def mutate(name: str, seconds: int, seed: int, interpreted: bool) -> Ran:
    """Run one target in a process of its own."""
    work = WORK / name
    before = set((work / "findings").glob("*"))
    command = [sys.executable, "-m", "tests.fuzz.mutate", name, "--seconds", str(seconds), "--seed", str(seed)]
    command += ["--work", str(work), *(["--interpreted"] if interpreted else [])]
    ran = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        timeout=seconds + STARTS_S, check=False,
    )  # fmt: skip
    units = re.findall(r"stat::number_of_executed_units: (\d+)", ran.stdout)
    reached = re.findall(r"cov: (\d+) ft: (\d+)", ran.stdout)
    edges, features = map(int, reached[-1]) if reached else (0, 0)
    findings = tuple(sorted(set((work / "findings").glob("*")) - before))
    said = "\n".join(line for line in ran.stdout.splitlines() if not line.startswith(NOISE))
    return Ran(int(units[-1]) if units else 0, edges, features, ran.returncode, findings, said)


def fuzz(name: str, kernels: bool, seconds: int, seed: int) -> list[Ran]:
    """All runs of a target: with kernels two, of half of the time each."""
    ways = (True, False) if kernels else (False,)
    return [mutate(name, max(1, seconds // len(ways)), seed, interpreted) for interpreted in ways]


def tell_finding(name: str, ran: Ran) -> None:
    """Say what was found, and by which file."""
    print("\n".join(ran.said.splitlines()[-TRACE_LINES:]), file=sys.stderr)
    for path in ran.findings:
        print(f"{name}: {path}\n  see it again: python -m bench.fuzz --replay --target {name} {path}", file=sys.stderr)
    if not ran.findings:
        print(f"{name}: ended with exit code {ran.exit_code} and no input that does it", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=int, default=60, help="of each target")
    parser.add_argument("--target", default="", help="some of them, with commas between; all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_S} seconds of each target")
    parser.add_argument("--keep", action="store_true", help="pack inputs that reached something new into tests/fuzz")
    parser.add_argument("--replay", action="store_true", help="only run what is kept, or FILEs, without atheris")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("files", nargs="*", type=Path, help="for --replay")
    given = parser.parse_args()
    known = targets()
    names = [name for name in given.target.split(",") if name] or list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(known)}")
    if given.files and (not given.replay or len(names) != 1):
        parser.error("files are for --replay and one --target")
    if given.replay:
        sys.exit(replay(names, given.files, given.json))
    if importlib.util.find_spec("atheris") is None:
        sys.exit("bench.fuzz needs atheris: pip install -c constraints.txt -e '.[fuzz]' (Linux, Python 3.11 to 3.13)")
    seconds = QUICK_S if given.quick else given.seconds
    begun, figures, found, inputs = time.monotonic(), list[Figure](), 0, 0
    for name in names:
        runs = fuzz(name, known[name], seconds, given.seed)
        if given.keep:
            subprocess.run([sys.executable, "-m", "tests.fuzz.replay", "--keep", name], cwd=ROOT, check=True)
        for ran in runs:
            if ran.exit_code:
                found += max(1, len(ran.findings))
                tell_finding(name, ran)
        tried = sum(ran.inputs for ran in runs)
        inputs += tried
        figures.append(Figure(f"{name}_inputs", tried, "inputs"))
        figures.append(Figure(f"{name}_edges", runs[0].edges, "edges"))
        figures.append(Figure(f"{name}_features", runs[0].features, "features"))
        if not given.json:
            print(f"{name}: {tried} inputs, {runs[0].edges} edges, {runs[0].features} features", file=sys.stderr)
    figures += [
        Figure("inputs", inputs, "inputs"),
        Figure("findings", found, "findings", target=0, better="lower"),
    ]
    under = conditions(given.seed, seconds_of_each=seconds, seconds=round(time.monotonic() - begun, 1))
    tell("fuzz", under, figures, given.json)
    sys.exit(1 if found else 0)


def replay(names: list[str], files: list[Path], as_json: bool) -> int:
    """Run inputs through targets as they are. Returns: the exit code."""
    command = [sys.executable, "-m", "tests.fuzz.replay", *names]
    command += ["--files", *map(os.path.abspath, files)] if files else []
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if not ran.stdout:
        return ran.returncode or 1
    counts: dict[str, dict[str, int]] = json.loads(ran.stdout.splitlines()[-1])
    figures = [Figure(f"{name}_replayed", each["inputs"], "inputs") for name, each in counts.items()]
    found = sum(each["findings"] for each in counts.values())
    figures.append(Figure("findings", found, "findings", target=0, better="lower"))
    tell("fuzz", conditions(), figures, as_json)
    return 1 if found or ran.returncode else 0


if __name__ == "__main__":
    main()
