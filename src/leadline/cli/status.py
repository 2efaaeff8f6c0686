"""`leadline status`: server, senders, jobs and incidents, a line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.text import Text

from leadline.cli.client import Client
from leadline.cli.options import ClusterOption, Output, OutputOption, ServerOption
from leadline.cli.output import ago, console, emit, state_text
from leadline.model.errors import WorldError
from leadline.views.rows import SCHEMA_VERSION

NAMED = 3  # in one line
OK, WARNING, CRITICAL = "ok", "warning", "critical"


@dataclass(frozen=True, slots=True)
class Line:
    """One line."""

    what: str
    state: str
    text: str


def status(
    cluster: ClusterOption = "",
    check: Annotated[bool, typer.Option("--check", help="Print only lines that are not ok.")] = False,
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the state of the server, its sources, jobs and incidents, one line each. Exit code 0 if all is well, else 1.

    For details run `leadline doctor` (server, sources) and `leadline diagnose` (jobs, incidents).
    """
    try:
        client = Client(server)
        lines = lines_of(client.get("/api/v1/doctor"), client.get("/api/v1/diagnosis", cluster=cluster))
    except WorldError as error:
        lines = [Line("server", CRITICAL, str(error))]
    well = all(each.state == OK for each in lines)
    if not emit({"schema": SCHEMA_VERSION, "well": well, "lines": [asdict(each) for each in lines]}, output, "lines"):
        out = console()
        for each in lines:
            if not check or each.state != OK:
                text = Text.assemble(state_text(f"{each.state:<9}"), f"{each.what:<10} {each.text}")
                out.print(text, soft_wrap=True)
    raise typer.Exit(0 if well else 1)


def lines_of(doctor: Mapping[str, Any], diagnosis: Mapping[str, Any]) -> list[Line]:
    """The lines, from the answers of the API."""
    findings = [each for each in doctor["findings"] if each["state"] != OK]
    about = f"; {findings[0]['text']}" if findings else ""
    server = Line("server", doctor["state"], f"Leadline {doctor['version']}, up {ago(doctor['up_s'])}{about}")
    return [server, _sources(doctor), _jobs(diagnosis), _incidents(diagnosis)]


def _sources(doctor: Mapping[str, Any]) -> Line:
    sources, senders = doctor["sources"], doctor.get("senders", [])
    if not sources and not senders:  # in a replay nobody is to send, and the server finds nothing wrong with that
        return Line("sources", OK if doctor["state"] == OK else WARNING, "no senders")
    bad = [each["name"] for each in sources if each["state"] != OK]
    bad += [_late(each) for each in senders if each["state"] in ("late", "lost")]
    text = f"{len(sources)} sending" + (f", {len(bad)} not well: {_some(bad)}" if bad else "")
    return Line("sources", WARNING if bad else OK, text)


def _late(sender: Mapping[str, Any]) -> str:
    who = f"{sender['name']} of {sender['host']}"
    if sender["state"] == "late":
        return f"{who} is {ago(sender['behind_s'])} behind"
    return f"nothing from {who} for {ago(sender['last_heard_s'])}"


def _jobs(diagnosis: Mapping[str, Any]) -> Line:
    jobs = [each["job"] + (" (ended)" if each["ended_ns"] is not None else "") for each in diagnosis["watched"]["jobs"]]
    if diagnosis["state"] == "unknown":
        return Line("jobs", WARNING, diagnosis["why"])
    return Line("jobs", OK, f"{len(jobs)} reported a step within the last hour: {_some(jobs)}")


def _incidents(diagnosis: Mapping[str, Any]) -> Line:
    lasting = [one for one in diagnosis["incidents"] if one["state"] == "open"]
    alerting = [one for one in lasting if not one["suppressed"]]
    if not lasting:
        return Line("incidents", OK, "none open")
    suppressed = f", {len(lasting) - len(alerting)} suppressed" if len(alerting) < len(lasting) else ""
    if not alerting:
        return Line("incidents", OK, f"{len(lasting)} open{suppressed}")
    most = max(alerting, key=lambda one: one["lost_gpu_seconds"])
    text = f"{len(lasting)} open{suppressed}; {most['title']}"
    return Line("incidents", CRITICAL, text)


def _some(names: Any) -> str:
    every = list(names)
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return f"{', '.join(every[:NAMED])}{more}"
