"""Who is let in, and what each role may do: by the gate alone, and at every route that the server has."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter

from leadline.ingest.http import OUR_SOCKET
from leadline.model.errors import RefusedError
from leadline.model.principal import OPERATE, READ, WRITE, Caller, Role
from leadline.model.tables import TABLES
from leadline.server.config import Flag, load
from leadline.server.main import ServerProcess
from leadline.server.tokens import file, token
from leadline.server.tokens.audit import Audit
from leadline.server.tokens.file import TokenFile
from leadline.server.tokens.gate import COOKIE, Gate
from leadline.server.tokens.rights import OPEN, RIGHTS, guarded_router, require_all_listed, routes_of
from leadline.server.tokens.token import ID_BYTES, SECRET_BYTES, Token

LASTS_NS = 3600 * 10**9
HOLDERS = {
    "reader": ("read", "acme"), "sender": ("write", "acme"), "duty": ("operate", "acme"), "ops": ("operate", ""),
    "fabric": ("provider", "infra"), "me": ("admin", ""), "gone": ("admin", ""), "old": ("admin", ""),
}  # fmt: skip


class Held:
    """A token file with a token of every kind, and their secrets by name."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "tokens.json"
        self.secrets: dict[str, str] = {}
        tokens: tuple[Token, ...] = ()
        now_ns = time.time_ns()
        for name, (role, tenant) in HOLDERS.items():
            began_ns = now_ns - 2 * LASTS_NS if name == "old" else now_ns
            chance = secrets.token_bytes(ID_BYTES + SECRET_BYTES)
            one, self.secrets[name] = token.made(name, role, tenant, began_ns, LASTS_NS, chance)
            tokens = token.added(tokens, one, now_ns)
        file.changed(self.path, lambda _: token.revoked(tokens, "gone", now_ns))

    def headers(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secrets[name]}"}

    def rows(self, kind: str) -> list[dict[str, Any]]:
        path = self.path.with_name(f"{self.path.name}.{kind}")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    return Held(tmp_path_factory.mktemp("tokens"))


@pytest.fixture
def gate(held: Held) -> Gate:
    return Gate(TokenFile(held.path), Audit(held.path))


def refused(gate: Gate, caller: Caller) -> tuple[str, str]:
    with pytest.raises(RefusedError) as told:
        gate(caller)
    return told.value.reason, str(told.value)


def test_without_a_good_token_nobody_is_let_in(gate: Gate, held: Held) -> None:
    secret = held.secrets["me"]
    for headers, words in (
        ({}, "leadline token create"),
        ({"host": "localhost", "leadline-role": "operator"}, "a token is needed"),
        ({"authorization": f"Basic {secret}"}, "a token is needed"),
        ({"authorization": "Bearer "}, "a token is needed"),
        ({"authorization": f"Bearer {secret}x"}, "not known"),
        (held.headers("gone"), "the token gone was revoked at"),
        (held.headers("old"), "the token old expired at"),
    ):
        reason, text = refused(gate, Caller(headers, peer="10.0.0.9"))
        assert reason == "unauthorized"
        assert words in text
        assert secret not in text


def test_a_token_that_was_just_made_is_good_at_once(tmp_path: Path) -> None:
    held = Held(tmp_path)
    gate = Gate(TokenFile(held.path, monotonic=lambda: 0.0), None)
    now_ns = time.time_ns()
    one, secret = token.made("new", "read", "", now_ns, 0, secrets.token_bytes(ID_BYTES + SECRET_BYTES))
    file.changed(held.path, lambda before: token.added(before, one, now_ns))
    assert gate(Caller({"authorization": f"Bearer {secret}"})).name == "new"


def test_its_own_name_is_not_refused(gate: Gate, held: Held) -> None:
    found = gate(Caller({**held.headers("reader"), "host": "leadline.example:8440"}, peer="10.0.0.9"))
    assert (found.tenant, found.role, found.name) == ("acme", Role.TENANT_READ, "reader")


def test_only_the_socket_needs_no_token(gate: Gate, held: Held) -> None:
    """Its file is the owner's. A missing address is not enough: a TCP connection that was reset has none."""
    assert gate(Caller({}, OPERATE, peer="")).role is Role.OPERATOR
    assert gate(Caller(held.headers("reader"), peer="")).role is Role.TENANT_READ
    assert refused(gate, Caller(held.headers("gone"), peer=""))[0] == "unauthorized"
    assert refused(gate, Caller({}))[0] == "unauthorized"


