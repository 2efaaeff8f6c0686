"""What sources say that they need: declared by each, tried for real, and told where it is refused."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.host.conftest import AnsweringDouble, site_with

from leadline.analysis.cause.rules import BY_NAME
from leadline.host import permissions
from leadline.host.agent import Agent
from leadline.host.found import Found
from leadline.host.main import _permissions
from leadline.host.permissions import CAPABILITIES, answer, capabilities, tries
from leadline.host.sources import SOURCES
from leadline.host.sources.access import Access, Grant, Outcome, UntriedError, tried
from leadline.host.sources.kmsg import Kmsg
from leadline.host.sources.proc import Proc
from leadline.host.sources.ranks import Ranks
from leadline.host.sources.ring import Ring
from leadline.host.sources.source import Source
from leadline.model.errors import WorldError

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
ACCESSES = [(kind, access) for kind in SOURCES for access in kind.accesses]


@pytest.mark.parametrize("kind", SOURCES, ids=lambda kind: kind.name)
def test_every_source_declares_what_it_reads_and_what_is_lost_without(kind: type[Source]) -> None:
    assert kind.reports
    assert kind.told_as
    assert kind.accesses
    for access in kind.accesses:
        assert access.lost
        assert not access.lost.endswith(".")
        assert access.grant.for_service(), f"{access.what}: nobody knows how to grant it"
        assert set(access.causes) <= BY_NAME.keys(), f"{access.what}: no such cause"


def test_names_of_accesses_are_unique() -> None:
    names = [access.what for _, access in ACCESSES]
    assert len(set(names)) == len(names)


def test_what_is_asked_for_is_what_unit_and_chart_give() -> None:
    """A capability that the docs ask for and the packages withhold would be no advice."""
    unit = (ROOT / "deploy/systemd/leadline-agent.service").read_text()
    bounds = set(re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)[1].split())  # type: ignore[index]
    chart = yaml.safe_load((ROOT / "deploy/helm/leadline/values.yaml").read_text())["agent"]["capabilities"]
    for _, access in ACCESSES:
        grant = access.grant
        if grant.capability:
            assert grant.capability in CAPABILITIES
            assert grant.capability in bounds, access.what
            if not grant.pod:
                assert grant.capability.removeprefix("CAP_") in chart, access.what


def outcome(kind: type[Source], what: str, **config: Any) -> tuple[Outcome, str]:
    """How one access ends in this process."""
    access = next(each for each in kind.accesses if each.what == what)
    one = tried(kind.name, access, site_with(**config))
    return one.outcome, one.found


def as_nobody(tmp_path: Path, *arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What `--permissions` says as a user without any right, by source and access."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user (CAP_SETUID)")
    os.chmod(tmp_path, 0o755)
    for parent in tmp_path.parents:
        if "pytest-of-" in str(parent) and parent.stat().st_uid == os.geteuid():
            os.chmod(parent, parent.stat().st_mode | 0o011)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "leadline.host.main", "--permissions", *arguments],
            user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, timeout=60, check=False,
            cwd=tmp_path, env={name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")},
        )  # fmt: skip
    except PermissionError:  # a home of root's that nobody else may enter
        pytest.skip("the user nobody may not run this Python")
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert (found["uid"], found["capabilities"]) == (NOBODY, [])
    assert done.returncode == (found["state"] == "warning")
    return {(each["source"], each["reads"]): each for each in found["accesses"]}


def test_files_are_opened_not_guessed(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    assert outcome(Kmsg, "kernel log", kmsg=log)[0] is Outcome.ABSENT
    log.write_bytes(b"6,1,5,-;hello\n")
    assert outcome(Kmsg, "kernel log", kmsg=log) == (Outcome.OK, str(log))
    assert outcome(Kmsg, "kernel log", kmsg=Path("/dev/null"))[0] is Outcome.REFUSED  # as in a container
    log.chmod(0o600)
    refused = as_nobody(tmp_path, "--kmsg", str(log))["kmsg", "kernel log"]
    assert (refused["outcome"], refused["found"]) == ("refused", f"{log}: Permission denied")
    assert "CAP_SYSLOG" in refused["service"]
    assert "agent.privileged=true" in refused["pod"]
    assert "gpu-memory" in refused["causes"]
    log.chmod(0o644)
    opened = as_nobody(tmp_path, "--kmsg", str(log))["kmsg", "kernel log"]
    assert (opened["outcome"], opened["lost"], opened["service"], opened["causes"]) == ("ok", "", "", [])


def test_rings_of_other_users_are_opened(tmp_path: Path) -> None:
    rings = tmp_path / "rings"
    rings.mkdir(mode=0o1777)
    rings.chmod(0o1777)
    assert outcome(Ring, "rings of other users' jobs", ring_dir=rings)[0] is Outcome.UNTRIED
    ring = rings / "bert-1-0.ring"
    ring.write_bytes(b"")
    ring.chmod(0o640)
    assert outcome(Ring, "rings of other users' jobs", ring_dir=rings)[0] is Outcome.UNTRIED  # one's own says nothing
    found = as_nobody(tmp_path, "--ring-dir", str(rings))
    assert found["ring", "rings of other users' jobs"]["outcome"] == "refused"
    assert "bert-1-0.ring: Permission denied" in found["ring", "rings of other users' jobs"]["found"]
    assert found["ring", "directory of event rings"]["outcome"] == "ok"
    ring.chmod(0o644)
    assert as_nobody(tmp_path, "--ring-dir", str(rings))["ring", "rings of other users' jobs"]["outcome"] == "ok"
    rings.chmod(0o755)
    closed = as_nobody(tmp_path, "--ring-dir", str(rings))["ring", "directory of event rings"]
    assert closed["outcome"] == "refused"
    assert "cannot be written to" in closed["found"]


def test_processes_of_other_users_are_read(tmp_path: Path) -> None:
    found = as_nobody(tmp_path)
    io = found["ranks", "bytes read and written by other users' processes"]
    assert (io["outcome"], io["found"].rpartition(": ")[2]) == ("refused", "Permission denied")
    assert found["link", "link messages (netlink)"]["outcome"] == "ok"  # netlink asks for no right
    assert found["nic", "counters of interfaces (netlink)"]["outcome"] in ("ok", "absent")


def test_a_tree_in_place_of_proc(tmp_path: Path) -> None:
    """hidepid, a container's own processes, and a kernel that does not measure pressure."""
    own = tmp_path / "self" / "ns"
    own.mkdir(parents=True)
    (own / "pid").symlink_to("pid:[4026532999]")
    refused = outcome(Ranks, "processes of the host", proc_root=tmp_path)
    assert refused == (Outcome.REFUSED, "this process has a process namespace of its own and sees 0 processes in it")
    (own / "pid").unlink()
    (own / "pid").symlink_to("pid:[4026531836]")
    assert outcome(Ranks, "processes of the host", proc_root=tmp_path) == (
        Outcome.REFUSED, "/proc is mounted with hidepid: it shows nobody else's processes",
    )  # fmt: skip
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "status").write_text(f"Name:\tx\nUid:\t{os.geteuid() + 1}\t1\t1\t1\nVmSize:\t 4 kB\n")
    assert outcome(Ranks, "processes of the host", proc_root=tmp_path) == (Outcome.OK, "1 processes")
    missing = outcome(Proc, "pressure (PSI)", proc_root=tmp_path)
    assert missing == (Outcome.ABSENT, f"{tmp_path}/pressure/cpu: No such file or directory")


