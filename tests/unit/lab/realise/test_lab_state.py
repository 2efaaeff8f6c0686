"""What is written down about a lab, and who may remove it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.lab import state
from leadline.lab.realise import leftovers
from leadline.lab.state import LabRecord
from leadline.model.errors import UsageError, WorldError

RECORD = LabRecord(
    name="x",
    owner_pid=0,
    owner_start=0,
    boot_id="",
    created_ns=1,
    topology="tiny",
    shape={"name": "tiny"},
    nodes=("h1", "leaf1"),
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    state.write(tmp_path, RECORD)
    assert state.read(tmp_path, "x") == RECORD
    assert state.read(tmp_path, "y") is None
    assert state.labs(tmp_path) == ["x"]
    assert RECORD.namespaces == {"h1": "ll-x-h1", "leaf1": "ll-x-leaf1"}


def test_a_broken_record_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / state.RECORD).write_text('{"name": "x"}')
    with pytest.raises(WorldError, match=r"expected the record of a lab.*remove it if no lab is up"):
        state.read(tmp_path, "x")


def test_a_lab_lives_as_long_as_its_owner() -> None:
    mine = state.adopted(RECORD, keep=False)
    assert mine.alive
    assert not replace(mine, owner_start=mine.owner_start + 1).alive, "another process with the same number"
    assert not replace(mine, boot_id="another boot").alive
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    theirs = replace(mine, owner_pid=child.pid, owner_start=state.start_of(child.pid) or 0)
    assert theirs.alive
    child.communicate(b"\n")
    assert not theirs.alive


def test_a_corpse_is_not_alive() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # dead, but not buried
    assert state.start_of(child) is None
    os.waitpid(child, 0)


def test_a_kept_lab_ends_with_the_boot() -> None:
    kept = state.adopted(RECORD, keep=True)
    assert kept.owner_pid == 0
    assert kept.alive
    assert not replace(kept, boot_id="another boot").alive


@pytest.mark.parametrize("name", ["", "A", "a-b", "../x", "1a", "a" * 25, "a/b"])
def test_names_that_cannot_be_part_of_a_namespace(name: str) -> None:
    with pytest.raises(UsageError, match="a lab's name"):
        state.checked_name(name)


def test_only_dead_labs_are_left_over(tmp_path: Path) -> None:
    state.write(tmp_path, replace(state.adopted(RECORD, keep=False), name="alive"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "somebody_elses").mkdir()
    (tmp_path / "somebody_elses" / "file").touch()
    assert leftovers.remove_leftovers(tmp_path) == ["empty: directory without record"]
    assert state.labs(tmp_path) == ["alive", "somebody_elses"]
    assert leftovers.remove_leftovers(tmp_path / "nowhere") == []


def test_the_record_goes_last(tmp_path: Path) -> None:
    state.write(tmp_path, RECORD)
    (tmp_path / "x" / "hosts" / "h1").mkdir(parents=True)
    (tmp_path / "x" / "file").touch()
    state.forget(tmp_path, "x")
    assert not (tmp_path / "x").exists()
    state.forget(tmp_path, "x")  # harmless


def test_where_the_state_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(state.ROOT_VARIABLE, raising=False)
    assert state.state_root() == Path("/run/leadline-lab")
    monkeypatch.setenv(state.ROOT_VARIABLE, "/somewhere")
    assert state.state_root() == Path("/somewhere")
    assert state.state_root(tmp_path) == tmp_path
