"""A real Prometheus with the blocks of `leadline doctor --relabel`, pasted as they are, sends what Leadline reads: all
of it, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.senders.running import RunningLeadline, free_ports, node_exporter, running, wait_for

from leadline.host.sources import SOURCES
from leadline.views.metric_use import used_by, uses

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ["127.0.0.1:{exporter}"], labels: {{nodename: n12}}}}]
  - job_name: switch
    static_configs: [{{targets: ["127.0.0.1:{exporter}"], labels: {{switch: leaf1}}}}]
  - job_name: prometheus
    static_configs: [{{targets: ["127.0.0.1:{prometheus}"]}}]
remote_write:
"""
WRITER = """
  - url: http://127.0.0.1:{leadline}/api/v1/write
    name: {writer}
    queue_config: {{batch_send_deadline: 500ms, min_backoff: 50ms, max_backoff: 500ms}}
    metadata_config: {{send: false}}
"""
SENT = re.compile("|".join(name for source in SOURCES for name in source.as_node_exporter))


def doctor(*arguments: str) -> str:
    """What `leadline doctor` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "leadline.cli.main", "doctor", *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def block(printed: str, name: str) -> str:
    """One of the two blocks, as a person copies it: up to the next empty line."""
    return name + printed.partition(f"\n{name}")[2].partition("\n\n")[0] + "\n"


@dataclass
class Setting:
    leadline: RunningLeadline
    prometheus: str
    config: Path

    def held(self, job: str = "") -> set[str]:
        """Names of all metrics that Prometheus holds, of one job."""
        given = {"match[]": f'{{job="{job}"}}'} if job else {}
        return set(self._asked("label/__name__/values", given))

    def _asked(self, path: str, given: dict[str, str]) -> Any:
        answer = httpx.get(f"{self.prometheus}/api/v1/{path}", params=given, timeout=30, trust_env=False).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def stored(self, writer: str, switch: str = "") -> set[str]:
        """Names of all metrics that came to us."""
        rows = self.leadline.sql(
            f"SELECT DISTINCT name FROM series WHERE labels['writer'] = '{writer}' AND labels['switch'] = '{switch}'"
        )
        return {row["name"] for row in rows}


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    directory = tmp_path_factory.mktemp("relabel")
    with ExitStack() as stack:
        leadline = stack.enter_context(RunningLeadline(directory))
        exporter_port, port = free_ports(2)
        stack.enter_context(running(node_exporter(exporter_port), directory / "exporter.log"))
        config = directory / "prometheus.yml"
        text = CONFIG.format(exporter=exporter_port, prometheus=port)
        for writer, flags in (("whole", None), ("read", []), ("lean", ["--agent"])):
            pasted = "write_relabel_configs:\n"
            if flags is not None:
                pasted = block(doctor("--relabel", *flags, "--server", "127.0.0.1:1"), "write_relabel_configs")
            mark = f"  - {{target_label: writer, replacement: {writer}}}\n"  # tells the streams of the three apart
            text += WRITER.format(leadline=leadline.port, writer=writer) + textwrap.indent(pasted + mark, "    ")
        config.write_text(text)
        command = [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        stack.enter_context(running(command, directory / "prometheus.log"))
        made = Setting(leadline, f"http://127.0.0.1:{port}", config)

        def missing() -> set[str]:
            """Names that did not come yet, of those that Prometheus holds."""
            try:
                held = made.held()
            except (httpx.HTTPError, ValueError):
                return {"all"}  # it does not listen yet
            return (
                (held | {"prometheus_build_info", "node_load1"}) - made.stored("whole") - made.stored("whole", "leaf1")
            )

        wait_for("everything to come", lambda: not missing(), 90, 0.5)
        time.sleep(3)  # what a block lets through by mistake has come by now, too: its queue sends twice a second
        yield made


def test_promtool_takes_both_blocks(tmp_path: Path) -> None:
    printed = doctor("--relabel", "--agent", "--server", "127.0.0.1:1")
    assert yaml.safe_load(printed).keys() == {"write_relabel_configs", "metric_relabel_configs"}
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "scrape_configs:\n  - job_name: node\n" + textwrap.indent(block(printed, "metric_relabel_configs"), "    ")
        + "remote_write:\n  - url: http://127.0.0.1:8440/api/v1/write\n"
        + textwrap.indent(block(printed, "write_relabel_configs"), "    ")
    )  # fmt: skip
    done = subprocess.run(
        ["promtool", "check", "config", str(config)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_exactly_what_is_read_is_sent(setting: Setting) -> None:
    known = uses()
    held = setting.held()
    read = {name for name in held if used_by(name, known)}
    assert setting.stored("read") | setting.stored("read", "leaf1") == read
    assert {"node_load1", "node_network_receive_bytes_total", "node_uname_info", "up"} <= read
    assert 20 < len(read) < len(held) / 2  # it spares most of it
    assert not any(name.startswith(("go_", "prometheus_")) and not name.endswith("_info") for name in read)


def test_what_an_agent_sends_is_left_out_but_not_of_switches(setting: Setting) -> None:
    known = uses()
    read = {name for name in setting.held() if used_by(name, known)}
    assert setting.stored("lean") == {name for name in read if not SENT.fullmatch(name)}
    assert setting.stored("lean", "leaf1") == {name for name in setting.held("switch") if used_by(name, known)}
    assert "node_network_receive_bytes_total" in setting.stored("lean", "leaf1") - setting.stored("lean")


def test_what_comes_for_nothing_is_told_with_its_rate(setting: Setting) -> None:
    came = json.loads(doctor("--relabel", "--server", setting.leadline.url, "-o", "json"))["received"]
    assert came["all"]["series"] > 1000
    assert came["sent_twice"]["series"] == 0  # no agent sends
    nothing, detection = came["read_by_nothing"], came["detection_alone"]
    by_name = {each["metric"]: each for each in came["names"]}
    assert len(came["names"]) == 20
    assert came["names_left_out"] > 0
    rates = [each["samples_per_s"] for each in came["names"]]
    assert rates == sorted(rates, reverse=True)
    known = uses()
    assert not any(used_by(name, known) for name in by_name)
    # Of three writers two send nothing that is not read.
    rows = setting.leadline.sql("SELECT name FROM series WHERE source = 'remote-write'")
    wasted = [row["name"] for row in rows if not used_by(row["name"], known)]
    assert nothing["series"] + detection["series"] <= len(wasted)
    assert nothing["series"] + detection["series"] > 0.9 * len(wasted)
    told = doctor("--relabel", "--server", setting.leadline.url)
    assert yaml.safe_load(told)["write_relabel_configs"]  # what was received stands in comments
    assert "# Received by remote-write and scrapes in the last 5 min:" in told
    assert re.search(r"^#   used by nothing: [\d,]+ series, [\d.,]+ samples/s$", told, re.MULTILINE)