class Refused(Source):
    """Works, and may not read all that it wants."""

    name = "refused"

    def poll(self, now_ns: int) -> Found:
        return Found()


def _refuse(_: object) -> str:
    raise PermissionError("not you")


def _nowhere(_: object) -> str:
    raise WorldError("no such thing here")


def _nothing(_: object) -> str:
    raise UntriedError("nobody runs")


GRANT = Grant("CAP_SYSLOG", pod="agent.privileged=true")
Refused.accesses = (
    Access("a door", _refuse, "nobody comes in", GRANT, ("killed",)),
    Access("a tower", _nowhere, "nobody looks out", GRANT),
    Access("a guest", _nothing, "nobody visits", GRANT),
    Access("a floor", lambda _: "wood", "all fall", GRANT),
)


def test_outcomes_and_what_they_are_worth() -> None:
    found = answer(site_with(), (Refused,))
    assert [(each["reads"], each["outcome"], each["found"]) for each in found["accesses"]] == [
        ("a door", "refused", "not you"), ("a tower", "absent", "no such thing here"),
        ("a guest", "untried", "nobody runs"), ("a floor", "ok", "wood"),
    ]  # fmt: skip
    assert found["state"] == "warning"
    assert answer(site_with(sources=["nic"]), (Refused,))["accesses"] == []  # what the agent does not run
    Spared = type("Spared", (Refused,), {"accesses": Refused.accesses[1:]})
    assert answer(site_with(), (Spared,))["state"] == "ok"  # what a host does not have is no fault


