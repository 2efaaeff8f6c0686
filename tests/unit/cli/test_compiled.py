"""Where compiled code is kept by an account that may write nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.cli import compiled as module
from leadline.cli.compiled import compiled_code


def test_an_account_that_may_write_nowhere_keeps_compiled_code_in_a_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    assert compiled_code(home) == {}, "it may write beside the source, or at home"
    monkeypatch.setattr(module, "_may_write", lambda _: False)
    assert compiled_code(home | {"NUMBA_CACHE_DIR": "/mine"}) == {}
    own = Path(compiled_code(home)["NUMBA_CACHE_DIR"])
    assert (own.parent, own.stat().st_mode & 0o777) == (tmp_path, 0o700)
    own.rmdir()
    own.symlink_to(tmp_path)  # somebody else's doing
    assert compiled_code(home) == {}


def test_a_home_that_may_not_be_entered_is_no_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def closed(self: Path, **_: object) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "exists", closed)
    assert not module._may_write(tmp_path / ".cache")
