"""The explanation that is always there: numbered facts of an incident, and sentences that each cite them.

    incident, its causes, their evidence, what was considered, what to do ──> facts [1] [2] ... ──> sentences

A language model, where one is asked, sees the same facts and words them; it can add none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from leadline.analysis.cause.rules import BY_NAME
from leadline.model.incidents import symptom_words
from leadline.views.asked import time_text
from leadline.views.incidents.actions import Advice, advice
from leadline.views.incidents.incident import AFTER, BEFORE, TOGETHER, Cause, Evidence, Incident

EVIDENCE_MAX = 5  # of one cause: what tells most comes first
CONSIDERED_MAX = 4
TEXT_MAX = 400  # characters of one text from a table: log lines can be long
SENTENCE_MAX = 1000  # the text of a cause tells up to three pieces of evidence
OUR_TABLES = frozenset(
    {"anomaly", "conflict", "ledger", "symptom", "sle", "sle_loss", "flow_path", "flow_volume", "traffic"}
)
"""Tables of which the text of evidence is written by analyses; of others (events) it may quote anybody's log."""

# Kinds of facts.
SYMPTOM, CAUSE, EVIDENCE, CONSIDERED, ACTION, UNKNOWN, SUPPRESSED = (
    "symptom", "cause", "evidence", "considered", "action", "unknown", "suppressed",
)  # fmt: skip
_ORDER = {
    BEFORE: "before the first lost second",
    AFTER: "after the first lost second",
    TOGETHER: "together with the first lost second",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One numbered fact. `said`: in Leadline's own words; `quoted`: text of others, such as a log line: data, no more.

    `names`: the entities, jobs and rules it is about.
    """

    number: int
    kind: str
    said: str
    names: tuple[str, ...]
    quoted: str = ""

    @property
    def text(self) -> str:
        """All of it, for people."""
        return f'{self.said}: "{self.quoted}"' if self.quoted else self.said


def fact(number: int, kind: str, said: str, names: Iterable[str | None], quoted: str = "") -> Fact:
    """A fact of texts and names as they come: one line each, every name once."""
    return Fact(number, kind, one_line(said), tuple(dict.fromkeys(filter(None, names))), one_line(quoted))


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and the numbers of the facts that it rests on."""

    text: str
    cites: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.text} {''.join(f'[{number}]' for number in self.cites)}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of an incident, in order."""

    facts: tuple[Fact, ...]
    sentences: tuple[Sentence, ...]

    def as_json(self) -> dict[str, Any]:
        """As the API tells it."""
        facts = [{"number": each.number, "kind": each.kind, "text": each.text} for each in self.facts]
        return {"facts": facts, "sentences": [asdict(each) for each in self.sentences]}


def explanation(incident: Incident) -> Explanation:
    """The facts of an incident and its text. The same incident makes the same, letter by letter."""
    telling = _Telling(incident)
    telling.symptom()
    for cause in incident.chosen if incident.known else ():
        telling.cause(cause)
    for done in advice(incident) if incident.known else ():
        telling.action(done, [each for each in incident.chosen if each.position in done.positions])
    if not incident.known:
        telling.unknown()
    for cause in incident.considered[:CONSIDERED_MAX]:
        telling.considered(cause)
    if incident.suppressed:
        telling.suppressed(incident.suppressed)
    return Explanation(tuple(telling.facts), tuple(telling.sentences))


class _Telling:
    def __init__(self, incident: Incident) -> None:
        self._incident = incident
        self.facts: list[Fact] = []
        self.sentences: list[Sentence] = []

    def _fact(self, kind: str, said: str, names: Iterable[str | None], quoted: str = "") -> int:
        number = len(self.facts) + 1
        self.facts.append(fact(number, kind, said, names, quoted))
        return number

    def _say(self, text: str, cites: Sequence[int]) -> None:
        self.sentences.append(Sentence(one_line(text, SENTENCE_MAX), tuple(cites)))

    def symptom(self) -> None:
        one, said = self._incident, suffers(self._incident)
        number = self._fact(SYMPTOM, said, (one.entity, one.job, *one.jobs))
        self._say(f"{said}.", [number])

    def cause(self, cause: Cause) -> None:
        where = where_words(cause)
        said = (
            f"cause: {cause.rule} at {cause.entity}{where}{rule_words(cause)}, {percent(cause.probability)} likely, "
            f"layer {cause.layer}, class {cause.fault_class}"
        )
        # Its text may repeat what a log line says, so it is a quotation.
        number = self._fact(CAUSE, said, (cause.entity, cause.host, cause.rule), cause.text)
        rests = [self._evidence(each) for each in cause.evidence[:EVIDENCE_MAX]]
        sure = "The cause is" if cause.probability >= 0.8 else "The likeliest cause is"
        text = f"{sure} {cause.rule} at {cause.entity}{where} ({percent(cause.probability)})"
        self._say(f"{text}. {cause.text}", [number, *rests])

    def _evidence(self, each: Evidence) -> int:
        said, quoted = evidence_words(each)
        return self._fact(EVIDENCE, said, (each.entity,), quoted)

    def action(self, done: Advice, causes: Sequence[Cause]) -> None:
        """What to do, once for the causes that need it."""
        parts = []
        if done.action_cost is not None:
            parts.append(f"costs {lost_words(done.action_cost)}")
        if done.saves is not None:
            parts.append(f"saves {lost_words(done.saves)} in the next hour")
        waiting = math.fsum(each.waiting_cost for each in causes)
        parts.append(f"ten minutes of waiting cost {lost_words(waiting)} of GPU time")
        names = [name for each in causes for name in (each.entity, each.host, each.name)]
        number = self._fact(ACTION, f"{done.action}: {done.words} It {'; '.join(parts)}", names)
        self._say(done.words, [number])

    def unknown(self) -> None:
        missing = self._incident.missing
        why = f"for want of {missing}" if missing else "the evidence is too thin"
        number = self._fact(UNKNOWN, f"the cause is unknown: {why}", ())
        self._say(f"The cause is unknown: {why}.", [number])

    def considered(self, cause: Cause) -> None:
        said = f"considered and not the cause: {cause.rule} at {cause.entity}, {percent(cause.probability)}"
        number = self._fact(CONSIDERED, said, (cause.entity, cause.host, cause.rule), cause.text)
        self._say(cause.text or f"{cause.rule} at {cause.entity} was considered and rejected.", [number])

    def suppressed(self, why: str) -> None:
        number = self._fact(SUPPRESSED, f"no alert is sent because of {why}", ())
        self._say(f"No alert is sent because of {why}.", [number])


def suffers(one: Incident) -> str:
    """Who suffers of what, since when, and what it cost."""
    symptom = symptom_words(one.symptom, ongoing=True)
    until = "and lasts" if one.open else f"until {time_text(one.end_ns)}" if one.end_ns else "and is over"
    until += " and was not watched since then" if one.unwatched else ""
    others = [job for job in one.jobs if job != one.job]
    also = f"; {', '.join(others)} too" if others else ""
    return (
        f"{one.job or one.entity} {symptom} since {time_text(one.start_ns)} {until}; "
        f"it lost {lost_words(one.lost_gpu_seconds)} of GPU time{also}"
    )


def where_words(cause: Cause) -> str:
    """Where its component is and what people call it, ready to follow its id."""
    where = "" if cause.host in (None, cause.entity) else f" on {cause.host}"
    return where + (f" ({cause.name})" if cause.name else "")


def evidence_words(each: Evidence) -> tuple[str, str]:
    """A piece of evidence in Leadline's words, and the text of others that it quotes."""
    said = " ".join(part for part in (each.table, each.entity, each.what) if part) or "evidence"
    if each.after_s is not None:
        said += f", {abs(each.after_s):.1f} s {_when(each)}"
    if each.table not in OUR_TABLES:
        return said, each.text
    return (f"{said}: {each.text}" if each.text else said), ""