def test_a_driver_that_does_not_answer_is_told_and_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "OPEN_S", 0.05)
    lets_go = threading.Event()

    class Hanging(Source):
        name = "hanging"
        accesses = (
            Access("a mount", lambda _: str(lets_go.wait(10)), "files", GRANT),
            Access("behind it", lambda _: "never asked", "more", GRANT),
        )

    found = tries(site_with(), (Hanging, Refused))
    lets_go.set()
    assert [each.outcome for each in found[:2]] == [Outcome.HANGS, Outcome.HANGS]
    assert found[2].outcome is Outcome.REFUSED


def test_the_agent_says_so_once_in_its_log(
    answering: AnsweringDouble,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permissions, "capabilities", list)
    site = site_with(server=answering.url, spool=tmp_path, interval_s=0.1)
    agent = Agent(site.config, site)
    agent.open((Refused,))
    with caplog.at_level(logging.WARNING, "leadline.agent"):
        agent.start()
        for told in [each for each in threading.enumerate() if each.name == "permissions"]:  # unless it is done
            told.join(10)
    agent.close()
    (line,) = [each.getMessage() for each in caplog.records if "a door" in each.getMessage()]
    assert line == (
        "source refused: a door: not you. Without it: nobody comes in. Do: on the host: CAP_SYSLOG: run the agent as "
        "root and keep it in CapabilityBoundingSet, or set AmbientCapabilities=CAP_SYSLOG in its unit; in Kubernetes: "
        "agent.privileged=true"
    )
    assert not any("a tower" in each.getMessage() for each in caplog.records)


def test_who_has_the_capability_is_not_told_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "capabilities", lambda: ["CAP_SYSLOG"])
    door, tower, *_ = answer(site_with(), (Refused,))["accesses"]
    assert door["service"] == "CAP_SYSLOG is held already: a security module or a user namespace refuses"
    assert tower["service"].startswith("CAP_SYSLOG: run the agent as root")  # absent: it was not refused


def test_root_reads_another_user_s_process() -> None:
    """Where nobody else runs a process, one is started: the first process says nothing of others."""
    if "CAP_SYS_PTRACE" not in capabilities() or os.geteuid() != 0:
        pytest.skip("needs root with CAP_SYS_PTRACE")
    assert outcome(Ranks, "bytes read and written by other users' processes")[0] is Outcome.OK


def test_capabilities_are_those_of_the_kernel() -> None:
    said = subprocess.run(
        ["grep", "CapEff", f"/proc/{os.getpid()}/status"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert capabilities() == [name for name, bit in CAPABILITIES.items() if int(said, 16) & (1 << bit)]


def test_the_agent_prints_it_for_a_pod(capsys: pytest.CaptureFixture[str]) -> None:
    site = site_with()
    code = _permissions(site.config)
    found = json.loads(capsys.readouterr().out)
    assert code == {"ok": 0, "warning": 1}[found["state"]]
    assert {each["source"] for each in found["accesses"]} == {kind.name for kind in SOURCES}


@pytest.mark.parametrize("kind", [each for each in SOURCES if each.name in ("nic", "proc")], ids=lambda kind: kind.name)
def test_sources_send_what_they_say_they_send(kind: type[Source]) -> None:
    """What a source of the host learns to send comes twice beside node_exporter, until `as_node_exporter` names it."""
    named = re.compile("|".join(kind.as_node_exporter))
    names = {each.stream.name for each in kind(site_with()).poll(1).samples}
    assert len(names) > 5
    assert [name for name in sorted(names) if not named.fullmatch(name)] == []
