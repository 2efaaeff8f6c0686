"""What to do about a cause: for each action of the fixed list one sentence, and commands to copy. Leadline runs none.

Commands are for Slurm, Kubernetes and plain Linux, whose names of jobs and nodes may differ from ours, so each is to be
read before it is run. Names come from telemetry, that is from anybody: one that is not a plain word never becomes part
of a command, and a command whose object we cannot name is left out. What the reader fills in stands in capitals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leadline.model.incidents import ActionKind

if TYPE_CHECKING:
    from leadline.server.incidents_view import Cause, Incident

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_EVERY = "ALL"  # Slurm takes it, in any case, for every node there is
RECORD_BEFORE_NS, RECORD_AFTER_NS = 120 * 10**9, 60 * 10**9


@dataclass(frozen=True, slots=True)
class ToDo:
    """What to do. `commands`: none where it is not a matter of a command, or where we cannot name its objects."""

    words: str
    commands: tuple[str, ...]


_DRAIN = (
    'scontrol update NodeName={host} State=DRAIN Reason="{reason}"',
    "kubectl drain {host} --ignore-daemonsets --delete-emptydir-data",
)
PATTERNS: Mapping[str, ToDo] = {
    ActionKind.NONE: ToDo("Nothing to do about {entity} now: {why}.", ()),
    ActionKind.RESTART_APP: ToDo("Start {job} again from its last checkpoint.",
                                 ("scontrol requeue JOBID  # squeue --name={job} tells JOBID",)),
    ActionKind.RESET_GPU: ToDo("Stop what runs on {entity}, then reset it.",
                               ("ssh {host} sudo nvidia-smi --gpu-reset --id={gpu}",)),
    ActionKind.REBOOT_NODE: ToDo("Reboot {host} as soon as no job is on it.",
                                 ('scontrol reboot ASAP nextstate=RESUME reason="{reason}" {host}',)),
    ActionKind.CHECK_CABLE: ToDo("Check cable and transceiver of {entity} at both ends: clean, reseat, then swap.",
                                 ("ssh {host} 'ethtool {port}; sudo ethtool --module-info {port}'",)),
    ActionKind.DRAIN: ToDo("Let no new job onto {host}, and move those that are there.", _DRAIN),
    ActionKind.REPLACE_NODE: ToDo("Take {host} out for repair, and start {job} again on a spare.", _DRAIN),
    ActionKind.QUARANTINE: ToDo("Take {host} out, and keep it out until it has passed its tests.", _DRAIN),
    ActionKind.AVOID: ToDo("Keep {job} and jobs like it off {host}; others may stay.",
                           ("sbatch --exclude={host} JOB.sh",)),
    ActionKind.REBALANCE: ToDo("Spread the work of {job} evenly over its ranks: batches, sequences, stages, loaders.",
                               ("leadline show ledger {job}",)),
    ActionKind.RESIZE: ToDo("Go on with {job} on fewer ranks, without {host}.",
                            ("sbatch --exclude={host} --nodes=N JOB.sh",)),
    ActionKind.REROUTE: ToDo("Route around {entity}.", ("leadline show flows {job}",)),
    ActionKind.PACE: ToDo("Slow down the other traffic on the links of {job}: {entity}.",
                          ("leadline show flows {job}",)),
    ActionKind.CONTACT_SUPPORT: ToDo("Ask who looks after {entity}, or its vendor, with a recording of the incident.",
                                     ("leadline record --from {from_ns} --to {to_ns} incident.leadline",)),
}  # fmt: skip


def to_do(incident: Incident, cause: Cause) -> ToDo:
    """What to do about a cause of an incident. An action that nobody knows is told by its name."""
    if cause.action not in PATTERNS:
        return ToDo(f"{cause.action} of {cause.entity}.", ())
    pattern = PATTERNS[cause.action]
    host, job = (cause.host or "").removeprefix("host:"), incident.job or ""
    words = pattern.words.format(
        entity=cause.entity, host=host or f"the host of {cause.entity}", job=job or "the job", why=_why_not(incident)
    )
    kind, _, name = cause.entity.partition(":")
    names = {
        "host": host, "job": job, "gpu": name if kind == "gpu" else "", "port": _port(kind, name, host),
        "from_ns": str(incident.start_ns - RECORD_BEFORE_NS),
        "to_ns": str((incident.end_ns or incident.seen_ns) + RECORD_AFTER_NS),
    }  # fmt: skip
    known = {each: value for each, value in names.items() if _is_plain(value)}
    known["reason"] = f"leadline {incident.incident}" if _is_plain(incident.incident) else "leadline"
    return ToDo(words, tuple(each.format_map(known) for each in pattern.commands if _wanted(each) <= known.keys()))


def _is_plain(name: str) -> bool:
    return _PLAIN.fullmatch(name) is not None and name.upper() != _EVERY


def _wanted(command: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", command))


def _port(kind: str, name: str, host: str) -> str:
    """The NIC port on the host: of a port, or of the end of a link that is there; empty where there is none."""
    ends = [end.partition("/") for end in name.split("~")] if kind in ("port", "link") else []
    return next((port for node, _, port in ends if node == host), "")


def _why_not(incident: Incident) -> str:
    return "acting would cost more than it saves in the next hour" if incident.open else "it is over"
