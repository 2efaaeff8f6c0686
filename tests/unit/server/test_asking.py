"""What end points begin with: whose rows of which time, a span that does not end first, one cluster of several."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from fastapi import Request

from leadline.model.errors import RefusedError, UsageError
from leadline.model.principal import Principal, Role
from leadline.server.asking import Reader, reader_of

NOW = 1_750_000_000 * 10**9
ACME = Principal("acme", "lab", Role.TENANT_READ)


class Clusters:
    """A double of a store: the clusters that relations are of; it notes what it was asked."""

    def __init__(self, *names: str) -> None:
        self.names, self.asked = names, [""]

    def query(self, sql: str, parameters: dict[str, Any]) -> pa.Table:
        self.asked.append(f"{sql} {parameters}")
        return pa.table({"cluster": pa.array(self.names, pa.string())})


def reader(store: Clusters | None = None) -> Reader:
    parts = SimpleNamespace(store=store or Clusters(), now_ns=lambda: NOW)
    return Reader(ACME, SimpleNamespace(parts=parts))  # type: ignore[arg-type]


def test_without_a_time_it_is_the_present_of_whoever_asks() -> None:
    asked = reader().asked()
    assert (asked.principal, asked.cluster, asked.at_ns, asked.latest) == (ACME, "", NOW, True)
    then = reader().asked("-15m", "lab")
    assert (then.cluster, then.at_ns, then.latest) == ("lab", NOW - 900 * 10**9, False)


def test_who_may_not_ask_is_refused_before_anything_is_read() -> None:
    def nobody(_: Any) -> Principal:
        raise RefusedError("unauthorized", "no")

    state = SimpleNamespace(serving=SimpleNamespace(gate=SimpleNamespace(again=nobody)))
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "app": SimpleNamespace(state=state)}
    with pytest.raises(RefusedError):
        asyncio.run(reader_of(Request(scope)))


@pytest.mark.parametrize(("since", "until", "span_s"), [("-10s", "", 10), ("-10s", "-5s", 5), ("", "-5s", None)])
def test_spans(since: str, until: str, span_s: int | None) -> None:
    asked, from_ns = reader().span(since, until, "")
    assert (None if from_ns is None else asked.at_ns - from_ns) == (None if span_s is None else span_s * 10**9)
    assert asked.latest == (not until)


@pytest.mark.parametrize(("since", "until"), [("-5s", "-10s"), ("-5s", "-5s"), (str(NOW), ""), ("2100-01-01", "")])
def test_a_span_that_ends_first_is_told(since: str, until: str) -> None:
    with pytest.raises(UsageError, match="`from` must be before `to`"):
        reader().span(since, until, "")


def test_one_cluster_is_the_one_named_else_the_only_one_else_told() -> None:
    store = Clusters("a", "b")
    found = reader(store)
    assert found.one_cluster(found.asked(cluster="b")).cluster == "b"
    assert store.asked == [""], "a named one is not looked for"
    with pytest.raises(UsageError, match="several clusters, a, b"):
        found.one_cluster(found.asked())
    assert "acme" in store.asked[-1], "clusters of other tenants are not told"
    assert reader(Clusters("a")).one_cluster(found.asked()).cluster == "a"
    assert reader(Clusters()).one_cluster(found.asked()).cluster == "lab"
