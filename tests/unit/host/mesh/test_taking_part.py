"""On by default: a host alone stays silent, a mesh that is there is joined, and what cannot be is told once."""

from __future__ import annotations

import json
import logging
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.host.conftest import AnsweringDouble, site_with
from tests.unit.host.mesh.test_prober import free_port

from leadline.host.config import AgentConfig
from leadline.host.main import settings
from leadline.host.mesh import clock_daemon, membership
from leadline.host.mesh.lines import Counters, Failed, Ready
from leadline.host.mesh.membership import bind_address
from leadline.host.mesh.prober import usable_program
from leadline.host.sources import mesh
from leadline.host.sources.access import Outcome, tried
from leadline.host.sources.mesh import Mesh
from leadline.model.errors import DataError, WorldError

TRACKING = (
    "C0A80001,10.0.0.9,2,1764340000.1,0.000001500,0.0000002,0.000001,-12.3,0.0,0.02,0.000200000,0.000050000,64.2,Normal"
)
PEER = {"number": 7, "host": "h2", "clock": "h2/1", "address": "127.0.0.1", "port": 9, "owned": True}


def answer(*peers: dict[str, object]) -> tuple[int, dict[str, str], bytes]:
    told = {"number": 3, "key": "00" * 16, "every_s": 10.0, "peers": list(peers)}
    return 200, {}, json.dumps(told).encode()


@pytest.fixture
def probed(answering: AnsweringDouble) -> Iterator[Mesh]:
    """A host that others can reach, at a port that is free."""
    source = Mesh(site_with(server=answering.url, mesh_address="127.0.0.1", mesh_port=free_port(), mesh_paths=1))
    yield source
    source.close()


def again(source: Mesh) -> Any:
    source._again = 0.0
    return source.poll(0)


def test_it_is_on_unless_it_is_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert AgentConfig().mesh
    assert settings([])[0].mesh
    assert not settings(["--no-mesh"])[0].mesh
    assert not Mesh.is_wanted(settings(["--no-mesh"])[0])


def test_a_host_whose_server_is_its_own_asks_nobody(
    answering: AnsweringDouble, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "leadline.agent"):
        source = Mesh(site_with(server=answering.url))
        assert not again(source).fits
        assert not again(source).fits
    assert source.pending
    assert not answering.got
    (line,) = caplog.records
    assert line.levelno == logging.INFO
    assert "is reached by loopback, where no other host is; set agent.mesh_address" in line.getMessage()


def test_a_host_without_others_starts_no_prober(probed: Mesh, answering: AnsweringDouble) -> None:
    answering.answers = [answer()]
    assert not probed.poll(0).fits
    assert probed._prober is None
    assert probed.every_s > 5, "and it is looked at no more often than the server is asked"
    assert not probed.pending


def test_a_prober_runs_while_there_is_somebody_to_probe(probed: Mesh, answering: AnsweringDouble) -> None:
    answering.answers = [answer(PEER), answer()]
    probed.poll(0)
    assert probed._prober is not None
    assert probed.every_s == mesh.REPORT_S
    again(probed)
    assert probed._prober is None


def test_a_card_without_a_clock_is_told_and_the_kernel_stamps(
    answering: AnsweringDouble, caplog: pytest.LogCaptureFixture
) -> None:
    usable_program()  # the one in Python has no other stamps than its own
    told = {"mesh_address": "127.0.0.1", "mesh_port": free_port(), "mesh_paths": 1, "mesh_nic": "lo"}
    source = Mesh(site_with(server=answering.url, **told))
    answering.answers = [answer(PEER)]
    with caplog.at_level(logging.WARNING, "leadline.agent"):
        try:
            source.poll(0)
            end = time.monotonic() + 20
            while not source._base_ns and time.monotonic() < end:  # its first word but for this
                time.sleep(0.05)
        finally:
            source.close()
    (line,) = [each.getMessage() for each in caplog.records]
    assert line == "prober: it expected a NIC with a clock of its own, and lo has none"


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (404, "is older than this agent and knows no mesh"),
        (403, "does not let this agent's token join"),
        (400, "400 no"),
    ],
)
def test_a_server_that_does_not_want_us_is_told(
    probed: Mesh, answering: AnsweringDouble, status: int, told: str
) -> None:
    answering.answers = [(status, {}, b"no")]
    with pytest.raises(WorldError, match=told):
        probed.poll(0)
    assert probed.every_s > 50, "it is not asked each second"


def test_a_server_that_is_busy_or_away_is_asked_again_without_a_word(
    probed: Mesh, answering: AnsweringDouble, caplog: pytest.LogCaptureFixture
) -> None:
    answering.answers = [(503, {}, b"compiling")]
    assert not probed.poll(0).fits
    assert probed.pending
    answering.answers = [answer()]
    again(probed)
    assert not probed.pending
    assert not caplog.records


def test_a_port_that_is_taken_is_told_and_nobody_is_sent_there(probed: Mesh, answering: AnsweringDouble) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", probed.site.config.mesh_port))
        with pytest.raises(WorldError, match=r"UDP port \d+ is taken .*; set agent\.mesh_port"):
            probed.poll(0)
    assert not answering.got


