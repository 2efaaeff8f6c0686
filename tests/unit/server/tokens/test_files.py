"""The token file and the audit: for their owner only, never half-written, bounded."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from leadline.model.errors import BusyError, ConfigError, WorldError
from leadline.server.tokens import audit, file, token
from leadline.server.tokens.audit import REPEAT_NS, Audit
from leadline.server.tokens.file import LOOK_EVERY_S, TokenFile
from leadline.server.tokens.token import ID_BYTES, SECRET_BYTES, Token

NOW = 1_750_000_000 * 10**9


def one(name: str, seed: int) -> tuple[Token, str]:
    return token.made(name, "read", "", NOW, 0, seed.to_bytes(ID_BYTES + SECRET_BYTES, "little"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_for_its_owner_only_and_replaced_as_a_whole(tmp_path: Path) -> None:
    path, before = tmp_path / "new" / "tokens.json", os.umask(0)
    try:
        file.changed(path, lambda tokens: token.added(tokens, one("a", 1)[0], NOW))
        file.changed(path, lambda tokens: token.added(tokens, one("b", 2)[0], NOW))
    finally:
        os.umask(before)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert [each.name for each in file.loaded(path)[1]] == ["a", "b"]
    assert list(path.parent.iterdir()) == [path], "no draft is left"


def test_a_running_server_sees_changes_within_a_second(tmp_path: Path) -> None:
    path, now = tmp_path / "tokens.json", [0.0]
    file.changed(path, lambda tokens: (one("a", 1)[0],))
    seen = TokenFile(path, lambda: now[0])
    file.changed(path, lambda tokens: token.revoked(tokens, "a", NOW))
    now[0] = LOOK_EVERY_S
    assert [each.state(NOW) for each in seen.tokens()] == ["revoked"]
    path.chmod(0o644)
    now[0] += LOOK_EVERY_S
    with pytest.raises(BusyError, match="chmod 600"):
        seen.tokens()
    path.chmod(0o600)
    now[0] += LOOK_EVERY_S
    assert len(seen.tokens()) == 1, "once it is mended"
    path.unlink()
    now[0] += LOOK_EVERY_S
    with pytest.raises(BusyError, match="No such file"):
        seen.tokens()


@pytest.mark.parametrize("spoil", ["missing", "readable", "replaceable", "empty", "else"])
def test_a_server_does_not_start_with_a_file_that_protects_nothing(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "d" / "tokens.json"
    file.changed(path, lambda tokens: (one("a", 1)[0],))
    words = {"missing": "leadline token create", "readable": "chmod 600", "replaceable": "chmod 700",
             "empty": "holds no token", "else": "expected tokens"}[spoil]  # fmt: skip
    match spoil:
        case "missing":
            path.unlink()
        case "readable":
            path.chmod(0o640)
        case "replaceable":
            path.parent.chmod(0o777)
        case "empty":
            file.changed(path, lambda tokens: ())
        case _:
            path.write_text("x")
    with pytest.raises(ConfigError, match=words) as told:
        TokenFile(path)
    assert "server.token_file" in str(told.value)


def test_a_file_that_cannot_be_written_is_told_with_the_flag(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("a file")
    with pytest.raises(WorldError, match="--token-file"):
        file.changed(tmp_path / "d" / "tokens.json", lambda tokens: ())


def test_a_secret_is_never_written_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("notes")
    with pytest.raises(FileExistsError):
        file.save_private(tmp_path / "mine", "secret")
    assert (tmp_path / "mine").read_text() == "notes"


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_audit_repeats_nothing_and_counts_all(tmp_path: Path) -> None:
    now = [NOW]
    kept = Audit(tmp_path / "t.json", lambda: now[0])
    for _ in range(100):
        kept.refuse({"peer": "10.0.0.1", "why": "revoked"})
    kept.refuse({"peer": "10.0.0.2", "why": "revoked"})
    kept.act({"who": "admin:default/me", "path": "/api/v1/backfill"})
    assert len(rows(tmp_path / "t.json.refused")) == 2
    now[0] += REPEAT_NS
    kept.refuse({"peer": "10.0.0.1", "why": "revoked"})
    kept.refuse({"peer": "10.0.0.1", "why": "revoked"})
    kept.close()
    found = rows(tmp_path / "t.json.refused")
    assert sum(int(str(each.get("times", 1))) for each in found) == 103
    assert found[2]["times"] == 100
    acts = rows(tmp_path / "t.json.acts")
    assert [each["who"] for each in acts] == ["admin:default/me"]
    assert str(acts[0]["time"]).startswith("2025-06-15T")
    assert mode(tmp_path / "t.json.refused") == 0o600


def test_the_audit_is_bounded_whatever_others_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "FILE_BYTES_MAX", 20_000)
    monkeypatch.setattr(audit, "KINDS_MAX", 50)
    now = [NOW]
    kept = Audit(tmp_path / "t.json", lambda: now[0])
    kept.act({"who": "me"})
    for minute in range(10):
        now[0] += REPEAT_NS
        for number in range(100):
            kept.refuse({"path": f"/{minute}/{number}" + "x" * 10_000})
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() <= {"t.json.acts", "t.json.refused", "t.json.refused.1"}
    assert max(sizes.values()) < 20_000 + 1000
    assert rows(tmp_path / "t.json.acts")[0]["who"] == "me", "refusals do not push out acts"


def test_a_full_disk_is_told_and_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = Audit(tmp_path / "gone" / "t.json")
    for _ in range(3):
        kept.act({"who": "me"})
    assert len([each for each in caplog.records if "audit cannot be written" in each.message]) == 1
