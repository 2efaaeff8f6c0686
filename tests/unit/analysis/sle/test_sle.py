from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.expectations import MINUTE, T0, Said, always, gpus, hot_gpu, promise, since, tables
from tests.builders.fabrics import S
from tests.builders.small_job import collective, event, relations, step
from tests.common.analysis_laws import judged, rows_of

from leadline.analysis.sle.expectations import parse, to_text
from leadline.analysis.sle.sle import OWN_MAX, OWN_SPEC_MAX, promises, sles
from leadline.model.accounts import EVERYWHERE

Row = dict[str, Any]
HOT = "{metric: DCGM_FI_DEV_GPU_TEMP, above: 85}"


def spec(*bounds: str, of: str = "gpu", **more: object) -> str:
    """An expectation x of some bounds."""
    extra = "".join(f"  {name}: {value}\n" for name, value in more.items())
    return f"- name: x\n  layer: gpu\n  of: {of}\n{extra}  bounds:\n" + "".join(f"    - {each}\n" for each in bounds)


def said(rows: Mapping[str, pa.Table], *bounds: str, **more: Any) -> tuple[dict[str, Row], list[Row]]:
    """What is told of x, by entity, and its losses; an expectation of these bounds stands in the table."""
    if bounds:
        text = spec(*bounds, **more)
        assert parse(text, "test")
        rows = {**rows, "expectation": tables([], expectation=[promise(text)])["expectation"]}
    found = rows_of(sles, judged(sles, rows, MINUTE), MINUTE)
    held = {row["entity"]: plain(row) for row in found["sle"] if not bounds or row["expectation"] == "x"}
    return held, [plain(row) for row in found["sle_loss"]]


def plain(row: Row) -> Row:
    """Floats as numbers again."""
    floats = ("good_s", "bad_s", "missing_s", "seconds", "lost_gpu_seconds", "objective")
    return {name: float.fromhex(value) if name in floats else value for name, value in row.items()}


def seconds(row: Row) -> tuple[float, float, float]:
    return row["good_s"], row["bad_s"], row["missing_s"]


def test_seconds_out_of_an_absolute_bound_are_bad() -> None:
    held, losses = said(tables(gpus(GPU_2=since(20, 95.0, 60.0))), HOT)
    assert seconds(held["gpu:GPU-2"]) == (19, 41, 0)  # the second that ends with the reading is told by it
    assert seconds(held["gpu:GPU-1"]) == (60, 0, 0)
    (loss,) = losses
    assert (loss["classifier"], loss["culprit"], loss["bound"]) == (
        "DCGM_FI_DEV_GPU_TEMP above 85",
        "gpu:GPU-2",
        "absolute",
    )
    assert loss["seconds"] == 41


def test_silence_is_missing_and_never_good() -> None:
    held, _ = said(tables(gpus(GPU_1=lambda at: 60.0 if at <= 0 else None)), HOT, missing_after_s=20)
    assert seconds(held["gpu:GPU-1"]) == (20, 0, 40)
    assert held["gpu:GPU-1"]["why_missing"] == "DCGM_FI_DEV_GPU_TEMP"
    assert held["gpu:GPU-0"]["why_missing"] is None


def test_a_second_in_which_one_of_two_metrics_is_silent_is_not_good() -> None:
    other = gpus("DCGM_FI_DEV_MEMORY_TEMP", GPU_1=lambda at: 60.0 if at <= 0 else None)
    held, _ = said(tables([*gpus(), *other]), HOT, "{metric: DCGM_FI_DEV_MEMORY_TEMP, above: 95}", missing_after_s=20)
    assert seconds(held["gpu:GPU-1"]) == (20, 0, 40)
    assert held["gpu:GPU-1"]["why_missing"] == "DCGM_FI_DEV_MEMORY_TEMP"


def test_a_slow_exporter_is_not_silent() -> None:
    slow = [Said("DCGM_FI_DEV_GPU_TEMP", "gpu:GPU-0", always(60.0), every_s=60)]
    held, _ = said(tables(slow), HOT, missing_after_s=10)
    assert seconds(held["gpu:GPU-0"]) == (60, 0, 0)


def test_what_was_not_there_yet_has_no_seconds() -> None:
    held, _ = said(tables(gpus(GPU_3=lambda at: 60.0 if at >= 30 else None)), HOT)
    assert seconds(held["gpu:GPU-3"]) == (31, 0, 0)


def test_what_is_gone_for_longer_than_the_look_back_is_not_told() -> None:
    held, _ = said(tables(gpus(GPU_3=lambda at: None)), HOT)
    assert "gpu:GPU-3" not in held