def test_refusals_later_are_told_once_and_probing_goes_on(
    probed: Mesh, answering: AnsweringDouble, caplog: pytest.LogCaptureFixture
) -> None:
    answering.answers = [answer(PEER), (403, {}, b"revoked"), (403, {}, b"revoked")]
    probed.poll(0)
    with caplog.at_level(logging.WARNING, "leadline.agent"):
        again(probed)
        again(probed)
    assert probed._prober is not None
    assert len([each for each in caplog.records if "revoked" in each.getMessage()]) == 1


def test_a_prober_that_cannot_begin_is_told(probed: Mesh) -> None:
    probed._take(Failed("cannot begin: no"))
    with pytest.raises(WorldError, match="the prober cannot begin: no"):
        probed.poll(0)


def test_one_reading_for_a_person_joins_nothing(answering: AnsweringDouble) -> None:
    site = site_with(server=answering.url, mesh_address="127.0.0.1")
    site.looks_only = True
    assert not again(Mesh(site)).fits
    assert not answering.got


def test_an_address_that_is_not_this_host_s_own_is_probed_at_all_of_them() -> None:
    port = free_port()
    assert bind_address("127.0.0.1", port, 1) == "127.0.0.1"
    assert bind_address("192.0.2.7", port, 1) == "0.0.0.0"


def test_permissions_tell_what_keeps_a_host_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _, place, clock = Mesh.accesses
    assert tried("mesh", place, site_with()).outcome is Outcome.ABSENT
    monkeypatch.setattr(mesh, "prober_runs", lambda: False)
    port = free_port()
    site = site_with(mesh_address="127.0.0.1", mesh_port=port)
    assert tried("mesh", place, site).found == f"127.0.0.1, UDP ports {port} to {port + 1}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", port))
        assert "is taken" in tried("mesh", place, site).found
    monkeypatch.setattr(clock_daemon, "kernel_bound_ns", lambda: 12_345_000)
    assert tried("mesh", clock, site).found == "right to 12.345 ms, it says"


@pytest.mark.parametrize(
    ("script", "why"),
    [("exit 3", "expected wire 1, got ''"), ("echo leadline-prober wire 9", "got 'leadline-prober wire 9'")],
)
def test_a_prober_of_another_version_is_not_used(tmp_path: Path, script: str, why: str) -> None:
    program = tmp_path / "leadline-prober"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(WorldError, match=why):
        usable_program({"LEADLINE_PROBER": str(program)})
    with pytest.raises(WorldError, match="does not run here"):
        usable_program({"LEADLINE_PROBER": str(tmp_path)})


def test_the_bound_of_chrony_is_its_own_sum() -> None:
    assert clock_daemon.parse_tracking(TRACKING) == 1_500 + 100_000 + 50_000
    with pytest.raises(WorldError, match="not synchronised"):
        clock_daemon.parse_tracking(TRACKING.replace("Normal", "Not synchronised"))
    for wrong in ("", "a,b", TRACKING + ",x", TRACKING.replace("0.000050000", "nan")):
        with pytest.raises(DataError):
            clock_daemon.parse_tracking(wrong)


def test_a_clock_that_the_kernel_knows_nothing_of_has_the_bound_that_chrony_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def nobody() -> int:
        raise WorldError("unsynchronised")

    def chrony() -> int:
        asked.append(1)
        return 7_000

    monkeypatch.setattr(clock_daemon, "kernel_bound_ns", nobody)
    monkeypatch.setattr(clock_daemon, "chrony_bound_ns", chrony)
    daemon = clock_daemon.Daemon()
    assert [daemon.bound_ns(), daemon.bound_ns()] == [7_000, 7_000]
    assert asked == [1], "it is asked once a minute"
    assert membership.TIMEOUT_S + clock_daemon.ANSWER_S <= 2.0, "both within what the agent waits for a source"
    assert mesh._own("h1", "h1/1", 5, 6, 7_000).bound_ns == 7_000


def counters(cpu_s: float, lines_lost: int = 0, **refused: int) -> Counters:
    return Counters(1, 10, 800, 10, 800, 2, 0, 0, lines_lost, cpu_s, refused)


def test_what_the_prober_refuses_is_counted_once_and_what_it_costs_told(
    probed: Mesh, answering: AnsweringDouble
) -> None:
    answering.answers = [answer()]
    probed._take(Ready("h1", 1, 8446, 1, "kernel", 10**18))
    probed._take(counters(0.5, tag=3))
    (sample,) = probed.poll(0).samples
    assert (sample.stream.name, sample.value) == ("leadline_agent_prober_cpu_seconds_total", 0.5)
    probed._take(counters(0.75, lines_lost=2, tag=4, stranger=1, of_a_newer_prober=7))
    assert not probed.poll(0).samples, "as often as the agent tells of itself"
    probed.poll(0)
    assert probed.site.counts.all() == {
        ("agent_probe_refused", "tag"): 4, ("agent_probe_refused", "stranger"): 1, ("agent_lost", "probe_lines"): 2,
    }  # fmt: skip
    probed._take(Ready("h1", 2, 8446, 1, "kernel", 10**18))  # it began anew, and counts from 0
    probed._take(counters(0.1, tag=1))
    probed.poll(0)
    assert probed.site.counts.all()["agent_probe_refused", "tag"] == 5
