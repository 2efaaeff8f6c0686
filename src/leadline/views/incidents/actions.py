"""What to do about a cause: for each action of the fixed list one sentence, and commands to copy. Leadline runs none.

Commands are for Slurm, Kubernetes and plain Linux, whose names of jobs and nodes may differ from ours, so each is to be
read before it is run. Names come from telemetry, that is from anybody: one that is not a plain word never becomes part
of a command, and a command whose object we cannot name is left out. What the reader fills in stands in capitals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from leadline.model.ids import EntityId
from leadline.model.incidents import FLAPS, ActionKind, Symptom
from leadline.views.incidents.incident import Cause, Incident
from leadline.views.incidents.title import severity, title

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_EVERY = "ALL"  # Slurm takes it, in any case, for every node there is
OF_DEAD = frozenset({ActionKind.DRAIN, ActionKind.RESET_GPU, ActionKind.REPLACE_NODE, ActionKind.REBOOT_NODE})
"""Actions that are told in whole for a GPU that is dead: each alone is half of what is to be done."""
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
                                 ("scontrol requeue JOBID  # get JOBID from squeue --name={job}",)),
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
    ActionKind.REROUTE: ToDo("Route around {entity}.", ("leadline show flows {job} --at {at_ns}",)),
    ActionKind.PACE: ToDo("Slow down the other traffic on the links of {job}: {entity}.",
                          ("leadline show flows {job} --at {at_ns}",)),
    ActionKind.CONTACT_SUPPORT: ToDo("Ask who looks after {entity}, or its vendor, with a recording of the incident.",
                                     ("leadline record --from {from_ns} --to {to_ns} incident.leadline",)),
}  # fmt: skip


_DEAD = ToDo(
    "{code}: let no new job onto {host}, and move those that are there; then reset {entity}, or reboot {host}. What "
    "fails again is to be replaced (RMA). Start {job} again elsewhere.",
    (*_DRAIN, *PATTERNS[ActionKind.RESET_GPU].commands, *PATTERNS[ActionKind.REBOOT_NODE].commands,
     *PATTERNS[ActionKind.RESTART_APP].commands),
)  # fmt: skip
"""Of a GPU that is dead until it is reset: NVIDIA's GPU Debug Guidelines drain first, and replace what comes back."""


OF_RULE: Mapping[str, ToDo] = {
    "telemetry-lost": ToDo(
        "Check that the agent on {entity} runs and reaches Leadline; its log has the error. Data that it buffered "
        "is analysed once it is back.",
        ("ssh {host} pgrep -af leadline", "leadline doctor"),
    ),
    "name-shared": ToDo(
        "Give each job a name of its own: LEADLINE_JOB=NAME in its environment, or torchrun --rdzv-id NAME. {job} "
        "is not analysed further while two jobs share its name.",
        (),
    ),
}  # fmt: skip
"""Of causes that no action of the list fits."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about causes of one incident that need the same. GPU-seconds: `action_cost`, `saves`."""

    action: str
    positions: tuple[int, ...]  # of the causes
    words: str
    commands: tuple[str, ...]
    action_cost: float | None  # of the action once: the jobs of an incident start again together
    saves: float | None  # in the next hour, of all these causes


def advice(incident: Incident) -> list[Advice]:
    """What to do about an incident: the same advice once, for all the parts that need it, in order of the causes."""
    alike: dict[tuple[str, str], list[Cause]] = {}
    for cause in incident.chosen:
        same = cause.rule if cause.rule in OF_RULE else cause.death.code if cause.death else ""
        alike.setdefault((cause.action, same), []).append(cause)
    found = []
    for (action, _), causes in alike.items():
        done = _done(incident, causes)
        costs = [each.action_cost for each in causes if each.action_cost is not None]
        saves = [each.saves for each in causes if each.saves is not None]
        found.append(
            Advice(
                action, tuple(each.position for each in causes), done.words, done.commands, max(costs, default=None),
                math.fsum(saves) if saves else None,
            )
        )  # fmt: skip
    return found


def to_do(incident: Incident, cause: Cause) -> ToDo:
    """What to do about a cause of an incident. An unknown action is shown by its name."""
    return _done(incident, [cause])


