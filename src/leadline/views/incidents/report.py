"""`GET /api/v1/incidents/{incident}/report`: an incident as one HTML file that needs nothing else: to send or print.

incident, explanation, marks, samples of its evidence ──> report.html.jinja2 ──> text/html
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from leadline import __version__
from leadline.model.errors import UsageError
from leadline.model.ids import kind_of
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked, time_text
from leadline.views.incidents.actions import Advice, advice
from leadline.views.incidents.facts import Explanation, explanation, lost_words, percent
from leadline.views.incidents.incident import Cause, Evidence, Incident
from leadline.views.incidents.marks import marks_answer
from leadline.views.incidents.report_plot import HEIGHT, WIDTH, Drawn, drawn
from leadline.views.incidents.title import title
from leadline.views.incidents.view import Incidents
from leadline.views.names import no_incident
from leadline.views.samples import samples_answer

if TYPE_CHECKING:
    from jinja2 import Template

PLOTS_MAX = 8  # of evidence; each is three queries
EVIDENCE_MAX = 10  # of one cause
BEFORE_NS_MAX = 600 * S
LENGTH_NS_MAX = 3600 * S
POINTS = 200
LINES_MAX = 4
# Nothing is loaded, nothing runs.
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot and what it is of."""

    title: str
    keys: tuple[str, ...]  # of its lines: the entity, then its peers
    picture: Drawn


@dataclass(frozen=True, slots=True)
class CausePart:
    """One cause as the report tells it."""

    cause: Cause
    evidence: tuple[tuple[Evidence, Plot | None], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One incident of one tenant as the report tells it."""

    incident: Incident
    told: Explanation
    symptoms: Plot | None
    causes: tuple[CausePart, ...]
    advice: Sequence[Advice]
    marks: Sequence[Mapping[str, Any]]
    span: tuple[int, int]


def report(store: Store, asked: Asked, incident: str) -> str:
    """The report, HTML. Errors: RefusedError("unknown_incident")."""
    found = Incidents(store, asked).named(incident)
    if not found:
        raise no_incident(store, asked, incident)
    marks = marks_answer(store, asked, incident)["marks"]
    parts = [_part(store, asked, one, [each for each in marks if each["tenant"] == one.tenant]) for one in found]
    return _template().render(
        parts=parts, incident=incident, at=_moment(asked.at_ns), version=__version__, width=WIDTH, height=HEIGHT
    )


def _part(store: Store, asked: Asked, one: Incident, marks: Sequence[Mapping[str, Any]]) -> Part:
    span = around(one)
    plots = _Plots(store, asked, one, span)
    symptoms = (
        plots.of("step.seconds", f"job:{one.job}", f"step time of {one.job}, mean of all ranks") if one.job else None
    )
    causes = tuple(
        CausePart(each, tuple((piece, plots.piece(piece)) for piece in each.evidence[:EVIDENCE_MAX]))
        for each in one.chosen
    )
    return Part(one, explanation(one), symptoms, causes, advice(one), marks, span)


def around(one: Incident) -> tuple[int, int]:
    """The span of the plots: the incident, with its evidence and some time before and after."""
    times = [piece.time_ns for each in one.chosen for piece in each.evidence if piece.time_ns is not None]
    first_ns = max(min([one.start_ns, *times]), one.start_ns - BEFORE_NS_MAX)
    last_ns = one.end_ns or one.seen_ns
    room_ns = max(60 * S, (last_ns - one.start_ns) * 3 // 10)
    after_ns = 5 * S if one.open else room_ns
    return first_ns - room_ns, min(last_ns, one.start_ns + LENGTH_NS_MAX) + after_ns


class _Plots:
    """Plots of one incident."""

    def __init__(self, store: Store, asked: Asked, one: Incident, span: tuple[int, int]) -> None:
        self._store, self._one, self._span = store, one, span
        self._asked = Asked(asked.principal, one.cluster, span[1])
        self._left = PLOTS_MAX

    def piece(self, piece: Evidence) -> Plot | None:
        """Of evidence that is a metric; None of events and sentences, and when there are enough."""
        if piece.table != "anomaly" or self._left <= 0:
            return None
        self._left -= 1
        marks = [] if piece.time_ns is None else [(piece.time_ns, piece.text)]
        return self.of(piece.what, piece.entity, f"{piece.what} of {piece.entity}", marks)

    def of(self, metric: str, entity: str, title: str, marks: Sequence[tuple[int, str]] = ()) -> Plot | None:
        """None where nothing is known of it."""
        peers = kind_of(entity) != "job"
        try:
            found = samples_answer(self._store, self._asked, metric, entity, self._span[0], POINTS, peers)
        except UsageError:  # evidence that came by an import may name what is no entity
            return None
        if not found["streams"]:
            return None
        lines = [(_name(each, found["streams"], entity), each["mean"]) for each in found["streams"][:LINES_MAX]]
        if found["peers"]:
            lines.append((f"median of {found['peers']['count']} peers", found["peers"]["median"]))
        picture = drawn(found["t_ns"], lines, self._span, found["unit"], self._one.start_ns, marks)
        return Plot(title + (", per second" if found["rate"] else ""), tuple(label for label, _ in lines), picture)


def _name(stream: Mapping[str, Any], streams: Sequence[Mapping[str, Any]], entity: str) -> str:
    if len(streams) == 1:
        return entity
    telling = [
        f"{name}={value}"
        for name, value in stream["labels"].items()
        if any(each["labels"].get(name) != value for each in streams)
    ]
    return ", ".join(telling) or entity


def _moment(time_ns: int | None) -> str:
    """`2026-11-20 20:21:13.5 UTC`."""
    if time_ns is None:
        return ""
    try:
        text = datetime.fromtimestamp(time_ns // S, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return time_text(time_ns)
    return f"{text}.{time_ns % S // 10**8} UTC"


def _after(piece: Evidence) -> str:
    """Against the first lost second; with a question mark where the clocks order nothing."""
    if piece.after_s is None:
        return ""
    if piece.order == "together":
        return "together"
    side = "before" if piece.after_s < 0 else "after"
    return f"{abs(piece.after_s):.1f} s {side}{'?' if piece.order == 'unknown' else ''}"


def _why_not(cause: Cause) -> str:
    head, colon, why = cause.text.partition(": ")
    return why if colon else head


@cache
def _template() -> Template:
    """Names come from telemetry, that is from anybody: all of them are escaped."""
    import jinja2  # not before the first report: a start is quicker

    engine = jinja2.Environment(
        loader=jinja2.PackageLoader("leadline.views.incidents", "templates"), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    engine.filters.update(
        moment=_moment,
        lost=lost_words,
        percent=percent,
        after=_after,
        why_not=_why_not,
        quoted=shlex.quote,
        heading=title,
    )
    return engine.get_template("report.html.jinja2")