@pytest.mark.parametrize(
    ("name", "headers", "then"),
    [
        ("sender", {"leadline-tenant": "acme"}, ("acme", Role.SENDER)),
        ("sender", {"leadline-tenant": "blue"}, "of tenant acme, not blue"),
        ("reader", {"leadline-role": "operator"}, "may not act as operator"),
        ("duty", {"leadline-role": "tenant-write"}, "may not act as tenant-write"),
        ("duty", {"leadline-role": "tenant-read"}, ("acme", Role.TENANT_READ)),
        ("fabric", {"leadline-tenant": "acme"}, "of tenant infra, not acme"),
        ("ops", {"leadline-role": "admin"}, "may not act as admin"),
        ("ops", {}, ("default", Role.OPERATOR)),
        ("ops", {"leadline-tenant": "blue"}, ("blue", Role.TENANT_WRITE)),
        ("me", {"leadline-tenant": "blue", "leadline-role": "operator"}, ("blue", Role.OPERATOR)),
        ("me", {"leadline-role": "root"}, "expected"),
    ],
)
def test_nobody_acts_as_more_than_the_token(
    gate: Gate, held: Held, name: str, headers: dict[str, str], then: Any
) -> None:
    wants = WRITE if name in ("sender", "fabric") else READ
    caller = Caller({**held.headers(name), **headers}, wants, peer="10.0.0.9")
    if isinstance(then, str):
        assert then in refused(gate, caller)[1]
    else:
        found = gate(caller)
        assert (found.tenant, found.role) == then


def test_a_cookie_alone_changes_nothing(gate: Gate, held: Held) -> None:
    asked = {"host": "leadline.example", "cookie": f"theme=dark; {COOKIE}={held.secrets['duty']}"}
    gate(Caller(asked))
    gate(Caller({**asked, "origin": "https://leadline.example"}, method="POST"))
    for more in (
        {},
        {"origin": "https://evil.example"},
        {"origin": "https://leadline.example:8441"},
        {"origin": "null"},
    ):
        assert refused(gate, Caller({**asked, **more}, method="POST"))[0] == "unauthorized"
    for site in ("cross-site", "same-site"):
        assert refused(gate, Caller({**asked, "sec-fetch-site": site}))[0] == "unauthorized"


def test_refusals_and_privileged_acts_are_rows_without_secrets(held: Held) -> None:
    gate = Gate(TokenFile(held.path), Audit(held.path))
    before = len(held.rows("acts"))
    gate(Caller(held.headers("reader"), READ, path="/api/v1/series"))
    gate(Caller(held.headers("ops"), OPERATE, "POST", "/api/v1/backfill", "10.0.0.7"))
    refused(gate, Caller(held.headers("gone"), WRITE, "POST", "/api/v1/write", "10.0.0.8"))
    acts = held.rows("acts")[before:]
    assert [(each["who"], each["path"], each["peer"]) for each in acts] == [
        ("operator:default/ops", "/api/v1/backfill", "10.0.0.7")
    ]
    last = held.rows("refused")[-1]
    assert (last["who"], last["path"], last["peer"], last["outcome"]) == (
        "gone",
        "/api/v1/write",
        "10.0.0.8",
        "refused",
    )
    text = held.path.with_name("tokens.json.refused").read_text() + held.path.with_name("tokens.json.acts").read_text()
    assert not any(secret in text for secret in held.secrets.values())


# --- every route that there is ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(held: Held, tmp_path_factory: pytest.TempPathFactory) -> ServerProcess:
    """A server as it is built, not started: who is let in is decided before anything else is asked."""
    flags = [
        Flag("test", "server", "token_file", str(held.path)),
        Flag("test", "server", "host", "0.0.0.0"),
        Flag("test", "store", "path", str(tmp_path_factory.mktemp("store"))),
        Flag("test", "runner", "enabled", False),
    ]
    return ServerProcess(load(None, {}, flags))


