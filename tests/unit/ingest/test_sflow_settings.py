"""The group of settings `ingest.sflow`: from a file and the environment, and what is said of mistakes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.ingest.config import SflowConfig, SflowSender
from leadline.model.errors import ConfigError
from leadline.server.config import Config, load

LISTED = """
ingest:
  sflow:
    port: 16343
    senders:
      - address: 10.0.0.1
        switch: leaf1
        ports: {7: Ethernet1, 9: Ethernet3}
    sender_files: [senders/*.json]
"""


def loaded(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "leadline.yaml"
    path.write_text(text)
    return load(path)


def test_senders_are_listed_in_the_file(tmp_path: Path) -> None:
    config = loaded(tmp_path, LISTED)
    assert config.ingest.sflow == SflowConfig(
        port=16343,
        senders=[SflowSender("10.0.0.1", "leaf1", {7: "Ethernet1", 9: "Ethernet3"})],
        sender_files=["senders/*.json"],
    )
    shown = next(setting for setting in config.settings() if setting.key == "sflow")
    assert isinstance(shown.value, dict)
    assert shown.value["senders"][0]["switch"] == "leaf1"


def test_the_group_can_be_given_in_the_environment() -> None:
    environ = {"LEADLINE_INGEST__SFLOW": "{port: 0, accept_unknown: true}"}
    assert load(environ=environ).ingest.sflow == SflowConfig(port=0, accept_unknown=True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("port: 70000", r"must be <= 65535 at port"),
        ("prot: 6343", r"no setting called 'prot' .*line 3.*did you mean port\?"),
        ("senders: [{adress: 10.0.0.1, switch: leaf1}]", r"no setting called 'adress'.*did you mean address\?"),
        ("senders: [{address: 10.0.0.1}]", r"must have, at senders.0.switch"),
        ("senders: [{address: 10.0.0.1, switch: leaf1, ports: {Ethernet1: 7}}]", r"must have, at senders.0.ports"),
        ("queue_bytes_max: 1", r"must be >= 1048576 at queue_bytes_max"),
        ("accept_unknown: 3", r"must have, at accept_unknown"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, wrong: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        loaded(tmp_path, f"ingest:\n  \n  sflow: {{{wrong}}}\n" if ":" in wrong else wrong)
