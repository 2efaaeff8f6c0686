"""The socket of `server.socket`: for its owner only, taken over from the dead and never from the living."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from leadline.model.errors import WorldError
from leadline.server.unix_socket import SocketFile


def test_only_its_owner_may_connect(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        made = SocketFile(tmp_path / "s")
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
        assert os.umask(0o022) == 0o022, "the process's own mask is as it was"
    finally:
        os.umask(before)
    made.remove()
    assert not (tmp_path / "s").exists()


def test_a_dead_server_makes_way_and_a_living_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(path))
    dead.close()
    living = SocketFile(path)
    with pytest.raises(WorldError, match="another server listens at"):
        SocketFile(path)
    living.remove()


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("mine")
    with pytest.raises(WorldError, match="no socket"):
        SocketFile(path)
    assert path.read_text() == "mine"


def test_a_path_that_cannot_be_is_told_with_its_setting(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "such" / "folder", tmp_path / ("x" * 120)):
        with pytest.raises(WorldError, match=r"server\.socket"):
            SocketFile(path)


def test_the_name_of_another_server_is_not_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first = SocketFile(path)
    path.unlink()
    second = SocketFile(path)
    first.remove()
    assert path.exists()
    second.remove()
    second.remove()
    assert not path.exists()
