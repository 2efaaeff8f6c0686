"""What to do about a cause: a sentence for every action, and commands that hold plain names only."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest
from tests.unit.alerts.notices import one
from tests.unit.views.incidents.incident_rows import FLAP, NOW, WORKER, S

from leadline.model.incidents import ActionKind
from leadline.views.incidents.actions import PATTERNS, ToDo, advice, to_do
from leadline.views.incidents.incident import Cause

FLAPPING = one(FLAP)
TAKES_OUT = (ActionKind.DRAIN, ActionKind.QUARANTINE, ActionKind.REPLACE_NODE)
HOSTILE = (
    "$(reboot)",
    "x; rm -rf /",
    "`id`",
    "a b",
    "--all",
    "h1\nreboot",
    "h1 # ",
    "'h1'",
    "{job}",
    "ALL",
    "all",
    "h1/2",
)
ENTITIES = ("port:h3/eth0", "gpu:GPU-6", "host:h3", "job:bert-1", "link:a/1~b/2", "rank:bert-1/3", "storage:nfs")


def told(action: str, entity: str = "port:h3/eth0", host: str | None = "host:h3", **more: object) -> ToDo:
    """What to do about this cause of bert-1's incident."""
    incident = replace(FLAPPING, **more)  # type: ignore[arg-type]
    return to_do(incident, replace(incident.causes[0], action=action, entity=entity, host=host))


def test_every_action_has_one_sentence() -> None:
    assert set(PATTERNS) == set(ActionKind)
    for action in ActionKind:
        words = told(action).words
        assert re.fullmatch(r"[A-Z][^{}]*\.", words), words


@pytest.mark.parametrize(
    ("action", "commands"),
    [
        (ActionKind.RESTART_APP, ["scontrol requeue JOBID  # get JOBID from squeue --name=bert-1"]),
        (
            ActionKind.REBOOT_NODE,
            [f'scontrol reboot ASAP nextstate=RESUME reason="leadline {FLAP}" h3'],
        ),
        (ActionKind.AVOID, ["sbatch --exclude=h3 JOB.sh"]),
        (ActionKind.RESIZE, ["sbatch --exclude=h3 --nodes=N JOB.sh"]),
        (ActionKind.REBALANCE, ["leadline show ledger bert-1"]),
        (
            ActionKind.CONTACT_SUPPORT,
            [f"leadline record --from {NOW - 168 * S} --to {NOW + 60 * S} incident.leadline"],
        ),
        (ActionKind.NONE, []),
    ],
)
def test_commands_name_what_they_are_about(action: str, commands: list[str]) -> None:
    assert list(told(action).commands) == commands


@pytest.mark.parametrize("action", TAKES_OUT)
def test_a_node_is_taken_out_by_slurm_and_by_kubernetes(action: str) -> None:
    slurm, kubernetes = told(action).commands
    assert slurm == f'scontrol update NodeName=h3 State=DRAIN Reason="leadline {FLAP}"'
    assert kubernetes.startswith("kubectl drain h3 ")


@pytest.mark.parametrize(
    ("entity", "commands"),
    [
        ("port:h3/eth0", ["ssh h3 'ethtool eth0; sudo ethtool --module-info eth0'"]),
        ("link:h3/eth0~leaf1/Ethernet3", ["ssh h3 'ethtool eth0; sudo ethtool --module-info eth0'"]),
        ("link:a1/Ethernet3~h3/eth0", ["ssh h3 'ethtool eth0; sudo ethtool --module-info eth0'"]),
        ("link:leaf1/Ethernet1~spine1/Ethernet1", []),  # no end of it is on the host
        ("port:h3/eth0;reboot", []),
        ("port:h3/$(id)", []),
        ("port:h3", []),
    ],
)
def test_a_cable_is_looked_at_from_the_host_that_it_is_in(entity: str, commands: list[str]) -> None:
    assert list(told(ActionKind.CHECK_CABLE, entity).commands) == commands


def test_only_a_gpu_that_is_known_is_reset() -> None:
    assert told(ActionKind.RESET_GPU, "gpu:GPU-6", "host:h6").commands == (
        "ssh h6 sudo nvidia-smi --gpu-reset --id=GPU-6",
    )
    assert told(ActionKind.RESET_GPU, "host:h6", "host:h6").commands == ()
    assert told(ActionKind.RESET_GPU, "gpu:GPU-6", None).commands == ()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_no_plain_word_is_in_no_command(name: str) -> None:
    """Whichever name it is: of the host, of the component, of the job, of the incident."""
    found = [
        command
        for action in ActionKind
        for what in (
            told(action, host=f"host:{name}", job=name),
            told(action, entity=f"gpu:{name}", job=name, incident=name),
            told(action, entity=f"port:h3/{name}", job=name, incident=name),
        )
        for command in what.commands
    ]
    assert found, "some actions need no such name"
    for command in found:
        assert name not in command
        assert not set("$`;\n{&") & set(command)


@pytest.mark.parametrize("entity", ENTITIES)
def test_without_a_host_and_a_job_only_the_recording_can_be_named(entity: str) -> None:
    for action in ActionKind:
        found = told(action, entity, None, job=None)
        assert "None" not in found.words
        assert len(found.commands) == (action is ActionKind.CONTACT_SUPPORT)