def test_a_stale_marker_ends_what_was_told_before() -> None:
    held, _ = said(tables(gpus(GPU_0=since(30, float("nan"), 60.0))), HOT)
    assert seconds(held["gpu:GPU-0"]) == (29, 0, 31)


def test_a_bound_must_be_broken_for_as_long_as_it_says() -> None:
    rows = tables(gpus(GPU_2=lambda at: 95.0 if 20 <= at < 35 else 60.0))
    assert seconds(said(rows, HOT)[0]["gpu:GPU-2"]) == (45, 15, 0)
    assert seconds(said(rows, "{metric: DCGM_FI_DEV_GPU_TEMP, above: 85, for_s: 10}")[0]["gpu:GPU-2"]) == (54, 6, 0)
    assert seconds(said(rows, "{metric: DCGM_FI_DEV_GPU_TEMP, above: 85, for_s: 20}")[0]["gpu:GPU-2"]) == (60, 0, 0)


def test_what_began_before_the_window_counts_for_how_long_it_lasts() -> None:
    rows = tables(gpus(GPU_2=since(-60, 95.0, 60.0)))
    assert seconds(said(rows, "{metric: DCGM_FI_DEV_GPU_TEMP, above: 85, for_s: 30}")[0]["gpu:GPU-2"]) == (0, 60, 0)


def test_a_bad_second_has_the_first_broken_bound_as_its_classifier() -> None:
    rows = tables(gpus(GPU_2=lambda at: 70.0 + at))
    _, losses = said(rows, "{metric: DCGM_FI_DEV_GPU_TEMP, above: 100}", "{metric: DCGM_FI_DEV_GPU_TEMP, above: 85}")
    told = {loss["classifier"]: loss["seconds"] for loss in losses if loss["entity"] == "gpu:GPU-2"}
    assert told == {"DCGM_FI_DEV_GPU_TEMP above 100": 26.0, "DCGM_FI_DEV_GPU_TEMP above 85": 15.0}


def test_one_of_peers_that_differs_is_found() -> None:
    rows = tables(gpus("DCGM_FI_DEV_SM_CLOCK", 1980.0, GPU_1=since(0, 1200.0, 1980.0)))
    held, losses = said(rows, "{metric: DCGM_FI_DEV_SM_CLOCK, below: {of: peers, times: 0.9}}")
    assert seconds(held["gpu:GPU-1"]) == (0, 60, 0)
    assert {loss["bound"] for loss in losses} == {"peers"}
    assert seconds(held["gpu:GPU-0"]) == (60, 0, 0)


def test_of_two_that_differ_neither_is_judged() -> None:
    rows = tables(gpus("DCGM_FI_DEV_SM_CLOCK", 1980.0, GPU_1=always(900.0))[:2])
    assert said(rows, "{metric: DCGM_FI_DEV_SM_CLOCK, below: {of: peers, times: 0.9}}")[0] == {}


def test_the_own_past_is_what_was_baseline() -> None:
    rows = tables(gpus("DCGM_FI_DEV_POWER_USAGE", 600.0, GPU_3=since(10, 200.0, 600.0)))
    held, _ = said(rows, "{metric: DCGM_FI_DEV_POWER_USAGE, below: {of: past, times: 0.5}}")
    assert seconds(held["gpu:GPU-3"]) == (9, 51, 0)


def test_a_past_that_is_too_short_is_missing() -> None:
    rows = tables(gpus("DCGM_FI_DEV_POWER_USAGE", 600.0, GPU_3=lambda at: 600.0 if at >= -20 else None))
    held, _ = said(rows, "{metric: DCGM_FI_DEV_POWER_USAGE, below: {of: past, times: 0.5}}")
    assert seconds(held["gpu:GPU-3"]) == (0, 0, 60)
    assert held["gpu:GPU-3"]["why_missing"] == "past of DCGM_FI_DEV_POWER_USAGE"


def test_a_condition_is_that_of_the_same_part() -> None:
    busy = gpus("DCGM_FI_DEV_GPU_UTIL", 100.0, GPU_0=always(0.0))
    low = gpus("DCGM_FI_DEV_POWER_USAGE", 100.0)
    bound = "{metric: DCGM_FI_DEV_POWER_USAGE, below: 200, when: [{metric: DCGM_FI_DEV_GPU_UTIL, above: 98}]}"
    held, losses = said(tables([*busy, *low]), bound)
    assert seconds(held["gpu:GPU-0"]) == (60, 0, 0)  # idle: low power is no fault
    assert seconds(held["gpu:GPU-1"]) == (0, 60, 0)
    assert {loss["entity"] for loss in losses} == {f"gpu:GPU-{number}" for number in (1, 2, 3)}


