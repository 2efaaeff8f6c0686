"""What to do, in words and as commands to copy: one entry for each action of the fixed list.

Commands are for Slurm, Kubernetes and plain Linux; a name that is not known stands in them in capitals. They are shown,
never run.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leadline.model.incidents import ActionKind


@dataclass(frozen=True, slots=True)
class Remedy:
    """What an action means, as texts with `{what}`, `{host}`, `{port}`, `{gpu}`, `{job}`, `{why}` in them."""

    words: str
    commands: tuple[str, ...] = ()


_DRAIN = (
    "scontrol update nodename={host} state=drain reason={why}",
    "kubectl cordon {host} && kubectl drain {host} --ignore-daemonsets --delete-emptydir-data",
)
REMEDIES: Mapping[ActionKind, Remedy] = {
    ActionKind.NONE: Remedy("{nothing}"),
    ActionKind.RESTART_APP: Remedy("start {job} again from its last checkpoint",
                                   ("scontrol requeue JOBID      # of {job}: squeue --name={job}",)),
    ActionKind.RESET_GPU: Remedy("take the job off {host}, then reset {what}",
                                 ("ssh {host} nvidia-smi --gpu-reset --id={gpu}",)),
    ActionKind.REBOOT_NODE: Remedy("reboot {host} as soon as no job is on it",
                                   ("scontrol reboot asap nextstate=resume reason={why} {host}",)),
    ActionKind.CHECK_CABLE: Remedy("look at cable and transceiver of {what}, at both ends; clean or replace them",
                                   ("ssh {host} 'ethtool {port}; ethtool --module-info {port}'",)),
    ActionKind.DRAIN: Remedy("let no new job onto {host}, and move those that are there", _DRAIN),
    ActionKind.REPLACE_NODE: Remedy("take {host} out and start {job} on a spare one", _DRAIN),
    ActionKind.QUARANTINE: Remedy("take {host} out and keep it out until it is tested", _DRAIN),
    ActionKind.AVOID: Remedy("keep jobs like {job} off {host}; others may stay on it",
                             ("sbatch --exclude={host} JOB.sh",)),
    ActionKind.REBALANCE: Remedy("give the ranks of {job} even work: batches, sequences, stages, loader workers",
                                 ("leadline show ledger {job}",)),
    ActionKind.RESIZE: Remedy("go on with {job} on fewer ranks, without {host}",
                              ("sbatch --exclude={host} --nodes=N JOB.sh",)),
    ActionKind.REROUTE: Remedy("lead traffic around {what}", ("leadline show flows {job}",)),
    ActionKind.PACE: Remedy("slow down the other traffic on the links of {job}: {what}",
                            ("leadline show flows {job}",)),
    ActionKind.CONTACT_SUPPORT: Remedy("ask the vendor, with a recording of the incident",
                                       ("leadline record --from {from_ns} --to {to_ns} incident.leadline",)),
}  # fmt: skip

RECORD_BEFORE_NS, RECORD_AFTER_NS = 120 * 10**9, 60 * 10**9


def what_to_do(incident: Mapping[str, Any], cause: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The action of a cause in a sentence, and the commands for it. An action that nobody knows is told by its name."""
    names = _names(incident, cause)
    if cause["action"] not in set(ActionKind):
        return str(cause["action"]), ()
    remedy = REMEDIES[ActionKind(cause["action"])]
    quoted = {name: shlex.quote(value) for name, value in names.items()}
    return remedy.words.format(**names), tuple(each.format(**quoted) for each in remedy.commands)


def _names(incident: Mapping[str, Any], cause: Mapping[str, Any]) -> dict[str, str]:
    kind, _, name = cause["entity"].partition(":")
    until_ns = incident["end_ns"] or incident["seen_ns"]
    return {
        "what": f"{kind} {name}",
        "host": (cause["host"] or "").removeprefix("host:") or "HOST",
        "port": _port(kind, name, cause["host"] or "") or "PORT",
        "gpu": name if kind == "gpu" else "GPU",
        "job": incident["job"] or "JOB",
        "nothing": "leave it for now: acting would cost more than it saves"
        if incident["state"] == "open"
        else "nothing: it is over",
        "why": f"leadline {incident['incident']} {cause['rule']}",
        "from_ns": str(incident["start_ns"] - RECORD_BEFORE_NS),
        "to_ns": str(until_ns + RECORD_AFTER_NS),
    }


def _port(kind: str, name: str, host: str) -> str:
    """The NIC's name on its host: of a port, or of the end of a link that is there."""
    ends = name.split("~") if kind in ("port", "link") else []
    mine = (end.partition("/") for end in ends)
    return next((port for node, _, port in mine if f"host:{node}" == host), "")
