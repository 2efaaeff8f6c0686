"""`leadline doctor` without flags: what is connected, how fresh, what is refused and why."""

from __future__ import annotations

from typing import Any

from leadline.cli.client import Client
from leadline.cli.exits import EXIT_OF_STATE
from leadline.cli.options import Output
from leadline.cli.output import ago, console, emit, size, state_text, table
from leadline.cli.show.analyses import print_analyses
from leadline.model.errors import WorldError


def of_server(server: str, output: Output) -> int:
    """Print what a server says of itself. Returns the exit code."""
    try:
        found = Client(server).get("/api/v1/doctor")
    except WorldError as error:
        return _unreachable(str(error), output)
    if not emit(found, output, "sources"):
        show(found)
    return EXIT_OF_STATE[found["state"]]


def show(found: dict[str, Any]) -> None:
    """Print a diagnosis for a person: what is wrong and what to do, then what it was concluded from."""
    out = console()
    out.print(state_text(found["state"]), _head(found))
    for finding in found["findings"]:
        out.print()
        out.print(state_text(finding["state"]), finding["text"])
        if finding["do"]:
            out.print(f"  do: {finding['do']}")
    if found["sources"]:
        out.print("\nsenders", style="bold")
        out.print(sources_table(found))
    if found["refused"]:
        out.print("\nrefused or dropped since the start", style="bold")
        out.print(table(found["refused"], ["amount", "unit", "reason", "severity", "do"], right=["amount"]))
    if states := found.get("analyses"):  # none where no analysis is registered
        out.print("\nanalyses", style="bold")
        print_analyses(out, states, short=True)
    tables = [
        {"table": each["table"], "rows": each["rows"], "on disk": size(each["bytes"])}
        for each in found["tables"]
        if each["rows"]
    ]
    if tables:
        out.print("\nstored", style="bold")
        out.print(table(tables, ["table", "rows", "on disk"], right=["rows", "on disk"]))


def _head(found: dict[str, Any]) -> str:
    """What answers, and for how long it runs; to a tenant without what is everybody's."""
    parts = [f"Leadline {found['version']}", f"up {ago(found['up_s'])}"]
    if found["private_bytes"] is not None:
        parts.append(f"{size(found['private_bytes'])} private memory")
    if found["series_known"]:
        parts.append(f"{found['series_known']:,} metric streams")
    return ", ".join(parts)


def sources_table(found: dict[str, Any]) -> Any:
    """The senders of a diagnosis, one row each."""
    rows = [
        {
            "state": state_text(each["state"]),
            "by": each["way"],
            "from": each["name"],
            "sends": each["tells"],
            "last seen": f"{ago(each['last_heard_s'])} ago",
            "data age": ago(each["data_age_s"]),
            "samples": each["samples"],
            "rows": each["rows"],
            "refused": sum(each["refused"].values()),
        }
        for each in found["sources"]
    ]
    return table(
        rows,
        ["state", "by", "from", "sends", "last seen", "data age", "samples", "rows", "refused"],
        right=["last seen", "data age", "samples", "rows", "refused"],
    )


def _unreachable(message: str, output: Output) -> int:
    answer = {
        "schema": 1,
        "state": "critical",
        "findings": [
            {"state": "critical", "text": message, "do": "Start it with `leadline up`, or name another with --server."}
        ],
    }
    if not emit(answer, output, "findings"):
        console(stderr=True).print(state_text("critical"), message)
    return EXIT_OF_STATE["critical"]
