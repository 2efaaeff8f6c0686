"""Report: rows of `incident` and `cause`, for each tenant that is affected. The fifth stage of `cause`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b

from leadline.analysis.cause.choose import Cause, Trouble, family
from leadline.analysis.cause.dead import deaths
from leadline.analysis.cause.evidence import Piece
from leadline.analysis.cause.gather import Gathered
from leadline.analysis.cause.history import Episode, class_of
from leadline.analysis.cause.remedy import Loss, Remedy, remedy
from leadline.analysis.cause.suppression import suppressed
from leadline.analysis.cause.symptoms import lost_of, told
from leadline.analysis.cause.words import missing_of, plainest, text_of
from leadline.analysis.spec import Verdicts
from leadline.model.hardware_codes import Suspect, advised
from leadline.model.ids import EntityId
from leadline.model.incidents import ActionKind, FaultClass, Suppressed, Verdict
from leadline.model.tables.verdicts import CAUSE, INCIDENT
from leadline.model.units import S

EVIDENCE_MAX = 12  # pieces told with a cause, so that a row stays readable. Source: bound.
# Probability that is told at most, because no cause is certain: rounded to four digits, 1.0 would claim it. Source:
# definition.
SUREST = 0.9999
OF_OTHERS = "the view of an operator: the cause is a job of another tenant"
# s; the end of the year 9999, beyond which the calendar of the standard library has no dates. Source: definition.
STAMP_MAX_S = 253_402_300_799


def report(troubles: Sequence[Trouble], gathered: Gathered) -> Verdicts:
    """The rows of a window: of its incidents, and of earlier ones that wait for a part, or are part of another now."""
    rows = [Telling(each, gathered) for each in troubles]
    incidents = [row.incident(tenant) for row in rows for tenant in row.tenants]
    causes = [one for row in rows for tenant in row.tenants for one in row.causes(tenant)]
    incidents += [*_absorbed(rows, gathered), *_waiting(rows, gathered)]
    return {
        INCIDENT.name: _turned(incidents, ("tenant", *(each.name for each in INCIDENT.own))),
        CAUSE.name: _turned(causes, ("tenant", *(each.name for each in CAUSE.own))),
    }


def _absorbed(rows: Sequence[Telling], gathered: Gathered) -> list[dict[str, object]]:
    """Incidents that turned out to be part of an older one: over, so that nobody waits for their end."""
    told, now_ns = {row.id for row in rows}, gathered.window.to_ns
    found = []
    for row in rows:
        for earlier in gathered.known.of(row.trouble.symptoms)[1:]:
            if earlier.open and earlier.incident not in told:
                told.add(earlier.incident)
                found += [
                    {**each, "state": "over", "end_ns": now_ns, "seen_ns": now_ns, "missing": None}
                    for each in earlier.rows
                ]
    return found


def _waiting(rows: Sequence[Telling], gathered: Gathered) -> list[dict[str, object]]:
    """Open incidents whose symptoms are over, told again while a part is dead; with their end when it is back.

    Those that are open for another reason are told by their symptoms, or nobody watches them.
    """
    known, now_ns = gathered.known, gathered.window.to_ns
    told = {each.incident for row in rows for each in known.of(row.trouble.symptoms)}
    found: list[dict[str, object]] = []
    for earlier in known.incidents:
        pieces = known.pieces.get(earlier.incident, [])
        if not earlier.open or earlier.incident in told or not deaths(pieces):
            continue
        over_ns = max((symptom.until_ns(now_ns) for symptom in earlier.symptoms), default=earlier.start_ns)
        for row in earlier.rows:
            waived = earlier.incident in gathered.feedback.to(row["tenant"]).dismissed
            end_ns = over_ns if waived else gathered.out.end_ns(over_ns, pieces, now_ns)
            state = "open" if end_ns is None else "over"
            found.append({**row, "state": state, "end_ns": end_ns, "seen_ns": now_ns})
    return found


def _turned(rows: Iterable[Mapping[str, object]], names: Sequence[str]) -> dict[str, list[object]]:
    rows = list(rows)
    return {name: [row[name] for row in rows] for name in names}


@dataclass(frozen=True, slots=True)
class Telling:
    """What becomes rows of one incident: one of `incident` and some of `cause` for each tenant that is affected."""

    trouble: Trouble
    gathered: Gathered

    @property
    def earlier_id(self) -> str:
        """The oldest incident that these symptoms were told as; empty: none."""
        return next((each.incident for each in self.gathered.known.of(self.trouble.symptoms)), "")

    @property
    def id(self) -> str:
        return self.earlier_id or id_of(self.trouble, self.gathered.window.provider)

    @property
    def tenants(self) -> list[str]:
        return sorted({each.tenant for each in self.trouble.symptoms})

    def incident(self, tenant: str) -> dict[str, object]:
        """Its row for a tenant, which names only that tenant's jobs."""
        own = replace(self.trouble, symptoms=tuple(each for each in self.trouble.symptoms if each.tenant == tenant))
        chosen = any(each.chosen for each in self._shown(tenant))
        missing = missing_of(own.symptoms, self.trouble.of_tenant[tenant], self.gathered.context.ground)
        reported_ns = [each.reported_ns for each in self.gathered.known.of(self.trouble.symptoms)]
        end_ns = self._end_ns(tenant, own.end_ns)
        return {
            "tenant": tenant,
            "incident": self.id,
            "entity": own.first.entity,
            "job": own.worst.job or None,
            "jobs": sorted({each.job for each in own.symptoms if each.job}),
            "symptom": own.worst.kind.value,
            "start_ns": own.start_ns,
            "end_ns": end_ns,
            "bound_ns": own.first.bound_ns,
            "reported_ns": min([self.gathered.window.to_ns, *reported_ns]),
            "state": "open" if end_ns is None else "over",
            "verdict": (Verdict.KNOWN if chosen else Verdict.UNKNOWN).value,
            "missing": None if chosen else missing or (OF_OTHERS if self.trouble.of_tenant[tenant].chosen else None),
            "lost_gpu_seconds": lost_of(own.symptoms, self.gathered.window.to_ns),
            "suppressed": self._suppressed(tenant),
            "symptoms": json.dumps([told(each) for each in own.symptoms], sort_keys=True),
            "seen_ns": self.gathered.window.to_ns,
        }

    def _end_ns(self, tenant: str, over_ns: int | None) -> int | None:
        """When it is over for a tenant: not while a part that is named is dead, unless somebody dismissed it."""
        if self.id in self.gathered.feedback.to(tenant).dismissed:
            return over_ns
        pieces = [told.piece for each in self._shown(tenant) if each.chosen for told in each.candidate.told]
        return self.gathered.out.end_ns(over_ns, pieces, self.gathered.window.to_ns)

    def _shown(self, tenant: str) -> list[Cause]:
        jobs = {each.job for each in self.trouble.symptoms if each.tenant == tenant} | self.gathered.context.nameable
        return [each for each in self.trouble.of_tenant[tenant].causes if _is_of(each.candidate.entity, jobs)]

    def _suppressed(self, tenant: str) -> str | None:
        """Why it does not alert a tenant."""
        feedback = self.gathered.feedback.to(tenant)
        if self.id in feedback.dismissed:
            return Suppressed.DISMISSED.value
        topology = self.gathered.context.ground.topology
        own = [each for each in self.trouble.symptoms if each.tenant == tenant]
        entities = {each.entity for each in own} | {f"job:{each.job}" for each in own if each.job}
        for each in self._shown(tenant):
            if each.chosen:
                entities |= {each.candidate.entity, topology.host_of(each.candidate.entity)}
        for symptom in own:
            for blame in symptom.blamed:
                entities |= {blame.owner, topology.host_of(blame.owner)}
        found = suppressed(feedback.asked, entities - {""}, self.trouble.start_ns)
        return None if found is None else found.value

    def causes(self, tenant: str) -> list[dict[str, object]]:
        """Its rows of `cause` for a tenant."""
        return [self._cause(tenant, place + 1, each) for place, each in enumerate(self._shown(tenant))]

    def _cause(self, tenant: str, position: int, one: Cause) -> dict[str, object]:
        candidate, topology = one.candidate, self.gathered.context.ground.topology
        onsets = [each.piece.time_ns for each in candidate.told if each.piece.face.table != "traffic"]
        start_ns = min(onsets, default=self.trouble.start_ns)
        of = self._class(one, start_ns)
        what = self._remedy(one, of)
        score = candidate.parts(one.place)
        return {
            "tenant": tenant,
            "incident": self.id,
            "position": position,
            "entity": candidate.entity,
            "rule": candidate.rule.name,
            "chosen": one.chosen,
            "layer": candidate.rule.layer.value,
            "class": of.value,
            "probability": min(round(one.probability, 4), SUREST),
            "start_ns": start_ns,
            "score": json.dumps(score, sort_keys=True),
            "evidence": json.dumps(
                [each.piece.as_row() for each in plainest(candidate.told[:EVIDENCE_MAX])], sort_keys=True
            ),
            "action": what.action.value,
            "action_cost": round(what.cost, 3),
            "saves": round(what.saves, 3),
            "waiting_cost": round(what.waiting, 3),
            "text": text_of(one, self.trouble.start_ns, topology),
            "seen_ns": self.gathered.window.to_ns,
        }

    def _class(self, one: Cause, start_ns: int) -> FaultClass:
        # A link that was named by its port before is the same component.
        alike = sorted(family(one.candidate.entity, self.gathered.context.ground.topology))
        found = [self.gathered.known.episodes.get((entity, one.candidate.rule.name), {}) for entity in alike]
        earlier = {incident: episode for each in found for incident, episode in each.items()}
        past = [episode for incident, episode in sorted(earlier.items()) if incident != self.id]
        jobs = frozenset(each.job for each in self.trouble.symptoms if each.job)
        now = Episode(start_ns, self.trouble.end_ns, jobs)
        used = self.gathered.context.ground.jobs_on(one.candidate.entity)
        works = one.candidate.rule.works
        return class_of([*past, now], self.gathered.window.to_ns, works=works, spared=used - jobs)

    def _remedy(self, one: Cause, of: FaultClass) -> Remedy:
        """Lost per second: of what it explains, since the first lost second."""
        symptoms = self.trouble.symptoms
        ranks = self.gathered.context.ground.topology.ranks_of
        gpus = sum(len(ranks(f"job:{job}")) for job in {each.job for each in symptoms if each.job})
        until_ns = self.gathered.window.to_ns if self.trouble.end_ns is None else self.trouble.end_ns
        seconds = max(1.0, (until_ns - self.trouble.start_ns) / S)
        lost = sum(each.lost_gpu_s for each in symptoms) * one.candidate.explains / seconds
        loss = Loss(gpus, lost, self.trouble.end_ns is None)
        pieces = [each.piece for each in one.candidate.told]
        dead = bool(deaths(pieces))
        proposed = _advised(pieces) or one.candidate.rule.action
        return remedy(proposed, of, self.trouble.worst.kind, loss, dead=dead)


