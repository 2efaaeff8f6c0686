"""What people say of causes: checked against the incident, and kept as rows of `mark`.

POST /api/v1/marks ── checked ──> mark ──> analysis `cause`: rules that are often wrong fall silent, what was
                                   └────> GET /api/v1/rules      dismissed does not alert
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.model.errors import RefusedError, UsageError
from leadline.model.incidents import Mark
from leadline.model.principal import MARK as MAY_MARK
from leadline.model.principal import Principal
from leadline.model.tables.verdicts import MARK
from leadline.store import Store
from leadline.store.schema import arrow_table
from leadline.views.asked import Asked
from leadline.views.incidents.incident import Cause, Incident
from leadline.views.incidents.view import Incidents
from leadline.views.names import no_incident
from leadline.views.rows import SCHEMA_VERSION, json_rows

MARKS_MAX = 1000  # told in one answer
_OF_WHOLE: Mapping[Mark, str] = {
    Mark.DISMISSED: "say in `reason` why the incident is dismissed: others will ask",
    Mark.COMMENT: "a comment is empty; say in `reason` what others should read",
    Mark.ASSIGNED: "",
}
"""Marks of a whole incident, and what to say where they come without a reason; empty: they need none."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """What somebody says. Empty `entity` and `rule`: of the one cause that is named."""

    incident: str
    mark: Mark
    entity: str = ""
    rule: str = ""
    reason: str = ""
    actor: str = ""  # the person's name, as the client tells it


def save_mark(store: Store, principal: Principal, feedback: Feedback, now_ns: int) -> list[dict[str, Any]]:
    """Store feedback; one row for each tenant that the incident affects and that the principal may write for.

    Returns: the rows. Errors: RefusedError("unauthorized"), ("unknown_incident"); UsageError for a cause that was not
    named, or a dismissal without a reason; StoreError.
    """
    if not principal.may(MAY_MARK):
        raise RefusedError("unauthorized", f"role {principal.role} may not mark; use a token of the role operate")
    found = Incidents(store, Asked(principal, "", now_ns)).named(feedback.incident)
    if not found:
        raise no_incident(store, Asked(principal, "", now_ns), feedback.incident)
    about = _about(found, feedback)
    said = marks_of(store, Asked(principal, "", now_ns), [feedback.incident])
    at_ns = max([now_ns, *(row["time_ns"] + 1 for row in said)])  # in a replay that ended all are said at one time
    rows = [
        {
            "tenant": one.tenant, "cluster": one.cluster, "incident": one.incident, "entity": entity, "rule": rule,
            "mark": feedback.mark.value, "actor": principal.signature(feedback.actor), "reason": feedback.reason,
            "time_ns": at_ns,
        }
        for one, entity, rule in sorted(about, key=lambda each: each[0].tenant)
    ]  # fmt: skip
    columns = {column.name: [row[column.name] for row in rows] for column in MARK.columns}
    store.append(MARK, arrow_table(MARK, columns))
    return rows


def marks_answer(store: Store, asked: Asked, incident: str) -> dict[str, Any]:
    """What `GET /api/v1/marks` says: what was said of an incident, or of all; the newest first."""
    return {"schema": SCHEMA_VERSION, "marks": marks_of(store, asked, [incident] if incident else None)}


def marks_of(store: Store, asked: Asked, incidents: Sequence[str] | None) -> list[dict[str, Any]]:
    """Rows of `mark` of these incidents, the newest first; None: of all. Errors: StoreError."""
    if incidents is not None and not incidents:
        return []
    among = [] if incidents is None else ["incident IN {incidents:Array(String)}"]
    where = " AND ".join([*asked.conditions(), *among])
    names = ", ".join(column.name for column in MARK.columns)
    condition = f"WHERE {where} " if where else ""
    sql = f"SELECT {names} FROM leadline.{MARK.name} {condition}ORDER BY time_ns DESC, actor, entity LIMIT {MARKS_MAX}"
    parameters = asked.parameters(sql) | ({} if incidents is None else {"incidents": list(incidents)})
    return json_rows(store.query(sql, parameters))


def _about(found: Sequence[Incident], feedback: Feedback) -> list[tuple[Incident, str, str]]:
    """Of each row of the incident the component and the rule that are spoken of. Errors: UsageError."""
    if feedback.mark in _OF_WHOLE:
        if feedback.entity or feedback.rule:
            raise UsageError(
                f"`{feedback.mark}` is of an incident as a whole; leave entity and rule out, or mark the cause wrong"
            )
        if (missing := _OF_WHOLE[feedback.mark]) and not feedback.reason.strip():
            raise UsageError(missing)
        return [(one, one.entity, "") for one in found]
    spoken = [(one, cause) for one in found if (cause := _named(one, feedback)) is not None]
    if not spoken:
        raise UsageError(_why_not(found, feedback))
    return [(one, cause.entity, cause.rule) for one, cause in spoken]


def _named(one: Incident, feedback: Feedback) -> Cause | None:
    """The named cause that fits, if it is the only one."""
    fitting = [each for each in one.chosen if _fits(each, feedback)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(cause: Cause, feedback: Feedback) -> bool:
    return feedback.entity in ("", cause.entity) and feedback.rule in ("", cause.rule)


def _why_not(found: Sequence[Incident], feedback: Feedback) -> str:
    one = found[0]
    named = ", ".join(f"{each.rule} at {each.entity}" for each in one.chosen)
    asked = " and ".join(part for part in (feedback.rule, feedback.entity) if part)
    if not one.chosen:
        return f"{one.incident} has no named cause, so none is {feedback.mark}; dismiss the incident if it is none"
    if len([each for each in one.chosen if _fits(each, feedback)]) > 1:
        return f"{one.incident} has several causes, {named}; say which with entity and rule"
    considered = any(_fits(each, feedback) for each in one.considered)
    if considered:
        return (
            f"{asked} was considered for {one.incident} and not named; its causes are {named}: mark that wrong, and "
            "say in `reason` what it was"
        )
    return f"{asked} is no cause of {one.incident}; its causes are {named}"
