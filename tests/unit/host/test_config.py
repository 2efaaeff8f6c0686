"""The agent's settings: precedence, types, and what wrong ones are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.host.config import AgentConfig, load
from leadline.host.main import Wanted, settings
from leadline.model.errors import ConfigError
from leadline.server.config import load as load_all


def test_file_environment_and_flags_in_that_order(tmp_path: Path) -> None:
    file = tmp_path / "leadline.yaml"
    file.write_text("server:\n  port: 9\nagent:\n  interval_s: 2\n  host: of-file\n  spool: s\n  gpus: [GPU-1]\n")
    environ = {"LEADLINE_AGENT__HOST": "of-environment", "LEADLINE_AGENT__LABELS": "rack=r1, pod=p2", "LEADLINE_X": "1"}
    found = load(file, environ, {"spool": "of-flag", "kmsg": None})
    assert found.interval_s == 2.0
    assert found.host == "of-environment"
    assert found.spool == Path("of-flag")
    assert found.kmsg == AgentConfig().kmsg
    assert found.labels == {"rack": "r1", "pod": "p2"}
    assert found.gpus == ["GPU-1"]


def test_the_server_that_every_verb_is_told_is_the_agents_too(tmp_path: Path) -> None:
    file = tmp_path / "leadline.yaml"
    file.write_text("agent:\n  server: http://of-file:1\n")
    everybody = {"LEADLINE_SERVER": "http://of-all:1"}
    assert load(file, everybody, {}).server == "http://of-all:1"
    assert load(file, {**everybody, "LEADLINE_AGENT__SERVER": "http://own:1"}, {}).server == "http://own:1"
    assert load(file, everybody, {"server": "http://of-flag:1"}).server == "http://of-flag:1"
    assert load(file, {"LEADLINE_SERVER": ""}, {}).server == "http://of-file:1"


def test_lists_and_mappings_of_the_environment() -> None:
    environ = {"LEADLINE_AGENT__SOURCES": "nic, link", "LEADLINE_AGENT__CGROUPS": "[/a, /b]"}
    found = load(None, environ, {})
    assert found.sources == ["nic", "link"]
    assert found.cgroups == [Path("/a"), Path("/b")]


def test_the_server_reads_the_same_section(tmp_path: Path) -> None:
    file = tmp_path / "leadline.yaml"
    file.write_text("agent:\n  interval_s: 2\n  cgroups: [/a]\n  labels: {rack: r1}\n  spool: s\n")
    assert load_all(file, {}).section("agent", AgentConfig) == load(file, {}, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("interval_s: fast", "agent.interval_s: expected a number, got 'fast' .*line 3"),
        ("interval_s: 0", "a number >= 0.1"),
        ("interval_s: 4000", "a number <= 3600"),
        ("interval_s: true", "expected a number"),
        ("nice: 2.5", "a whole number"),
        ("host: 3", "a text"),
        ("gpus: GPU-1", "a list of texts"),
        ("labels: [a]", "texts by name"),
        ("spool: ''", "a path"),
        ("ethtool: '('", "a regular expression"),
        ("intervall: 1", "no setting of agent called 'intervall'.*interval_s"),
    ],
)
def test_a_wrong_value_names_itself_and_its_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "leadline.yaml"
    file.write_text(f"# mine\nagent:\n  {text}\n")
    with pytest.raises(ConfigError, match=words):
        load(file, {}, {})


@pytest.mark.parametrize("text", ["agent: [", "agent: 5", "a: &x 1\nagent: {nice: *x}", "\x00"])
def test_what_is_no_configuration_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "leadline.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"leadline\.yaml"):
        load(file, {}, {})


def test_no_file_and_no_section_are_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("server: {port: 1}\n")
    (tmp_path / "b").write_text("")
    assert load(tmp_path / "a", {}, {}) == load(tmp_path / "b", {}, {}) == AgentConfig()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "c", {}, {})


def test_flags_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found, wanted = settings(["--server", "unix:/a", "--interval", "1", "--sources", "nic,link", "--once"])
    assert (found.server, found.interval_s, found.sources, wanted) == ("unix:/a", 1.0, ["nic", "link"], Wanted.ONCE)
    assert settings(["--permissions"])[1] is Wanted.PERMISSIONS
    assert settings([])[1] is Wanted.RUN
    with pytest.raises(ConfigError, match="no source 'nix'; there are: link, ring"):
        settings(["--sources", "nix"])
