"""Who a request is of, from its headers alone; the same rules on a running server are in test_api."""

from __future__ import annotations

import pytest

from leadline.model.errors import RefusedError
from leadline.model.principal import OPERATE, READ, WRITE, Caller, Principal, Role
from leadline.server import access


def authorize(headers: dict[str, str]) -> Principal:
    return access.authorize(Caller(headers))


def test_without_headers_it_is_the_operator() -> None:
    found = authorize({})
    assert (found.tenant, found.cluster, found.role) == ("default", "default", Role.OPERATOR)


def test_who_names_a_tenant_writes_as_it_and_is_no_operator() -> None:
    found = authorize({"leadline-tenant": "acme", "leadline-cluster": "lab"})
    assert (found.tenant, found.cluster, found.role) == ("acme", "lab", Role.TENANT_WRITE)
    assert found.may(READ)
    assert found.may(WRITE)
    assert not found.may(OPERATE)


@pytest.mark.parametrize("role", list(Role))
def test_a_role_that_is_said_is_the_role(role: Role) -> None:
    assert authorize({"leadline-role": role.value}).role is role
    found = authorize({"leadline-role": role.value, "leadline-tenant": "acme"})
    assert (found.tenant, found.role) == ("acme", role)


@pytest.mark.parametrize("role", ["", "root", "OPERATOR", " operator"])
def test_other_roles_are_refused(role: str) -> None:
    with pytest.raises(RefusedError, match="leadline-role") as told:
        authorize({"leadline-role": role})
    assert told.value.reason == "unauthorized"


@pytest.mark.parametrize("header", ["leadline-tenant", "leadline-cluster"])
@pytest.mark.parametrize("value", ["", "a b", "a/b", "-a", ".a", "a" * 65, "ä", "a\n", "a'b"])
def test_a_name_that_is_no_word_is_refused(header: str, value: str) -> None:
    with pytest.raises(RefusedError, match=header):
        authorize({header: value})


@pytest.mark.parametrize("value", ["a", "A-1_b.c", "0", "a" * 64])
def test_words_are_taken_whole(value: str) -> None:
    assert authorize({"leadline-tenant": value}).tenant == value
    assert authorize({"leadline-cluster": value}).cluster == value


LOOPBACK = ("localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]")
ELSEWHERE = ("example.org", "10.0.0.1", "0.0.0.0", "localhost.example.org", "127.example.org", "", "[fe80::1]")


@pytest.mark.parametrize("host", LOOPBACK)
def test_names_of_this_machine(host: str) -> None:
    authorize({"host": host})
    authorize({"origin": f"http://{host}"})
    authorize({"host": f"{host}:8440"})
    authorize({"host": f"{host}:8440", "origin": f"https://{host}:8440"})


@pytest.mark.parametrize("host", ELSEWHERE)
def test_names_of_elsewhere(host: str) -> None:
    """Whatever else is said."""
    for headers in ({"host": host}, {"host": f"{host}:8440"}, {"host": "localhost", "origin": f"http://{host}"}):
        for more in ({}, {"leadline-tenant": "acme"}, {"leadline-role": "tenant-read"}):
            with pytest.raises(RefusedError) as told:
                authorize({**headers, **more})
            assert told.value.reason == "unauthorized"


@pytest.mark.parametrize("origin", ["null", "file://localhost", "ftp://127.0.0.1", "localhost", "http://"])
def test_origins_that_are_no_page_of_ours(origin: str) -> None:
    with pytest.raises(RefusedError, match="Origin"):
        authorize({"host": "localhost", "origin": origin})


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:9999", "http://127.0.0.1:8440", "https://localhost:8441", "http://localhost:x@evil.com",
     "http://localhost:8440@evil.com", "http://localhost:8440/", "http://localhost", "http://localhost:99999"],
)  # fmt: skip
def test_pages_of_other_ports_are_other_sites(origin: str) -> None:
    """Anybody on this machine may serve a page on a port; a user before @ is no host."""
    with pytest.raises(RefusedError, match="Origin"):
        authorize({"host": "localhost:8440", "origin": origin})


@pytest.mark.parametrize(("host", "origin"), [("LOCALHOST:80", "http://localhost"), ("[::1]", "https://[::1]:443")])
def test_the_usual_port_may_be_left_out(host: str, origin: str) -> None:
    authorize({"host": host, "origin": origin})


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_what_another_page_asks_is_refused(site: str) -> None:
    """`<img src=http://localhost:8440/api/v1/bundle>` sends no Origin; another port is the same site and not ours."""
    asked = {"host": "localhost:8440", "sec-fetch-site": site}
    with pytest.raises(RefusedError, match="another site") as told:
        authorize(asked)
    assert told.value.reason == "unauthorized"
    went = {**asked, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    access.authorize(Caller(went, path="/api/v1/incidents/i/report"))
    for refused in (
        Caller(went, path="/api/v1/bundle"),
        Caller(went, method="POST", path="/api/v1/incidents/i/report"),
    ):
        with pytest.raises(RefusedError):
            access.authorize(refused)


@pytest.mark.parametrize("site", ["none", "same-origin"])
def test_our_own_page_may_ask(site: str) -> None:
    authorize({"host": "localhost:8440", "origin": "http://localhost:8440", "sec-fetch-site": site})
