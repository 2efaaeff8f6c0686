"""What people and schedulers said, as far as it counts for a tenant: its own word, and that of who runs the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from leadline.analysis.cause.silence import counting, dismissed, silent_rules
from leadline.analysis.cause.suppression import Order, orders

Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Feedback:
    """What counts for one tenant."""

    silent: frozenset[str]  # rules that name nothing
    dismissed: frozenset[str]  # incidents
    asked: tuple[Order, ...]  # maintenance, drain, preemption


@dataclass(slots=True)
class AllFeedback:
    """Rows of `mark`, and of `event` that are orders, each with its tenant."""

    marks: Rows
    events: Rows
    provider: str  # whose orders count for all
    _known: dict[str, Feedback] = field(default_factory=dict)

    def to(self, tenant: str) -> Feedback:
        """What counts for a tenant."""
        if tenant not in self._known:
            marks = counting(self.marks, tenant)
            events = [row for row in self.events if row["tenant"] in (tenant, self.provider)]
            self._known[tenant] = Feedback(silent_rules(marks), dismissed(marks), tuple(orders(events)))
        return self._known[tenant]

    def silent_for_all(self, tenants: Iterable[str]) -> frozenset[str]:
        """Rules that are silent for each of these tenants."""
        found = [self.to(each).silent for each in sorted(set(tenants))]
        return frozenset.intersection(*found) if found else frozenset()