@pytest.mark.parametrize("action", list(ActionKind))
def test_a_shell_can_read_every_command(action: str) -> None:
    for command in told(action, "gpu:GPU-6" if action == ActionKind.RESET_GPU else "port:h3/eth0").commands:
        assert len(shlex.split(command, comments=True)) >= 3


def test_a_node_is_drained_whatever_its_job_is_called() -> None:
    """An incident that is no plain word is left out of the reason; the node is what must be named."""
    slurm, _ = told(ActionKind.DRAIN, job="team a/bert", incident="team a/bert-slow-1").commands
    assert slurm == 'scontrol update NodeName=h3 State=DRAIN Reason="leadline"'


def test_to_do_nothing_says_why() -> None:
    assert told(ActionKind.NONE).words.endswith("acting would cost more than it saves in the next hour.")
    over = one(WORKER)
    done = to_do(over, replace(over.causes[0], action="NONE")).words
    assert re.fullmatch(r"Nothing to do about gpu:GPU-6 now: it recovered by itself at \d\d:\d\d:\d\dZ\.", done)


def test_advice_outlives_recovery() -> None:
    """Who opens an alert two minutes later is told what to do if it comes back, and how often it came."""
    flapped = replace(FLAPPING.causes[0].evidence[0], what="link-down", times=5)
    causes = (replace(FLAPPING.causes[0], evidence=(flapped,)), *FLAPPING.causes[1:])
    over = replace(FLAPPING, state="over", end_ns=NOW, causes=causes)
    (done,) = advice(over)
    assert re.match(
        r"Nothing to do now: it recovered by itself at \d\d:\d\d:\d\dZ after 5 flaps\. If it returns: check cable ",
        done.words,
    )
    assert done.commands == advice(FLAPPING)[0].commands
    down = replace(over, symptom="crash", causes=(replace(causes[0], action=ActionKind.RESTART_APP),))
    assert "Unless that was done: start bert-1 again" in advice(down)[0].words
    assert advice(replace(over, seen_ns=NOW + 1))[0].words.startswith("Its end was not seen.")


def test_what_lasted_until_its_job_ended_did_not_recover() -> None:
    lasted = FLAPPING.with_job_ends({"bert-1": NOW})
    assert lasted.ended_with_ns == NOW
    assert re.match(
        r"bert-1 ended at \d\d:\d\d:\d\dZ while it lasted\. Before the next run: check", advice(lasted)[0].words
    )
    over = replace(FLAPPING, state="over", end_ns=NOW - 5 * S)
    assert over.with_job_ends({"bert-1": NOW}).ended_with_ns == NOW, "the last step was its end"
    assert over.with_job_ends({"bert-1": NOW + 60 * S}) == over, "the job went on without it"
    assert over.with_job_ends({"bert-1": None}) == over, "the job runs"
    assert over.with_job_ends({}) == over
    crash = replace(FLAPPING, symptom="crash")
    assert crash.with_job_ends({"bert-1": NOW}) == crash, "its end is the incident, and its GPUs wait"
    none = replace(lasted.causes[0], action="NONE")
    assert "its job ended at" in to_do(lasted, none).words


def dead(number: int, code: str = "79") -> Cause:
    """A GPU of host h<number> with an XID."""
    piece = replace(FLAPPING.causes[0].evidence[0], table="event", what="xid", code=code)
    return replace(
        FLAPPING.causes[0], position=number - 83, entity=f"gpu:GPU-{number}", host=f"host:h{number}", rule="gpu-lost",
        action=ActionKind.DRAIN, action_cost=100.0, saves=10.0, evidence=(piece,), name=f"h{number} GPU 4",
    )  # fmt: skip


def test_parts_that_need_the_same_are_told_once_together() -> None:
    (done,) = advice(replace(FLAPPING, causes=(dead(84), dead(87))))
    assert (done.action, done.positions, done.action_cost, done.saves) == (ActionKind.DRAIN, (1, 4), 100.0, 20.0)
    assert done.words.startswith("XID 79 (GPU has fallen off the bus): let no new job onto h84 and h87,")
    assert "reset h84 GPU 4 and h87 GPU 4" in done.words
    assert "replaced (RMA)" in done.words
    for host in ("h84", "h87"):
        assert f'scontrol update NodeName={host} State=DRAIN Reason="leadline {FLAP}"' in done.commands
        assert any(each.startswith(f"kubectl drain {host} ") for each in done.commands)
    assert len(done.commands) == len(set(done.commands)) == 9
    assert len(advice(replace(FLAPPING, causes=(dead(84), dead(87, "119"))))) == 2, "another code is another advice"


def test_hosts_of_a_dead_gpu_are_drained_and_its_job_is_not_only_started_again() -> None:
    for action in (ActionKind.DRAIN, ActionKind.RESET_GPU):
        done = to_do(FLAPPING, replace(dead(84), action=action))
        assert [each.split()[0] for each in done.commands] == ["scontrol", "kubectl", "ssh", "scontrol", "scontrol"]


def test_an_action_of_a_newer_version_is_told_by_its_name() -> None:
    assert told("SING") == ToDo("SING of port:h3/eth0.", ())
    assert told("{x}").words == "{x} of port:h3/eth0."
