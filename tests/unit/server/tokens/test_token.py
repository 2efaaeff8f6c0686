"""What a token is, without files and clocks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from leadline.model.errors import DataError, UsageError
from leadline.model.principal import ADMINISTER, MARK, OPERATE, READ, WRITE, Role
from leadline.server.tokens import token
from leadline.server.tokens.token import ENDED_KEPT_NS, ID_BYTES, SECRET_BYTES, TOKENS_MAX, Token, TokenRole

NOW = 1_750_000_000 * 10**9
DAY = 86_400 * 10**9


def made(
    name: str = "a", role: str = "read", tenant: str = "", lasts_ns: int = DAY, seed: int = 1
) -> tuple[Token, str]:
    return token.made(name, role, tenant, NOW, lasts_ns, seed.to_bytes(ID_BYTES + SECRET_BYTES, "little"))


def test_the_secret_finds_its_token_and_is_not_in_the_file() -> None:
    tokens: tuple[Token, ...] = ()
    secrets: list[str] = []
    for number in range(1, 4):
        one, secret = made(f"t{number}", seed=number)
        tokens, secrets = token.added(tokens, one, NOW), [*secrets, secret]
    text = token.written(tokens)
    assert token.read(text, "file") == tokens
    for one, secret in zip(tokens, secrets, strict=True):
        assert token.found(tokens, secret) is one
        assert secret not in text
        assert secret.rpartition("_")[2] not in text


@pytest.mark.parametrize("change", [
    lambda s: "", lambda s: s[:-1], lambda s: f"{s}x", lambda s: s[:-1] + ("B" if s[-1] != "B" else "C"),
    lambda s: s.upper(), lambda s: s.replace("ll_", "lx_"), lambda s: f" {s}", lambda s: f"{s}\n",
    lambda s: "ll_" + "0" * 12 + s[15:],
    lambda s: "\udcff", lambda s: "☠" * 60,
])  # fmt: skip
def test_what_is_nearly_the_secret_is_not(change: object) -> None:
    one, secret = made()
    assert token.found((one,), change(secret)) is None  # type: ignore[operator]


@pytest.mark.parametrize(
    ("role", "tenant", "principal", "of", "rights"),
    [
        ("read", "", Role.TENANT_READ, "default", {READ}),
        ("read", "acme", Role.TENANT_READ, "acme", {READ}),
        ("write", "acme", Role.SENDER, "acme", {WRITE}),
        ("operate", "acme", Role.TENANT_OPERATE, "acme", {READ, MARK}),
        ("operate", "", Role.OPERATOR, "default", {READ, WRITE, MARK, OPERATE}),
        ("provider", "infra", Role.PROVIDER, "infra", {READ, WRITE}),
        ("admin", "", Role.ADMIN, "default", {READ, WRITE, MARK, OPERATE, ADMINISTER}),
    ],
)
def test_whom_a_role_speaks_for(role: str, tenant: str, principal: Role, of: str, rights: set[str]) -> None:
    found = made("kim", role, tenant)[0].principal()
    assert (found.role, found.tenant, found.name) == (principal, of, "kim")
    assert {right for right in (READ, WRITE, MARK, OPERATE, ADMINISTER) if found.may(right)} == rights


@pytest.mark.parametrize(
    ("name", "role", "tenant", "words"),
    [
        ("", "read", "", "NAME"), ("a b", "read", "", "NAME"), ("a" * 65, "read", "", "NAME"),
        ("a", "root", "", "--role"), ("a", "read", "a/b", "--tenant"), ("a", "admin", "acme", "--tenant"),
    ],
)  # fmt: skip
def test_tokens_that_cannot_be_are_refused(name: str, role: str, tenant: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        made(name, role, tenant)


def test_a_token_ends_by_its_time_or_by_being_revoked() -> None:
    one, secret = made("a")
    assert [one.state(NOW + at) for at in (0, DAY - 1, DAY)] == ["good", "good", "expired"]
    ever, _ = made("b", lasts_ns=0, seed=2)
    assert ever.state(NOW + 10**6 * DAY) == "good"
    after = token.revoked((one, ever), "a", NOW + 5)
    assert [each.state(NOW) for each in after] == ["revoked", "good"]
    assert token.found(after, secret) is not None, "its holder is told that it was revoked"
    with pytest.raises(UsageError, match="no token that is good is called 'a'; there are: b"):
        token.revoked(after, "a", NOW)
    assert token.revoked(after, ever.id, NOW)[1].revoked_ns == NOW


def test_a_name_is_good_once_and_free_again_when_it_ended() -> None:
    one, two = made("a")[0], made("a", seed=2)[0]
    with pytest.raises(UsageError, match="already"):
        token.added((one,), two, NOW)
    ended = token.revoked((one,), "a", NOW)
    assert token.added(ended, two, NOW) == (*ended, two)
    assert token.added(ended, two, NOW + ENDED_KEPT_NS) == (two,), "what ended long ago is forgotten"
    assert token.added((one,), replace(two, name="b"), NOW + ENDED_KEPT_NS - 1) == (one, replace(two, name="b"))
    with pytest.raises(UsageError, match="by chance"):
        token.added((one,), replace(one, name="b"), NOW)
    with pytest.raises(UsageError, match=f"{TOKENS_MAX} tokens"):
        token.added([replace(one, name=f"n{n}", id=f"{n:012x}") for n in range(TOKENS_MAX)], two, NOW)


@pytest.mark.parametrize("change", [
    lambda e: e.pop("sha256"), lambda e: e.update(more=1), lambda e: e.update(role="root"),
    lambda e: e.update(expires_ns="1"), lambda e: e.update(expires_ns=True),
    lambda e: e.update(sha256="x" * 64), lambda e: e.update(name=None),
])  # fmt: skip
def test_a_spoilt_entry_is_told(change: object) -> None:
    whole = json.loads(token.written([made()[0]]))
    change(whole["tokens"][0])  # type: ignore[operator]
    with pytest.raises(DataError, match=r"f\.json, token 1: expected"):
        token.read(json.dumps(whole), "f.json")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": {}}', "[" * 9999]
)
def test_what_is_no_token_file_is_told(text: str) -> None:
    with pytest.raises(DataError, match="leadline token create"):
        token.read(text, "f.json")


def test_every_role_has_a_principal() -> None:
    for number, role in enumerate(TokenRole, 1):
        assert made(role=role, seed=number)[0].principal().role in set(Role)
