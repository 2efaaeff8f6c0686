"""Figures of the fleet simulator: how fast it writes, and how far it is from the namespace lab.

    python bench/simulator.py [--json] [--recorded] [--keep] [--only rows_per_second,...] [--gpus 10000] [--minutes 10]

Errors are those of the worst case that no constant was fitted to; the table of all cases is in the output. Measuring
the lab needs root and takes some four minutes. `--recorded` compares with the measurement kept beside this file;
`--keep` replaces it by a new one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.calibration import calibration
from bench.figures import Figure, conditions, tell
from leadline.lab.realise import privileges
from leadline.model.errors import LeadlineError
from leadline.simulator.run import Simulation
from leadline.simulator.spec import FULL_DETAIL_GPUS, Detail, SimulationSpec
from leadline.simulator.write import bundle_sink

RECORDED = Path(__file__).with_name("simulator_recorded.json")
LAB_NAME = "calibrate"
ROWS_TARGET, ERROR_TARGET = 2e6, 0.10
ERRORS = (("step_time_error_ratio", "step time"), ("queue_error_ratio", "queue"), ("volume_error_ratio", "volume"))


def rows_per_second(gpus: int, minutes: float, seed: int, told: Callable[[str], None]) -> float:
    """Rows of a simulated fleet over the wall time until its bundle is complete on disk, planning included."""
    detail: Detail = "all" if gpus <= FULL_DETAIL_GPUS else "hosts"
    spec = SimulationSpec(gpus=gpus, minutes=minutes, seed=seed, detail=detail)
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as directory:
        bundle = Path(directory) / "fleet.leadline"
        began = time.perf_counter()
        simulation = Simulation(spec)
        sink = bundle_sink(bundle, spec.start_ns, spec.end_ns, "")
        try:
            for _ in simulation.write(sink):
                pass
        finally:
            sink.close()
        took_s = time.perf_counter() - began
        rows = sum(simulation.outcome.rows.values())
        told(f"{rows:,} rows of {gpus:,} GPUs in {took_s:.1f} s, {bundle.stat().st_size / 1e6:.1f} MB, detail {detail}")
        return rows / took_s


def calibrated(
    records: Sequence[calibration.Record], cores: int, told: Callable[[str], None]
) -> tuple[list[calibration.Row], calibration.Fitted]:
    """Every case beside its prediction, told as a table."""
    fitted = calibration.fit(records, cores)
    rows = calibration.compare(records, fitted)
    told(calibration.as_markdown(rows))
    return rows, fitted


def error_figures(rows: Sequence[calibration.Row], only: Sequence[str], seen: str) -> list[Figure]:
    """The worst errors, each with how many cases it is the worst of."""
    found = []
    for name, quantity in ERRORS:
        if only and name not in only:
            continue
        worst = calibration.worst_error(rows, quantity)
        reason = None if worst is not None else f"no case of {quantity} that only checks was measured"
        count = sum(row.quantity.startswith(quantity) and row.use == "check" and row.told for row in rows)
        anchor = {"of": "cases", "value": count, "seen": seen}
        value = None if worst is None else round(worst, 4)
        found.append(Figure(name, value, "ratio", ERROR_TARGET, "lower", anchor, reason))
    return found


def lab_records(given: argparse.Namespace) -> tuple[list[calibration.Record], Mapping[str, Any], str]:
    """Records to compare with, the conditions they were taken under, and whether they are of now."""
    if given.recorded:
        records, under = calibration.read_records(RECORDED)
        return records, under, "recorded"
    under = conditions(given.seed)
    records = calibration.measured(LAB_NAME, bert=not given.no_bert)
    if given.keep:
        calibration.write_records(RECORDED, records, under)
    return records, under, "lab"


def figures(given: argparse.Namespace, told: Callable[[str], None]) -> tuple[list[Figure], dict[str, Any]]:
    """All that were asked for, and the table."""
    found: list[Figure] = []
    if not given.only or "rows_per_second" in given.only:
        try:
            value: float | None = round(rows_per_second(given.gpus, given.minutes, given.seed, told))
            reason = None
        except LeadlineError as error:
            value, reason = None, str(error)
        found.append(Figure("rows_per_second", value, "rows/s", ROWS_TARGET, "higher", reason=reason))
    wanted = [name for name, _ in ERRORS if not given.only or name in given.only]
    lacks = [] if given.recorded else privileges.missing()
    if not wanted:
        return found, {}
    if lacks:
        why = f"the lab needs {', '.join(lacks)}; --recorded compares with the measurement that is kept"
        return found + [Figure(name, None, "ratio", ERROR_TARGET, "lower", reason=why) for name in wanted], {}
    try:
        records, under, seen = lab_records(given)
    except LeadlineError as error:
        return found + [Figure(name, None, "ratio", ERROR_TARGET, "lower", reason=str(error)) for name in wanted], {}
    rows, fitted = calibrated(records, int(under.get("cores") or os.cpu_count() or 1), told)
    found += error_figures(rows, given.only, seen)
    table = {"seen": seen, "taken_under": dict(under), "fitted": calibration.fitted_as_json(fitted)}
    return found, {**table, "cases": calibration.as_json(rows)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Take the figures and tell them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", default="", type=lambda text: [each for each in text.split(",") if each])
    parser.add_argument("--recorded", action="store_true", help="compare with the kept measurement; needs no root")
    parser.add_argument("--keep", action="store_true", help="keep what is measured now for --recorded")
    parser.add_argument("--no-bert", action="store_true", help="without the training, which takes half of the time")
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    found, table = figures(given, lambda text: print(text, file=sys.stderr, flush=True))
    under = conditions(given.seed, gpus=given.gpus, minutes=given.minutes, recorded=given.recorded)
    tell("simulator", {**under, "calibration": table} if given.json else under, found, given.json)


if __name__ == "__main__":
    main()
