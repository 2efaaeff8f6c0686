"""The story of a lab run on the terminal: what was done to the cluster, and beside it what Leadline makes of it.

The left column is the truth, as the lab makes it happen. Everything else on the screen is asked of Leadline's API
and knows nothing of the truth, until the last table holds the two against each other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from leadline.cli.client import Client
from leadline.cli.demo.conclusions import Conclusions
from leadline.cli.words.costs import cost_words, time_words
from leadline.cli.words.flows import path_words
from leadline.lab.run import Happening
from leadline.lab.scenarios.spec import Scenario
from leadline.model.errors import LeadlineError
from leadline.model.ids import EntityId

BARS = "▁▂▃▄▅▆▇█"
STEPS_SHOWN = 72
HAPPENINGS_SHOWN = 9
RECENT_S = 15
LEDGER_EVERY_S = 10  # a window of the ledger
LEDGER_LAG_S = (
    17  # a window, the 5 s that it stays open, and some to judge it: what is later would be told as not judged
)
FAULT_STYLE = {"fault": "bold red", "mended": "green", "job": "", "lab": "dim", "end": "bold"}
# What an event's kind is called on the screen; other kinds stand under their own name.
EVENTS_SHOWN = 5

STEPS_SQL = """
SELECT step, max(end_ns - start_ns) / 1e9 AS seconds, avg(loss) AS mean_loss, uniqExact(rank) AS ranks
FROM step WHERE job = '{job}' AND start_ns > {since_ns} GROUP BY step ORDER BY step DESC LIMIT {steps}
"""
LATE_SQL = """
SELECT rank, avg(late) / 1e6 AS late_ms FROM (
  SELECT rank, enqueued_ns - min(enqueued_ns) OVER (PARTITION BY comm, seq) AS late
  FROM collective WHERE job = '{job}' AND state = 'finished' AND enqueued_ns > {since_ns}
) GROUP BY rank ORDER BY late_ms DESC LIMIT 1
"""
EVENTS_SQL = """
SELECT kind, any(entity) AS one, uniqExact(entity) AS entities, count() AS times, max(time_ns) AS last_ns FROM event
WHERE time_ns > {since_ns} AND time_ns <= {now_ns} GROUP BY kind ORDER BY last_ns DESC LIMIT {events}
"""
FLOWS_SQL = """
SELECT count() AS samples, uniqExact(flow) AS flows, sum(rate * frame_bytes) * 8 / {recent_s} / 1e6 AS mbit
FROM flow_sample WHERE time_ns > {since_ns}
"""
GPU_SQL = """
SELECT entity, argMax(value, time_ns) AS last FROM metric_sample INNER JOIN series USING (series)
WHERE name = '{name}' AND time_ns > {since_ns} AND isFinite(value) GROUP BY entity ORDER BY last LIMIT 1
"""


@dataclass(slots=True)
class Told:
    """What Leadline answered last; empty where it knows nothing yet."""

    steps: Sequence[dict[str, Any]] = ()  # oldest first
    late: dict[str, Any] | None = None
    events: Sequence[dict[str, Any]] = ()
    flows: dict[str, Any] | None = None
    paths: dict[str, Any] | None = None  # as `leadline show flows` has them
    busy: dict[str, Any] | None = None  # the least busy GPU
    clock: dict[str, Any] | None = None  # the GPU with the lowest clock
    sources: Sequence[dict[str, Any]] = ()
    ledger: dict[str, Any] | None = None  # as `leadline show ledger` has it
    ledger_ns: int = 0  # when that was asked for
    asked_ns: int = 0


@dataclass(slots=True)
class Story:
    """Collects happenings, asks Leadline, draws."""

    client: Client
    scenario: Scenario
    job: str
    began_ns: int = field(default_factory=time.time_ns)
    happenings: list[Happening] = field(default_factory=list)
    told: Told = field(default_factory=Told)
    ended_ns: int | None = None  # when the cluster was about to be taken down
    live: bool = True  # else a replay, whose clock is the recording's
    found: Conclusions = field(init=False)
    conclude: Callable[[str], None] = lambda _: None  # told of each cause when it is named

    def __post_init__(self) -> None:
        self.found = Conclusions(self.client, self.began_ns, self.live)

    def add(self, happening: Happening) -> None:
        """Something happened in the lab. Its end is told while the cluster still stands: the last moment to ask."""
        if happening.kind == "end":
            self.ask()
            self.ended_ns = happening.time_ns
        self.happenings.append(happening)

    def ask(self, now_ns: int | None = None) -> None:
        """Ask Leadline, until the end; `now_ns` is the time that a replay has reached.

        A server that does not answer leaves the picture as it was.
        """
        if self.ended_ns is not None:
            return
        now_ns = time.time_ns() if now_ns is None else now_ns
        recent_ns = now_ns - RECENT_S * 10**9
        try:
            self._ask_causes(now_ns)
            self.told = Told(
                steps=self._rows(STEPS_SQL.format(job=self.job, since_ns=self.began_ns, steps=STEPS_SHOWN))[::-1],
                late=self._row(LATE_SQL.format(job=self.job, since_ns=recent_ns)),
                events=self._rows(EVENTS_SQL.format(since_ns=self.began_ns, now_ns=now_ns, events=EVENTS_SHOWN)),
                flows=self._row(FLOWS_SQL.format(since_ns=recent_ns, recent_s=RECENT_S)),
                paths=self.client.get("/api/v1/flows", job=self.job, at=str(now_ns)),
                busy=self._row(GPU_SQL.format(name="DCGM_FI_DEV_GPU_UTIL", since_ns=recent_ns)),
                clock=self._row(GPU_SQL.format(name="DCGM_FI_DEV_SM_CLOCK", since_ns=recent_ns)),
                sources=self.client.get("/api/v1/doctor")["sources"],
                asked_ns=now_ns,
                **self._ledger(now_ns),
            )
        except LeadlineError:
            return

    def ask_causes(self, now_ns: int | None = None) -> None:
        """Ask for the symptoms, also for those reported after the end of the story, which is judged later."""
        try:
            self._ask_causes(time.time_ns() if now_ns is None else now_ns, last=True)
        except LeadlineError:
            return

    def _ask_causes(self, now_ns: int, last: bool = False) -> None:
        for line in self.found.ask(now_ns, None if last or self.live else now_ns):
            self.conclude(line)

    def ask_ledger(self, now_ns: int | None = None) -> None:
        """Ask for the ledger once more, up to now: windows are judged some seconds after the story has ended."""
        try:
            now_ns = time.time_ns() if now_ns is None else now_ns
            self.told = replace(self.told, **self._asked_ledger(now_ns))
        except LeadlineError:
            return

    def _ledger(self, now_ns: int) -> dict[str, Any]:
        """The ledger since the story began; the last answer where that is of this window."""
        told = self.told
        if told.ledger_ns and now_ns - told.ledger_ns < LEDGER_EVERY_S * 10**9:
            return {"ledger": told.ledger, "ledger_ns": told.ledger_ns}
        to_ns = now_ns - LEDGER_LAG_S * 10**9
        return {**self._asked_ledger(to_ns), "ledger_ns": now_ns} if to_ns > self.began_ns else {}

    def _asked_ledger(self, to_ns: int) -> dict[str, Any]:
        since = {"from": str(self.began_ns)} if self.began_ns else {}
        return {"ledger": self.client.get("/api/v1/ledger", job=self.job, to=str(to_ns), **since)}

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.client.post("/api/v1/sql", {"sql": sql})["rows"]
        return rows

    def _row(self, sql: str) -> dict[str, Any] | None:
        return next(iter(self._rows(sql)), None)

    # -- drawing ----------------------------------------------------------------------------------------------

    def picture(self, at_s: float | None) -> RenderableType:
        """The screen as it is now; `at_s` is the second of the time line, None before it begins."""
        both = Table.grid(padding=(0, 3), expand=False)
        both.add_column(width=58)
        both.add_column(width=78)
        both.add_row(self._done(), Group(self._telling(), Text(""), self._concluding()))
        return Group(Text(""), self._line(at_s), Text(""), both, Text(""), self._steps())

    def _line(self, at_s: float | None) -> Text:
        """The time line as one bar: where we are, and where faults are planned."""
        width = 72
        scale = width / self.scenario.duration_s
        cells = ["─"] * width
        for planned in self.scenario.faults:
            first = int(planned.at_s * scale)
            last = int((planned.at_s + (planned.for_s or 0)) * scale) if planned.fault.lasts else first
            for place in range(first, min(last, width - 1) + 1):
                cells[place] = "▒"
        line = Text()
        done = -1 if at_s is None else int(at_s * scale)
        for place, cell in enumerate(cells):
            style = ("red" if cell == "▒" else "cyan") if place <= done else "dim"
            line.append("█" if place <= done and cell == "▒" else "━" if place <= done else cell, style)
        where = "setting up" if at_s is None else f"{at_s:.0f} of {self.scenario.duration_s:.0f} s"
        return Text.assemble((f"{self.scenario.name} ", "bold"), line, f" {where}")

    def _done(self) -> RenderableType:
        rows = Table.grid(padding=(0, 1))
        for each in self.happenings[-HAPPENINGS_SHOWN:]:
            at = "" if each.at_s is None else f"{each.at_s:4.0f} s"
            rows.add_row(Text(at, style="dim"), Text(each.text, style=FAULT_STYLE.get(each.kind, "")))
        return Group(Text("what the lab does (the truth)", style="bold"), rows)

    def _telling(self) -> RenderableType:
        told, rows = self.told, Table.grid(padding=(0, 2))
        if told.steps:
            whole = max(step["ranks"] for step in told.steps)
            last = next(step for step in reversed(told.steps) if step["ranks"] == whole)
            loss = "" if last["mean_loss"] is None else f", loss {last['mean_loss']:.2f}"
            rows.add_row("training", f"step {last['step']}: {last['seconds']:.2f} s on {last['ranks']} ranks{loss}")
        if told.late is not None:
            rows.add_row("collectives", f"rank {told.late['rank']} arrives last, by {told.late['late_ms']:.0f} ms")
        if told.busy is not None and told.clock is not None:
            rows.add_row(
                "GPU",
                f"least busy {told.busy['last']:.0f} % ({_short(told.busy['entity'])}), "
                f"lowest clock {told.clock['last']:.0f} MHz ({_short(told.clock['entity'])})",
            )
        if told.flows is not None and told.flows["samples"]:
            rows.add_row(
                "switches",
                f"{told.flows['samples']} sFlow samples of {told.flows['flows']} flows, "
                f"{told.flows['mbit']:.0f} Mbit/s over all hops",
            )
        if told.paths is not None and told.paths["flows"]:
            rows.add_row("paths", paths_words(told.paths["flows"]))
        for name, words in (("ledger", time_words(told.ledger)), ("", cost_words(told.ledger))):
            if words:
                rows.add_row(name, words)
        for event in told.events:
            age_s = (told.asked_ns - event["last_ns"]) / 1e9
            whose = _short(event["one"]) if event["entities"] == 1 else f"{event['entities']} entities"
            times = "" if event["times"] == 1 else f" {event['times']} times, last"
            rows.add_row("event", f"{event['kind']} of {whose}{times} {age_s:.0f} s ago")
        wrong = [each["name"] for each in told.sources if each["state"] != "ok"]
        if told.sources:
            text = f"{len(told.sources)} sending" + (f", not well: {', '.join(wrong[:2])}" if wrong else "")
            rows.add_row("sources", text)
        return Group(Text("what Leadline receives", style="bold"), rows)

    def _concluding(self) -> RenderableType:
        return Group(Text("what Leadline concludes", style="bold"), self.found.lines())

    def _steps(self) -> Text:
        """Seconds per step, one column a step, as bars."""
        seconds = [each["seconds"] for each in self.told.steps]
        if not seconds:
            return Text("no step reported yet", style="dim")
        top = max(seconds)
        bars = "".join(BARS[min(7, math.floor(8 * each / top))] for each in seconds)
        return Text.assemble(("seconds per step ", "bold"), bars, f"  0 to {top:.1f} s, one column a step")


def paths_words(flows: Sequence[dict[str, Any]]) -> str:
    """How many flows were traced, and the largest of them as an example."""
    known = [flow for flow in flows if flow["state"] == "known" and flow["src_rank"] and flow["dst_rank"]]
    text = f"{len(known)} of {len(flows)} flows of the job traced"
    if not known:
        return text
    largest = max(known, key=lambda flow: (flow["bytes"], flow["flow"]))
    source, target = (largest[end].rpartition("/")[2] for end in ("src_rank", "dst_rank"))
    return f"{text}; rank {source} to {target} by {path_words(largest['links'])}"


def _short(entity: str) -> str:
    """An entity as it fits into a line: a GPU's long name is cut."""
    kind, name = EntityId.of(entity)
    return f"{kind}:{name[:12]}…" if kind == "gpu" and len(name) > 13 else entity
