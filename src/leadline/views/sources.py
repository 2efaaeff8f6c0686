"""How each sender does: fresh, late or in error, and what of its telemetry was refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, Field

from leadline.ingest.sources import Source
from leadline.model.counters import COUNTERS, Counter
from leadline.model.principal import OPERATE, Principal

WITHOUT_RHYTHM = frozenset({"rows", "ring"})  # events come when something happens: silence is no news
QUIET_S_MIN = 30.0  # a source is not late before this, whatever its rhythm
QUIET_INTERVALS = 5.0  # ... and late after this many of its own intervals
RECENT_S = 600.0  # an error older than this is shown, but does not make the verdict

OK, WARNING, CRITICAL = "ok", "warning", "critical"


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


def state_of_source(source: Source, now_ns: int, findings: list[dict[str, str]]) -> dict[str, Any]:
    """How one sender is; what is wrong with it is added to `findings`."""
    quiet_s = (now_ns - source.last_ns) / 1e9
    heard_s = (source.last_ns - source.first_ns) / 1e9
    interval_s = heard_s / (source.requests - 1) if source.requests > 1 else 0.0
    late = source.sender.way not in WITHOUT_RHYTHM and quiet_s > max(QUIET_S_MIN, QUIET_INTERVALS * interval_s)
    recent_error = bool(source.last_error) and (now_ns - source.last_error_ns) / 1e9 < RECENT_S
    name = f"{source.sender.way} {source.sender.name}"
    if late and source.requests:
        findings.append(
            {"state": WARNING, "text": f"{name}: silent for {quiet_s:.0f} s", "do": "See whether the sender runs."}
        )
    if recent_error:
        findings.append({"state": WARNING, "text": f"{name}: {source.last_error}", "do": source.last_do})
    return {
        "tenant": source.sender.tenant,
        "way": source.sender.way,
        "name": source.sender.name,
        "tells": sorted(source.tells),
        "state": WARNING if late or recent_error else OK,
        "last_heard_s": quiet_s,
        "newest_ns": source.newest_ns,
        "data_age_s": (now_ns - source.newest_ns) / 1e9 if source.newest_ns else None,
        "interval_s": interval_s,
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
