"""The flags of `leadline doctor`: what the agent can read, what Prometheus needs to send.

More of `--relabel` is in tests/senders/test_relabel.py, of `--permissions` in tests/unit/host/test_permissions.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.senders.running import RunningLeadline
from tests.unit.cli.conftest import Run
from tests.unit.cli.test_analyses import words

from leadline.cli.doctor.relabel import DETECTION, LOOK_S, NOTHING, TWICE, received, rules_of
from leadline.host.sources import SOURCES
from leadline.views.metric_use import uses
from leadline.views.sizing import LIVE

NOBODY_ANSWERS = ("--server", "127.0.0.1:1")


# --- permissions --------------------------------------------------------------------------------------------------


def test_permissions_need_no_server(leadline_cli: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leadline.yaml").write_text("agent: {kmsg: none.log, host: h7}\n")  # the agent's own settings count
    ran = leadline_cli("doctor", "--permissions", *NOBODY_ANSWERS, "-o", "json")
    found = json.loads(ran.out)
    by_name = {each["reads"]: each for each in found["accesses"]}
    assert (found["host"], found["schema"]) == ("h7", 1)
    assert by_name["kernel log"]["found"] == "none.log: No such file or directory"
    assert by_name["kernel log"]["outcome"] == "absent"
    assert ran.code == {"ok": 0, "warning": 1}[found["state"]]
    assert {each["source"] for each in found["accesses"]} == {source.name for source in SOURCES}


def test_permissions_for_people_say_what_is_lost_and_what_to_do(
    leadline_cli: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_AGENT__KMSG", "/dev/null")  # as a container has it
    ran = leadline_cli("doctor", "--permissions")
    assert ran.code == 1
    told = words(ran.out)
    assert "refused kmsg: kernel log: /dev/null is empty: this container was not given the host's" in told
    assert "lost: GPU errors (Xid), OOM kills" in told
    assert "causes with less evidence: gpu-lost, gpu-memory" in told
    assert "on the host: CAP_SYSLOG" in told
    assert "in Kubernetes: agent.privileged=true" in told
    assert "python3 -m leadline.host.main --permissions" in told
    assert leadline_cli("doctor", "--permissions", "-o", "csv").out.startswith("source,reads,outcome,found,lost,causes")


def test_permissions_with_settings_that_are_none(leadline_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_AGENT__INTERVAL_S", "never")
    ran = leadline_cli("doctor", "--permissions")
    assert (ran.code, ran.out) == (2, "")
    assert "agent.interval_s: expected a number" in ran.err


# --- relabel ------------------------------------------------------------------------------------------------------


def test_blocks_are_yaml_without_a_server(leadline_cli: Run) -> None:
    ran = leadline_cli("doctor", "--relabel", *NOBODY_ANSWERS)
    assert (ran.code, ran.err) == (0, "")
    found = yaml.safe_load(ran.out)
    assert found == {
        name: rules_of(uses(), agent=False) for name in ("write_relabel_configs", "metric_relabel_configs")
    }
    assert max(map(len, ran.out.split("\n# No server")[0].splitlines())) <= 120
    assert "# No server was asked what arrives: no Leadline answers at http://127.0.0.1:1;" in ran.out
    answer = json.loads(leadline_cli("doctor", "--relabel", "--agent", *NOBODY_ANSWERS, "-o", "json").out)
    assert answer["received"] is None
    assert answer["write_relabel_configs"] == rules_of(uses(), agent=True)
    power = next(each for each in answer["metrics"] if each["metric"] == "DCGM_FI_DEV_POWER_USAGE")
    assert power["read_by"] == ["expectation collective-stalled", "plot 'Power' of a gpu"]


def test_a_server_is_asked_what_comes_for_nothing(leadline: RunningLeadline, leadline_cli: Run) -> None:
    """Its own metric `cli.temp` came by OTLP, which no Prometheus configures."""
    answer = json.loads(leadline_cli("doctor", "--relabel", "--server", leadline.url, "-o", "json").out)
    assert answer["not_asked"] == ""
    assert answer["received"]["all"] == {"series": 0, "samples_per_s": 0.0}
    assert answer["received"]["names"] == []
    ran = leadline_cli("doctor", "--relabel", "--server", leadline.url)
    assert "# Received by remote-write and scrapes in the last 5 min: 0 series, 0 samples/s." in ran.out


def row(name: str, samples: int, series: int = 1, mapped: bool = True, twice: bool = False) -> dict[str, Any]:
    return {"name": name, "series": series, "samples": samples, "mapped": mapped, "twice": twice}


def test_what_comes_is_sorted_by_why_it_need_not() -> None:
    came = received(
        [
            row("node_load1", 300),
            row("node_load1", 600, 2, twice=True),  # the same metric of a host that has an agent
            row("DCGM_FI_DEV_GPU_UTIL", 300, twice=True),  # an agent does not read GPUs
            row("node_softnet_dropped_total", 900),
            row("go_goroutines", 3000, 10, mapped=False),
            row("node_time_seconds", 150),  # of a host, and not judged
        ],
        uses(),
    )
    assert came["all"] == {"series": 16, "samples_per_s": 5250 / LOOK_S}
    assert came["sent_twice"] == {"series": 2, "samples_per_s": 2.0}
    assert came["detection_alone"] == {"series": 1, "samples_per_s": 3.0}
    assert came["read_by_nothing"] == {"series": 11, "samples_per_s": 10.5}
    assert [(each["metric"], each["read_by"]) for each in came["names"]] == [
        ("go_goroutines", NOTHING), ("node_softnet_dropped_total", DETECTION), ("node_load1", TWICE),
        ("node_time_seconds", NOTHING),
    ]  # fmt: skip
    many = received([row(f"go_{number}", 1, mapped=False) for number in range(25)], uses())
    assert (len(many["names"]), many["names_left_out"]) == (20, 5)


# --- size ---------------------------------------------------------------------------------------------------------


def test_a_size_is_told_with_what_it_stands_on(leadline_cli: Run) -> None:
    ran = leadline_cli("doctor", "--size", "64", *NOBODY_ANSWERS)
    assert (ran.code, ran.err) == (0, "")
    told = words(ran.out)
    assert "A server for 64 hosts of 8 GPUs; exporters are read every 15 s, rows kept for 30 d" in told
    at_64 = next(each for each in LIVE if each.hosts == 64)
    assert f"CPU {at_64.cores:g} cores 2 cores measured" in told
    assert f"verdicts late by (p95) {at_64.late_s:g} s measured" in told
    assert "simulated fleets of 64 and 256 hosts" in told
    many = words(leadline_cli("doctor", "--size", "1000").out)
    assert "extrapolated" in many
    assert "Beyond 256 hosts nothing was measured" in many
    fewer = leadline_cli("doctor", "--size", "128", "--gpus-per-host", "4", "--retention", "12h", "--interval", "1m")
    assert "They send as much as" in fewer.out
    assert "disk, 0.5 d" in fewer.out


def test_a_size_for_programs(leadline_cli: Run) -> None:
    found = json.loads(leadline_cli("doctor", "--size", "256", "--retention", "7d", "-o", "json").out)
    assert found["fleet"] == {"hosts": 256, "gpus_per_host": 8, "interval_s": 15.0, "retention_d": 7.0}
    memory = next(each for each in found["needs"] if each["name"] == "memory")
    measured = next(each.private_bytes for each in LIVE if each.hosts == 256)
    assert memory == {"name": "memory", "value": measured, "unit": "bytes", "basis": "measured", "advice": 4e9}
    assert [each["hosts"] for each in found["measured"]] == [1, 64, 256]
    assert leadline_cli("doctor", "--size", "256", "-o", "csv").out.startswith("name,value,unit,basis,advice\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--size", "0"), "--size: expected a number from 1 to"),
        (("--size", "4", "--gpus-per-host", "0"), "--gpus-per-host: expected a number from 1"),
        (("--size", "4", "--interval", "often"), "--interval: expected a length of time such as 15s"),
        (("--size", "4", "--interval", "2h"), "--interval: expected"),
        (("--size", "4", "--retention", "0d"), "--retention: expected"),
        (("--size", "4", "--permissions"), "--permissions and --size are different questions"),
        (("--relabel", "--permissions"), "--permissions and --relabel are different questions"),
        (("--agent",), "--agent says what --relabel may leave out"),
    ],
)  # fmt: skip
def test_wrong_usage_is_told_in_a_line(leadline_cli: Run, arguments: tuple[str, ...], said: str) -> None:
    ran = leadline_cli("doctor", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
