"""Every eval in one command, resumable, with a table of targets, figures and baselines at the end.

    python -m evals.all [--data DIR] [--incidents DIR] [--only TEXT] [--again] [--plan] [--quick] [--json]

DIR of `--data` has a folder for each set of data from outside: petshop, nezha_metrics, smd, ... What is done is kept in
a journal (`--journal`): interrupted, the same command goes on with what is left. `--quick` takes all figures anew, in
minutes, from what comes with Leadline.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import conditions

from evals.all_jobs import Job, chosen, command
from evals.all_journal import Journal, Taken, key_of

HOME = Path("build/evals")
BASELINES = ("baro", "nsigma", "pca", "published")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make every call that is left and tell. Exit code 1 if one failed, 130 if interrupted, else 0."""
    given = _parser().parse_args(arguments)
    journal = Journal(given.journal) if not given.quick else None
    calls, left_out = _planned(given)
    if given.plan:
        return _tell_plan(calls, left_out, journal, given.again)
    taken: list[Taken] = []
    for number, (job, words, key) in enumerate(calls, start=1):
        found = journal.done(job.name, key) if journal and not given.again else None
        note = f"kept, took {found.seconds:.0f} s" if found else "..."
        print(f"== {job.name} ({number} of {len(calls)}) {note}", file=sys.stderr, flush=True)
        try:
            taken.append(found or _call(job, words, key))
        except KeyboardInterrupt:
            left = len(calls) - number + 1
            print(f"interrupted; {left} left, the same command goes on with {job.name}", file=sys.stderr)
            return 130
        if journal and not found:
            journal.write(taken[-1])
    _tell(taken, left_out, given.json)
    return int(any(each.state == "failed" for each in taken))


def _planned(given: argparse.Namespace) -> tuple[list[tuple[Job, Sequence[str], str]], dict[str, str]]:
    """The calls with their keys; and what cannot be called, with the reason."""
    calls, left_out = [], {}
    for job in chosen(given.only, given.quick):
        words = command(job, given.quick, given.data, given.incidents, given.journal.parent / "verdicts")
        if isinstance(words, str):
            left_out[job.name] = words
        else:
            calls.append((job, words, key_of(words)))
    return calls, left_out


def _tell_plan(
    calls: Sequence[tuple[Job, Sequence[str], str]], left_out: Mapping[str, str], journal: Journal | None, again: bool
) -> int:
    for job, words, key in calls:
        done = journal.done(job.name, key) if journal and not again else None
        print(f"{'done' if done else 'left':8} {job.name:20} python {' '.join(words)}")
    for name, why in left_out.items():
        print(f"left out {name:20} {why}")
    return 0


def _call(job: Job, words: Sequence[str], key: str) -> Taken:
    """Run one program to its end. What it says on stderr is seen; a program that fails is told, not raised."""
    began = time.monotonic()
    ended = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, check=False)
    seconds = round(time.monotonic() - began, 1)
    if ended.returncode:
        last = ended.stdout.splitlines()[-1][:300] if ended.stdout else "it printed nothing; see its errors above"
        return Taken(job.name, key, "failed", seconds, (), f"exit code {ended.returncode}: {last}")
    figures = figures_in(ended.stdout)
    if not figures:
        return Taken(job.name, key, "failed", seconds, (), "it told no figures, no JSON object in a line")
    return Taken(job.name, key, "done", seconds, figures)


def figures_in(output: str) -> list[dict[str, Any]]:
    """The figures of every JSON object that a program printed on a line of its own."""
    out: list[dict[str, Any]] = []
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                out += json.loads(line)["figures"]
            except (ValueError, KeyError, TypeError):
                continue  # a line that looks like one
    return out


# --- the table ----------------------------------------------------------------------------------------------------


def rows_of(job: str, figures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each figure; figures of baselines (`latency_top1_baro`) stand beside that which they are one of."""
    values = {each["figure"]: each["value"] for each in figures}
    out = []
    for each in figures:
        name = each["figure"]
        stem, _, last = name.rpartition("_")
        if last in BASELINES and stem in values:
            continue
        beside = {of: values[f"{name}_{of}"] for of in BASELINES if f"{name}_{of}" in values}
        if anchor := each.get("anchor"):
            beside[str(anchor["of"])] = anchor["value"]
        out.append({"job": job, **each, "baselines": beside})
    return out


def _tell(taken: Sequence[Taken], left_out: Mapping[str, str], as_json: bool) -> None:
    rows = [row for each in taken for row in rows_of(each.job, each.figures)]
    failed = {each.job: each.why for each in taken if each.state == "failed"}
    if as_json:
        seconds = {each.job: each.seconds for each in taken}
        told = {"name": "evals.all", "conditions": conditions(seconds=seconds), "figures": rows}
        print(json.dumps({**told, "failed": failed, "left_out": dict(left_out)}))
        return
    print(f"{'eval':18} {'figure':34} {'figure is':>12} {'target':>10}  baselines")
    for row in rows:
        met = {None: "", True: "met", False: "NOT MET"}[row.get("met")]
        sign = ">=" if row.get("better") == "higher" else "<="
        target = "" if row.get("target") is None else f"{sign} {row['target']:g}"
        beside = ", ".join(f"{of} {_number(value)}" for of, value in row["baselines"].items())
        print(f"{row['job']:18} {row['figure']:34} {_number(row['value']):>12} {target:>10}  {met:8}{beside}".rstrip())
    for name, why in (*failed.items(), *left_out.items()):
        print(f"{name:18} {'FAILED' if name in failed else 'left out'}: {why}")
    asked = [row for row in rows if row.get("target") is not None]
    met_count = sum(row.get("met") is True for row in asked)
    print(f"{met_count} of {len(asked)} targets met; {len(failed)} failed, {len(left_out)} left out")


def _number(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, int | float) else "-" if value is None else str(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evals.all", description="Every eval; a table at the end.")
    parser.add_argument("--data", type=Path, help="directory with a folder for each set of data from outside")
    parser.add_argument("--incidents", type=Path, help="recorded runs of the lab, instead of our own")
    parser.add_argument("--only", default="", help="evals with this in their name")
    parser.add_argument("--again", action="store_true", help="also what is done")
    parser.add_argument("--plan", action="store_true", help="say what is done and what is left, and end")
    parser.add_argument("--quick", action="store_true", help="all of it small, anew, from what comes with Leadline")
    parser.add_argument("--journal", type=Path, default=HOME / "journal.jsonl", help="what is done")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return parser


if __name__ == "__main__":
    sys.exit(main())