def rule_words(cause: Cause) -> str:
    """What its rule says in words, ready to follow the name."""
    rule = BY_NAME.get(cause.rule)
    return f", which {rule.words}" if rule else ""


def _when(each: Evidence) -> str:
    """Before, after or together; where the clocks order nothing, that is said."""
    if each.order in _ORDER:
        return _ORDER[each.order]
    side = "before" if (each.after_s or 0.0) < 0 else "after"
    return f"{side} the first lost second by the hosts' clocks (their error is unknown)"


def percent(probability: float) -> str:
    """`93 %`; nothing that is not certain is rounded to it."""
    if 0.0 < probability < 1.0:
        return "under 1 %" if probability < 0.01 else f"{min(99, round(100 * probability))} %"
    return f"{100 * probability:.0f} %"


def lost_words(gpu_seconds: float) -> str:
    """`1.32 GPU-hours`, below an hour `85 GPU-seconds`."""
    if gpu_seconds >= 3600:
        return f"{gpu_seconds / 3600:.3g} GPU-hours"
    return f"{gpu_seconds:.3g} GPU-seconds" if gpu_seconds < 100 else f"{gpu_seconds:.0f} GPU-seconds"


def one_line(text: str, chars_max: int = TEXT_MAX) -> str:
    """Text of a table in one line: no control characters, and not longer than that."""
    plain = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return plain if len(plain) <= chars_max else plain[: chars_max - 1] + "…"