def _done(incident: Incident, causes: Sequence[Cause]) -> ToDo:
    """What to do about causes that need the same."""
    first = causes[0]
    if first.action not in PATTERNS:
        return ToDo(f"{first.action} of {_several([each.entity for each in causes])}.", ())
    dead = first.death if first.action in OF_DEAD else None
    pattern = OF_RULE.get(first.rule) or (PATTERNS[first.action] if dead is None else _DEAD)
    hosts = [(each.host or "").removeprefix("host:") for each in causes]
    called = _several([each.name or each.entity for each in causes])
    words = pattern.words.format(
        entity=called, code=dead.words if dead else "",
        host=_several(hosts) if all(hosts) else f"the host of {called}",
        job=incident.job or "the job", why=_why_not(incident),
    )  # fmt: skip
    if (not incident.open or incident.ended_with_ns is not None) and first.action != ActionKind.NONE:
        words = f"{_recovered(incident, causes)} {_lowered(words)}"
    commands = [each for pattern in pattern.commands for each in _each_host(pattern, incident, causes)]
    return ToDo(words, tuple(commands))


def _each_host(pattern: str, incident: Incident, causes: Sequence[Cause]) -> list[str]:
    """A command for each cause, each once: two GPUs of one host are drained together."""
    found: dict[str, None] = {}
    for cause in causes:
        names = _names(incident, cause)
        if _wanted(pattern) <= names.keys():
            found[pattern.format_map(names)] = None
    return list(found)


def _names(incident: Incident, cause: Cause) -> dict[str, str]:
    """What commands may name: plain words only."""
    host, job = (cause.host or "").removeprefix("host:"), incident.job or ""
    kind, name = EntityId.of(cause.entity)
    names = {
        "host": host, "job": job, "gpu": name if kind == "gpu" else "", "port": _port(kind, name, host),
        "from_ns": str(incident.start_ns - RECORD_BEFORE_NS), "at_ns": str(incident.end_ns or incident.seen_ns),
        "to_ns": str((incident.end_ns or incident.seen_ns) + RECORD_AFTER_NS),
    }  # fmt: skip
    known = {each: value for each, value in names.items() if _is_plain(value)}
    known["reason"] = f"leadline {incident.incident}" if _is_plain(incident.incident) else "leadline"
    return known


def _several(names: Sequence[str]) -> str:
    """`h84 and h87`, each once."""
    each = list(dict.fromkeys(names))
    return each[0] if len(each) == 1 else f"{', '.join(each[:-1])} and {each[-1]}"


def _recovered(incident: Incident, causes: Sequence[Cause]) -> str:
    """`Nothing to do now: it recovered by itself at 20:21:41Z after 5 flaps. If it returns:`."""
    if incident.ended_with_ns is not None:
        at = _clock(incident.ended_with_ns)
        return f"{incident.job or 'The job'} ended at {at} while it lasted. Before the next run:"
    if incident.unwatched:
        return "Its end was not seen. If it lasts:"
    at = f" at {_clock(incident.end_ns)}" if incident.end_ns is not None else ""
    if incident.symptom == Symptom.CRASH:
        return f"Over since{at.removeprefix(' at') or ' then'}. Unless that was done:"
    flaps = max((each.times for cause in causes for each in cause.evidence if each.what in FLAPS), default=0)
    after = f" after {flaps} flaps" if flaps > 1 else ""
    return f"Nothing to do now: it recovered by itself{at}{after}. If it returns:"


def _clock(time_ns: int) -> str:
    """The time of day in UTC; the number where it is no time."""
    try:
        return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(time_ns)


def _lowered(sentence: str) -> str:
    return sentence if sentence[:2].isupper() else sentence[:1].lower() + sentence[1:]


def _is_plain(name: str) -> bool:
    return _PLAIN.fullmatch(name) is not None and name.upper() != _EVERY


def _wanted(command: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", command))


def _port(kind: str, name: str, host: str) -> str:
    """The NIC port on the host: of a port, or of the end of a link that is there; empty where there is none."""
    ends = [end.partition("/") for end in name.split("~")] if kind in ("port", "link") else []
    return next((port for node, _, port in ends if node == host), "")


def _why_not(incident: Incident) -> str:
    if incident.ended_with_ns is not None:
        return f"its job ended at {_clock(incident.ended_with_ns)}"
    if incident.open:
        return "acting would cost more than it saves in the next hour"
    return f"it recovered by itself at {_clock(incident.end_ns)}" if incident.end_ns is not None else "it is over"


def incident_json(incident: Incident) -> dict[str, Any]:
    """An incident as the API gives it, with what to do about it and about each of its causes."""

    def caused(cause: Cause) -> dict[str, Any]:
        return {**cause.as_json(), "todo": asdict(to_do(incident, cause))}

    derived = {
        "title": title(incident), "severity": severity(incident.symptom), "unwatched": incident.unwatched,
        "held": incident.held, "over_ns": incident.over_ns,
    }  # fmt: skip
    return {
        **asdict(incident), **derived,
        "advice": [asdict(each) for each in advice(incident)],
        "causes": [caused(cause) for cause in incident.chosen],
        "considered": [caused(cause) for cause in incident.considered],
    }  # fmt: skip
