"""Whose rows are evidence: the two attacks that were seen to work, and what a holder of hosts may say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.foreign_rows import (
    ACME,
    BOB,
    PROVIDER,
    Rows,
    S,
    alone,
    let,
    plain,
    recorded,
    relation,
    rows_of,
    verdicts,
    with_more,
)

from leadline.analysis import BY_NAME as ANALYSIS
from leadline.analysis.spec import Analysis, Window
from leadline.model.tables.fabric import CLOCK_FIT, RELATION
from leadline.model.tables.verdicts import EVENT, MARK, SYMPTOM
from leadline.runner.held import HeldRows
from leadline.runner.load import given
from leadline.runner.parts import calls
from leadline.runner.watermarks import Job, Watermarks
from leadline.runner.whose import Evidence, Held, held, words

ROOT = Path(__file__).parents[3]
SLOW = ROOT / "tests" / "golden" / "lab_ledger" / "bert-slow.leadline"
TWO_JOBS = ROOT / "tests" / "golden" / "lab_two_jobs" / "two_jobs.leadline"
T0 = 1_750_000_000 * S
OWNED = {"all-provider": lambda rows, _: rows, "alone": lambda rows, _: alone(rows), "let": let}
PATHS = (ANALYSIS["path"],)


def everything(_: Evidence, __: object, rows: pa.Table) -> pa.Table:
    """A runner that listens to everybody."""
    return rows


# --- attack 1: four events change the cause of another tenant's incident ----------------------------------------


def named(found: dict[str, pa.Table]) -> set[tuple[str, str]]:
    """The causes that were ever named: (entity, rule)."""
    return {(row["entity"], row["rule"]) for row in found["cause"].to_pylist() if row["chosen"]}


def four_events(rows: Rows, rank: str, at_ns: int) -> pa.Table:
    """Bob says that the GPU of a rank fell off its bus, and that its host ran out of memory."""
    edges = rows["relation"].to_pylist()
    host = next(row["parent"] for row in edges if row["child"] == rank and row["parent"].startswith("host:"))
    gpu = next(row["child"] for row in edges if row["parent"] == host and row["child"].startswith("gpu:"))
    name = host.partition(":")[2]
    seen = {"host": name, "clock": f"{name}/1", "severity": "fatal", "source": "kmsg", "attributes": {}, "batch": 77}
    fallen = {**seen, "entity_kind": "gpu", "entity": gpu, "kind": "xid", "code": "79", "message": "fallen off the bus"}
    killed = {**seen, "entity_kind": "host", "entity": host, "kind": "oom-kill", "message": "Out of memory"}
    told = [fallen, {**fallen, "code": "48"}, killed, {**killed, "entity_kind": "rank", "entity": rank}]
    return rows_of("event", [{**row, "time_ns": at_ns + n * S, "batch_row": n} for n, row in enumerate(told)], BOB)


@pytest.fixture(scope="module")
def slow() -> tuple[Rows, int, int]:
    return recorded(SLOW, 75.0)


@pytest.mark.parametrize("owned", OWNED)
def test_four_events_of_another_tenant_change_no_cause(
    slow: tuple[Rows, int, int], owned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, from_ns, to_ns = slow
    rows, span = OWNED[owned](recording, from_ns), (from_ns, to_ns)
    wanted = verdicts(rows, span)
    begin_ns = min(wanted["incident"]["start_ns"].to_pylist())
    attacked = with_more(rows, {"event": four_events(rows, "rank:bert-1/1", begin_ns - 2 * S)})
    found = verdicts(attacked, span)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if not found[name].equals(wanted[name])] == []
    monkeypatch.setattr(Evidence, "counting", everything)
    fooled = named(verdicts(attacked, span)) - named(wanted)
    assert "gpu-lost" in {rule for _, rule in fooled}, "without the filter the attack has to work"


# --- attack 2: forty relations take a tenant's flows away -------------------------------------------------------


def forty_relations(rows: Rows, from_ns: int) -> pa.Table:
    """Bob says that the queue pairs and flows of others are his ranks'."""
    claimed = sorted({row["child"] for row in rows["relation"].to_pylist() if row["kind"] == "owns"})
    told = [relation(child, "owns", f"rank:evejob/{rank}", from_ns) for rank in (4, 5) for child in claimed][:40]
    assert len(told) == 40
    return rows_of("relation", told, BOB)


