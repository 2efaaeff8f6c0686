"""How each sender does: fresh, late or in error, and what of its telemetry was refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from leadline.ingest.sources import Source
from leadline.model.counters import COUNTERS, Counter
from leadline.model.principal import OPERATE, Principal

WITHOUT_RHYTHM = frozenset({"rows", "ring"})  # events come when something happens: silence is no news
QUIET_S_MIN = 30.0  # a source is not late before this, whatever its rhythm
QUIET_INTERVALS = 5.0  # ... and late after this many of its own intervals
SENT_AGAIN = frozenset({"compiling", "queue_full", "sender_full", "memory_full", "store_unavailable"})
RECENT_S = 600.0  # an error older than this is shown, but does not make the verdict

ENDED_WITH_NS = 120 * 10**9
"""Who was heard last so near to the end of a run, ended with it: an agent says that its ranks are gone within 10 s,
scrapes are up to 60 s apart, and a run is taken down within a minute."""
SENDERS_NAMED = 3  # of those that are in one state; more are one line
JOBS_NAMED = 3

OK, WARNING, CRITICAL = "ok", "warning", "critical"
Finding = dict[str, str]


class SourceState(BaseModel):
    """One sender."""

    tenant: str
    way: str = Field(description="remote-write, otlp-http, otlp-grpc, scrape, rows, ring, sflow")
    name: str
    tells: list[str] = Field(description="services and exporters whose metrics it sends, tables whose rows")
    state: str = Field(description="ok or warning")
    last_heard_s: float
    newest_ns: int = Field(description="the newest time of its data; 0: none")
    data_age_s: float | None
    interval_s: float
    requests: int
    samples: int
    rows: int
    refused: dict[str, int]
    last_error: str


class Refusal(BaseModel):
    """What was refused or dropped for one reason since the start."""

    counter: str
    reason: str
    amount: int
    unit: str
    severity: str = Field(description="info, error, data_loss")
    doc: str
    do: str


def own_sources(sources: Iterable[Source], principal: Principal) -> list[Source]:
    """The senders that somebody may know of: an operator all, a tenant its own."""
    return [each for each in sources if principal.may(OPERATE) or each.sender.tenant == principal.tenant]


def findings_of(sources: Iterable[Source], now_ns: int, ended_ns: Mapping[str, int]) -> tuple[list[Finding], int]:
    """What is wrong with senders, many with one remedy in one line; and how many are silent because their run is over.

    `ended_ns`: by tenant, when the last of its jobs was over, if none runs: who fell silent about then, ended with it.
    """
    found: dict[tuple[str, str, str], list[tuple[Source, Finding]]] = {}
    over = 0
    for source in sources:
        if wrong := _wrong_with(source, now_ns):
            if ended_with(source.last_ns, ended_ns.get(source.sender.tenant)):
                over += 1
                continue
            for kind, finding in wrong.items():
                found.setdefault((kind, source.sender.way, finding["do"]), []).append((source, finding))
    return [each for (kind, way, _), some in found.items() for each in _grouped(kind, way, some)], over


def ended_with(last_ns: int, ended_ns: int | None) -> bool:
    """Whether who was heard last at this time ended with a run that was over at that."""
    return ended_ns is not None and abs(last_ns - ended_ns) <= ENDED_WITH_NS


def over_finding(count: int, jobs: Sequence[str]) -> list[Finding]:
    """One line for all senders that ended with their run; none where there are none."""
    if not count:
        return []
    named = ", ".join(jobs[:JOBS_NAMED]) + (f" and {len(jobs) - JOBS_NAMED} more" if len(jobs) > JOBS_NAMED else "")
    senders = "1 sender" if count == 1 else f"{count} senders"
    text = (
        f"{senders} of the ended {'run' if len(jobs) == 1 else 'runs'} {named} {'is' if count == 1 else 'are'} silent"
    )
    return [{"state": OK, "text": text, "do": ""}]


def _grouped(kind: str, way: str, some: Sequence[tuple[Source, Finding]]) -> list[Finding]:
    """Each by itself where they are few; else one for all."""
    if len(some) <= SENDERS_NAMED:
        return [finding for _, finding in some]
    newest, finding = max(some, key=lambda each: max(each[0].last_error_ns, each[0].last_ns))
    names = ", ".join(source.sender.name for source, _ in some[:SENDERS_NAMED])
    what = "are silent" if kind == "silent" else "fail"
    last = "" if kind == "silent" else f"; the newest error: {newest.last_error}"
    text = f"{way}: {len(some)} senders {what} ({names} and {len(some) - SENDERS_NAMED} more){last}"
    return [{**finding, "text": text}]


def _wrong_with(source: Source, now_ns: int) -> dict[str, Finding]:
    """What is wrong with one sender: `silent`, `error`."""
    quiet_s = (now_ns - source.last_ns) / 1e9
    heard_s = (source.last_ns - source.first_ns) / 1e9
    # Who sent once has no rhythm yet: a program that told something and ended is no sender that is late.
    rhythm = source.requests > 1 and source.sender.way not in WITHOUT_RHYTHM
    found: dict[str, Finding] = {}
    name = f"{source.sender.way} {source.sender.name}"
    if rhythm and quiet_s > max(QUIET_S_MIN, QUIET_INTERVALS * heard_s / (source.requests - 1)):
        text = f"{name}: silent for {quiet_s:.0f} s"
        found["silent"] = {"state": WARNING, "text": text, "do": "See whether the sender runs."}
    # What is sent again until it is taken is mended by that; of what was refused for good the next may be as bad.
    is_mended = source.last_reason in SENT_AGAIN and source.last_ns > source.last_error_ns
    if source.last_error and not is_mended and (now_ns - source.last_error_ns) / 1e9 < RECENT_S:
        found["error"] = {"state": WARNING, "text": f"{name}: {source.last_error}", "do": source.last_do}
    return found


def state_of_source(
    source: Source, now_ns: int, findings: list[Finding], ended_ns: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """How one sender is; what is wrong with it is added to `findings`. `ended_ns`: as of `findings_of`."""
    over = ended_with(source.last_ns, (ended_ns or {}).get(source.sender.tenant))
    wrong = {} if over else _wrong_with(source, now_ns)
    findings += wrong.values()
    heard_s = (source.last_ns - source.first_ns) / 1e9
    return {
        "tenant": source.sender.tenant,
        "way": source.sender.way,
        "name": source.sender.name,
        "tells": sorted(source.tells),
        "state": WARNING if wrong else OK,
        "last_heard_s": (now_ns - source.last_ns) / 1e9,
        "newest_ns": source.newest_ns,
        "data_age_s": (now_ns - source.newest_ns) / 1e9 if source.newest_ns else None,
        "interval_s": heard_s / (source.requests - 1) if source.requests > 1 else 0.0,
        "requests": source.requests,
        "samples": source.samples,
        "rows": source.rows,
        "refused": dict(source.refused),
        "last_error": source.last_error,
    }


def refusal(why: Counter, amount: int) -> dict[str, Any]:
    """What was refused or dropped for one reason, and what to do about it."""
    return {
        "counter": why.family, "reason": why.reason, "amount": amount, "unit": why.unit,
        "severity": why.severity.value, "doc": why.doc, "do": why.do,
    }  # fmt: skip


def counter_of(way: str, reason: str) -> Counter:
    """The counter of a reason that a sender of this way in was refused for: words are shared between families."""
    found = [each for each in COUNTERS if each.reason == reason and not each.family.endswith("accepted")]
    return min(found, key=lambda each: (not each.family.startswith(way), each.family != "ingest_refused"))
