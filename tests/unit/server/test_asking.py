"""What end points begin with: whose rows of which time, a span that does not end first, one cluster of several."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from leadline.model.errors import RefusedError, UsageError
from leadline.model.principal import Principal, Role
from leadline.server.asking import Ways

NOW = 1_750_000_000 * 10**9
ACME = Principal("acme", "lab", Role.TENANT_READ)


class Clusters:
    """A double of a store: the clusters that relations are of; it notes what it was asked."""

    def __init__(self, *names: str) -> None:
        self.names, self.asked = names, [""]

    def query(self, sql: str, parameters: dict[str, Any]) -> pa.Table:
        self.asked.append(f"{sql} {parameters}")
        return pa.table({"cluster": pa.array(self.names, pa.string())})


def ways(store: Clusters | None = None, who: Any = lambda _: ACME) -> Ways:
    parts = SimpleNamespace(store=store or Clusters(), now_ns=lambda: NOW)
    return Ways(parts, who, nullcontext, {})  # type: ignore[arg-type]


REQUEST: Any = None


def test_without_a_time_it_is_the_present_of_whoever_asks() -> None:
    asked = ways().asked(REQUEST)
    assert (asked.principal, asked.cluster, asked.at_ns, asked.latest) == (ACME, "", NOW, True)
    then = ways().asked(REQUEST, "-15m", "lab")
    assert (then.cluster, then.at_ns, then.latest) == ("lab", NOW - 900 * 10**9, False)


def test_who_may_not_ask_is_refused_before_anything_is_read() -> None:
    def nobody(_: Any) -> Principal:
        raise RefusedError("unauthorized", "no")

    with pytest.raises(RefusedError):
        ways(who=nobody).span(REQUEST, "no time", "no time", "")


@pytest.mark.parametrize(("since", "until", "span_s"), [("-10s", "", 10), ("-10s", "-5s", 5), ("", "-5s", None)])
def test_spans(since: str, until: str, span_s: int | None) -> None:
    asked, from_ns = ways().span(REQUEST, since, until, "")
    assert (None if from_ns is None else asked.at_ns - from_ns) == (None if span_s is None else span_s * 10**9)
    assert asked.latest == (not until)


@pytest.mark.parametrize(("since", "until"), [("-5s", "-10s"), ("-5s", "-5s"), (str(NOW), ""), ("2100-01-01", "")])
def test_a_span_that_ends_first_is_told(since: str, until: str) -> None:
    with pytest.raises(UsageError, match="`from` must be before `to`"):
        ways().span(REQUEST, since, until, "")


def test_one_cluster_is_the_one_named_else_the_only_one_else_told() -> None:
    store = Clusters("a", "b")
    found = ways(store)
    assert found.one_cluster(found.asked(REQUEST, cluster="b")).cluster == "b"
    assert store.asked == [""], "a named one is not looked for"
    with pytest.raises(UsageError, match="several clusters, a, b"):
        found.one_cluster(found.asked(REQUEST))
    assert "acme" in store.asked[-1], "clusters of other tenants are not told"
    assert ways(Clusters("a")).one_cluster(found.asked(REQUEST)).cluster == "a"
    assert ways(Clusters()).one_cluster(found.asked(REQUEST)).cluster == "lab"
