"""Who a request is of, from its headers alone; the same rules on a running server are in test_api."""

from __future__ import annotations

import pytest

from leadline.model.errors import RefusedError
from leadline.model.principal import OPERATE, READ, WRITE, Role
from leadline.server.access import authorize


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
