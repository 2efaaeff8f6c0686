"""`leadline backfill`: have analyses judge a span of the past again, or for the first time."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from leadline.cli.client import Client
from leadline.cli.options import Output, OutputOption, ServerOption
from leadline.cli.output import console, emit, when
from leadline.model.errors import UsageError
from leadline.views.times import SHORT_FORMS, parse_time


def backfill(
    analyses: Annotated[list[str] | None, typer.Argument(help="Names from `leadline show analyses`, or all.")] = None,
    since: Annotated[str, typer.Option("--from", help=f"Begin: {SHORT_FORMS}; included.")] = "",
    until: Annotated[str, typer.Option("--to", help="End, the same; not included. Now if not given.")] = "",
    last: Annotated[str, typer.Option(help="Instead of --from and --to: the last 90s, 10m, 2h or 1d.")] = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Analyse a time span again: after an analysis was added, improved, or was not running.

    Results that differ become a new revision; the rest stays. Current windows are analysed first.
    """
    client = Client(server)
    from_ns, to_ns = span(since, until, last, now_of(client))
    asked = {"from_ns": from_ns, "to_ns": to_ns, "analyses": analyses or []}
    found = client.post("/api/v1/backfill", asked)
    if emit(found, output):
        return
    console().print(
        f"{found['windows']} windows from {when(from_ns)} to {when(to_ns)} are queued; "
        "`leadline show analyses` shows how many remain"
    )


def now_of(client: Client) -> int:
    """What "now" is for a server: where it plays a bundle, the recorded time that it has reached."""
    replay = client.get("/api/v1/replay")
    return int(replay["at_ns"]) if replay["state"] != "off" else time.time_ns()


def span(since: str, until: str, last: str, now_ns: int) -> tuple[int, int]:
    """What is asked for, (from, to) in ns. Errors: UsageError."""
    if last and (since or until):
        raise UsageError("--last is instead of --from and --to; give one or the other")
    if not (last or since):
        raise UsageError("which span? give --last 1h, or --from and --to")
    from_ns = parse_time(f"-{last.removeprefix('-')}" if last else since, now_ns)
    to_ns = parse_time(until, now_ns, end=True) if until else now_ns
    if from_ns >= to_ns:
        raise UsageError(f"--from must be before --to (now, if not given); got {when(from_ns)} and {when(to_ns)}")
    return from_ns, to_ns
