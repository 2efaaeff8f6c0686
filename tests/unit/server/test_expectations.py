"""What a site expects: read, checked, kept as versions in the store, told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.builders.stores import opened_store

from leadline.analysis.sle.expectations import DEFAULTS, to_text
from leadline.model.errors import ConfigError
from leadline.model.principal import Principal, Role
from leadline.model.tables.accounts import EXPECTATION
from leadline.server.expectations import Held, effective, expectations_answer, save
from leadline.server.main import run_server
from leadline.server.settings import SleConfig
from leadline.store import Store
from leadline.views.asked import Asked

T, S = 1_750_000_000 * 10**9, 10**9
OWN = """\
- name: hot-gpus
  layer: gpu
  of: gpu
  match: [gpu:GPU-5c1e]
  objective: 0.999
  bounds:
    - {metric: DCGM_FI_DEV_GPU_TEMP, above: 70, for_s: 30}
"""
FIRST = DEFAULTS[0]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened_store(tmp_path / "store") as store:
        yield store


def versions(store: Store) -> list[tuple[str, int, int | None, str]]:
    """(name, from, to, source) of all that was ever written, in seconds after T."""
    rows = store.query("SELECT * FROM leadline.expectation ORDER BY expectation, from_ns").to_pylist()
    assert {row["cluster"] for row in rows} <= {""}

    def since(time_ns: int | None) -> int | None:
        return None if time_ns is None else (time_ns - T) // S

    return [(row["expectation"], (row["from_ns"] - T) // S, since(row["to_ns"]), row["source"]) for row in rows]


def file(tmp_path: Path, text: str = OWN) -> str:
    path = tmp_path / "expectations.yaml"
    path.write_text(text)
    return str(path)


def test_without_a_file_the_defaults_hold() -> None:
    assert {each.expectation for each in effective(SleConfig())} == set(DEFAULTS)
    assert {each.source for each in effective(SleConfig())} == {"defaults"}


def test_a_file_adds_and_replaces_and_defaults_are_switched_off_by_name(tmp_path: Path) -> None:
    text = OWN + to_text(replace(FIRST, objective=0.5))
    config = SleConfig(file(tmp_path, text), (DEFAULTS[1].name,))
    found = {each.expectation.name: each for each in effective(config)}
    assert found["hot-gpus"].source == config.expectations
    assert (found[FIRST.name].expectation.objective, found[FIRST.name].source) == (0.5, config.expectations)
    assert DEFAULTS[1].name not in found
    assert len(found) == len(DEFAULTS)
    assert list(found) == sorted(found)


def test_a_wrong_file_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expectations.yaml, line 2: layer cannot be 'gpus'; did you mean gpu"):
        effective(SleConfig(file(tmp_path, OWN.replace("layer: gpu", "layer: gpus"))))
    with pytest.raises(ConfigError, match=r"nowhere.yaml: the expectations cannot be read: No such file or directory"):
        effective(SleConfig(str(tmp_path / "nowhere.yaml")))
    (tmp_path / "latin.yaml").write_bytes(b"- name: \xe9")
    with pytest.raises(ConfigError, match=r"latin.yaml: expected UTF-8, got byte 0xe9 at 8"):
        effective(SleConfig(str(tmp_path / "latin.yaml")))
    with pytest.raises(ConfigError, match=f"no default expectation called '{FIRST.name}x'; did you mean {FIRST.name}?"):
        effective(SleConfig(disabled=(f"{FIRST.name}x",)))


def test_a_server_refuses_to_start_with_expectations_that_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "leadline.yaml"
    config.write_text(f"store: {{path: {tmp_path}/s}}\nsle: {{expectations: {file(tmp_path, 'hot: 1')}}}\n")
    assert run_server(config, {}, []) == 2
    assert "expectations.yaml, line 1: " in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_only_what_changed_gets_a_new_version(store: Store) -> None:
    one, two = (Held(each, "defaults") for each in DEFAULTS[:2])
    assert save(store, [one, two], T, "default") == 2
    assert save(store, [one, two], T + 5 * S, "default") == 0
    changed = Held(replace(one.expectation, objective=0.123), "site.yaml")
    assert save(store, [changed], T + 9 * S, "default") == 3
    names = sorted([(one.expectation.name, 0, 9, "defaults"), (one.expectation.name, 9, None, "site.yaml"),
                    (two.expectation.name, 0, 9, "defaults")])  # fmt: skip
    assert sorted(versions(store)) == names
    # The same promise from another file is the same version.
    assert save(store, [replace(changed, source="moved.yaml")], T + 20 * S, "default") == 1
    assert (one.expectation.name, 9, None, "moved.yaml") in versions(store)
    # What comes back is a version of its own.
    assert save(store, [changed, two], T + 30 * S, "default") == 2
    assert (two.expectation.name, 30, None, "defaults") in versions(store)


def test_a_clock_that_was_set_back_ends_nothing_before_it_began(store: Store) -> None:
    one = Held(FIRST, "defaults")
    save(store, [one], T, "default")
    save(store, [Held(replace(FIRST, objective=0.5), "defaults")], T - 100 * S, "default")
    rows = store.query("SELECT from_ns, to_ns FROM leadline.expectation ORDER BY from_ns").to_pylist()
    assert [(row["from_ns"], row["to_ns"]) for row in rows] == [(T, T + 1), (T + 1, None)]


def test_another_provider_takes_them_over(store: Store) -> None:
    save(store, [Held(FIRST, "defaults")], T, "default")
    save(store, [Held(FIRST, "defaults")], T + S, "infra")
    rows = store.query("SELECT tenant, to_ns FROM leadline.expectation ORDER BY from_ns").to_pylist()
    assert [(row["tenant"], row["to_ns"]) for row in rows] == [("default", T + S), ("infra", None)]


def ask(store: Store, at_ns: int, principal: Principal = Principal(), cluster: str = "east") -> dict[str, Any]:
    return expectations_answer(store, Asked(principal, cluster, at_ns))


def test_what_held_then_is_told(store: Store, tmp_path: Path) -> None:
    held = effective(SleConfig(file(tmp_path)))
    save(store, held, T, "default")
    save(store, [each for each in held if each.source == "defaults"], T + 50 * S, "default")
    before, after = ask(store, T + S), ask(store, T + 60 * S)
    assert len(before["expectations"]) == len(after["expectations"]) + 1 == len(DEFAULTS) + 1
    (own,) = [each for each in before["expectations"] if each["expectation"] == "hot-gpus"]
    assert own["bounds"] == [{"classifier": "DCGM_FI_DEV_GPU_TEMP above 70", "for_s": 30.0}]
    assert (own["objective"], own["of"], own["match"], own["from_ns"]) == (0.999, "gpu", ["gpu:GPU-5c1e"], T)
    assert own["source"].endswith("expectations.yaml")


def test_a_tenant_is_not_told_whom_an_expectation_names_nor_the_file(store: Store, tmp_path: Path) -> None:
    save(store, effective(SleConfig(file(tmp_path))), T, "default")
    found = ask(store, T + S, Principal("acme", "default", Role.TENANT_READ))["expectations"]
    (own,) = [each for each in found if each["expectation"] == "hot-gpus"]
    assert (own["source"], own["match"], own["spec"], own["objective"]) == ("site", [], "", 0.999)
    assert {each["source"] for each in found} == {"site", "defaults"}


def test_a_table_without_any_says_that_the_defaults_hold(store: Store) -> None:
    found = ask(store, T)
    assert "the defaults apply" in found["note"]
    assert {each["expectation"] for each in found["expectations"]} == {each.name for each in DEFAULTS}


def test_one_that_this_version_cannot_read_is_told_as_such(store: Store) -> None:
    save(store, [Held(FIRST, "defaults")], T, "default")
    rows = store.query("SELECT * FROM leadline.expectation")
    place = rows.column_names.index("spec")
    newer = rows.set_column(place, "spec", [["- {name: x, newer: true}"]])
    store.append(EXPECTATION, newer)
    (told,) = ask(store, T)["expectations"]
    assert "has no 'newer'" in told["error"]
    assert told["bounds"] == []
