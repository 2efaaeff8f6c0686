"""How far the data of each sender has come: who is late, who is not heard any more, whose clock is off."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from typing import Any

from leadline.ingest.sources import Source
from leadline.model.principal import OPERATE, Principal
from leadline.runner.run import Runner
from leadline.runner.watermarks import SenderState
from leadline.views.sources import Finding, ended_with

CLOCK_OFF_S = 2.0
"""A host clock that differs more from ours is told: requests take up to a second, time synchronised by NTP is right to
within 0.1 s."""
NOT_YOURS_MANY = 1000
"""Rows of a tenant about what is not its own from which on it is a finding: a few are a name written wrong."""
WARNING = "warning"
JOBS_NAMED = 3


def senders_of(runner: Runner | None, principal: Principal) -> list[SenderState]:
    """The senders that somebody may know of, the worst first: an operator all, a tenant its own."""
    found = runner.senders() if runner is not None else []
    return [each for each in found if principal.may(OPERATE) or each.sender.tenant == principal.tenant]


def as_json(each: SenderState) -> dict[str, Any]:
    """One sender as the API tells it."""
    wrong = _wrong(each)
    return {
        "tenant": each.sender.tenant, "cluster": each.sender.cluster, "host": each.sender.host,
        "name": each.sender.name, "state": each.state, "behind_s": each.behind_s, "last_heard_s": each.heard_s,
        "clock_off_s": each.clock_off_s, "jobs": dict(each.jobs), "problems": [text for text, _ in wrong],
        "do": wrong[0][1] if wrong else "",
    }  # fmt: skip


def findings(senders: list[SenderState], ended_ns: Mapping[str, int] | None = None) -> tuple[list[Finding], int]:
    """What is wrong with them, a sentence each, and what to do; and how many are silent because their run is over.

    `ended_ns`: as of `sources.findings_of`.
    """
    over = [
        each
        for each in senders
        if each.state == "lost" and ended_with(each.heard_ns, (ended_ns or {}).get(each.sender.tenant))
    ]
    left = [each for each in senders if each not in over]
    return [{"state": WARNING, "text": text, "do": do} for each in left for text, do in _wrong(each)], len(over)


def foreign_findings(sources: Iterable[Source]) -> list[dict[str, str]]:
    """Which tenants send much about what the provider has and they do not hold."""
    said: Tally[str] = Tally()
    for source in sources:
        said[source.sender.tenant] += source.refused["not_yours"]
    do = (
        "If the tenant rents these hosts, declare it (relation held-by, sent by the provider); otherwise "
        "check who has its tokens: docs/how-to/connect-from-another-host.md."
    )
    return [
        {
            "state": WARNING, "do": do,
            "text": f"{amount} rows of tenant {tenant} describe hosts, switches or links of others; "
            "they are stored, but are no evidence for other tenants",
        }
        for tenant, amount in sorted(said.items())
        if amount >= NOT_YOURS_MANY
    ]  # fmt: skip


def _wrong(each: SenderState) -> list[tuple[str, str]]:
    """What is wrong with one, and what to do."""
    who, found = f"{each.sender.name} of {each.sender.host}", []
    if each.state == "late":
        text = f"{who} is {each.behind_s:.0f} s behind{_waiting(each)}"
        found.append(
            (text, "Check whether its host is overloaded or its network path to this server is slow; nothing is lost.")
        )
    elif each.state == "lost":
        text = f"nothing from {who} for {each.heard_s:.0f} s{_waiting(each)}"
        found.append((text, f"See whether {each.sender.host} is up, runs it, and reaches this server."))
    if each.state in ("ok", "late") and abs(each.clock_off_s) > CLOCK_OFF_S:
        way = "ahead of" if each.clock_off_s > 0 else "behind"
        text = f"the clock of {each.sender.host} is {abs(each.clock_off_s):.0f} s {way} this server's"
        found.append((text, "Synchronise it (chronyc tracking): times of its ranks are known to within a second only."))
    return found


def _waiting(each: SenderState) -> str:
    jobs = list(each.jobs)
    if not jobs:
        return ""
    more = f" and {len(jobs) - JOBS_NAMED} more" if len(jobs) > JOBS_NAMED else ""
    return f"; {', '.join(jobs[:JOBS_NAMED])}{more} {'waits' if len(jobs) == 1 else 'wait'} for its data"
