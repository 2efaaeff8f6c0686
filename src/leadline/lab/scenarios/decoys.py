"""The decoy of a fault: something harmless at the same time, elsewhere. Who blames it has not looked closely."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from leadline.lab import harmless
from leadline.lab.faults.base import Fault
from leadline.lab.running import RunningLab
from leadline.lab.scenarios.parts import PlannedFault, Scenario
from leadline.model.errors import UsageError
from leadline.model.ids import EntityId

DRAWS = 32  # of one kind of decoy, until one of them is elsewhere; on two hosts every second is


def with_decoys(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with the decoys that its faults ask for, after all that it has itself."""
    decoys = []
    for number, planned in enumerate(scenario.faults):
        if planned.with_decoy and planned.beside is None:
            kind = _kinds(planned, random.Random(f"{seed}/decoy/{number}"))[0]
            decoys.append(
                PlannedFault(
                    fault=kind(),
                    at_s=planned.at_s,
                    for_s=planned.for_s,
                    decoy=True,
                    magnitude="medium",
                    place=f"{planned.place} (with_decoy)",
                    with_decoy=not isinstance(planned.with_decoy, str),
                    beside=number,
                )
            )
    return replace(scenario, faults=(*scenario.faults, *decoys))


def elsewhere(planned: PlannedFault, befallen: Iterable[str], lab: RunningLab, rng: random.Random) -> Fault | None:
    """The decoy with everything chosen, so that it befalls no host, link or job of `befallen` (entity ids).

    Another kind of decoy where the planned one finds no such place, if any kind will do; None if none does.
    """
    taken = places(befallen, lab)
    kinds: list[Fault] = [planned.fault]
    if planned.with_decoy is True:
        kinds += [kind() for kind in _kinds(planned, rng)]
    for fault in kinds:
        for _ in range(DRAWS):
            try:
                one = fault.chosen(lab, rng)
                if not places(one.component(lab), lab) & taken:
                    return one
            except UsageError:
                break  # this topology has nothing that it could befall
    return None


def places(component: Iterable[str], lab: RunningLab) -> set[str]:
    """The hosts of what is befallen; switches and jobs where it is they. What is at a host's cable is at the host."""
    return {place for entity in component for place in _places(entity, lab)}


def _kinds(planned: PlannedFault, rng: random.Random) -> list[type[Fault]]:
    if isinstance(planned.with_decoy, str):
        return [harmless.HARMLESS_BY_NAME[planned.with_decoy]]
    return rng.sample(list(harmless.BESIDE), len(harmless.BESIDE))


def _places(entity: str, lab: RunningLab) -> list[str]:
    kind, name = EntityId.of(entity)
    topology = lab.cluster.topology
    if kind in ("port", "swport", "link"):
        link = topology.link_between(name) if kind == "link" else topology.link_of(topology.port(name))
        host = lab.host_end(link)
        return [host.node] if host is not None else [end.node for end in link.ends]
    if kind == "gpu":
        return [host.name for host in topology.hosts if name in host.gpus] or [entity]
    if kind == "rank":
        job, _, rank = name.rpartition("/")
        return [lab.rank(job, int(rank)).host]
    if kind == "service":
        return [name.rpartition("/")[2]]
    return [name] if kind in ("host", "switch", "storage") else [entity]
