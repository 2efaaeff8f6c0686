"""How Leadline itself is doing, from what it counts: the content of `leadline doctor`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline import __version__
from leadline.alerts.alerts import Alerts
from leadline.alerts.alerts import findings as alert_findings
from leadline.explain.explain import Explainer
from leadline.ingest.intake import Intake
from leadline.ingest.sources import Source
from leadline.model.errors import StoreError
from leadline.model.principal import OPERATE, Principal
from leadline.runner.clock.steps import boot_ns
from leadline.runner.replay import Replay
from leadline.runner.run import Runner
from leadline.runner.watermarks import SenderState
from leadline.server import analyses
from leadline.server.background import keeping
from leadline.server.background.keeping import Background
from leadline.server.background.kernels import Kernels
from leadline.server.background.kernels import findings as kernel_findings
from leadline.server.memory.watch import MemoryWatch
from leadline.server.memory.watch import findings as memory_findings
from leadline.server.metrics.http import HttpTimes
from leadline.server.metrics.verdicts import Verdicts
from leadline.store import Store, TableFacts
from leadline.store.asking.behind import Behind
from leadline.store.disk.watch import DiskWatch
from leadline.store.disk.watch import findings as disk_findings
from leadline.views import senders as senders_view
from leadline.views.asked import Asked
from leadline.views.ledger.config import LedgerConfig
from leadline.views.mesh.routers import Routers
from leadline.views.same_machine import SameMachines
from leadline.views.sources import (
    CRITICAL,
    OK,
    WARNING,
    counter_of,
    findings_of,
    over_finding,
    own_sources,
    refusal,
    state_of_source,
)

# Seconds that the store may take for rows before it is told. Source: judgement; an append takes 5 ms, and some 2 s were
# seen on a machine with a load of 16.
STORE_HELD_S = 8.0
# Seconds that `doctor` waits for what tables hold: whoever asks it when a server is slow gets the rest at once.
STORE_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a running server is made of, as the views need it."""

    store: Store
    intake: Intake
    started_ns: int
    now_ns: Callable[[], int] = time.time_ns  # in a replay the recorded time that is reached
    replay: Replay | None = None
    runner: Runner | None = None
    ledger: LedgerConfig = field(default_factory=LedgerConfig)
    alerts: Alerts | None = None
    explainer: Explainer | None = None
    background: Background | None = None
    disk: DiskWatch | None = None
    memory: MemoryWatch | None = None
    kernels: Kernels | None = None
    verdicts: Verdicts | None = None
    http: HttpTimes = field(default_factory=HttpTimes)
    same_machines: SameMachines = field(default_factory=SameMachines)
    routers: Routers = field(default_factory=Routers)
    facts: Behind[list[TableFacts]] = field(default_factory=lambda: Behind("facts"))


def doctor(parts: Parts, now_ns: int, principal: Principal) -> dict[str, Any]:
    """What is connected, how fresh, what is refused and why; `state` is the worst of what was found.

    To a tenant: its own senders and whether analyses keep up. What the process counts, holds and stores is everybody's,
    so the operator alone is told (null, or nothing).
    """
    found = _doctor(parts, now_ns, principal)
    return found if principal.may(OPERATE) else _for_tenant(parts, found)


def ended_senders(parts: Parts, principal: Principal) -> dict[str, int]:
    """By tenant, when its last job was over, of those that have none left: who fell silent about then ended with it."""
    runner = parts.runner if parts.replay is None else None
    own = own_sources(parts.intake.sources.all(), principal)
    over = _over(own, senders_view.senders_of(runner, principal), runner)
    return {name: at_ns for name, (_, at_ns) in over.items()}


def _doctor(parts: Parts, now_ns: int, principal: Principal) -> dict[str, Any]:
    own = own_sources(parts.intake.sources.all(), principal)
    runner = parts.runner if parts.replay is None else None
    senders = senders_view.senders_of(runner, principal)
    over = _over(own, senders, runner)
    ended_ns = {name: at_ns for name, (_, at_ns) in over.items()}
    sources = [state_of_source(source, now_ns, [], ended_ns) for source in own]
    findings = _of_senders(own, senders, over, now_ns)
    if not sources and parts.replay is None:
        findings.append(
            {
                "state": WARNING,
                "text": "nothing is connected",
                "do": "Run `leadline agent` on each training host; or point Prometheus or OpenTelemetry here, or set "
                "ingest.scrape.",
            }
        )
    if principal.may(OPERATE):
        up_s = (now_ns - parts.started_ns) / 1e9
        states = parts.runner.states() if parts.runner else []
        compiling = list(kernel_findings(parts.kernels)) if parts.kernels else []
        findings += compiling or analyses.findings(states, up_s, recorded=parts.replay is not None)
        findings += analyses.life_findings(parts.runner.life()) if parts.runner else []
        findings += analyses.gap_findings(parts.runner.not_judged) if parts.runner else []
        findings += _of_store(*parts.intake.held_s)
        findings += disk_findings(parts.disk) if parts.disk else []
        findings += memory_findings(parts.memory) if parts.memory else []
        findings += analyses.clock_findings(parts.runner.clock_steps, boot_ns()) if parts.runner else []
        findings += alert_findings(parts.alerts.states() if parts.alerts else [])
        findings += keeping.findings(parts.background.states() if parts.background else [])
    findings += _of_names(parts, principal, now_ns) if parts.replay is None else []
    facts, of_store = _facts(parts)
    findings += of_store
    totals = parts.intake.counts.totals()
    refused = [
        refusal(counter, total)
        for counter, total in totals.items()
        if total and not counter.family.endswith("accepted")
    ]
    return {
        "schema": 1,
        "state": _worst(findings),
        "findings": sorted(findings, key=lambda each: (CRITICAL, WARNING, OK).index(each["state"])),
        "version": __version__,
        "now_ns": now_ns,
        "up_s": (now_ns - parts.started_ns) / 1e9,
        "private_bytes": private_bytes(),
        "sources": sources,
        "senders": [senders_view.as_json(each) for each in senders],
        "refused": refused,
        "accepted": {counter.reason: total for counter, total in totals.items() if counter.family.endswith("accepted")},
        "waiting_rows": parts.intake.waiting_rows,
        "series_known": parts.intake.series_known,
        "analyses": analyses.told(parts.runner),
        "tables": facts,
        "last_store_error": parts.intake.last_store_error,
    }


