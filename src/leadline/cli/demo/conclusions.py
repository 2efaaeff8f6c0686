"""What Leadline concludes while a story goes on: asked of its API only, and at the end held against the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from leadline.cli.client import Client
from leadline.cli.diagnosis.truth import compared, comparison
from leadline.cli.diagnosis.words import chance
from leadline.cli.output import ago
from leadline.lab.truth import Entry
from leadline.model.units import S
from leadline.views.incidents.diagnosis import SYMPTOM_ANALYSES

SHOWN = 4
LOOKING = (*SYMPTOM_ANALYSES, "cause")  # how far these have judged is how far symptoms are known
BEHIND_S = 15.0  # said where they are further behind


@dataclass(slots=True)
class Conclusions:
    """Incidents of the time of a story, and when each of their causes was named first.

    `live`: times of naming are those at which the answer was there, collection and judgement included, rounded up to
    the next time it was asked; in a replay they are those of the verdicts.
    """

    client: Client
    since_ns: int
    live: bool = True
    incidents: Sequence[Mapping[str, Any]] = ()  # the first that began first
    named_ns: dict[tuple[str, str], int] = field(default_factory=dict)  # by incident and entity
    named_p: dict[tuple[str, str], float] = field(default_factory=dict)  # how likely it was then
    advised: dict[tuple[str, str], str] = field(
        default_factory=dict
    )  # actions while it lasted: what is over needs none
    judged_ns: int | None = None  # how far; None: not known
    asked_ns: int = 0

    def ask(self, now_ns: int, until_ns: int | None = None) -> list[str]:
        """Ask again; what is new, a line each. `until_ns`: only what was reported by then. Errors: LeadlineError."""
        asked = {"from": str(self.since_ns)} if self.since_ns else {}
        if until_ns is not None:
            asked["to"] = str(until_ns)
        found = self.client.get("/api/v1/incidents", **asked)["incidents"]
        states = {each["name"]: each["judged_to_ns"] for each in self.client.get("/api/v1/analyses")["analyses"]}
        self.judged_ns = min((states[name] for name in LOOKING if states.get(name) is not None), default=None)
        self.asked_ns = now_ns
        self.incidents = sorted(found, key=lambda one: (one["start_ns"], one["incident"]))
        return [line for one in self.incidents for line in self._new(one, now_ns)]

    def _new(self, one: Mapping[str, Any], now_ns: int) -> list[str]:
        lines = []
        for cause in one["causes"]:
            key = (one["incident"], cause["entity"])
            if one["state"] == "open":
                self.advised[key] = cause["action"]
            if key not in self.named_ns:
                self.named_p[key] = cause["probability"]
                self.named_ns[key] = now_ns if self.live else cause["reported_ns"] or one["reported_ns"]
                lines.append(self.words(one, cause))
        return lines

    def words(self, one: Mapping[str, Any], cause: Mapping[str, Any]) -> str:
        """`link down on port:h3/eth0 (0.93), reported 8 s after the first lost second`."""
        # An incident may have begun with something else: of this cause the first second that it is blamed for counts.
        since_ns = max(one["start_ns"], cause["start_ns"])
        after_s = (self.named_ns[one["incident"], cause["entity"]] - since_ns) / S
        rule = cause["rule"].replace("-", " ")
        return f"{rule} on {cause['entity']} ({chance(cause)}), reported {ago(after_s)} after the first lost second"

    def lines(self) -> RenderableType:
        """The newest incidents for the screen."""
        behind = self._behind()
        if not self.incidents:
            return behind or Text("no problem found", "dim")
        texts = [behind] if behind else []
        for one in self.incidents[-SHOWN:]:
            style = "bold bright_magenta" if one["state"] == "open" else "bright_magenta"
            texts += [Text(self.words(one, cause), style) for cause in one["causes"]]
            if not one["causes"]:
                missing = f", missing {one['missing']}" if one["missing"] else ""
                texts.append(Text(f"{one['symptom']} of {one['entity']}, cause not known yet{missing}", "yellow"))
        return Group(*texts)

    def _behind(self) -> Text | None:
        """A line where it is not known which symptoms there are now."""
        if self.judged_ns is None:
            return Text("nothing analysed yet", "yellow")
        behind_s = (self.asked_ns - self.judged_ns) / S
        return Text(f"judged until {ago(behind_s)} ago: behind", "yellow") if behind_s > BEHIND_S else None

    def held_against(self, truth: Sequence[Entry]) -> RenderableType:
        """The table at the end: what was broken, what was found, whether that is right, after how long, what to do."""
        lines = compared(truth, [self._while_it_lasted(one) for one in self.incidents], self.named_ns, self.judged_ns)
        told = comparison(lines) if lines else Text("nothing was broken, and nothing was found")
        note = "reported after: since the fault was injected; the lines above count from the first second lost"
        return Group(Text("what was broken, and what Leadline found", "bold"), told, Text(note, "dim"))

    def _while_it_lasted(self, one: Mapping[str, Any]) -> Mapping[str, Any]:
        """An incident as it was told before it was over: with the actions advised, and how likely its causes were."""
        causes = [
            {
                **each,
                "action": self.advised.get((one["incident"], each["entity"]), each["action"]),
                "named_probability": self.named_p.get((one["incident"], each["entity"]), each["probability"]),
            }
            for each in one["causes"]
        ]
        return {**one, "causes": causes}

    def complete(self, truth: Sequence[Entry], ended_ns: int | None) -> bool:
        """Whether every fault has its cause named, or all is judged up to the end of the story."""
        if ended_ns is not None and (self.judged_ns or 0) >= ended_ns:
            return True
        return all(each.verdict == "right" for each in compared(truth, self.incidents, self.named_ns) if each.fault)
