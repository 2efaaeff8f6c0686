"""Routers that answer traces and are in no inventory: what probes see of them is laid on no switch."""

from __future__ import annotations

from leadline.model.principal import OPERATE
from leadline.model.tables.fabric import PROBE_HOP, RELATION
from leadline.model.units import S
from leadline.store import Store
from leadline.store.asking.behind import Behind
from leadline.views.asked import Asked
from leadline.views.mesh.windows import rows_of
from leadline.views.sources import WARNING, Finding

TRACED_NS = 300 * S  # as far back as `localise` takes a trace for true
KEPT_NS = 60 * S  # an answer of `doctor` stands so long: an inventory changes by hand
ROUTERS_MAX = 100_000  # addresses that are asked for: ports of the largest fabrics. Source: bound
NAMED = 3  # addresses that are told by name


class Routers:
    """Looks for them, and keeps for a minute what was found. Thread-safe."""

    def __init__(self) -> None:
        self._kept: Behind[tuple[int, list[Finding]]] = Behind("routers")

    def findings(self, store: Store, asked: Asked, wait_s: float | None = None) -> list[Finding]:
        """What `leadline doctor` says of them to the operator; what it said last where the store takes longer than
        `wait_s`. Errors: StoreError."""
        if not asked.principal.may(OPERATE):
            return []
        held = self._kept.value
        if held is None or not 0 <= asked.at_ns - held[0] < KEPT_NS:
            held = self._kept.told(lambda: (asked.at_ns, finding_of(*unplaced_routers(store, asked))), wait_s).value
        return held[1] if held else []


def finding_of(answered: int, unplaced: list[str]) -> list[Finding]:
    """What to say of routers that are in no inventory, and what to do."""
    if not unplaced:
        return []
    some = ", ".join(unplaced[:NAMED]) + (f" and {len(unplaced) - NAMED} more" if len(unplaced) > NAMED else "")
    text = (
        f"{len(unplaced)} of {answered} addresses that answer the probes' traces are in no inventory ({some}): loss "
        "and queues behind them are laid on links of hosts, not on switches"
    )
    do = "Say which port of which switch has each address: relations address:ADDRESS in swport:SWITCH/PORT."
    return [{"state": WARNING, "text": text, "do": do}]


def unplaced_routers(store: Store, asked: Asked) -> tuple[int, list[str]]:
    """How many addresses answered traces of late, and those that no relation says to be in a port of a switch. Of a
    tenant none: whose switches they are is not its to tell. Errors: StoreError."""
    if not asked.principal.may(OPERATE):
        return 0, []
    owned = asked.conditions()
    lately = " AND ".join(
        [*owned, f"time_ns > {asked.at_ns - TRACED_NS}", f"time_ns <= {asked.at_ns}", "address != ''"]
    )
    answered = f"SELECT DISTINCT toString(address) AS address FROM leadline.{PROBE_HOP.name} WHERE {lately}"
    found = {row["address"] for row in rows_of(store, asked, f"{answered} LIMIT {ROUTERS_MAX}")}
    if not found:
        return 0, []
    holds = ["kind = 'in'", f"from_ns <= {asked.at_ns}", f"(isNull(to_ns) OR to_ns > {asked.at_ns - TRACED_NS})"]
    known = " AND ".join([*owned, *holds, "startsWith(child, 'address:')", "startsWith(parent, 'swport:')"])
    placed = f"SELECT DISTINCT toString(child) AS child FROM leadline.{RELATION.name} WHERE {known} LIMIT {ROUTERS_MAX}"
    found_at = {row["child"].removeprefix("address:") for row in rows_of(store, asked, placed)}
    return len(found), sorted(found - found_at)
