"""The configuration: precedence, origins, and what wrong input is told."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.errors import ConfigError
from leadline.server.config import SECTIONS, Config, Flag, load
from leadline.server.settings import ServerConfig, require_guarded


@dataclass(frozen=True)
class Target:
    """A nested group of settings."""

    job: str
    every_s: float = field(default=15.0, metadata={"min": 0.1})


@dataclass(frozen=True)
class Pump:
    """A section with a setting of every type."""

    bytes_max: int = field(default=4096, metadata={"doc": "largest body.", "unit": "bytes", "above": 0})
    rate: float = field(default=0.5, metadata={"doc": "share", "min": 0.0, "max": 1.0})
    on: bool = field(default=False, metadata={"doc": "whether it runs"})
    name: str = field(default="", metadata={"doc": "what it is called"})
    mode: Literal["fast", "safe"] = field(default="safe", metadata={"doc": "how"})
    path: Path = field(default=Path("data"), metadata={"doc": "where"})
    limit: int | None = field(default=None, metadata={"doc": "a limit, if any"})
    tags: tuple[str, ...] = field(default=(), metadata={"doc": "tags"})
    labels: dict[str, str] = field(default_factory=dict, metadata={"doc": "labels"})
    targets: list[Target] = field(default_factory=list, metadata={"doc": "targets"})
    token: str = field(default="", metadata={"doc": "the token", "secret": True})


PUMP = (("pump", Pump),)


def from_text(
    tmp_path: Path, text: str, environ: Mapping[str, str] | None = None, flags: tuple[Flag, ...] = ()
) -> Config:
    path = tmp_path / "leadline.yaml"
    path.write_text(text)
    return load(path, environ, flags, PUMP)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        from_text(tmp_path, text)
    return str(caught.value).replace(str(tmp_path) + "/", "")


def test_flags_win_over_environment_over_file_over_default(tmp_path: Path) -> None:
    text = "pump:\n  bytes_max: 1\n  rate: 1\n  name: from file\n"
    environ = {"LEADLINE_PUMP__BYTES_MAX": "2", "LEADLINE_PUMP__RATE": "0.25", "PUMP__NAME": "not ours"}
    flags = (Flag("--bytes", "pump", "bytes_max", 3), Flag("--on", "pump", "on", None))
    config = from_text(tmp_path, text, environ, flags)
    pump = config.section("pump", Pump)
    assert (pump.bytes_max, pump.rate, pump.name, pump.on) == (3, 0.25, "from file", False)
    origins = {key: str(origin).replace(str(tmp_path) + "/", "") for (_, key), origin in config.origins.items()}
    assert origins["bytes_max"] == "flag --bytes"
    assert origins["rate"] == "environment LEADLINE_PUMP__RATE"
    assert origins["name"] == "leadline.yaml, line 4"
    assert origins["on"] == "default"


def test_every_type_from_every_way_in(tmp_path: Path) -> None:
    text = """
pump:
  rate: 1  # a whole number is a number
  on: true
  mode: fast
  path: /srv/x
  limit: 7
  tags: [a, "1"]
  labels: {rail: "3"}
  targets:
    - {job: node}
    - job: dcgm
      every_s: 5