def test_counters_are_read_as_rates_and_begin_anew() -> None:
    def errors(at: int) -> float:
        return 1000.0 if at < 20 else 5.0 if at < 40 else 5.0 + (at - 40)

    rows = tables([Said("errs_total", "port:h0/eth0", errors, type="counter")])
    held, _ = said(rows, "{metric: errs_total, as: rate, above: 0}", of="port")
    # It began anew between 15 s and 20 s, with 5 errors; more come from 40 s on.
    assert seconds(held["port:h0/eth0"]) == (35, 25, 0)


def test_bits_that_do_not_count_are_masked() -> None:
    rows = tables(gpus("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 4.0, GPU_2=since(30, 0x24, 4.0)))
    held, _ = said(rows, "{metric: DCGM_FI_DEV_CLOCKS_EVENT_REASONS, mask: 0xE8, above: 0}")
    assert seconds(held["gpu:GPU-0"]) == (60, 0, 0)
    assert seconds(held["gpu:GPU-2"]) == (29, 31, 0)


def test_a_share_is_one_counter_by_another() -> None:
    lost = Said("lost_total", "port:h0/eth0", lambda at: float(max(0, at)), type="counter")
    all_ = Said("all_total", "port:h0/eth0", lambda at: 100.0 * (at + 600), type="counter")
    held, losses = said(
        tables([lost, all_]), "{metric: lost_total, as: rate, per: [all_total], above: 0.005}", of="port"
    )
    assert seconds(held["port:h0/eth0"]) == (0, 60, 0)
    assert losses[0]["metric"] == "lost_total per all_total"


def test_a_link_that_is_down_is_bad_as_long_as_it_is() -> None:
    rows = hot_gpu()
    held, losses = said(
        rows,
        "{event: link-down, as: open, until: link-up, above: 3, classifier: long}",
        "{event: link-down, as: open, until: link-up, above: 0, classifier: short}",
        of="port",
    )
    assert seconds(held["port:h1/eth0"]) == (56, 4, 0)
    assert {loss["classifier"]: loss["seconds"] for loss in losses} == {"short": 3.0, "long": 1.0}
    assert seconds(held["port:h0/eth0"]) == (60, 0, 0)


def test_the_age_of_data_is_bad_where_it_is_old_not_missing() -> None:
    rows = tables(gpus(GPU_1=lambda at: 60.0 if at <= 0 else None))
    held, _ = said(rows, '{metric: "DCGM_*", as: age, combine: min, above: 30}')
    assert seconds(held["gpu:GPU-1"]) == (30, 30, 0)


def test_a_host_is_told_by_its_parts_and_the_worst_is_the_culprit() -> None:
    ports = [Said("errs", f"port:h0/eth{n}", always(float(n))) for n in range(3)]
    held, losses = said(tables(ports), "{metric: errs, above: 0}", of="host")
    assert seconds(held["host:h0"]) == (0, 60, 0)
    assert [loss["culprit"] for loss in losses] == ["port:h0/eth2"]


def test_steps_of_a_job_that_are_longer_than_baseline_are_bad_until_it_ends() -> None:
    begins = [(at, 1) for at in range(-200, 20)] + [(20, 3), (23, 3)]
    rows = [step(rank, number, T0 + at * S, long * S) for number, (at, long) in enumerate(begins) for rank in range(2)]
    exits = [event(T0 + 26 * S, rank, "process-exit") for rank in range(2)]
    found = tables([], step=rows, event=exits, relation=relations(T0 - 200 * S, ranks=2))
    held, losses = said(found, "{step: step_s, above: {of: past, times: 1.5}}", of="job", missing_after_s=30)
    assert seconds(held["job:bert-1"]) == (20, 6, 0)
    assert sum(loss["seconds"] for loss in losses) == 6


def test_the_age_of_a_checkpoint_is_known_once_one_was_told() -> None:
    rows = [step(0, at, T0 + at * S) for at in range(-100, 60)]
    lives = relations(T0 - 50_000 * S, ranks=1)  # it may serve, or tell checkpoints as phases of steps
    bound = "{event: checkpoint, as: age, above: 100}"
    never = tables([], step=rows, relation=lives)
    assert said(never, bound, of="job") == ({}, [])
    once = tables([], step=rows, relation=lives, event=[event(T0 - 80 * S, 0, "checkpoint")])
    held, _ = said(once, bound, of="job")
    assert seconds(held["job:bert-1"]) == (20, 40, 0)


def test_a_loss_that_is_no_number_is_above_any_bound() -> None:
    rows = [step(0, at, T0 + at * S) | {"loss": float("nan") if at >= 30 else 2.0} for at in range(-100, 60)]
    held, losses = said(tables([], step=rows), "{step: loss, above: 1e300}", of="job")
    assert seconds(held["job:bert-1"]) == (30, 30, 0)
    assert losses[0]["culprit"] == "rank:bert-1/0"


def test_gpu_time_lost_is_that_of_the_ledger() -> None:
    held, _ = said(hot_gpu(), HOT)
    assert held["gpu:GPU-2"]["lost_gpu_seconds"] == 48.0
    assert held["gpu:GPU-1"]["lost_gpu_seconds"] == 0.0


def test_defaults_hold_where_nothing_else_does() -> None:
    held, _ = said(hot_gpu())
    assert held.keys() >= {"gpu:GPU-2", "port:h1/eth0", "job:bert-1"}


def test_the_latest_version_of_an_expectation_counts() -> None:
    old, new = spec(HOT), spec("{metric: DCGM_FI_DEV_GPU_TEMP, above: 100}")
    rows = [promise(old, from_ns=T0 - 100 * S, to_ns=T0), promise(new, from_ns=T0)]
    found = {**tables(gpus(GPU_2=always(95.0))), "expectation": tables([], expectation=rows)["expectation"]}
    assert seconds(said(found)[0]["gpu:GPU-2"]) == (60, 0, 0)


@pytest.mark.parametrize(
    ("tenant", "cluster", "held"), [("acme", "default", 1), ("acme", EVERYWHERE, 2), ("default", "default", 2)]
)
def test_whom_an_expectation_holds(tenant: str, cluster: str, held: int) -> None:
    two = [Said("DCGM_FI_DEV_GPU_TEMP", f"gpu:{name}", always(60.0), tenant=name) for name in ("acme", "other")]
    rows = {
        **tables(two),
        "expectation": tables([], expectation=[promise(spec(HOT), tenant=tenant, cluster=cluster)])["expectation"],
    }
    all_of_x = rows_of(sles, judged(sles, rows, MINUTE), MINUTE)["sle"]
    found = [row for row in all_of_x if row["expectation"] == "x"]
    assert len(found) == held
    assert {row["tenant"] for row in found} >= {"acme"}


def test_an_expectation_that_cannot_be_read_does_not_stop_the_others() -> None:
    rows = [promise("- name: [", name="bad"), promise(spec(HOT))]
    found = {**tables(gpus()), "expectation": tables([], expectation=rows)["expectation"]}
    assert len(said(found)[0]) == 4


def test_what_is_stored_is_what_was_written() -> None:
    (one,) = parse(spec(HOT), "test")
    assert parse(to_text(one), "test") == (one,)


def told_by(rows: list[Row], tenant: str) -> list[Row]:
    return [{**row, "tenant": tenant, "host": f"h{tenant}"} for row in rows]


def steps_of(*lengths_s: int) -> list[Row]:
    """Two ranks; before the window steps take 1 s, in it as long as is said."""
    return [
        step(rank, at, T0 + at * S, (1 if at < 0 else lengths_s[0]) * S) for at in range(-90, 60) for rank in (0, 1)
    ]


def judged_of(rows: Mapping[str, pa.Table]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Seconds of x by tenant and entity."""
    found = rows_of(sles, judged(sles, rows, MINUTE), MINUTE).get("sle", [])
    return {(row["tenant"], row["entity"]): seconds(plain(row)) for row in found if row["expectation"] == "x"}


def test_jobs_of_two_tenants_that_share_a_name_are_two() -> None:
    steps = told_by(steps_of(1), "a") + told_by(steps_of(3), "b")
    places = [row for tenant in "ab" for row in told_by(relations(T0 - 200 * S, ranks=2), tenant)]
    x = promise(spec("{step: step_s, above: 2}", of="job"))
    found = judged_of(tables([], step=steps, relation=places, expectation=[x]))
    assert found == {("a", "job:bert-1"): (60, 0, 0), ("b", "job:bert-1"): (0, 60, 0)}


def test_nobody_else_can_say_whose_a_tenants_ranks_are() -> None:
    lie = {"child": "rank:bert-1/0", "parent": "job:mine", "kind": "in", "from_ns": T0 - 200 * S, "to_ns": None}
    lies = told_by([{**lie, "source": "test", "confidence": 1.0}], "b")
    x = promise(spec("{step: step_s, above: 2}", of="job"))
    found = judged_of(tables([], step=told_by(steps_of(3), "a"), relation=lies, expectation=[x]))
    assert found == {("a", "job:bert-1"): (0, 60, 0)}


def test_hosts_of_two_tenants_that_share_a_name_are_two() -> None:
    hot = [Said("temp", "gpu:GPU-0", always(95.0 if tenant == "a" else 60.0), tenant=tenant) for tenant in "ab"]
    places = [row for tenant in "ab" for row in told_by(relations(T0 - 200 * S, ranks=1), tenant)]
    x = promise(spec("{metric: temp, above: 85}", of="job"))
    found = judged_of(tables(hot, relation=places, expectation=[x]))
    assert found == {("a", "job:bert-1"): (0, 60, 0), ("b", "job:bert-1"): (60, 0, 0)}


def test_what_a_tenant_asks_for_itself_leaves_the_defaults_to_others() -> None:
    rows = {**hot_gpu(), "expectation": tables([], expectation=[promise(spec(HOT), tenant="acme")])["expectation"]}
    assert said(rows)[0]["gpu:GPU-2"]["expectation"].startswith(("gpu", "collective"))


def test_a_collective_that_hangs_after_a_restart_is_open() -> None:
    done = [collective(0, at, T0 + (at - 100) * S, T0 + (at - 99) * S) for at in range(50)]
    done += [collective(0, at, T0 + (at - 20) * S, T0 + (at - 19) * S) for at in range(5)]
    hangs = [collective(0, 5, T0 - 15 * S, 0) | {"finished_ns": None, "state": "enqueued"}]
    rows = tables([], collective=done + hangs)
    assert seconds(said(rows, "{collective: open_s, above: 10}", of="job")[0]["job:bert-1"]) == (0, 60, 0)


def link(at_s: float, kind: str) -> Row:
    told = {"time_ns": T0 + round(at_s * S), "entity_kind": "port", "entity": "port:h1/eth0", "kind": kind}
    return {**told, "severity": "error", "code": None, "message": "", "source": "test"}


DOWN = "{event: link-down, as: open, until: link-up, above: 0}"
PORT = Said("node_network_speed_bytes", "port:h1/eth0", always(1e10), host="h1")


def test_a_link_that_was_down_for_no_time_is_not_down() -> None:
    rows = tables([PORT], event=[link(10.5, "link-down"), link(10.5, "link-up")])
    assert seconds(said(rows, DOWN, of="port")[0]["port:h1/eth0"]) == (60, 0, 0)


@pytest.mark.parametrize(("ends", "bad"), [({}, 60), ({"end_ns": T0 + 20 * S}, 20), ({"event": 30}, 30)])
def test_a_link_that_has_been_down_for_hours_still_is(ends: dict[str, int], bad: int) -> None:
    down: Row = {"entity_kind": "port", "entity": "port:h1/eth0", "kind": "link-down", "class": "network", "job": None}
    down |= {"start_ns": T0 - 7200 * S, "end_ns": ends.get("end_ns"), "seen_ns": T0 - 7140 * S, "evidence": ""}
    rows = tables([PORT], failure=[down], event=[link(ends["event"], "link-up")] if "event" in ends else [])
    assert seconds(said(rows, DOWN, of="port")[0]["port:h1/eth0"]) == (60 - bad, bad, 0)


def test_nothing_of_what_is_silent_is_not_good() -> None:
    all_ = Said("all", "port:h0/eth0", lambda at: 5.0 if at < -100 else None)
    rows = tables([Said("lost", "port:h0/eth0", always(0.0)), all_])
    held, _ = said(rows, "{metric: lost, per: [all], above: 0.1}", of="port")
    assert seconds(held["port:h0/eth0"]) == (0, 0, 60)


def test_what_a_tenant_asks_for_is_bounded_and_the_latest_counts() -> None:
    many = [promise(spec(HOT).replace("name: x", f"name: x{at:03}"), tenant="acme", from_ns=T0 - (999 - at) * S)
            for at in range(OWN_MAX + 36)]  # fmt: skip
    long = promise(spec(HOT).replace("name: x", "name: long") + "#" * OWN_SPEC_MAX, tenant="other")
    rows = tables([], expectation=[*many, long, promise(spec(HOT))])["expectation"]
    held = [(tenant, one.name) for tenant, one in promises(rows, MINUTE)]
    assert held == [("", "x"), *[("acme", f"x{at:03}") for at in range(36, OWN_MAX + 36)]]
