"""All constants moved, one process for each and factor; what was judged is kept, so that a run can go on."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.house_parts.constants import ANALYSIS, ROOT

from evals.sensitivity.moving import Movable, importers_of

FACTORS = (0.5, 2.0)
PATIENCE_S = 600.0  # for one process; ordinary ones take some seconds, and a minute where kernels are compiled
NICE = 19
NOT_JUDGED = "not judged"
CHOSEN = ("recordings", "judgement")  # sources of numbers that might as well be others
REGISTRY = "leadline.analysis"  # imports what judges recordings
NOT_RUN = "no analysis of a recording runs it"

Key = tuple[str, float, str]  # constant, factor, recording


@dataclass(frozen=True, slots=True)
class Change:
    """What one recording's verdicts became."""

    rows: dict[str, int] = field(default_factory=dict)  # table: rows that are new, gone or different
    gone: tuple[str, ...] = ()  # of what is named
    new: tuple[str, ...] = ()
    cannot: str = ""  # why it could not be judged


@dataclass(frozen=True, slots=True)
class Outcome:
    """One constant: what became of each recording at each factor that was judged."""

    key: str
    which: Movable
    changes: dict[tuple[float, str], Change]  # factor, name of the recording

    @property
    def rank(self) -> int:
        """0: it changes what is named; 1: rows; 2: nothing; 3: it could not be moved; 4: not judged."""
        found = list(self.changes.values())
        if not found:
            return 4
        if any(each.gone or each.new for each in found):
            return 0
        if any(each.rows for each in found):
            return 1
        return 3 if all(each.cannot for each in found) else 2

    @property
    def words(self) -> str:
        """In a line."""
        return (
            f"changes what is named in {self._recordings(lambda each: bool(each.gone or each.new))}",
            f"changes rows of {', '.join(sorted(self.tables))} in {self._recordings(lambda each: bool(each.rows))}",
            "changes nothing",
            "; ".join(sorted({each.cannot for each in self.changes.values()})),
            NOT_JUDGED,
        )[self.rank]

    @property
    def tables(self) -> Counter[str]:
        """Rows that differ, by table, over all recordings and factors."""
        found: Counter[str] = Counter()
        for each in self.changes.values():
            found.update(each.rows)
        return found

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "source": self.which.constant.source,
            "outcome": ("named", "rows", "none", "cannot", NOT_JUDGED)[self.rank],
            "changes": [
                {"factor": factor, "recording": name, "rows": each.rows, "gone": each.gone, "new": each.new,
                 "cannot": each.cannot}
                for (factor, name), each in sorted(self.changes.items())
                if each.rows or each.gone or each.new or each.cannot
            ],
        }  # fmt: skip

    def _recordings(self, is_one: Callable[[Change], bool]) -> str:
        names = sorted({f"{name} (x{factor:g})" for (factor, name), each in self.changes.items() if is_one(each)})
        return ", ".join(names)


class Results:
    """What was judged, in a file of one JSON object a line, the first of which tells of which code."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._of: dict[Key, dict[str, Any]] = {}
        self._read()

    def __contains__(self, key: Key) -> bool:
        return key in self._of

    def add(self, key: Key, found: dict[str, Any]) -> None:
        """Keep one judgement, in the file at once."""
        self._of[key] = found
        with self._path.open("a") as file:
            file.write(json.dumps([key, found]) + "\n")

    def outcomes(self, which: Sequence[Movable], paths: Sequence[Path]) -> list[Outcome]:
        """What became of each constant, in the order given."""
        return [Outcome(each.key, each, self._changes(each.key, paths)) for each in which]

    def _changes(self, key: str, paths: Sequence[Path]) -> dict[tuple[float, str], Change]:
        found = {}
        for path in paths:
            before = self._of.get(("", 1.0, name_of(path)))
            for factor in FACTORS:
                now = self._of.get((key, factor, name_of(path)))
                if before is not None and now is not None:
                    found[factor, path.stem] = change(before, now)
        return found

    def _read(self) -> None:
        code = code_hash()
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        if not lines or json.loads(lines[0]) != code:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(code) + "\n")
            return
        for line in lines[1:]:
            try:
                (name, factor, recording), found = json.loads(line)
            except ValueError:
                continue  # the last line of a run that was killed while it wrote
            self._of[name, factor, recording] = found


def name_of(path: Path) -> str:
    """A recording in results: its path in the repository, or as it is."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def change(before: dict[str, Any], now: dict[str, Any]) -> Change:
    """How two judgements of one recording differ."""
    if "cannot" in now or "cannot" in before:
        return Change(cannot=now.get("cannot") or before["cannot"])
    rows = {}
    for table in sorted({*before["rows"], *now["rows"]}):
        was, is_now = (Counter(each["rows"].get(table, {})) for each in (before, now))
        if differ := max((was - is_now).total(), (is_now - was).total()):
            rows[table] = differ
    was_named, named = set(before["named"]), set(now["named"])
    return Change(rows, tuple(sorted(was_named - named)), tuple(sorted(named - was_named)))


def code_hash() -> str:
    """Of the code of all analyses, comments left out: what was judged by other code does not count."""
    texts = (ast.unparse(ast.parse(path.read_text())) for path in sorted(ANALYSIS.rglob("*.py")))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def sweep(
    which: Sequence[Movable], paths: Sequence[Path], results: Results, told: Callable[[str], None], seconds: float = 0.0
) -> None:
    """Judge what was not judged yet: recording by recording, all constants of each. seconds: 0, or when to stop."""
    begun = time.monotonic()
    which = sorted(which, key=lambda each: each.constant.source not in CHOSEN)  # a run may end before all are judged
    for path in paths:
        _judge(None, 1.0, path, results)
        wanted = [
            (each, factor) for each in which for factor in FACTORS if (each.key, factor, name_of(path)) not in results
        ]
        for place, (each, factor) in enumerate(wanted):
            if seconds and time.monotonic() - begun > seconds:
                told(f"stopped after {seconds:.0f} s at {path.stem}, {len(wanted) - place} left of it")
                return
            _judge(each, factor, path, results)
            told(f"{path.stem} {place + 1}/{len(wanted)} {each.key} x{factor:g}")


def _judge(which: Movable | None, factor: float, path: Path, results: Results) -> None:
    key = (which.key if which else "", factor, name_of(path))
    if key in results:
        return
    importers = importers_of(which.module) if which else ()
    if which and REGISTRY not in importers:
        results.add(key, {"cannot": NOT_RUN})
        return
    asked = {
        "module": which.module if which else "",
        "name": which.name if which else "",
        "factor": factor,
        "importers": importers,
        "recordings": [str(path)],
    }
    results.add(key, _run(asked))


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own prints."""
    command = [sys.executable, "-m", "evals.sensitivity.judged"]
    try:
        done = subprocess.run(
            command, input=json.dumps(asked), capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT,
            preexec_fn=_idle, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"cannot": f"took longer than {PATIENCE_S:.0f} s"}
    if done.returncode or not done.stdout:
        return {"cannot": f"the process ended with {done.returncode}: {done.stderr.strip()[-200:]}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _idle() -> None:
    os.nice(NICE)
