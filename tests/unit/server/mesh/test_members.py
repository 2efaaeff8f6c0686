"""Taking part in the mesh over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.senders.running import RunningLeadline

ONE = {"host": "h1", "clock": "c1", "address": "10.0.0.1", "port": 8444}


def join(leadline: RunningLeadline, told: dict[str, Any], **headers: str) -> httpx.Response:
    return httpx.post(f"{leadline.url}/api/v1/mesh/members", json=told, headers=headers, trust_env=False)


def test_a_host_joins_and_is_told_whom_to_probe(leadline: RunningLeadline) -> None:
    assert join(leadline, ONE).json()["peers"] == []
    found = join(leadline, {**ONE, "host": "h2", "clock": "c2", "address": "fd00::2", "pod": "p1"})
    assert found.status_code == 200
    (peer,) = found.json()["peers"]
    assert {name: peer[name] for name in ONE} == ONE
    assert len(found.json()["key"]) == 32
    elsewhere = join(leadline, ONE, **{"Leadline-Cluster": "b"}).json()
    assert (elsewhere["peers"], elsewhere["key"] != found.json()["key"]) == ([], True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"port": 0}, "port: Input should be greater than or equal to 1"),
        ({"address": "not an address"}, "address"),
        ({"address": "127.0.0.1"}, "address: Value error, expected the address of one host"),
        ({"address": "224.0.0.1"}, "address: Value error, expected the address of one host"),
        ({"address": "1.2.3"}, "address: Value error, '1.2.3' does not appear to be"),
        ({"host": "two\nlines"}, "host"),
        ({"host": None}, "host: Input should be a valid string"),
    ],
)
def test_what_is_no_host_is_refused_by_name(leadline: RunningLeadline, wrong: dict[str, Any], said: str) -> None:
    answer = join(leadline, {**ONE, **wrong})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith(said)


def test_who_may_not_write_may_not_join(leadline: RunningLeadline) -> None:
    answer = join(leadline, ONE, **{"Leadline-Tenant": "acme", "Leadline-Role": "tenant-read"})
    assert answer.status_code == 401, answer.text
