"""The runner over a real store: live, replayed and offline say the same; late rows, restarts, failures."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.incident import Names, rows_of
from tests.builders.stores import opened_store
from tests.unit.runner.toy_rows import BEGIN_NS, SECONDS, S, edges, fits, flows, steps, story
from tests.unit.runner.toy_world import World

from leadline.analysis import BY_NAME as ANALYSIS
from leadline.analysis.spec import Window
from leadline.model.errors import StoreError, UsageError
from leadline.model.tables import BY_NAME, Table
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import InProcess
from leadline.runner.judge import Judged
from leadline.runner.load import Chosen
from leadline.runner.offline import judge_bundle
from leadline.runner.replay import Replay
from leadline.runner.run import Runner, kept_ns
from leadline.runner.store_verdicts import Run, as_before, run_before
from leadline.runner.worker import Outcome
from leadline.server.analyses import gap_findings
from leadline.store import Store
from leadline.store.bundle import Draft, write_bundle
from leadline.store.bundle_format import Manifest
from leadline.store.bundle_rows import in_order
from leadline.testing import FakeClock
from leadline.testing.analyses import ALL, TOYS, trouble, volumes
from leadline.views.rows import rows_where

WRITTEN = ("ecmp_group", "flow_volume", "ledger")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened_store(tmp_path / "store") as made:
        yield made


def verdicts(store: Store) -> dict[str, pa.Table]:
    out = {}
    for name in WRITTEN:
        table = BY_NAME[name]
        columns = ", ".join(column.name for column in table.columns)
        rows = store.query(f"SELECT {columns} FROM ({rows_where(table)})")
        out[name] = in_order(table, plain(rows))
    return out


def plain(rows: pa.Table) -> pa.Table:
    """Rows with symbols as texts: whether they are coded is no matter of what they say."""
    return pa.table(
        {
            name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(rows.column_names, rows.columns, strict=True)
        }
    )


def live(store: Store) -> World:
    """A live run over the story: rows come second by second, as the hosts tell them."""
    world = World(store, from_ns=BEGIN_NS)
    world.come("relation", edges())
    world.come("clock_fit", fits(range(-600, 0, 10)))
    for second in range(0, SECONDS, 5):
        if second % 10 == 0:
            world.come("clock_fit", fits(range(second, second + 1)))
        if second == 25:
            world.come("relation", edges(25))
        world.go(5)
        world.come("flow_sample", flows(range(second, second + 5)))
        world.come("step", steps(range(second, second + 5)))
    world.go(10)
    return world


def bundle_of(path: Path, rows: dict[str, pa.Table]) -> Path:
    with Draft(Manifest(BEGIN_NS, BEGIN_NS + SECONDS * S), "", None) as draft:
        for name, table in rows.items():
            draft.add(BY_NAME[name], [table])
        write_bundle(path, draft.chunks(), draft.size)
    return path


def replayed(path: Path, store: Store, speed: float) -> World:
    """A replay of a bundle into a store, judged as it plays."""
    told: list[Runner] = []

    def hear(*rows: Any) -> None:
        told[0].touched(*rows)

    replay = Replay(path, speed, store, hear, clock_ns := FakeClock())
    world = World(store, from_ns=BEGIN_NS, settle_ns=0, now_ns=replay.now_ns, ended=replay.ended_ns)
    told.append(world.runner)
    replay.leave_out(world.runner.concludes)

    class Looking:
        """The replay's event for "stop": at each look time moves on and the runner judges what is due."""

        def wait(self, _: float) -> bool:
            clock_ns.advance(0.5)
            world.go(0)
            return False

        def is_set(self) -> bool:
            return False

    replay._stop = Looking()  # type: ignore[assignment]
    replay.run()
    world.go(0)
    replay.bundle.close()
    return world


def test_live_replayed_and_offline_say_the_same(tmp_path: Path) -> None:
    path = bundle_of(tmp_path / "a.leadline", story())
    told = {"offline": {name: plain(rows) for name, rows in judge_bundle(path, TOYS).items()}}
    for way in ("live", "fast", "slow"):
        with opened_store(tmp_path / way) as store:
            world = live(store) if way == "live" else replayed(path, store, 0.0 if way == "fast" else 20.0)
            told[way] = verdicts(store)
            assert [(each.state, each.revisions) for each in world.runner.states()] == [("ok", 0)] * len(TOYS)
    assert set(told["offline"]) == set(WRITTEN)
    for way in ("live", "fast", "slow"):
        for name in WRITTEN:
            assert told[way][name].num_rows > 0
            assert told[way][name].equals(told["offline"][name].cast(told[way][name].schema)), (way, name)


