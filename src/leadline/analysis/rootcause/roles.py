"""What a metric says, whatever its name is: its role. Two methods need few of them, and each has a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from leadline.model.errors import UsageError


class Role(StrEnum):
    """What a metric says of an entity, or of a relation. Up is bad, but for `REQUESTS`, which is an amount."""

    LATENCY = "latency"  # s; how long a request to the entity takes
    WAITING = "waiting"  # s; how long the entity waits for others, a request
    FAILED = "failed"  # share of the requests to the entity that failed, 0 to 1
    REQUESTS = "requests"  # to the entity, per interval or per second
    USE = "use"  # share of a resource in use, 0 to 1: processor, memory, disk, link; several are fine
    CALLER_LATENCY = "caller-latency"  # s; of a relation, as `entity` sees it
    CALLEE_LATENCY = "callee-latency"  # s; the same requests as `to` sees them: the rest is the way there


NAMES: Mapping[str, Role] = {
    "latency_s": Role.LATENCY,
    "waiting_s": Role.WAITING,
    "failed_ratio": Role.FAILED,
    "requests": Role.REQUESTS,
    "caller_latency_s": Role.CALLER_LATENCY,
    "callee_latency_s": Role.CALLEE_LATENCY,
}
"""Names that need no assignment; and every name that ends in `USE_SUFFIX` is a use."""
USE_SUFFIX = "_use_ratio"


def roles(metrics: Sequence[str], assigned: Mapping[str, Role]) -> dict[Role, list[str]]:
    """The metrics of each role, in the order given. `assigned` (name to role) overrides what names say.

    Errors: UsageError if an assigned name is none of the metrics, or two metrics have a role that only one can have.
    """
    for name in assigned:
        if name not in metrics:
            raise UsageError(f"no metric is called {name!r}; there are {', '.join(metrics)}")
    found: dict[Role, list[str]] = {}
    for name in metrics:
        role = assigned.get(name, _named_role(name, assigned))
        if role is not None:
            found.setdefault(role, []).append(name)
    for role, names in found.items():
        if role is not Role.USE and len(names) > 1:
            raise UsageError(f"one metric can have the role {role}, got {' and '.join(names)}")
    return found


def _named_role(name: str, assigned: Mapping[str, Role]) -> Role | None:
    """What the name says, unless the role was assigned to another metric."""
    if name.endswith(USE_SUFFIX):
        return Role.USE
    role = NAMES.get(name)
    return None if role in assigned.values() else role