def volumes(found: dict[str, pa.Table]) -> dict[str, float]:
    """Bytes by the job that they are counted to; of nobody under an empty name."""
    out: dict[str, float] = {}
    for row in found["flow_volume"].to_pylist():
        out[row["job"] or ""] = out.get(row["job"] or "", 0.0) + row["bytes"]
    return out


@pytest.fixture(scope="module")
def two_jobs() -> tuple[Rows, int, int]:
    return recorded(TWO_JOBS, 30.0)


@pytest.mark.parametrize(
    ("owned", "holds"),
    [("all-provider", False), ("all-provider", True), ("alone", False), ("let", False), ("let", True)],
)
def test_forty_relations_of_another_tenant_take_no_flow_away(
    two_jobs: tuple[Rows, int, int], owned: str, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, from_ns, to_ns = two_jobs
    rows, span = OWNED[owned](recording, from_ns), (from_ns, to_ns)
    if holds:
        more = [relation("host:b1", "held-by", f"tenant:{BOB}", from_ns)]
        rows = with_more(rows, {"relation": rows_of("relation", more, PROVIDER)})
    wanted = verdicts(rows, span, analyses=PATHS)
    assert volumes(wanted).keys() >= {"tcp-1", "roce-1"}
    attacked = with_more(rows, {"relation": forty_relations(rows, from_ns)})
    found = verdicts(attacked, span, analyses=PATHS)
    assert [name for name in wanted if not found[name].equals(wanted[name])] == []
    monkeypatch.setattr(Evidence, "counting", everything)
    fooled = volumes(verdicts(attacked, span, analyses=PATHS))
    assert fooled.get("roce-1", 0.0) < volumes(wanted)["roce-1"] / 2, "without the filter the attack has to work"


# --- what a window is given -------------------------------------------------------------------------------------


def edges(*told: tuple[str, str, str, str], from_ns: int = T0, to_ns: int | None = None) -> pa.Table:
    """Relations: tenant, child, kind, parent."""
    rows = [{**relation(child, kind, parent, from_ns, to_ns), "tenant": tenant} for tenant, child, kind, parent in told]
    return rows_of("relation", rows, "")


def told(analysis: Analysis, window: Window, table: Any, **tables: pa.Table) -> pa.Table:
    """What a call is given of a table."""
    place = next(place for place, read in enumerate(analysis.reads) if read.table is table)
    return plain(given(analysis, window, HeldRows(tables))[place])


def joint(*more: pa.Table) -> Sequence[tuple[str, str]]:
    """The relations of tenants that count for whose flows are whose: (tenant, child)."""
    window = Window(T0, T0 + 10 * S, PROVIDER, "default")
    found = told(ANALYSIS["path"], window, RELATION, relation=pa.concat_tables(more))
    return sorted((row["tenant"], row["child"]) for row in found.to_pylist() if row["tenant"] != PROVIDER)


PLACES = edges(
    (PROVIDER, "host:h1", "held-by", "tenant:acme"),
    (PROVIDER, "host:h2", "held-by", "tenant:bob"),
    (PROVIDER, "address:10.1.1.1", "in", "port:h1/eth0"),
    (PROVIDER, "address:10.1.2.1", "in", "port:h2/eth0"),
    (PROVIDER, "gpu:GPU-1", "in", "host:h1"),
    from_ns=T0 - 100 * S,
)


@pytest.mark.parametrize(
    ("child", "kind", "parent", "whose"),
    [
        ("rank:bert-1/0", "in", "job:bert-1", {ACME, BOB}),
        ("rank:bert-1/0", "runs-on", "host:h1", {ACME}),
        ("rank:bert-1/0", "runs-on", "gpu:GPU-1", {ACME}),
        ("rank:bert-1/0", "runs-on", "gpu:GPU-2", set()),  # nobody said where it is
        ("qp:10.1.2.1/300", "owns", "rank:bert-1/0", {BOB}),
        ("qp:10.9.9.9/300", "owns", "rank:bert-1/0", set()),
        ("process:h2/70", "member", "rank:bert-1/0", {BOB}),
        ("port:h1/eth0", "in", "host:h1", {ACME}),
        ("address:10.1.2.1", "in", "port:h1/eth0", set()),
        ("port:h1/eth0", "linked", "swport:leaf1/e1", set()),
        ("swport:leaf1/e1", "linked", "swport:spine1/e1", set()),
        ("host:h1", "held-by", "tenant:bob", set()),
        ("flow:00000000000000000000000000000001", "owns", "rank:bert-1/0", set()),  # no switch has sampled it
        ("", "", "", set()),
    ],
)
def test_relations_of_tenants_count_where_they_hold_the_host(
    child: str, kind: str, parent: str, whose: set[str]
) -> None:
    said = edges(*((tenant, child, kind, parent) for tenant in (ACME, BOB, "carol")), from_ns=T0 - 50 * S)
    assert {tenant for tenant, _ in joint(PLACES, said)} == whose


def test_a_hold_that_ended_ends_what_was_said_of_the_host() -> None:
    was = edges((PROVIDER, "host:h1", "held-by", "tenant:bob"), from_ns=T0 - 300 * S, to_ns=T0 - 100 * S)
    said = edges((BOB, "rank:j/0", "runs-on", "host:h1"), from_ns=T0 - 200 * S)
    assert joint(PLACES, was, said) == []


def test_nobody_but_the_provider_says_who_holds() -> None:
    forged = edges((BOB, "host:h1", "held-by", "tenant:bob"), (BOB, "address:10.1.1.1", "in", "port:h2/eth0"))
    known = held(pa.concat_tables([PLACES, forged]), PROVIDER, "default")
    assert not known.holds(BOB, "h1", T0, T0)
    assert known.hosts("qp:10.1.1.1/1") == {"h1"}
    assert held(PLACES, PROVIDER, "other") == Held({}, {})


def events(*tenants: str) -> pa.Table:
    rows = [
        {"tenant": tenant, "time_ns": T0 + S, "entity": "gpu:GPU-1", "kind": "xid", "host": "h1", "attributes": {},
         "batch": n + 1}
        for n, tenant in enumerate(tenants)
    ]  # fmt: skip
    return rows_of("event", rows, "")


def heard(window: Window) -> list[str]:
    found = told(ANALYSIS["failures"], window, EVENT, event=events(PROVIDER, ACME, BOB), relation=PLACES)
    return sorted(set(found["tenant"].to_pylist()))


def test_a_tenant_is_judged_by_its_rows_and_the_providers() -> None:
    span = T0, T0 + 10 * S
    assert heard(Window(*span, PROVIDER, "default")) == [PROVIDER]
    assert heard(Window(*span, PROVIDER, "default", own=ACME)) == [ACME, PROVIDER]
    assert heard(Window(*span, BOB, "default", own=BOB)) == [BOB, PROVIDER]


def test_each_tenant_is_judged_apart_and_the_provider_first() -> None:
    span = T0, T0 + 10 * S
    failures = ANALYSIS["failures"]

    def whose(*tenants: str) -> list[tuple[str, str, str]]:
        found = calls(failures, *span, HeldRows({"event": events(*tenants)}), PROVIDER)
        return [(each.tenant, each.own, each.part) for each in found]

    assert whose(PROVIDER) == [(PROVIDER, "", "")]
    assert whose(ACME) == [(ACME, ACME, "tenant:acme")]
    assert whose(BOB, ACME) == [(ACME, ACME, "tenant:acme"), (BOB, BOB, "tenant:bob")]
    assert whose(BOB, PROVIDER) == [(PROVIDER, "", ""), (PROVIDER, BOB, "tenant:bob")]


def test_what_all_share_is_judged_once_where_the_provider_speaks() -> None:
    sample = {"switch": "leaf1", "time_ns": T0 + S, "rate": 1, "frame_bytes": 64, "src_ip": "10.1.1.1", "batch": 1}

    def whose(*tenants: str, **more: pa.Table) -> list[tuple[str, str]]:
        rows = rows_of("flow_sample", [{**sample, "tenant": each} for each in tenants], "")
        found = calls(ANALYSIS["path"], T0, T0 + 10 * S, HeldRows({"flow_sample": rows, **more}), PROVIDER)
        return [(each.tenant, each.own) for each in found]

    assert whose(PROVIDER, BOB) == [(PROVIDER, "")]
    assert whose(BOB) == [(BOB, BOB)]
    assert whose(BOB, relation=PLACES) == []


def test_words_of_another_tenant_move_no_clock() -> None:
    def fit(tenant: str, offset_ns: int) -> dict[str, Any]:
        return {"tenant": tenant, "host": "h1", "clock": "h1/1", "end_ns": T0 - S, "offset_ns": offset_ns,
                "bound_ns": 1, "state": "fitted", "analysis": "coarse-clock", "version": 1}  # fmt: skip

    step = {"job": "bert-1", "rank": 0, "start_ns": T0 + 5 * S, "end_ns": T0 + 6 * S, "host": "h1", "clock": "h1/1",
            "metrics": {}, "batch": 1}  # fmt: skip
    window = Window(T0, T0 + 60 * S, ACME, "default", "bert-1")

    def begins(*fits: dict[str, Any]) -> list[int]:
        tables = {"step": rows_of("step", [step], ACME), CLOCK_FIT.name: rows_of(CLOCK_FIT.name, fits, "")}
        found = given(ANALYSIS["stalls"], window, HeldRows(tables))[0]
        return [int(at) for at in found["start_ns"].to_pylist()]

    assert begins(fit(ACME, 2 * S)) == [T0 + 3 * S]
    assert begins(fit(ACME, 2 * S), fit(BOB, -3 * S)) == [T0 + 3 * S]
    assert begins(fit(BOB, -3 * S)) == [T0 + 5 * S]


def test_a_word_of_another_tenant_makes_no_job_wait() -> None:
    said = {"host": "h1", "clock": "h1/1", "sender": "agent", "job": "bert-1", "ranks": 1, "state": "open"}
    rows = [{**said, "tenant": BOB, "reported_ns": T0 - 48 * 3600 * S, "to_ns": T0 - 49 * 3600 * S}]
    known = Watermarks()
    for _ in range(3):  # as often as it takes to believe that a clock is wrong
        known.take(rows_of("watermark", rows, ""), T0)
    assert known.of_job(Job(ACME, "default", "bert-1"), T0) is None
    assert known.of_job(Job(BOB, "default", "bert-1"), T0) is not None
    assert known.jobs_on(ACME, "default", "h1") == []
    assert {fit["tenant"] for fit in known.clock_fits()} == {BOB}


def test_marks_of_operators_are_read_whoevers_incident_they_are_of() -> None:
    marks = [{"incident": "i", "mark": "wrong", "actor": "operator:default", "time_ns": T0, "tenant": each}
             for each in (ACME, BOB)]  # fmt: skip
    hurts = {"entity": "job:j", "symptom": "slow", "start_ns": T0, "seen_ns": T0 + S, "blamed": "[]", "evidence": "[]",
             "analysis": "slowdowns", "version": 1, "tenant": ACME}  # fmt: skip
    window = Window(T0, T0 + 2 * S, ACME, "default", own=ACME)
    found = told(ANALYSIS["cause"], window, MARK, mark=rows_of("mark", marks, ""),
                 symptom=rows_of(SYMPTOM.name, [hurts], ""))  # fmt: skip
    assert found.num_rows == 2


def test_the_words_of_a_column_are_those_that_occur() -> None:
    coded = pa.chunked_array([pa.array(["a", "b", "c"]).dictionary_encode()])
    assert words(coded) == {"a", "b", "c"}
    assert words(coded.slice(1, 1)) == {"b"}
    assert words(pa.chunked_array([["x", None]])) == {"x", ""}
    assert words(pa.chunked_array([pa.array(["x", None]).dictionary_encode()])) == {"x", ""}
    assert words(pa.chunked_array([], pa.string())) == set()
