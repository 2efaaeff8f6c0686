"""`leadline lab list`: what `leadline lab run` can run, a line each."""

from __future__ import annotations

from typing import Any

from leadline.cli.options import Output, OutputOption
from leadline.cli.output import console, emit, table
from leadline.lab.faults import FAULTS
from leadline.lab.harmless import HARMLESS_BY_NAME
from leadline.lab.scenarios.spec import scenario_of, shipped
from leadline.views.rows import SCHEMA_VERSION

HEADINGS = {
    "scenario": "scenarios",
    "fault": "faults, each on a job of its own",
    "harmless": "harmless: things that happen every day and must raise no incident",
}


def list_scenarios(output: OutputOption = Output.TABLE) -> None:
    """List scenarios, faults and harmless events that `leadline lab run NAME` runs."""
    rows = [_row("scenario", name) for name in shipped()]
    rows += [_row("fault", fault.name, str(fault.layer), fault.seen_in) for fault in FAULTS]
    rows += [_row("harmless", name) for name in HARMLESS_BY_NAME]
    if emit({"schema": SCHEMA_VERSION, "scenarios": rows}, output, "scenarios"):
        return
    out = console()
    for place, (kind, heading) in enumerate(HEADINGS.items()):
        some = [row for row in rows if row["kind"] == kind]
        columns = ["name", "layer", "signals", "what"] if kind == "fault" else ["name", "what"]
        out.print(f"{chr(10) if place else ''}{heading}", style="bold")
        out.print(table(some, columns))
    out.print("\nrun one with `leadline lab run NAME` (root), or write your own: docs/lab/scenarios.md", style="dim")


def _row(kind: str, name: str, layer: str = "", seen_in: str = "lab") -> dict[str, Any]:
    scenario = scenario_of(name)
    return {
        "name": name, "kind": kind, "layer": layer, "signals": "replayed" if seen_in == "replay" else "real",
        "topology": scenario.topology, "what": scenario.doc,
    }  # fmt: skip
