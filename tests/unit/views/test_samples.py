"""Samples of an entity as plots show them: binned, counters as rates, beside the median of peers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.paths.path_rows import filled

from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.samples import LATENESS, SILENT, samples_answer

S = 10**9
T0 = 1_750_000_000 * S
END = T0 + 100 * S
BETA = Principal("beta", "default", Role.TENANT_READ)


def series(number: int, name: str, entity: str, **more: Any) -> dict[str, Any]:
    return row(
        "series", series=number, name=name, entity=entity, entity_kind=entity.partition(":")[0], first_ns=T0,
        last_ns=END, source="scrape", **{"type": "gauge", "unit": None, "labels": {"host": entity[5:]}, **more},
    )  # fmt: skip


def sample(number: int, after_s: float, value: float, **more: Any) -> dict[str, Any]:
    return row("metric_sample", series=number, time_ns=T0 + round(after_s * S), value=value, **more)


def step(rank: int, number: int, seconds: float, **more: Any) -> dict[str, Any]:
    end_ns = T0 + (number + 1) * 10 * S
    told = {
        "start_ns": end_ns - round(seconds * S),
        "end_ns": end_ns,
        "host": f"h{rank}",
        "batch_row": number * 8 + rank,
    }
    return row("step", **{**told, "job": "bert-1", "rank": rank, "step": number, "clock": "c", "batch": 1, **more})


def call(rank: int, seq: int, late_s: float) -> dict[str, Any]:
    at_ns = T0 + seq * 10 * S + round(late_s * S)
    return row(
        "collective", job="bert-1", comm="bert-1/0x9c", rank=rank, seq=seq, ranks=3, op="all_reduce", enqueued_ns=at_ns,
        state="finished", host=f"h{rank}", clock="c", batch=2, batch_row=seq * 8 + rank,
    )  # fmt: skip


ROWS = {
    "series": [
        *(series(number, "temp", f"host:h{number}", unit="Cel") for number in (1, 2, 3)),
        series(4, "temp", "host:h1", tenant="beta"),  # another's host of this name
        series(5, "sent_total", "host:h1", type="counter", unit="bytes"),
        *(series(6 + place, "mode", "host:h1", labels={"mode": mode}) for place, mode in enumerate(("idle", "user"))),
    ],
    "metric_sample": [
        *(sample(number, 5.0 * at, 40.0 + 10 * number) for number in (1, 2, 3) for at in range(20)),
        *(sample(4, 5.0 * at, 999.0, tenant="beta") for at in range(20)),
        sample(1, 52.0, float("nan")),  # a stale marker
        sample(5, -10.0, 500.0), sample(5, 0.5, 1500.0), sample(5, 10.5, 3500.0), sample(5, 20.5, 100.0),
        *(sample(6 + place, 5.0 * at, float(place)) for place in (0, 1) for at in range(20)),
    ],
    "step": [
        *(step(rank, number, 2.0 + (rank == 2)) for rank in (0, 1, 2) for number in range(8)),
        step(0, 8, 5.0, checkpoint_ns=3 * S),
    ],
    "collective": [call(rank, seq, 0.5 * (rank == 2)) for rank in (0, 1, 2) for seq in range(1, 9)],
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("samples"), ROWS) as store:
        yield store


def asked(
    store: Store, metric: str, entity: str, points: int = 10, peers: bool = False, who: Principal | None = None
) -> dict[str, Any]:
    principal = who or Principal("default", "default", Role.TENANT_READ)
    return samples_answer(store, Asked(principal, "", END), metric, entity, T0, points, peers)


def test_a_gauge_has_mean_and_extremes_of_each_bin(store: Store) -> None:
    found = asked(store, "temp", "host:h1")
    (stream,) = found["streams"]
    assert found["unit"] == "Cel"
    assert not found["rate"]
    assert found["bin_ns"] == 10 * S
    assert stream["mean"] == [50.0] * 10
    assert stream["low"] == stream["high"] == [50.0] * 10  # a stale marker is no value
    assert found["t_ns"][0] == T0 + 5 * S  # the newest sample of the bin


def test_peers_are_others_of_its_kind_and_of_those_that_may_be_seen(store: Store) -> None:
    peers = asked(store, "temp", "host:h1", peers=True)["peers"]
    assert (peers["count"], peers["median"][0]) == (2, 65.0)
    assert asked(store, "temp", "host:h1", peers=True, who=BETA)["peers"] is None
    assert asked(store, "temp", "host:h1", who=BETA)["streams"][0]["mean"][0] == 999.0


def test_an_operator_sees_both_tenants_apart(store: Store) -> None:
    found = asked(store, "temp", "host:h1", who=Principal())
    assert [(each["tenant"], each["mean"][0]) for each in found["streams"]] == [("beta", 999.0), ("default", 50.0)]


def test_a_counter_is_a_rate_from_the_value_before_and_begins_again_at_zero(store: Store) -> None:
    found = asked(store, "sent_total", "host:h1")
    assert (found["unit"], found["rate"]) == ("By/s", True)
    assert found["streams"][0]["mean"] == [pytest.approx(1000 / 10.5, rel=1e-4), 200.0, 10.0]
    assert found["streams"][0]["low"] is None


def test_streams_that_differ_by_a_label_are_told_apart_and_have_no_median(store: Store) -> None:
    found = asked(store, "mode", "host:h1", peers=True)
    assert [each["labels"] for each in found["streams"]] == [{"mode": "idle"}, {"mode": "user"}]
    assert found["peers"] is None


def test_steps_of_a_rank_beside_the_others_and_of_all(store: Store) -> None:
    one = asked(store, "step.seconds", "rank:bert-1/2", peers=True)
    assert one["streams"][0]["mean"] == [3.0] * 8
    assert (one["peers"]["count"], one["peers"]["median"][0], one["unit"]) == (2, 2.0, "s")
    every = asked(store, "step.seconds", "job:bert-1")
    assert every["streams"][0]["high"][:8] == [3.0] * 8
    assert every["streams"][0]["mean"][-1] == 2.0  # without the checkpoint


def test_lateness_is_held_against_the_rank_in_the_middle(store: Store) -> None:
    found = asked(store, LATENESS, "rank:bert-1/2", peers=True)
    assert found["streams"][0]["mean"] == [0.5] * 8
    assert found["peers"]["median"] == [0.0] * 8


def test_of_silence_the_samples_that_came_are_counted(store: Store) -> None:
    found = asked(store, SILENT, "host:h2")
    assert found["streams"][0]["mean"] == [0.2] * 10
    assert asked(store, SILENT, "host:h9")["why"] == "no data from host:h9 in this span"


def test_what_is_not_there_is_said(store: Store) -> None:
    assert "no stream nonsense of host:h1" in asked(store, "nonsense", "host:h1")["why"]
    assert "no steps" in asked(store, "step.loss", "rank:bert-1/7")["why"]
    with pytest.raises(UsageError, match="is for jobs and ranks"):
        asked(store, "step.seconds", "host:h1")
    with pytest.raises(UsageError, match="entity id"):
        asked(store, "temp", "h1")
