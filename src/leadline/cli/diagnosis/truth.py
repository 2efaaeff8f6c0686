"""What was found, held against what was really broken: a line for each fault of a truth file.

A fault is found where a named cause of an incident of its time is what was broken, or has the same plug: a link and its
two ends are one place to go to. Finding takes from the fault's onset to the end of the window that told it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from leadline.cli.diagnosis.words import chance
from leadline.cli.output import Rows, ago, table
from leadline.lab.truth import Entry
from leadline.model.ids import EntityId, kind_of
from leadline.model.units import S

SETTLE_NS = 15 * S  # an incident may begin so long after a fault is over: what had gathered by then goes on for a while
RIGHT, WRONG, MISSED, UNKNOWN, NOT_JUDGED = "right", "wrong", "missed", "unknown", "not judged"
_STYLE = {RIGHT: "green", WRONG: "bold red", MISSED: "red", UNKNOWN: "yellow", NOT_JUDGED: "yellow"}


TOLD = "reported after"  # it was broken, which may be before it cost anything


@dataclass(frozen=True, slots=True)
class Compared:
    """One fault and what was found of it; or one incident in whose time nothing was broken (`fault` is None)."""

    fault: Entry | None
    incident: Mapping[str, Any] | None
    cause: Mapping[str, Any] | None  # the named one that it is, else the first named
    verdict: str
    told_s: float | None  # from the onset until it was told

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "fault": self.fault.fault if self.fault else None,
            "component": list(self.fault.component) if self.fault else [],
            "incident": self.incident["incident"] if self.incident else None,
            "found": self.cause["entity"] if self.cause else None,
            "rule": self.cause["rule"] if self.cause else None,
            "probability": self.cause["probability"] if self.cause else None,
            "verdict": self.verdict, "told_s": self.told_s, "action": self.cause["action"] if self.cause else None,
        }  # fmt: skip


def compared(
    faults: Iterable[Entry],
    incidents: Sequence[Mapping[str, Any]],
    reported_ns: Mapping[tuple[str, str], int] | None = None,
    judged_ns: int | None = None,
) -> list[Compared]:
    """Every fault that is no decoy by its onset, then the incidents that meet none of all faults.

    reported_ns: when (incident, entity) was named first, where somebody looked; else when the incident was told.
    judged_ns: how far is judged, where that is not to the end.
    """
    real = sorted((each for each in faults if not each.decoy), key=lambda each: each.onset_ns)
    lines = [_found(each, _of_its_time(each, real, incidents), reported_ns or {}, judged_ns) for each in real]
    idle = [one for one in incidents if not any(meets(each, one) for each in real)]
    return [*lines, *(Compared(None, one, _first(one), WRONG if one["causes"] else UNKNOWN, None) for one in idle)]


def _of_its_time(
    fault: Entry, faults: Sequence[Entry], incidents: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Incidents of the time of a fault, but those that another fault is the cause of and that do not name this one."""
    others = [each for each in faults if each is not fault]
    return [
        one
        for one in incidents
        if meets(fault, one)
        and (_names(one, fault) or not any(meets(each, one) and _names(one, each) for each in others))
    ]


def _names(incident: Mapping[str, Any], fault: Entry) -> bool:
    return any(same_place(cause["entity"], fault.component) for cause in incident["causes"])


def meets(fault: Entry, incident: Mapping[str, Any]) -> bool:
    """Whether an incident is of the time of a fault."""
    over_ns = incident["end_ns"] if incident["end_ns"] is not None else incident["seen_ns"]
    begins = fault.end_ns is None or incident["start_ns"] <= fault.end_ns + SETTLE_NS
    return bool(begins and over_ns > fault.onset_ns)


def _found(
    fault: Entry,
    incidents: Sequence[Mapping[str, Any]],
    reported_ns: Mapping[tuple[str, str], int],
    judged_ns: int | None,
) -> Compared:
    """The incident that names it; else the costliest of its time."""
    for one in incidents:
        for cause in one["causes"]:
            if same_place(cause["entity"], fault.component):
                at_ns = (
                    reported_ns.get((one["incident"], cause["entity"])) or cause["reported_ns"] or one["reported_ns"]
                )
                return Compared(fault, one, cause, RIGHT, (at_ns - fault.onset_ns) / S)
    if not incidents:
        until_ns = fault.onset_ns if fault.end_ns is None else fault.end_ns
        late = judged_ns is not None and judged_ns < until_ns
        return Compared(fault, None, None, NOT_JUDGED if late else MISSED, None)
    one = max(incidents, key=lambda each: (each["lost_gpu_seconds"], each["incident"]))
    return Compared(fault, one, _first(one), WRONG if one["causes"] else UNKNOWN, None)


def _first(incident: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next(iter(incident["causes"]), None)


def same_place(entity: str, components: Iterable[str]) -> bool:
    """Whether an entity is one of the components, or an end of a link among them, or the link of a port among them."""
    parts = set(components)
    kinds = {kind_of(each) for each in parts}
    links = kind_of(entity) == "link" and "link" in kinds  # links that share an end are two
    return entity in parts or (not links and any(_plugs(entity) & _plugs(each) for each in parts))


def _plugs(entity: str) -> set[str]:
    kind, name = EntityId.of(entity)
    return set(name.split("~")) if kind in ("link", "port", "swport", "xcvr") else set()


def comparison(lines: Sequence[Compared]) -> Rows:
    """The lines as a table for people."""
    rows = [
        {
            "what was broken": _truth(each.fault), "what was found": _named(each),
            "": Text(each.verdict, _STYLE[each.verdict]),
            TOLD: ago(each.told_s), "what to do": each.cause["action"] if each.cause else "-",
        }
        for each in lines
    ]  # fmt: skip
    return table(rows, ["what was broken", "what was found", "", TOLD, "what to do"], right=[TOLD])


def _truth(fault: Entry | None) -> str:
    return f"{fault.fault} on {fault.component[0]}" if fault else "(nothing)"


def _named(each: Compared) -> str:
    if each.cause is not None:
        first = each.cause.get("named_probability", each.cause["probability"])
        then = chance({"probability": first})
        now = f", {chance(each.cause)} at the end" if chance(each.cause) != then else ""
        return f"{each.cause['rule'].replace('-', ' ')} on {each.cause['entity']} ({then}{now})"
    if each.incident is not None:
        missing = each.incident["missing"]
        return f"symptom found, cause unknown{f': {missing}' if missing else ''}"
    return "-"
