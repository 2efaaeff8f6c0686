"""How well expectations are met, from hand-made verdicts in a store; each test has a cluster of its own in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.builders.stores import opened_store
from tests.unit.views.sle.sle_rows import END, GPU, PORT, append, held, hour, loss

from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.sle.spans import HOUR_NS, MINUTE_NS
from leadline.views.sle.view import Wanted, sle_answer

numbers = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with opened_store(tmp_path_factory.mktemp("sle")) as store:
        yield store


@pytest.fixture
def cluster() -> str:
    return f"c{next(numbers)}"


def fill(store: Store, cluster: str, rows: list[dict[str, Any]], losses: list[dict[str, Any]] | None = None) -> None:
    append(store, "sle", [{**row, "cluster": cluster} for row in rows])
    if losses:
        append(store, "sle_loss", [{**row, "cluster": cluster} for row in losses])


def ask(
    store: Store, cluster: str, at_ns: int = END, principal: Principal = Principal(), **wanted: str
) -> dict[str, Any]:
    return sle_answer(store, Asked(principal, cluster, at_ns), Wanted(**wanted))


def minutes(entity: str, count: int, good: float = 60.0, bad: float = 0.0, missing: float = 0.0, end_ns: int = END,
            **more: Any) -> list[dict[str, Any]]:  # fmt: skip
    return [held(entity, end_ns - place * MINUTE_NS, good, bad, missing, **more) for place in range(count)]


def test_an_hour_of_minutes_gives_share_budget_and_burn(store: Store, cluster: str) -> None:
    quiet = minutes(GPU, 57, end_ns=END - 3 * MINUTE_NS, lost_gpu_seconds=2.0)
    fill(store, cluster, [*quiet, *minutes(GPU, 3, 51.0, 6.0, 3.0)])
    found = ask(store, cluster)
    (row,) = found["held"]
    assert (row["good_s"], row["bad_s"], row["missing_s"]) == (57 * 60 + 153, 18, 9)
    assert row["sle"] == pytest.approx(3573 / 3591)
    assert row["budget_s"] == pytest.approx(36)
    assert row["budget_left"] == pytest.approx(0.5)
    assert row["burn"]["5m"] == pytest.approx(18 / 291 * 100)
    assert row["burn"]["1h"] == pytest.approx(18 / 3591 * 100)
    assert row["burn"]["24h"] == pytest.approx(18 / 86391 * 100)
    assert (row["state"], row["burning"], row["spent"]) == ("ok", "", False)
    assert row["lost_gpu_minutes"] == pytest.approx(1.9)
    assert row["why_missing"] == {"DCGM_FI_DEV_GPU_TEMP": 9}
    assert (found["end_ns"], found["from_ns"]) == (END, END - HOUR_NS)
    assert found["layers"] == [
        {"layer": "gpu", "held": 1, "critical": 0, "warning": 0, "unknown": 0, "ok": 1, "good_s": 3573.0, "bad_s": 18.0,
         "missing_s": 9.0}
    ]  # fmt: skip


def test_both_windows_must_burn_fast(store: Store, cluster: str) -> None:
    """A tenth of the last hour is bad (burns at 10), then a fifth (at 20); only while it still goes on is it fast."""
    over = minutes("gpu:over", 12, 0.0, 60.0, end_ns=END - 10 * MINUTE_NS)
    fill(store, cluster, [*minutes("gpu:ten", 6, 0, 60), *minutes("gpu:twelve", 12, 0, 60), *over])
    rows = {row["entity"]: row for row in ask(store, cluster)["held"]}
    assert rows["gpu:twelve"]["burn"] == pytest.approx({"5m": 100.0, "1h": 20.0, "24h": 720 / 864})
    assert [rows[f"gpu:{name}"]["burning"] for name in ("ten", "twelve", "over")] == ["", "fast", ""]
    assert [rows[f"gpu:{name}"]["state"] for name in ("ten", "twelve", "over")] == ["warning", "critical", "warning"]
    assert next(iter(rows)) == "gpu:twelve"


def test_a_day_burns_slowly_and_a_spent_budget_is_told(store: Store, cluster: str) -> None:
    hours = [hour(held(GPU, END - place * HOUR_NS, 3420, 180)) for place in range(24)]
    fill(store, cluster, [*minutes(GPU, 60, 57, 3), *hours])
    (row,) = ask(store, cluster, window="24h")["held"]
    assert (row["bad_s"], row["good_s"]) == (24 * 180, 24 * 3420)  # the last hour once, by its sum
    assert row["burn"]["24h"] == pytest.approx(5.0)
    assert (row["burning"], row["spent"], row["state"]) == ("slow", True, "warning")
    assert row["budget_left"] == pytest.approx(1 - 4320 / 864)
    assert ask(store, cluster, window="5m")["held"][0]["spent"]  # 15 of 3 s


@pytest.mark.parametrize("summed", [(), (1,), (1, 3), (2, 3, 4), (1, 2, 3, 4, 24)])
def test_every_second_counts_once_whichever_hours_are_summed(
    store: Store, cluster: str, summed: tuple[int, ...]
) -> None:
    """26 hours of minutes whose bad seconds tell them apart; asked at the hour and minutes before it."""
    rows = [held(GPU, END - place * MINUTE_NS, 60 - place % 7, place % 7) for place in range(26 * 60)]
    made = [
        hour(held(GPU, END - back * HOUR_NS, 0, 0), bad_s=float(sum(row["bad_s"] for row in mine)),
             good_s=float(sum(row["good_s"] for row in mine)))
        for back in summed
        for mine in [rows[back * 60 : back * 60 + 60]]
    ]  # fmt: skip
    fill(store, cluster, rows + made)
    for late, (window, count) in itertools.product((0, 7, 59), (("5m", 5), ("1h", 60), ("24h", 1440))):
        end_ns = END - late * MINUTE_NS
        (row,) = ask(store, cluster, end_ns, window=window)["held"]
        expected = [each for each in rows if end_ns - count * MINUTE_NS < each["end_ns"] <= end_ns]
        assert row["bad_s"] == sum(each["bad_s"] for each in expected), (late, window)
        assert row["good_s"] + row["bad_s"] == count * 60
        assert row["burn"]["24h"] == pytest.approx(
            sum(each["bad_s"] for each in rows if end_ns - 1440 * MINUTE_NS < each["end_ns"] <= end_ns) / 864
        )


def test_a_month_is_read_from_hours(store: Store, cluster: str) -> None:
    hours = [hour(held(GPU, END - place * HOUR_NS, 3590, 10)) for place in range(721)]  # one of them is before the span
    fill(store, cluster, [*hours, *minutes(GPU, 30, 59, 1, end_ns=END + 30 * MINUTE_NS)])
    (row,) = ask(store, cluster, END, window="30d")["held"]
    assert (row["bad_s"], row["good_s"]) == (7200, 720 * 3590)
    (row,) = ask(store, cluster, END + 30 * MINUTE_NS, window="30d")["held"]
    # The hour that the span begins in has no minutes any more: it is left out, not taken whole.
    assert row["bad_s"] == 719 * 10 + 30


def test_missing_is_never_good_and_comes_before_what_is_well(store: Store, cluster: str) -> None:
    fill(store, cluster, [*minutes("gpu:dark", 60, 0, 0, 60), *minutes("gpu:fine", 60), *minutes("gpu:bad", 30, 59, 1)])
    rows = ask(store, cluster)["held"]
    assert [row["entity"] for row in rows] == ["gpu:dark", "gpu:bad", "gpu:fine"]
    dark = rows[0]
    assert (dark["sle"], dark["state"], dark["good_s"]) == (None, "unknown", 0)
    assert dark["burn"] == {"5m": None, "1h": None, "24h": 0.0}
    assert dark["why_missing"] == {"DCGM_FI_DEV_GPU_TEMP": 3600}


def test_classifiers_add_up_to_the_loss_whatever_is_left_out(store: Store, cluster: str) -> None:
    bad = held(GPU, END, 20, 40)
    parts = [9.0, 8.0, 7.0, 6.0, 5.0, 3.0, 2.0]
    losses = [loss(bad, f"above {place}", seconds) for place, seconds in enumerate(parts)]
    other = held(PORT, END, 50, 10, expectation="link-flaps", layer="nic")
    fill(store, cluster, [bad, other], [*losses, loss(other, "flaps", 4.0)])
    rows = {row["entity"]: row for row in ask(store, cluster)["held"]}
    told = rows[GPU]["classifiers"]
    assert [(each["classifier"], each["seconds"]) for each in told] == [
        ("above 0", 9), ("above 1", 8), ("above 2", 7), ("above 3", 6), ("above 4", 5), ("(2 others)", 5),
    ]  # fmt: skip
    assert told[0] == {"classifier": "above 0", "metric": "DCGM_FI_DEV_GPU_TEMP", "culprit": GPU, "bound": "absolute",
                       "seconds": 9}  # fmt: skip
    assert [(each["classifier"], each["seconds"]) for each in rows[PORT]["classifiers"]] == [
        ("flaps", 4), ("(no reason given)", 6),
    ]  # fmt: skip


def test_the_latest_revision_counts(store: Store, cluster: str) -> None:
    fill(store, cluster, [held(GPU, END, 60, 0), held(GPU, END, 50, 10, revision=1), held(PORT, END, 60, 0)])
    fill(store, cluster, [held(PORT, END, 60, 0, revision=-2)])  # revision 1 has nothing of it, and takes it back
    run = {
        "tenant": "default", "cluster": cluster, "analysis": "sle", "part": "", "end_ns": END, "window_ns": MINUTE_NS,
        "version": 1, "revision": 1, "state": "done", "rows_in": 9, "rows_out": 9, "digest": 1, "took_ns": 5,
        "error": "",
    }  # fmt: skip
    append(store, "analysis_run", [run])
    rows = ask(store, cluster)["held"]
    assert [(row["entity"], row["bad_s"]) for row in rows] == [(GPU, 10)]  # what revision 1 does not say is gone


def test_a_tenant_sees_its_own_and_an_operator_tells_them_apart(store: Store, cluster: str) -> None:
    fill(store, cluster, [held(GPU, END, 60, 0, tenant="acme"), held(GPU, END, 50, 10, tenant="beta")])
    rows = ask(store, cluster)["held"]
    assert [(row["tenant"], row["bad_s"]) for row in rows] == [("beta", 10), ("acme", 0)]
    mine = ask(store, cluster, principal=Principal("acme", "default", Role.TENANT_READ))
    assert [(row["tenant"], row["bad_s"]) for row in mine["held"]] == [("acme", 0)]


def test_a_replay_that_has_ended_tells_its_last_minute(store: Store, cluster: str) -> None:
    fill(store, cluster, minutes(GPU, 3))
    now_ns = END - MINUTE_NS // 2  # where the recording ends
    latest = sle_answer(store, Asked(Principal(), cluster, now_ns, latest=True), Wanted())
    assert (latest["end_ns"], ask(store, cluster, now_ns)["end_ns"]) == (END, END - MINUTE_NS)


def test_filters_and_layers(store: Store, cluster: str) -> None:
    fill(store, cluster, [held(GPU, END, 60, 0), held(PORT, END, 50, 10, expectation="link-flaps", layer="nic")])
    everything = ask(store, cluster)
    assert [layer["layer"] for layer in everything["layers"]] == ["gpu", "nic"]
    assert everything["held_total"] == 2
    for wanted in ({"layer": "nic"}, {"entity": PORT}, {"expectation": "link-flaps"}):
        assert [row["entity"] for row in ask(store, cluster, **wanted)["held"]] == [PORT]
    assert "did you mean port:h3/eth0?" in ask(store, cluster, entity="port:h3/eth1")["why"]
    assert "did you mean link-flaps?" in ask(store, cluster, expectation="link-flap")["why"]
    with pytest.raises(UsageError, match="window: expected one of 5m, 1h, 24h, 30d, got '2h'"):
        ask(store, cluster, window="2h")
    with pytest.raises(UsageError, match=r"layer: expected one of application, .*, got 'disk'"):
        ask(store, cluster, layer="disk")


def test_totals_count_what_is_not_told(store: Store, cluster: str) -> None:
    fill(store, cluster, [held(f"gpu:{place:04d}", END, 60 - place % 2, place % 2) for place in range(250)])
    found = ask(store, cluster)
    assert (len(found["held"]), found["held_total"]) == (100, 250)
    assert found["layers"][0]["bad_s"] == 125
    assert all(row["bad_s"] == 1 for row in found["held"])


def test_an_objective_of_one_has_no_budget_and_any_bad_second_spends_it(store: Store, cluster: str) -> None:
    fill(store, cluster, [held(GPU, END, 59, 1, objective=1.0), held(PORT, END, 60, 0, objective=1.0)])
    rows = {row["entity"]: row for row in ask(store, cluster)["held"]}
    assert (rows[GPU]["budget_left"], rows[GPU]["spent"], rows[GPU]["state"]) == (None, True, "warning")
    assert (rows[PORT]["spent"], rows[PORT]["state"]) == (False, "ok")


def test_an_objective_so_low_that_nothing_burns_at_14_burns_fast_when_all_is_bad(store: Store, cluster: str) -> None:
    fill(store, cluster, [*minutes(GPU, 60, 0, 60, objective=0.5), *minutes(PORT, 60, 12, 48, objective=0.5)])
    rows = {row["entity"]: row for row in ask(store, cluster)["held"]}
    assert (rows[GPU]["burning"], rows[PORT]["burning"]) == ("fast", "")


def test_nothing_judged_is_told_with_why(store: Store, cluster: str) -> None:
    found = ask(store, cluster)
    assert (found["held"], found["end_ns"]) == ([], None)
    assert "nothing was analysed by then" in found["why"]
    fill(store, cluster, [held(GPU, END, 60, 0)])
    late = ask(store, cluster, END + HOUR_NS)
    assert late["end_ns"] == END
    assert "the newest minute analysed by then ended at 2025-" in late["note"]
