"""The units of deploy/systemd: they start verbs that are there, with limits, and start them again."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from leadline.cli.verbs import VERBS
from leadline.host.config import AgentConfig
from leadline.host.main import FORCE_AFTER_S
from leadline.server.supervisor import STOP_WAIT_S

UNITS = sorted((Path(__file__).parents[3] / "deploy" / "systemd").glob("*.service"))


def settings(unit: Path) -> dict[str, str]:
    lines = [line for line in unit.read_text().splitlines() if line and not line.startswith(("#", "["))]
    names = [line.partition("=")[0] for line in lines]
    assert len(set(names)) == len(names), "a setting twice"
    return dict(line.split("=", 1) for line in lines)


def test_there_is_one_for_the_server_and_one_for_the_agent() -> None:
    assert [unit.name for unit in UNITS] == ["leadline-agent.service", "leadline.service"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_it_starts_a_verb_with_limits_and_again_for_ever(unit: Path) -> None:
    told = settings(unit)
    program, verb, *flags = shlex.split(told["ExecStart"])
    assert Path(program).name == "leadline"
    assert verb in VERBS
    assert flags == ["--config", "/etc/leadline/leadline.yaml"]
    assert told["Restart"] == "always"
    assert told["StartLimitIntervalSec"] == "0"
    assert {"MemoryMax", "LimitNOFILE", "TasksMax", "NoNewPrivileges", "ProtectSystem"} <= set(told)
    assert told["StateDirectoryMode"] == "0700"


def test_systemd_waits_longer_than_they_take_to_stop() -> None:
    agent, server = (settings(unit) for unit in UNITS)
    assert float(server["TimeoutStopSec"]) > STOP_WAIT_S
    assert float(agent["TimeoutStopSec"]) > AgentConfig().stop_s_max + FORCE_AFTER_S