"""
    environ = {
        "LEADLINE_PUMP__RATE": "1",
        "LEADLINE_PUMP__ON": "true",
        "LEADLINE_PUMP__MODE": "fast",
        "LEADLINE_PUMP__PATH": "/srv/x",
        "LEADLINE_PUMP__LIMIT": "7",
        "LEADLINE_PUMP__TAGS": "[a, '1']",
        "LEADLINE_PUMP__LABELS": "{rail: '3'}",
        "LEADLINE_PUMP__TARGETS": "[{job: node}, {job: dcgm, every_s: 5}]",
    }
    file = from_text(tmp_path, text).section("pump", Pump)
    variables = from_text(tmp_path, "", environ).section("pump", Pump)
    assert file == variables
    assert file.targets == [Target("node"), Target("dcgm", 5.0)]
    assert file.tags == ("a", "1")
    assert from_text(tmp_path, "pump:\n").section("pump", Pump) == Pump()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "# x\npump:\n  bytes_max: -5\n",
            "pump.bytes_max must be > 0, got -5 (leadline.yaml, line 3); largest body; remove the line to use 4096",
        ),
        ("pump:\n  rate: 2\n", "pump.rate must be <= 1.0, got 2 (leadline.yaml, line 2)"),
        ("pump:\n  rate: .nan\n", "pump.rate must be a finite number"),
        ('pump:\n  bytes_max: "5"\n', "pump.bytes_max must be a whole number, got '5'"),
        ("pump:\n  bytes_max: 1.5\n", "must be a whole number, got 1.5"),
        ("pump:\n  bytes_max: true\n", "must be a whole number, got True"),
        ("pump:\n  name: 5\n", "pump.name must be text, got 5"),
        ("pump:\n  name: 2026-01-01\n  on: 1\n", "pump.on must be true or false, got 1"),
        ("pump:\n  mode: slow\n", "pump.mode must be one of fast, safe, got 'slow'"),
        ("pump:\n  tags: [1]\n", "pump.tags must have, at 0:"),
        ("pump:\n  targets: [{job: a, every_s: 0}]\n", "pump.targets must be >= 0.1 at 0.every_s"),
        ("pump:\n  targets: [{every_s: 5}]\n", "pump.targets must have, at 0.job"),
        ("pump:\n  targets: [{job: a, evry_s: 5}]\n", "did you mean every_s?"),
        ("pmp:\n  x: 1\n", "there is no section called 'pmp' (leadline.yaml, line 1); did you mean pump?"),
        (
            "pump:\n  byte_max: 1\n",
            "no setting of pump called 'byte_max' (leadline.yaml, line 2); did you mean bytes_max?",
        ),
        ("pump:\n  zzz: 1\n", "there are: bytes_max, "),
        ("pump:\n  on: true\n  on: false\n", "leadline.yaml, line 3: on is given twice, first in line 2"),
        ("pump: {}\npump: {}\n", "line 2: pump is given twice"),
        ("pump:\n  labels: {a: x, a: y}\n", "line 2: a is given twice"),
        ("pump:\n  - on\n", "line 2: expected settings of pump as `name: value`, got a list"),
        ("pump: 5\n", "line 1: expected settings of pump"),
        ("- pump\n", "line 1: expected sections"),
        ("pump:\n  on: [\n", "not YAML"),
        ("a: &x 1\nb: *x\n", "line 2: YAML aliases"),
        ("? [a]\n: 1\n", "expected a name, got a list"),
        ("a: 1\n---\nb: 1\n", "not YAML"),
    ],
)
def test_what_wrong_input_is_told(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("LEADLINE_PUMP__BYTES_MAX", "many", "got 'many' (environment LEADLINE_PUMP__BYTES_MAX)"),
        ("LEADLINE_PUMP__BYTES_MAX", "0", "unset LEADLINE_PUMP__BYTES_MAX to use 4096"),
        ("LEADLINE_PUMP__BYTE_MAX", "1", "did you mean bytes_max?"),
        ("LEADLINE_PMP__X", "1", "did you mean pump?"),
        ("LEADLINE_PUMP__TAGS", "[", "pump.tags must be a list"),
    ],
)  # fmt: skip
def test_wrong_variables(tmp_path: Path, name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_text(tmp_path, "", {name: value})
    assert said in str(caught.value)


def test_a_flag_for_a_part_of_a_setting_leaves_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "leadline.yaml"
    file.write_text("ingest:\n  sflow: {accept_unknown: true, port: 1}\n")
    flag = Flag("--sflow-port", "ingest", "sflow", {"port": 7000})
    found = load(file, {}, [flag]).ingest.sflow
    assert (found.port, found.accept_unknown) == (7000, True)
    assert load(None, {}, [flag]).ingest.sflow.port == 7000
    with pytest.raises(ConfigError, match=r"flag --sflow-port and environment .* both set ingest.sflow"):
        load(None, {"LEADLINE_INGEST__SFLOW": "{}"}, [flag])


def test_a_wrong_flag_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"got -1 \(flag --bytes\).*leave out --bytes to use 4096"):
        from_text(tmp_path, "", flags=(Flag("--bytes", "pump", "bytes_max", -1),))


def test_other_variables_are_left_alone() -> None:
    assert load(environ={"LEADLINE_CLICKHOUSE_URL": "x", "HOME": "/"}, sections=PUMP).sections["pump"] == Pump()


def test_secrets_are_never_printed(tmp_path: Path) -> None:
    text = "pump:\n  token: hunter2\n  name: http://me:hunter2@db:8123/x\n"
    printed = str(from_text(tmp_path, text).settings())
    assert "hunter2" not in printed
    assert "http://me:***@db:8123/x" in printed
    assert "hunter2" not in refusal(tmp_path, "pump:\n  token: [hunter2]\n")
    assert "hunter2" not in refusal(tmp_path, "pump:\n  bytes_max: http://me:hunter2@db/x\n")


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "absent.yaml", sections=PUMP)
    (tmp_path / "latin.yaml").write_bytes(b"pump: {name: \xe9}")
    with pytest.raises(ConfigError, match="expected UTF-8"):
        load(tmp_path / "latin.yaml", sections=PUMP)
    (tmp_path / "large.yaml").write_bytes(b"#" * (1 << 20) + b"##")
    with pytest.raises(ConfigError, match="at most 1048576 bytes"):
        load(tmp_path / "large.yaml", sections=PUMP)


def test_the_file_in_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(sections=PUMP).sections["pump"] == Pump()
    (tmp_path / "leadline.yaml").write_text("pump:\n  on: true\n")
    config = load(sections=PUMP)
    assert config.section("pump", Pump).on
    assert str(config.origins["pump", "on"]) == "leadline.yaml, line 2"


@given(st.text(max_size=60) | st.sampled_from(["pump: {", "pump:\n  on: ", "pump:\n\ttags: "]).flatmap(
    lambda head: st.text(max_size=20).map(lambda tail: head + tail)))  # fmt: skip
def test_any_text_loads_or_is_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "leadline.yaml"
    path.write_text(text)
    with contextlib.suppress(ConfigError):
        assert load(path, sections=PUMP).sections


@given(st.fixed_dictionaries({}, optional={
    "bytes_max": st.integers(1, 2**60), "rate": st.floats(0, 1), "on": st.booleans(),
    "name": st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=20),
    "tags": st.lists(st.text(alphabet="abc0 :", max_size=5)),
}))  # fmt: skip
def test_what_yaml_writes_comes_back(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("back") / "leadline.yaml"
    path.write_text(yaml.safe_dump({"pump": values}, allow_unicode=True))
    pump = load(path, sections=PUMP).section("pump", Pump)
    assert pump == dataclasses.replace(Pump(), **{**values, "tags": tuple(values.get("tags", ()))})


def test_the_real_sections_load_with_their_defaults() -> None:
    config = load(environ={}, sections=SECTIONS)
    for name, kind in SECTIONS:
        assert config.sections[name] == kind()
    assert config.server.port == 8440
    assert config.store.url == ""
    assert config.ingest.body_bytes_max > 0
    assert {(s.section, s.key) for s in config.settings()} == set(config.origins)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_is_allowed(host: str) -> None:
    require_guarded(ServerConfig(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "n12", "localhost.example.com", ""])
def test_anything_else_is_allowed_with_tokens_only(host: str) -> None:
    with pytest.raises(ConfigError, match="leadline token create") as told:
        require_guarded(ServerConfig(host=host))
    assert "--token-file" in str(told.value)
    require_guarded(ServerConfig(host=host, token_file="tokens.json"))


@pytest.mark.parametrize("half", [{"tls_cert": "a.pem"}, {"tls_key": "a.pem"}])
def test_half_of_tls_is_none(half: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="belong together"):
        require_guarded(ServerConfig(**half))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "cert", "url"),
    [
        ("127.0.0.1", "", "http://127.0.0.1:8440"), ("0.0.0.0", "", "http://127.0.0.1:8440"),
        ("::", "c.pem", "https://[::1]:8440"), ("n12", "c.pem", "https://n12:8440"), ("::1", "", "http://[::1]:8440"),
    ],
)  # fmt: skip
def test_the_address_for_programs_of_this_machine(host: str, cert: str, url: str) -> None:
    assert ServerConfig(host=host, tls_cert=cert).url == url
