"""`leadline lab matrix`: many runs of the lab, each a bundle with its truth; it goes on where it was interrupted."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from leadline import __version__
from leadline.cli.options import Output, OutputOption
from leadline.cli.output import console, emit, size
from leadline.cli.serving import stop_on_signals
from leadline.lab.matrix import plan
from leadline.lab.matrix.journal import BUNDLE, LOG, SCENARIO, TRUTH, Ended, Estimate, Journal, estimate
from leadline.lab.matrix.plan import Cell, Times
from leadline.lab.matrix.report import NAME as REPORT
from leadline.lab.matrix.report import FaultReport, as_markdown, report
from leadline.lab.matrix.whole import lacks
from leadline.lab.realise import privileges
from leadline.lab.run import plan_for
from leadline.lab.scenarios.spec import parse
from leadline.lab.state import checked_name
from leadline.lab.topology import load_named
from leadline.model.errors import WorldError
from leadline.model.programs import OWN_PYTHON
from leadline.views.rows import SCHEMA_VERSION

LOOK_EVERY_S = 0.2
USUAL, QUICK = Times(), Times(6.0, 6.0, 3.0)
PARALLEL_MAX = 8
BEYOND_S = 300.0  # that a cell may take beyond its time line: jobs that start on a busy machine, delivery, recording
STOP_S = 60.0  # until a cell that was told to stop has removed all that it made
ROOM_BYTES = 500_000_000  # on the disks of bundles and stores, before a cell begins: a store of ten minutes has 100 MB
TOLD_LINES = 12  # of a run's output that may belong to its last message
# The kernel tells a cell to stop when we are gone, as Ctrl-C would.
BOUND = ("setpriv", "--pdeathsig", "TERM", "--")
OWN_S = 12.0  # what a cell takes beside its time line, before any was seen: Leadline, cluster, recording


def matrix(
    directory: Annotated[
        Path, typer.Argument(help="Directory for bundles, truths and the journal; created if missing.")
    ],
    faults: Annotated[str, typer.Option(help="Names, or all; `none` is a healthy run.")] = "all,none",
    magnitudes: Annotated[str, typer.Option(help="Of small, medium, large; or all.")] = "all",
    workloads: Annotated[str, typer.Option(help="Kinds of jobs, or all.")] = "rings,bert",
    seeds: Annotated[str, typer.Option(help="Numbers as 1 or 1-3 or 1,5.")] = "1",
    topology: Annotated[str, typer.Option(help="A preset or file for all cells. Default: what each fault needs.")] = "",
    decoys: Annotated[bool, typer.Option("--decoys", help="Add a harmless anomaly elsewhere to each cell.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Run a small sample: four cells of a few seconds.")] = False,
    first: Annotated[int, typer.Option(min=0, help="Run only this many cells; 0: all.")] = 0,
    parallel: Annotated[
        int, typer.Option(min=1, max=PARALLEL_MAX, help="Cells to run at the same time; they share cores.")
    ] = 1,
    before: Annotated[
        float, typer.Option(min=3.0, help="Seconds before the fault, for the job to settle.")
    ] = USUAL.before_s,
    during: Annotated[float, typer.Option(min=1.0, help="Seconds that a fault lasts.")] = USUAL.during_s,
    after: Annotated[float, typer.Option(min=0.0, help="Seconds after the fault.")] = USUAL.after_s,
    again: Annotated[bool, typer.Option("--again", help="Run cells that failed before again.")] = False,
    plan_only: Annotated[bool, typer.Option("--plan", help="Print what would be run, without running it.")] = False,
    name: Annotated[str, typer.Option("--name", help="Prefix for the names of its labs.")] = "matrix",
    output: OutputOption = Output.TABLE,
) -> None:
    """Run faults x magnitudes x workloads x seeds, each recorded as a bundle with its ground truth. Needs root.

    If interrupted, run the same command again to continue.
    """
    checked_name(name)
    times = QUICK if quick else Times(before, during, after)
    wanted = (
        plan.quick()
        if quick
        else plan.cells(
            plan.chosen_faults(faults),
            plan.chosen_magnitudes(magnitudes),
            plan.chosen_workloads(workloads),
            plan.chosen_seeds(seeds),
            (False, True) if decoys else (False,),
        )
    )
    wanted = wanted[:first] if first else wanted
    texts = {cell: plan.scenario_text(cell, times, topology) for cell in wanted}
    for cell, text in texts.items():
        # Whatever is wrong is told now, not after hours.
        scenario = parse(text, f"cell {cell.name}")
        plan_for(scenario, load_named(scenario.topology), cell.seed)
    stopped = 0
    if plan_only:
        journal = Journal(directory)
        journal.require_same(texts)
    else:
        privileges.require()
        with stop_on_signals() as stopping, Journal(directory).claim(STOP_S, lambda: bool(stopping)) as claimed:
            journal = Journal(directory)  # read when nobody else writes any more
            journal.require_same(texts)
            left = journal.left(wanted, again)
            _run(left, texts, times, journal, name, parallel, len(wanted), stopping, claimed)
            _write_report(directory / REPORT, as_markdown(report(wanted, journal)))
        stopped = stopping[0] if stopping else 0
    _tell(wanted, journal, times, parallel, output)
    if stopped:
        raise typer.Exit(128 + stopped)
    if journal.left(wanted, again=True) and not plan_only:
        raise typer.Exit(1)


@dataclass(slots=True)
class _Running:
    cell: Cell
    process: subprocess.Popen[bytes]
    lab: str
    began_s: float = field(default_factory=time.monotonic)


def _run(
    left: Sequence[Cell],
    texts: dict[Cell, str],
    times: Times,
    journal: Journal,
    name: str,
    parallel: int,
    total: int,
    stopping: Sequence[int],
    claimed: int,
) -> None:
    """Run what is left, until `stopping` says something. Errors: WorldError where a disk is full."""
    waiting, running = list(left), dict[str, _Running]()
    labs = [f"{name}{number}" for number in range(1, parallel + 1)]
    out = console(stderr=True)
    if left:
        out.print(_opening(left, journal, times, parallel, total))
    try:
        while (waiting or running) and not stopping:
            for lab in [each for each in labs if each not in running][: len(waiting)]:
                _require_room(journal.directory)
                cell = waiting.pop(0)
                running[lab] = _Running(cell, _start(cell, texts[cell], journal, lab, claimed), lab)
            for lab, one in list(running.items()):
                late = time.monotonic() - one.began_s > times.total_s + BEYOND_S
                if one.process.poll() is None and not late:
                    continue
                if late:
                    _stop([one])
                del running[lab]
                ended = _ended(one, journal, late)
                journal.write(ended)
                rest = [*waiting, *(each.cell for each in running.values())]
                out.print(_line(ended, total - len(rest), total, rest, journal, times, parallel), soft_wrap=True)
            time.sleep(LOOK_EVERY_S)
    finally:
        _stop(list(running.values()))


def _require_room(directory: Path) -> None:
    """Errors: WorldError. A full disk would fail one cell after the other, and each failure would count as its own."""
    for place in (directory, Path(tempfile.gettempdir())):
        free = shutil.disk_usage(place).free
        if free < ROOM_BYTES:
            raise WorldError(
                f"{place}: a cell needs {size(ROOM_BYTES)} of free disk, {size(free)} are left; make room, then run "
                "the same command: it goes on with what is missing"
            )


def _write_report(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise WorldError(f"the report could not be written: {error}; the bundles are all there") from error


def _start(cell: Cell, text: str, journal: Journal, lab: str, claimed: int) -> subprocess.Popen[bytes]:
    scenario, bundle = journal.path(cell, SCENARIO), journal.path(cell, BUNDLE)
    parts = bundle.parent.glob(f".{bundle.name}.*.partial")  # of one that was killed while it wrote
    for left_over in (
        bundle,
        journal.path(cell, TRUTH),
        *parts,
    ):  # of an earlier try: nobody is to take it for this one's
        left_over.unlink(missing_ok=True)
    scenario.write_text(text)
    argv = [*BOUND, *OWN_PYTHON, "-m", "leadline.cli.main", "lab", "run", str(scenario), "--name", lab]
    argv += ["--seed", str(cell.seed), "--record", str(bundle)]
    with journal.path(cell, LOG).open("wb") as log:
        # A session of its own: Ctrl-C at the terminal is ours, and we end what we started in order.
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(claimed,),  # the directory is taken until the last cell has ended, even if we are killed
        )


def _stop(running: Sequence[_Running]) -> None:
    for one in running:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    for one in running:
        try:
            one.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.process.kill()  # what it leaves, the next lab removes
            one.process.wait()


def _ended(one: _Running, journal: Journal, late: bool) -> Ended:
    bundle, code = journal.path(one.cell, BUNDLE), one.process.returncode
    took_s = round(time.monotonic() - one.began_s, 1)
    if late:
        why = "it took too long"
    elif code:
        why = f"exit code {code}: {_last_words(journal.path(one.cell, LOG)) or 'it said nothing'}"
    else:
        why = lacks(one.cell, bundle, journal.path(one.cell, TRUTH))
    if why:
        return Ended(one.cell.name, "failed", one.cell.workload, took_s, 0, __version__, why)
    return Ended(one.cell.name, "done", one.cell.workload, took_s, bundle.stat().st_size, __version__)


def _last_words(log: Path) -> str:
    """The message that a run ended with; it may be broken into several lines."""
    lines = log.read_text(errors="replace").strip().splitlines()[-TOLD_LINES:]
    first = next((number for number, line in enumerate(lines) if line.startswith("leadline: ")), len(lines) - 1)
    return " ".join(line.strip() for line in lines[max(0, first) :])[:500]


def _line(
    ended: Ended, number: int, total: int, rest: Sequence[Cell], journal: Journal, times: Times, parallel: int
) -> str:
    told = f"[{number:>{len(str(total))}}/{total}] {ended.cell}: "
    told += f"{ended.took_s:.0f} s, {size(ended.bytes)}" if ended.state == "done" else f"failed, {ended.why}"
    return told + (f"; {_left(rest, journal, times, parallel)}" if rest else "")


def _left(rest: Sequence[Cell], journal: Journal, times: Times, parallel: int) -> str:
    return told_estimate(estimate(rest, journal.seconds(), times.total_s + OWN_S, parallel))


def told_estimate(found: Estimate) -> str:
    """`about 41 min left (38 to 47, by 12 cells)`."""
    if not found.seen:
        return f"at least {_long(found.low_s)} left (no cell has ended yet)"
    return f"about {_long(found.seconds)} left ({_long(found.low_s)} to {_long(found.high_s)}, by {found.seen} cells)"


def _long(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return str(timedelta(seconds=round(seconds / 60) * 60)).rpartition(":")[0] + " h"


def _opening(left: Sequence[Cell], journal: Journal, times: Times, parallel: int, total: int) -> str:
    done = total - len(left)
    before = f"{done} of {total} cells are there already; " if done else ""
    return f"{before}{len(left)} to run, {parallel} at a time: {_left(left, journal, times, parallel)}"


def _tell(wanted: Sequence[Cell], journal: Journal, times: Times, parallel: int, output: Output) -> None:
    found = report(wanted, journal)
    left = journal.left(wanted)
    answer = {
        "schema": SCHEMA_VERSION,
        "directory": str(journal.directory),
        "cells": len(wanted),
        "bundles": sum(each.bundles for each in found),
        "left": len(left),
        "failed": [asdict(ended) for cell in wanted if (ended := journal.ended(cell)) and ended.state == "failed"],
        "faults": [asdict(each) for each in found],
    }
    if emit(answer, output, "faults"):
        return
    out = console()
    out.print(f"{answer['bundles']} of {len(wanted)} cells are bundles in {journal.directory}", soft_wrap=True)
    if left:
        out.print(f"{len(left)} are left: {_left(left, journal, times, parallel)}")
    for each in found:
        out.print(_told(each), soft_wrap=True)


def _told(each: FaultReport) -> str:
    sizes = ", ".join(f"{count} {magnitude}" for magnitude, count in each.magnitudes.items())
    signal_told = each.signals.get("medium") or next(iter(each.signals.values()), "")
    told = f"  {each.fault}: {each.bundles} ({sizes or 'none yet'})"
    told += f", {each.failed} failed" if each.failed else ""
    told += f", {each.unproven} without a signal" if each.unproven else ""
    return told + (f"; {signal_told}" if signal_told else "")
