"""Why an incident does not alert: somebody planned the disturbance (maintenance, drain, preemption)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from leadline.model.incidents import Suppressed
from leadline.model.units import S

# How long an order holds that tells no end, because a forgotten one must not hide incidents for ever: half a shift for
# people's, ten minutes for a scheduler's, which takes jobs away at once. Source: judgement.
HOLDS_NS = {
    Suppressed.MAINTENANCE: 4 * 3600 * S,
    Suppressed.DRAIN: 4 * 3600 * S,
    Suppressed.PREEMPTION: 600 * S,
}
OF_KIND = {each.value: each for each in HOLDS_NS}
ENDS = {f"{each.value}-end": each for each in HOLDS_NS} | {"host-ready": Suppressed.MAINTENANCE}
UNTIL = "until_ns"  # attribute of such an event
# an order may be told a little after its effect is seen: the schedulers' own delay. Source: judgement.
EARLY_NS = 5 * S


@dataclass(frozen=True, slots=True)
class Order:
    """What an operator or a scheduler asked for, of one entity."""

    why: Suppressed
    entity: str
    from_ns: int
    to_ns: int

    def covers(self, time_ns: int) -> bool:
        """Whether what began at that time may come of it."""
        return self.from_ns - EARLY_NS <= time_ns < self.to_ns


def orders(events: Iterable[Mapping[str, object]]) -> list[Order]:
    """Orders from rows of `event` (kinds maintenance, drain, preemption, and KIND-end or host-ready).

    One holds until the attribute `until_ns`, until its end is told, or as long as `HOLDS_NS`, whichever is first.
    """
    rows = sorted(events, key=lambda row: (int(str(row["time_ns"])), str(row["entity"]), str(row["kind"])))
    found: list[Order] = []
    for place, row in enumerate(rows):
        why = OF_KIND.get(str(row["kind"]))
        if why is None:
            continue
        from_ns, entity = int(str(row["time_ns"])), str(row["entity"])
        ends_ns = [from_ns + HOLDS_NS[why], *_until(row)]
        ends_ns += [
            int(str(later["time_ns"]))
            for later in rows[place + 1 :]
            if str(later["entity"]) == entity and ENDS.get(str(later["kind"])) is why
        ]
        found.append(Order(why, entity, from_ns, min(ends_ns)))
    return found


def suppressed(asked: Iterable[Order], entities: Set[str], start_ns: int) -> Suppressed | None:
    """Why what began at `start_ns` does not alert. `entities`: who has the symptom, the cause, what these stand on.

    Of several orders the one that was given last.
    """
    holding = [each for each in asked if each.entity in entities and each.covers(start_ns)]
    return max(holding, key=lambda each: (each.from_ns, each.why)).why if holding else None


def _until(row: Mapping[str, object]) -> list[int]:
    given = row.get("attributes")
    pairs = given.items() if isinstance(given, Mapping) else given if isinstance(given, list) else ()
    return [int(str(value)) for key, value in pairs if key == UNTIL and str(value).isdecimal()]