def statuses(server: ServerProcess, asked: list[tuple[str, str, dict[str, str]]], at_socket: bool = False) -> list[int]:
    """The status of each request (method, path, headers)."""
    app: Any = server._listeners[0].config.app

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, OUR_SOCKET: True} if at_socket else scope, receive, send)

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(wrapped, raise_app_exceptions=False, client=("10.0.0.9", 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://leadline.example:8440") as client:
            return [
                (
                    await client.request(method, path, headers=headers, content=b"{" if method == "POST" else None)
                ).status_code
                for method, path, headers in asked
            ]

    return asyncio.run(ask())


def paths() -> list[tuple[str, str, str]]:
    """Every route with what it needs: (method, an address of it, right). The stream of changes never ends and is left
    out here; who may follow it is decided by the same route class."""
    found = [(method, path, right) for (method, path), right in RIGHTS.items() if path != "/api/v1/changes"]
    ways_in = [
        "/api/v1/write",
        "/v1/metrics",
        "/v1/logs",
        "/api/v1/ring",
        *(f"/api/v1/rows/{each.name}" for each in TABLES),
    ]
    found += [("POST", path, WRITE) for path in ways_in]
    fill = {"{incident}": "i", "{table}": "no", "{job:path}": "j", "{rest:path}": "x"}
    for word, value in fill.items():
        found = [(method, path.replace(word, value), right) for method, path, right in found]
    return found


def test_every_route_of_the_server_says_what_it_needs(server: ServerProcess) -> None:
    assert routes_of(server.api.routes) == RIGHTS.keys()
    assert {path for method, path in RIGHTS if method != "GET" and RIGHTS[method, path] == OPEN} == {"/api/v1/session"}


@pytest.mark.parametrize("name", [None, *HOLDERS])
def test_every_role_at_every_route(server: ServerProcess, held: Held, name: str | None) -> None:
    """Refused where the role does not suffice and nowhere else: 401 without a good token, 403 with one."""
    headers = held.headers(name) if name else {}
    good = name not in (None, "gone", "old")
    principal = next((each.principal() for each in file.loaded(held.path)[1] if each.name == name), None)
    asked = [each for each in paths() if each[1] != "/api/v1/session"]
    found = statuses(server, [(method, path, headers) for method, path, _ in asked])
    for (method, path, right), status in zip(asked, found, strict=True):
        if right == OPEN or (good and principal is not None and principal.may(right)):
            assert status not in (401, 403) or (status == 403 and "/rows/" in path), (method, path, status)
        else:
            assert status == (403 if good else 401), (method, path, status)


def test_the_socket_lets_its_owner_do_everything(server: ServerProcess) -> None:
    asked = [(method, path, {"host": "localhost"}) for method, path, _ in paths() if path != "/api/v1/session"]
    assert not {401, 403} & set(statuses(server, asked, at_socket=True))


def test_a_body_is_not_read_of_whom_is_not_let_in(server: ServerProcess) -> None:
    read = []

    async def endless() -> Any:
        for _ in range(10):
            read.append(1)
            yield b" " * 100_000

    async def ask() -> int:
        transport = httpx.ASGITransport(server.api, client=("10.0.0.9", 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://leadline.example") as client:
            return (await client.post("/api/v1/sql", content=endless())).status_code

    assert asyncio.run(ask()) == 401
    assert not read


def test_signing_in_keeps_the_token_where_no_script_reads_it(server: ServerProcess, held: Held) -> None:
    async def ask() -> None:
        transport = httpx.ASGITransport(server.api, client=("10.0.0.9", 5000))
        origin = {"origin": "https://leadline.example"}
        async with httpx.AsyncClient(transport=transport, base_url="https://leadline.example") as client:
            for given, status in (("nonsense", 401), (held.secrets["gone"], 401), (held.secrets["sender"], 403)):
                assert (
                    await client.post("/api/v1/session", json={"token": given}, headers=origin)
                ).status_code == status
            assert not client.cookies
            other = await client.post(
                "/api/v1/session", json={"token": held.secrets["duty"]}, headers={"origin": "https://evil.example"}
            )
            assert other.status_code == 401, "no other site signs a browser in"
            answer = await client.post("/api/v1/session", json={"token": f" {held.secrets['duty']}\n"}, headers=origin)
            assert (answer.status_code, answer.json()["name"]) == (200, "duty")
            cookie = answer.headers["set-cookie"].lower()
            assert all(each in cookie for each in ("httponly", "samesite=strict", "secure", "path=/", "max-age="))
            assert 0 < int(cookie.partition("max-age=")[2].partition(";")[0]) <= LASTS_NS // 10**9
            who = (await client.get("/api/v1/session")).json()
            assert (who["asks"], who["role"], who["tenant"]) == (True, "tenant-operate", "acme")
            assert (await client.post("/api/v1/backfill", headers=origin, json={})).status_code == 403
            await client.delete("/api/v1/session", headers=origin)
            assert (await client.get("/api/v1/session")).status_code == 401

    asyncio.run(ask())


def test_a_route_that_does_not_pass_the_gate_stops_the_server() -> None:
    plain = APIRouter()
    plain.add_api_route("/api/v1/jobs", lambda: None, methods=["GET"])
    with pytest.raises(AssertionError, match="guarded_router"):
        require_all_listed(plain.routes)
    unlisted = guarded_router()
    unlisted.add_api_route("/api/v1/new", lambda: None, methods=["GET"])
    with pytest.raises(AssertionError, match=r"rights\.py.*api/v1/new"):
        require_all_listed(unlisted.routes)
