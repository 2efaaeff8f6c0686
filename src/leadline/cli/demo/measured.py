"""What probes measured in a run, in a line: how well clocks are known, the slowest pair, flows whose delay is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leadline.cli.client import Client
from leadline.cli.words.units import duration
from leadline.model.errors import LeadlineError
from leadline.model.ids import EntityId

Answer = Mapping[str, Any]


def measured(client: Client, job: str, at_ns: int) -> str:
    """The line for a moment; why there is none where nobody probed or the server does not answer."""
    at = {"at": str(at_ns)}
    try:
        flows = client.get("/api/v1/flows", job=job, **at)["flows"]
        return words(client.get("/api/v1/clock", **at), client.get("/api/v1/mesh", **at), job, flows)
    except LeadlineError as error:
        return f"What probes measured is not known: {error}"


def words(clock: Answer, mesh: Answer, job: str, flows: Sequence[Answer]) -> str:
    """The line, from the answers of `/api/v1/clock`, `/api/v1/mesh` and the flows of `/api/v1/flows`."""
    names = [name.removeprefix("host:") for name in mesh["hosts"]]
    delays = {
        (names[src], names[dst]): (value, mesh["bounds_ns"][src][dst])
        for src, row in enumerate(mesh["values"])
        for dst, value in enumerate(row)
        if value is not None
    }
    if not clock["clocks"] or not delays:
        return f"Probes measured nothing: {(clock['why'] or mesh['why'] or 'no pair of hosts was probed')}."
    islands = f" on {clock['islands']} islands" if clock["islands"] > 1 else ""
    bound = (
        "are not known"
        if clock["worst_bound_ns"] is None
        else f"right within {duration(clock['worst_bound_ns'] / 1e9)}"
    )
    (src, dst), (slowest, within) = max(delays.items(), key=lambda each: each[1][0])
    known = f" ±{duration(within / 1e9)}" if within is not None else ", whose bound is not known"
    text = f"Probes: clocks of {len(clock['clocks'])} hosts{islands} {bound}; slowest pair {src} to {dst}, "
    text += f"{duration(slowest / 1e9)} (p99){known}"
    between = [ends for each in flows if (ends := _hosts(each)) is not None and ends[0] != ends[1]]
    if not between:
        return f"{text}; no flow of {job} was seen."
    told = sum((delays.get(ends) or (None, None))[1] is not None for ends in between)
    return f"{text}; delay known of {told} of {len(between)} flows of {job} ({told / len(between):.0%})."


def _hosts(flow: Answer) -> tuple[str, str] | None:
    """Between which hosts a flow goes; None where an address of it is nobody's."""
    if not flow["src"] or not flow["dst"]:
        return None
    src, dst = (EntityId.of(flow[end])[1].partition("/")[0] for end in ("src", "dst"))
    return src, dst