def revisions(store: Store, name: str = "toy-volume") -> list[tuple[int, int, str]]:
    """(end in s, revision, state) of the windows judged, in order."""
    found = store.query(
        "SELECT end_ns, revision, state FROM leadline.analysis_run WHERE analysis = {name:String} ORDER BY end_ns",
        {"name": name},
    ).to_pylist()
    return [((row["end_ns"] - BEGIN_NS) // S, row["revision"], row["state"]) for row in found]


def bytes_of(store: Store, end_s: int) -> float:
    """What all flows carried in the window that ends so many seconds after the begin, by what counts."""
    sql = rows_where(BY_NAME["flow_volume"], "end_ns = {end_ns:Int64}")
    found = store.query(f"SELECT sum(bytes) AS n FROM ({sql})", {"end_ns": BEGIN_NS + end_s * S}).to_pylist()
    return float(found[0]["n"])


def sent(*parts: pa.Table) -> float:
    return float(sum((part["rate"].to_numpy() * part["frame_bytes"].to_numpy()).sum() for part in parts))


def test_late_rows_make_a_revision_and_repeated_ones_none(store: Store) -> None:
    world = World(store, from_ns=BEGIN_NS)
    world.come("flow_sample", flows(range(20)))
    world.go(30)
    assert revisions(store) == [(10, 0, "done"), (20, 0, "done")]
    world.come("flow_sample", flows(range(5, 15)))  # the same rows again: nothing changes
    world.go(10)
    assert revisions(store) == [(10, 0, "done"), (20, 0, "done")]
    late = flows(range(3), switch="leaf2", seed=9)
    world.come("flow_sample", late)
    world.go(1)
    assert revisions(store)[0] == (10, 0, "done"), "rows that are late seldom come alone"
    world.go(10)
    assert revisions(store) == [(10, 1, "done"), (20, 0, "done")]
    assert bytes_of(store, 10) == sent(flows(range(10)), late)
    world.go(10)  # who read the verdict judges again too, as far as its look-back reaches
    assert [each[:2] for each in revisions(store, "toy-busiest")] == [(10, 1), (20, 1), (30, 1), (40, 0)]
    volume, busiest, _ = world.runner.states()
    assert (volume.revisions, volume.late_rows) == (1, 10 * 10 + 30)
    assert busiest.revisions == 3
    assert world.counted["too_late"] == 0


def test_a_run_that_is_stored_and_said_to_have_failed_is_heard_of(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window is judged once more and says the same: who read its earlier verdicts judges again all the same."""
    world = World(store, from_ns=BEGIN_NS)
    world.come("flow_sample", flows(range(20)))
    world.go(30)
    append, failed = store.append, list[str]()

    def stored_and_failed(table: Table, rows: pa.Table, *more: Any) -> None:
        append(table, rows, *more)
        if table is ANALYSIS_RUN and 1 in rows["revision"].to_pylist() and not failed:
            failed.extend(set(rows["analysis"].to_pylist()))
            raise StoreError("it is stored, and nobody knows")

    monkeypatch.setattr(store, "append", stored_and_failed)
    world.come("flow_sample", flows(range(3), switch="leaf2", seed=9))
    with pytest.raises(StoreError):
        world.go(30)
    world.go(30)
    assert set(failed) == {"toy-volume", "toy-busiest"}, "runs of a second are one append"
    assert revisions(store) == [(10, 1, "done"), (20, 0, "done")]
    assert [each[:2] for each in revisions(store, "toy-busiest")] == [(10, 1), (20, 1), (30, 1), (40, 0)]


def test_of_verdicts_in_memory_the_revision_counts_that_the_window_was_judged_to_last(store: Store) -> None:
    world = World(store, [volumes], from_ns=BEGIN_NS)
    world.come("flow_sample", flows(range(10)))
    chosen = Chosen(BY_NAME["flow_volume"], ("end_ns", "revision"), BEGIN_NS, BEGIN_NS + 60 * S, cluster="lab")
    for late, revision in ((None, 0), (flows(range(3), switch="leaf2", seed=9), 1)):
        if late is not None:
            world.come("flow_sample", late)
        world.go(20)
        for _ in range(3):
            assert set(world.runner._rows.chosen(chosen)["revision"].to_pylist()) == {revision}


def test_rows_of_a_window_that_is_open_are_not_late(store: Store) -> None:
    world = World(store, [volumes], settle_ns=2 * S)  # as its grace: what comes in time is stored before it closes
    for second in range(0, 30, 2):
        world.go(2)
        world.come("flow_sample", flows(range(second, second + 2)))
    world.go(20)
    assert [each[:2] for each in revisions(store)] == [(10, 0), (20, 0), (30, 0)]
    assert world.counted["judged_again"] == 0
    assert world.runner.states()[0].late_rows == 0


def test_rows_that_were_accepted_and_not_stored_when_their_window_was_judged_are_found(store: Store) -> None:
    world = World(store, [volumes])
    world.come("flow_sample", flows(range(9)))
    world.go(12)  # the window closes now ...
    slow = flows(range(9, 10))
    world.clock.advance(-1)
    world.runner.touched("acme", "lab", BY_NAME["flow_sample"], {"rows": slow}, slow.num_rows)
    world.clock.advance(1)
    world.go(0)
    assert revisions(store) == [(10, 0, "done")]
    store.append(BY_NAME["flow_sample"], slow)  # ... and the lane to the store was slower
    world.go(10)
    assert revisions(store)[0] == (10, 1, "done")
    assert bytes_of(store, 10) == sent(flows(range(10)))


def test_rows_later_than_that_are_counted_and_judged_when_asked(store: Store) -> None:
    world = World(store, [volumes])
    world.come("flow_sample", flows(range(10)))
    world.go(20)
    world.go(200)
    late = flows(range(2), seed=5)
    world.come("flow_sample", late)
    world.go(20)
    assert revisions(store) == [(10, 0, "done")]
    assert world.counted["too_late"] == 20
    assert world.runner.backfill(BEGIN_NS, BEGIN_NS + 100 * S, ["toy-volume"]) == 10
    world.go(0)
    assert revisions(store) == [(10, 1, "done")]
    assert world.runner.waiting() == 0


def test_a_span_that_begins_before_all_that_is_kept_is_cut_to_that(store: Store) -> None:
    world = World(store, [volumes])
    world.runner._resume()
    world.go(20)
    kept = kept_ns(volumes)
    assert 0 < kept < 10 * 365 * 86_400 * S
    windows = world.runner.backfill(-(2**62), BEGIN_NS + 20 * S)
    assert kept // volumes.window_ns - 3 <= windows <= kept // volumes.window_ns + 1


def test_a_span_that_is_empty_and_a_name_nobody_has_are_refused(store: Store) -> None:
    runner = World(store).runner
    with pytest.raises(UsageError, match="before to_ns"):
        runner.backfill(5, 5)
    with pytest.raises(UsageError, match=r"no analysis 'pth'.*toy-volume, toy-busiest"):
        runner.backfill(1, 5, ["pth"])
    with pytest.raises(UsageError, match="no analysis 'pth'"):
        World(store, config=RunnerConfig(disabled=("pth",)))


def test_an_edge_that_is_told_again_is_no_news_and_a_late_one_is(store: Store) -> None:
    world = World(store, [volumes], from_ns=BEGIN_NS)
    world.come("relation", edges())
    world.come("flow_sample", flows(range(30)))
    world.go(40)
    world.come("relation", edges())
    world.go(10)
    assert world.counted["judged_again"] == 0
    world.come("relation", edges(15))  # one of them ended in the second window
    world.go(10)
    assert revisions(store) == [(10, 0, "done"), (20, 1, "done"), (30, 1, "done")]


def test_after_a_restart_windows_are_not_judged_twice_and_gaps_are_filled(store: Store) -> None:
    first = World(store, [volumes])
    first.come("flow_sample", flows(range(60)))
    first.go(32)
    judged = revisions(store)
    assert [each[0] for each in judged] == [10, 20, 30]
    again = World(store, [volumes], at_s=100)
    again.runner._resume()
    again.go(0)
    assert revisions(store) == [*judged, *((end, 0, "done") for end in (40, 50, 60))]
    assert again.runner.states()[0].windows == 3


def test_a_gap_longer_than_allowed_is_told(store: Store) -> None:
    first = World(store, [volumes])
    first.come("flow_sample", flows(range(60)))
    first.go(12)
    again = World(store, [volumes], at_s=62, config=RunnerConfig(backfill_s_max=20))
    again.runner._resume()
    again.go(0)
    assert [each[0] for each in revisions(store)] == [10, 50, 60]
    assert again.counted["not_backfilled"] == 3
    begin_ns, end_ns = again.runner.not_judged or (0, 0)
    assert end_ns - begin_ns == 30 * S, "from 10 to 40 s"
    assert [each["state"] for each in gap_findings(again.runner.not_judged)] == ["warning"]
    again.runner.backfill(begin_ns, begin_ns + S)
    assert again.runner.not_judged, "a part of it is not all of it"
    again.runner.backfill(begin_ns, end_ns)
    assert list(gap_findings(again.runner.not_judged)) == []


def test_a_failing_analysis_is_told_and_others_go_on(store: Store) -> None:
    world = World(store, ALL, from_ns=BEGIN_NS)
    world.come("flow_sample", flows(range(10), switch="raise"))
    world.come("flow_sample", flows(range(10, 20)))
    world.go(12.5)
    bad = world.runner.states()[3]
    assert (bad.state, bad.failures, world.counted["error"]) == ("failed", 1, 1)
    assert "asked to raise" in bad.last_error
    assert world.runner.states()[0].state == "ok"
    world.go(20)
    assert revisions(store, "toy-trouble") == [(10, 0, "failed"), (20, 0, "done")]
    assert world.runner.states()[3].state == "ok", "the next window was judged well"


def test_a_verdict_stands_when_judging_again_fails(store: Store) -> None:
    world = World(store, [trouble], from_ns=BEGIN_NS)
    world.come("flow_sample", flows(range(10)))
    world.go(20)
    world.come("flow_sample", flows(range(3), switch="raise", seed=3))
    world.go(20)
    assert revisions(store, "toy-trouble") == [(10, 0, "done")]
    assert world.runner.states()[0].failures == 1


def test_a_store_that_fails_loses_no_window(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(store, [volumes])
    world.come("flow_sample", flows(range(10)))
    append = store.append

    def broken(table: Table, rows: pa.Table) -> None:
        if table.name == "analysis_run":
            raise StoreError("disk full")
        append(table, rows)

    monkeypatch.setattr(store, "append", broken)
    with pytest.raises(StoreError):
        world.go(20)
    monkeypatch.undo()
    world.go(0)
    assert revisions(store) == [(10, 0, "done")]
    assert bytes_of(store, 10) == sent(flows(range(10)))


def told_to(store: Store, tenant: str) -> list[tuple[int, int, float]]:
    """The volumes that count of a tenant: end of the window, revision, bytes."""
    rows = store.query(
        f"SELECT tenant, end_ns, revision, bytes FROM ({rows_where(BY_NAME['flow_volume'])})"
    ).to_pylist()
    found: Tally[tuple[int, int]] = Tally()
    for row in rows:
        if row["tenant"] == tenant:
            found[(row["end_ns"] - BEGIN_NS) // S, row["revision"]] += row["bytes"]
    return sorted((*key, size) for key, size in found.items())


def test_tenants_of_one_cluster_are_judged_apart(store: Store) -> None:
    """What another sends late makes a new revision of its own verdicts, and counts for nobody else."""
    world = World(store, [volumes], config=RunnerConfig(provider="infra"))
    world.come("flow_sample", flows(range(10)))
    world.come("flow_sample", flows(range(10), tenant="other", seed=2))
    world.go(20)
    assert told_to(store, "acme") == [(10, 0, sent(flows(range(10))))]
    assert told_to(store, "other") == [(10, 0, sent(flows(range(10), seed=2)))]
    world.come("flow_sample", flows(range(3), tenant="other", seed=3))
    world.go(20)
    assert told_to(store, "acme") == [(10, 0, sent(flows(range(10))))]
    assert told_to(store, "other") == [(10, 1, sent(flows(range(10), seed=2), flows(range(3), seed=3)))]
    runs = store.query("SELECT tenant, part, revision FROM leadline.analysis_run ORDER BY tenant, revision").to_pylist()
    assert [(row["tenant"], row["part"], row["revision"]) for row in runs] == [
        ("acme", "tenant:acme", 0), ("other", "tenant:other", 1),
    ]  # fmt: skip


def test_a_window_judged_before_tenants_were_judged_apart_keeps_its_part() -> None:
    def judged(own: str) -> Judged:
        window = Window(0, 10, "infra" if own else "acme", "lab", provider="infra", own=own)
        return Judged(window, Outcome("done", {}), 0, 0)

    old = Run(1, 3, "done", bytes(16))
    whole, apart = {("acme", "lab", ""): old}, {("acme", "lab", "tenant:acme"): old}
    assert as_before(judged("acme"), {}).window.part == "tenant:acme"
    assert as_before(judged("acme"), {**whole, **apart}).window.part == "tenant:acme"
    found = as_before(judged("acme"), whole)
    assert (found.window.part, found.window.whose, run_before(found, whole)) == ("", "acme", old)
    assert as_before(judged("other"), whole).window.part == "tenant:other"
    assert as_before(judged(""), whole) == judged("")


def test_a_provider_is_judged_by_its_own_rows(store: Store) -> None:
    world = World(store, [volumes], config=RunnerConfig(provider="infra"))
    world.come("flow_sample", flows(range(10), tenant="infra"))
    world.come("flow_sample", flows(range(10), tenant="other", seed=2))
    world.go(20)
    assert told_to(store, "infra") == [(10, 0, sent(flows(range(10))))]
    assert told_to(store, "other") == []  # rows without a tenant of their own are the provider's to tell


def test_a_bundle_of_years_is_judged_at_once(tmp_path: Path) -> None:
    rows = story()
    with Draft(Manifest(-(2**63), 2**63 - 1), "", None) as draft:
        for name, table in rows.items():
            draft.add(BY_NAME[name], [table])
        write_bundle(tmp_path / "wide.leadline", draft.chunks(), draft.size)
    wide = judge_bundle(tmp_path / "wide.leadline", TOYS)
    narrow = judge_bundle(bundle_of(tmp_path / "a.leadline", rows), TOYS)
    # The steps of the clock that is ahead were seen before the span, and their effect after it.
    assert wide["flow_volume"].equals(narrow["flow_volume"])
    assert set(wide) == set(narrow)


def test_the_thread_judges_by_itself_and_stops(store: Store) -> None:
    world = World(store, [])
    runner = Runner(RunnerConfig(), store, world.count, world.clock, [volumes], InProcess(), from_ns=BEGIN_NS)
    assert runner.concludes == {"flow_volume", "analysis_run"}
    store.append(BY_NAME["flow_sample"], flows(range(10)))
    world.clock.advance(20)
    runner.start()
    for _ in range(600):
        if runner.states()[0].windows:
            break
        runner._stop.wait(0.05)
    runner.stop()
    assert not runner._thread.is_alive()
    assert revisions(store) == [(10, 0, "done")]
    off = Runner(RunnerConfig(enabled=False), store, world.count, world.clock, [volumes], InProcess())
    off.start()
    off.stop()
    assert (off.states(), off.concludes) == ([], set())


def test_own_verdicts_are_no_news_to_the_windows_they_came_from(store: Store) -> None:
    """A failure that ends is a row that earlier windows read too: they said what they said before it."""
    world = World(store, [ANALYSIS["failures"]], from_ns=BEGIN_NS)
    world.go(1)
    for second, kind in ((30, "link-down"), (390, "link-up")):
        while world.passed_s() <= second:
            world.go(10)
        world.come("event", told(second, kind))
    for _ in range(9):
        world.go(10)
    (found,) = store.query(f"SELECT start_ns, end_ns FROM ({rows_where(BY_NAME['failure'])})").to_pylist()
    assert found == {"start_ns": BEGIN_NS + 30 * S, "end_ns": BEGIN_NS + 390 * S}
    assert world.counted["judged_again"] == 0


def told(second: int, kind: str) -> pa.Table:
    row = {
        "time_ns": BEGIN_NS + second * S, "entity_kind": "port", "entity": "port:h1/eth0", "kind": kind,
        "severity": "error", "message": kind, "source": "test", "batch": second, "batch_row": 0,
    }  # fmt: skip
    return rows_of(BY_NAME["event"], [row], Names())


def test_a_host_whose_clock_is_a_minute_off_is_mapped_by_a_coarse_fit(store: Store) -> None:
    world = World(store)
    for _ in range(3):
        world.clock.advance(1)
        row = {
            "host": "h1", "clock": "h1/1", "reported_ns": world.clock() + 60 * S, "to_ns": world.clock() + 59 * S,
            "sender": "agent", "job": "bert", "ranks": 1, "state": "open",
        }  # fmt: skip
        world.come("watermark", rows_of(BY_NAME["watermark"], [row], Names()))
    world.runner.step()
    (fit,) = store.query("SELECT clock, offset_ns, bound_ns, end_ns FROM leadline.clock_fit").to_pylist()
    assert (fit["clock"], fit["offset_ns"], fit["bound_ns"]) == ("h1/1", 60 * S, S)
    assert fit["end_ns"] < BEGIN_NS - 2000 * S  # what the host sent before it was known to be off is mapped too


def test_runs_wait_for_others_and_are_known_meanwhile(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(store, [volumes], from_ns=BEGIN_NS)
    appended: list[tuple[str, int]] = []
    append = store.append

    def noted(table: Table, rows: pa.Table, *more: Any) -> None:
        append(table, rows, *more)
        appended.append((table.name, rows.num_rows))

    monkeypatch.setattr(store, "append", noted)
    world.come("flow_sample", flows(range(20)))
    world.go(30)
    runs = [rows for name, rows in appended if name == ANALYSIS_RUN.name]
    assert sum(runs) == len(revisions(store)) > 1
    assert len(runs) == 1, "the windows of a second are one append"
