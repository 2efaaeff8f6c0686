"""What to do about a cause, in words and as a command to copy. Leadline runs none of these.

Names come from telemetry, that is from anybody: one that is not a plain word never becomes part of a command.
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


@dataclass(frozen=True, slots=True)
class ToDo:
    """What to do. `command`: empty where it is not a matter of a command, or where we cannot name its objects."""

    words: str
    command: str


WORDS: Mapping[str, str] = {
    ActionKind.NONE: "Nothing to do about {entity} now: {why}.",
    ActionKind.RESTART_APP: "Start {job} again from its last checkpoint.",
    ActionKind.RESET_GPU: "Stop what runs on {entity} and reset it.",
    ActionKind.REBOOT_NODE: "Drain {host} and reboot it.",
    ActionKind.CHECK_CABLE: "Check cable and transceiver of {entity}: clean, reseat, then swap.",
    ActionKind.DRAIN: "Take {host} out of scheduling and let its jobs move.",
    ActionKind.REPLACE_NODE: "Replace {host} by a spare and send it to repair.",
    ActionKind.QUARANTINE: "Keep all jobs off {host} until it has passed its tests.",
    ActionKind.AVOID: "Keep {job} and jobs like it off {host}; others may stay.",
    ActionKind.REBALANCE: "Spread the work of {job} evenly over its ranks.",
    ActionKind.RESIZE: "Let {job} go on without {host}.",
    ActionKind.REROUTE: "Route around {entity}.",
    ActionKind.PACE: "Slow down the other traffic on the links of {job}: {entity}.",
    ActionKind.CONTACT_SUPPORT: "Ask the vendor of {entity}, with the evidence below.",
}
_COMMANDS: Mapping[str, str] = {
    ActionKind.RESTART_APP: "scontrol requeue {job}",
    ActionKind.RESET_GPU: "ssh {host} sudo nvidia-smi --gpu-reset -i {name}",
    ActionKind.REBOOT_NODE: 'scontrol reboot ASAP nextstate=RESUME reason="leadline {incident}" {host}',
    ActionKind.CHECK_CABLE: "ssh {host} sudo ethtool -m {port}",
    ActionKind.DRAIN: 'scontrol update NodeName={host} State=DRAIN Reason="leadline {incident}"',
    ActionKind.REPLACE_NODE: 'scontrol update NodeName={host} State=FAIL Reason="leadline {incident}"',
    ActionKind.QUARANTINE: 'scontrol update NodeName={host} State=DRAIN Reason="leadline {incident}"',
    ActionKind.AVOID: "sbatch --exclude={host} ...",
    ActionKind.RESIZE: "scontrol update JobName={job} ExcNodeList={host}",
}
"""By Slurm; its names of jobs and nodes may differ from ours, so each is to be read before it is run."""


def to_do(incident: Incident, cause: Cause) -> ToDo:
    """What to do about a cause of an incident."""
    kind, _, name = cause.entity.partition(":")
    host = (cause.host or "").removeprefix("host:")
    names = {
        "entity": cause.entity, "kind": kind, "name": name, "host": host, "job": incident.job or "",
        "incident": incident.incident, "port": _port(kind, name, host),
    }  # fmt: skip
    told = {**names, "host": host or f"the host of {cause.entity}", "job": incident.job or "the job",
            "why": _why_nothing(incident)}  # fmt: skip
    words = WORDS.get(cause.action, f"{cause.action} of {{entity}}.").format_map(told)
    return ToDo(words, _command(_COMMANDS.get(cause.action, ""), names))


def _port(kind: str, name: str, host: str) -> str:
    """The NIC port on the host: of a port, or of the end of a link that is there; empty where there is none."""
    ends = [end.partition("/") for end in name.split("~")] if kind in ("port", "link") else []
    return next((port for node, _, port in ends if node == host), "")


def _why_nothing(incident: Incident) -> str:
    return "acting would cost more than it saves" if incident.open else "it is over"


def _command(pattern: str, names: Mapping[str, str]) -> str:
    """The command with its names; none where one is missing or is no plain word."""
    wanted = re.findall(r"\{(\w+)\}", pattern)
    return pattern.format_map(names) if all(_PLAIN.fullmatch(names[each]) for each in wanted) else ""
