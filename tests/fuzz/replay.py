"""A program: runs kept inputs, or some files, through targets, without mutating anything.

python -m tests.fuzz.replay [TARGET ...] [--files FILE ...]     prints counts as JSON; traces on standard error
python -m tests.fuzz.replay --keep TARGET                       packs what build/fuzz/TARGET/corpus has into the corpus
python -m tests.fuzz.replay --list                              prints all targets as JSON: whether numba scans them
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from pathlib import Path

from tests.fuzz.registry import BY_NAME

WORK = Path(__file__).parents[2] / "build" / "fuzz"


def replay(name: str, files: list[Path]) -> dict[str, int]:
    """Counts of inputs and findings of one target."""
    target = BY_NAME[name]
    inputs = [(str(path), path.read_bytes()) for path in files] or list(target.kept())
    findings = 0
    for each, data in inputs:
        try:
            target.run(data)
        except Exception:
            findings += 1
            print(f"{name}, {each}:", file=sys.stderr)
            traceback.print_exc()
    return {"inputs": len(inputs), "findings": findings}


def main() -> None:
    """Replay, keep or list."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("targets", nargs="*", choices=[*BY_NAME, []])
    parser.add_argument("--files", nargs="*", type=Path, default=[])
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    names = given.targets or list(BY_NAME)
    if given.list:
        print(json.dumps({target.name: target.kernels for target in BY_NAME.values()}))
    elif given.keep:
        for name in names:
            grown = (path.read_bytes() for path in (WORK / name / "corpus").iterdir())
            print(f"{name}: {BY_NAME[name].keep(grown)} inputs kept", file=sys.stderr)
    else:
        print(json.dumps({name: replay(name, given.files) for name in names}))


if __name__ == "__main__":
    main()