def _advised(pieces: Sequence[Piece]) -> ActionKind | None:
    """What the catalogue advises for the most telling code among the evidence; None: it names none."""
    known = (advised(each.face.what, each.face.code) for each in pieces if each.face.table == "event")
    found = [each.action for each in known if each is not None and each.suspect is not Suspect.FOLLOWS]
    return next((each for each in found if each is not ActionKind.NONE), None)


def _is_of(entity: str, jobs: set[str]) -> bool:
    """Whether a tenant with these jobs may see it: the infrastructure, or what is of a job of theirs."""
    kind, name = EntityId.of(entity)
    if kind == "job":
        return name in jobs
    return kind not in ("rank", "comm") or name.rpartition("/")[0] in jobs


def id_of(trouble: Trouble, provider: str) -> str:
    """Id of a new incident: what was affected first, its symptom, and when: `bert-7-slow-20261122T170102Z`.

    Every tenant that suffers reads it, also one that joins later, and none may learn the names of another's jobs. So
    where anybody but the provider suffers, there is a number in place of the name: `job-9f86d081-slow-...`.
    """
    first = trouble.first
    seconds = min(max(first.start_ns // S, 0), STAMP_MAX_S)
    kind, name = EntityId.of(first.entity)
    name = name or first.entity
    if any(each.tenant != provider for each in trouble.symptoms):
        whole = f"{first.tenant}\0{first.entity}".encode()
        name = f"{kind}-{blake2b(whole, digest_size=4).hexdigest()}"
    return f"{name}-{first.kind.value}-{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%SZ}"