def _over(own: list[Source], senders: list[SenderState], runner: Runner | None) -> dict[str, tuple[list[str], int]]:
    """By tenant: its jobs and when the last of them was over; of those that have no job left and no agent that sends.

    Where agents go on sending, hosts are meant to be there, and one that falls silent is news, job or no job.
    """
    tenants = {source.sender.tenant for source in own} | {each.sender.tenant for each in senders}
    tenants -= {each.sender.tenant for each in senders if each.state in ("ok", "late")}
    return {name: ended for name in tenants if runner and (ended := runner.watermarks.over(name)) is not None}


def _of_senders(
    own: list[Source], senders: list[SenderState], over: dict[str, tuple[list[str], int]], now_ns: int
) -> list[dict[str, str]]:
    """What is wrong with who sends; those that ended with their run are one line, and nothing is wrong with them."""
    ended_ns = {name: at_ns for name, (_, at_ns) in over.items()}
    of_sources, sources_over = findings_of(own, now_ns, ended_ns)
    of_agents, agents_over = senders_view.findings(senders, ended_ns)
    jobs = sorted({job for some, _ in over.values() for job in some})
    return [
        *of_sources,
        *of_agents,
        *senders_view.foreign_findings(own),
        *over_finding(sources_over + agents_over, jobs),
    ]


def _of_store(held_s: float, table: str) -> list[dict[str, str]]:
    """Whether it takes rows."""
    if held_s < STORE_HELD_S:
        return []
    text = f"the store has not taken rows of {table} for {held_s:.0f} s; nothing is lost, senders are told to wait"
    do = "See whether its disk answers (a network mount that hangs, a device that is full of writes: `iostat -x 1`)."
    return [{"state": WARNING, "text": text, "do": do}]


def _of_names(parts: Parts, principal: Principal, now_ns: int) -> list[dict[str, str]]:
    """Machines that are told of under two names, and routers that are told of under none."""
    asked = Asked(principal, "", now_ns)
    try:
        same = parts.same_machines.findings(parts.store, asked, now_ns, STORE_WAIT_S)
        return [*same, *parts.routers.findings(parts.store, asked, STORE_WAIT_S)]
    except StoreError:
        return []  # which is told as that


def require_well(parts: Parts) -> None:
    """Errors: StoreError if something that everything depends on does not live any more, WorldError while memory is
    full; `doctor` says what to do."""
    if parts.memory:
        parts.memory.require_ready()
    for found in analyses.life_findings(parts.runner.life()) if parts.runner else ():
        raise StoreError(found["text"])
    for name, why in parts.store.unreadable.items():
        raise StoreError(f"table {name} cannot be read: {why}")


def _for_tenant(parts: Parts, found: dict[str, Any]) -> dict[str, Any]:
    """The same without what is of all tenants."""
    silent = "the store does not answer"  # why may quote paths and names
    findings = [{**each, "text": silent} if each["text"].startswith(silent) else each for each in found["findings"]]
    own = found["sources"]
    refusals: dict[tuple[str, str], int] = {}
    for source in own:
        for reason, amount in source["refused"].items():
            refusals[source["way"], reason] = refusals.get((source["way"], reason), 0) + amount
    states = analyses.told_to_tenants(parts.runner)
    return found | {
        "findings": findings, "private_bytes": None, "series_known": None, "waiting_rows": {},
        "refused": [refusal(counter_of(*key), amount) for key, amount in refusals.items()], "tables": [],
        "accepted": {name: sum(each[name] for each in own) for name in ("samples", "rows")},
        "analyses": states, "last_store_error": silent if found["last_store_error"] else "",
    }  # fmt: skip


def _worst(findings: list[dict[str, str]]) -> str:
    states = {finding["state"] for finding in findings}
    return CRITICAL if CRITICAL in states else WARNING if WARNING in states else OK


def _facts(parts: Parts) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """How full each table is, and what is wrong with the store that says so."""
    try:
        held = parts.facts.told(parts.store.facts, STORE_WAIT_S)
    except StoreError as error:
        text = f"the store does not answer: {error}"
        return [], [{"state": CRITICAL, "text": text, "do": "See its log."}]
    found: list[dict[str, str]] = []
    if held.late_s:
        text = f"the store has not answered for {held.late_s:.0f} s: it is busy, or its disk is"
        found = [{"state": WARNING, "text": text, "do": "What tables hold is as it was told last; ask again."}]
    return [
        {
            "table": fact.table,
            "rows": fact.rows,
            "bytes": fact.bytes,
            "oldest_ns": fact.oldest_ns,
            "newest_ns": fact.newest_ns,
        }
        for fact in held.value or []
    ], found


def private_bytes(pid: int | str = "self") -> int:
    """Private anonymous memory of a process, from smaps_rollup; 0 where the kernel does not tell.

    Not the resident size: the embedded engine maps 300 MB of library that costs no memory of its own.
    """
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
