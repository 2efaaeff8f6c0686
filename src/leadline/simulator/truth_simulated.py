"""The truth of a simulated fleet: the lab's file, and beside the faults what was lost of telemetry and of clocks."""

from __future__ import annotations

from typing import Any

from leadline.lab.truth import Entry
from leadline.simulator.clocks import Clocks
from leadline.simulator.fleet import Fleet
from leadline.simulator.scheduler import Schedule
from leadline.simulator.spec import SimulationSpec
from leadline.simulator.targets import Befallen, ranks_of

ENTITIES_MAX = 512  # components of one fault


def components(fleet: Fleet, fault: Befallen, schedule: Schedule) -> tuple[str, ...]:
    """Entity ids of what is broken."""
    out: list[str] = []
    effect, per = fault.effect, fleet.gpus_per_host
    run = schedule.runs[fault.run] if fault.run >= 0 else None
    if effect.scope == "job" and run is not None:
        return (f"job:{run.job}",)
    if effect.layer == "gpu":
        out += [f"gpu:{fleet.gpu_names[gpu]}" for gpu in fault.gpus]
    elif effect.scope in ("rank", "stage") and run is not None:
        out += [f"rank:{run.job}/{rank}" for rank in ranks_of(fault, run, per)]
    for link in fault.links:
        out.append(str(fleet.link_names[link]))
        if link < fleet.host_links:
            out.append(f"port:{fleet.port_names[link]}")
    if effect.scope == "link" and effect.layer == "host":  # a slot is its host's as much as its card's
        out += [f"host:h{link // fleet.rails + 1}" for link in fault.links if link < fleet.host_links]
    out += [f"switch:{fleet.switch_names[switch]}" for switch in fault.switches]
    if effect.scope not in ("stage",) and effect.layer != "application":
        out += [f"host:h{host + 1}" for host in (*fault.hosts, *fault.beside)]
    if fault.storage >= 0:
        out.append(f"storage:pod{fault.storage + 1}")
    if not out and run is not None:
        out.append(f"job:{run.job}")
    return tuple(out[:ENTITIES_MAX])


def entry(fleet: Fleet, fault: Befallen, schedule: Schedule, spec: SimulationSpec) -> Entry:
    """The entry of one fault."""
    effect = fault.effect
    lasts = fault.end_s < spec.seconds
    return Entry(
        effect.name,
        components(fleet, fault, schedule),
        effect.layer,
        effect.fault_class,
        spec.start_ns + round(fault.at_s * 1e9),
        spec.start_ns + round(fault.end_s * 1e9) if lasts else None,
        round(fault.lost_gpu_seconds, 3),
        effect.harmless,
        fault.magnitude,
        {"part": fault.cause} if fault.cause else {},
        "simulated",
    )


def truth(
    fleet: Fleet, schedule: Schedule, clocks: Clocks, spec: SimulationSpec, lost: dict[str, int], told: dict[str, Any]
) -> dict[str, Any]:
    """All of it, as it stands in the file. `read_truth` reads the first three."""
    lemons = {name: [int(each) for each in places.nonzero()[0][:100_000]] for name, places in schedule.lemons.items()}
    return {
        "faults": [entry(fleet, each, schedule, spec).as_json() for each in schedule.faults],
        "seed": spec.seed,
        "scenario": "simulated-quiet" if spec.quiet else "simulated",
        "fleet": {
            "gpus": fleet.gpu_count,
            "hosts": fleet.hosts,
            "switches": fleet.switches,
            "node_days": fleet.hosts * spec.seconds / 86_400,
            "utilisation": round(schedule.utilisation, 4),
            "runs": len(schedule.runs),
            "lemons": lemons,
        },
        "telemetry": {"rows_lost": lost, "drop_share": spec.drop_share, "sampling": spec.sampling, **told},
        "clocks": {
            "host": [f"h{host + 1}" for host in range(fleet.hosts)],
            "offset_ns": clocks.offset_ns_H.tolist(),
            "drift_ppb": clocks.drift_ppb_H.tolist(),
        },
    }
