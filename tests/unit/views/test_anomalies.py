"""What is told of anomalies: over a store, and on the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from tests.unit.views.paths.path_rows import filled

from leadline.cli.show.anomalies import tell
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.anomalies import NOTHING, anomalies_answer
from leadline.views.asked import Asked

S = 10**9
BEGIN = 1_750_000_000 * S
ASKED = Asked(Principal(), "default", BEGIN + 300 * S)


def anomaly(entity: str, metric: str, start_s: int, end_s: int | None, seen_s: int, score: float, **more: Any) -> Any:
    """A row of `anomaly`, seconds from BEGIN."""
    told = {"tenant": "acme", "cluster": "default", "analysis": "anomaly", "version": 1, "revision": 0}
    told |= {"entity_kind": entity.partition(":")[0], "entity": entity, "metric": metric, "label": None}
    told |= {"start_ns": BEGIN + start_s * S, "earliest_ns": BEGIN + (start_s - 5) * S, "bound_ns": None, "share": 1.0}
    told |= {"end_ns": None if end_s is None else BEGIN + end_s * S, "seen_ns": BEGIN + seen_s * S, "score": score}
    told |= {"direction": "high", "witness": "past", "expected": 0.0, "seen": 40.0, "reported_ns": BEGIN + start_s * S}
    return {**told, **more}


ROWS = [
    anomaly("port:h2/eth0", "node_network_receive_drop_total", 100, None, 110, 9.0),
    anomaly("port:h2/eth0", "node_network_receive_drop_total", 100, 120, 120, 21.0),
    anomaly("host:h4", "node_cpu_seconds_total", 200, None, 300, 30.5, label="mode=iowait"),
    anomaly("host:h4", "node_load1", 210, None, 300, 6.0, tenant="beta"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("anomalies"), {"anomaly": ROWS}) as store:
        yield store


def test_entities_come_the_oddest_first_with_the_row_that_was_seen_last(store: Store) -> None:
    found = anomalies_answer(store, ASKED)
    told = [(each["tenant"], each["entity"], each["score"], each["lasts"]) for each in found["entities"]]
    assert told == [
        ("acme", "host:h4", 30.5, True), ("acme", "port:h2/eth0", 21.0, False), ("beta", "host:h4", 6.0, True),
    ]  # fmt: skip
    assert found["entities"][0]["metrics"][0]["label"] == "mode=iowait"


def test_what_was_over_before_the_span_is_not_told_though_an_older_row_says_that_it_lasts(store: Store) -> None:
    found = anomalies_answer(store, ASKED, BEGIN + 150 * S)
    assert "port:h2/eth0" not in [each["entity"] for each in found["entities"]]


def test_one_entity_and_one_tenant(store: Store) -> None:
    assert anomalies_answer(store, ASKED, entity="port:h2/eth0")["entities_total"] == 1
    beta = replace(ASKED, principal=Principal("beta", "default", Role.TENANT_READ))
    found = anomalies_answer(store, beta)
    assert [row["metric"] for each in found["entities"] for row in each["metrics"]] == ["node_load1"]
    assert anomalies_answer(store, replace(ASKED, at_ns=BEGIN))["why"] == NOTHING


def test_the_terminal_shows_metric_label_witness_and_whether_it_lasts(store: Store) -> None:
    out = Console(width=200, file=io.StringIO(), highlight=False, markup=False)
    tell(out, anomalies_answer(store, ASKED))
    text = str(out.file.getvalue())  # type: ignore[attr-defined]
    assert "3 entities" in text
    line = next(each for each in text.splitlines() if "iowait" in each)
    assert "host:h4" in line
    assert "node_cpu_seconds_total (mode=iowait)" in line
    assert "lasts" in line
