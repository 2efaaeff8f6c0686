"""What can be asked of a program that runs a user's jobs: which of them, where, how it is told."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser(prog: str, description: str, seed: str, only: str) -> argparse.ArgumentParser:
    """A parser with what all of them take. `seed`, `only`: what these choose."""
    found = argparse.ArgumentParser(prog=prog, description=description)
    found.add_argument("--seed", type=int, default=1, help=seed)
    found.add_argument("--only", default="", help=only)
    found.add_argument("--port", type=int, default=0, help="the first of four ports; 0: free ones")
    found.add_argument("--keep", type=Path, help="a new directory for everything, instead of one that is removed")
    found.add_argument("--quick", action="store_true", help="one job")
    found.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return found
