"""Tenants beside each other: rows by owner, questions, statements, what counts as a leak, what counts as forged."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evals.tenants.__main__ import scene
from evals.tenants.canaries import canaries, not_asked
from evals.tenants.forging import Forger, names_of
from evals.tenants.leaks import Leaks
from evals.tenants.questions import Asker, Names, Route, routes_of
from evals.tenants.same import difference
from evals.tenants.scene import ACME, BOB, JOB, NEIGHBOUR, NUMBER, PROVIDER, Scene, owner, processes_of, renamed
from evals.tenants.statements import Writer
from evals.tenants.verdicts import changed, said

from leadline.ingest.decode import NOT_BY_ROWS
from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.model.tables import BY_NAME
from leadline.store.guard import rewrite
from leadline.wire.rows import decode_rows

BOBS = Principal("bob", role=Role.TENANT_READ)
ENDS_NS = 1_800_000_000_000_000_000


@pytest.fixture(scope="module")
def played() -> Scene:
    return scene(ENDS_NS)


# --- whose rows ---------------------------------------------------------------------------------------------------


def test_all_that_acme_sends_has_a_canary_and_what_others_send_has_no_job_of_acme(played: Scene) -> None:
    for table, rows in played.rows[ACME].items():
        assert rows
        named = [row for row in rows if not str(row.get("child")).startswith("process:h")]  # on hosts shared with bob
        assert all(canaries(json.dumps(row).encode()) for row in named), table
    for tenant in (BOB, PROVIDER):
        assert JOB not in json.dumps(played.rows[tenant])
    assert NEIGHBOUR in json.dumps(played.rows[BOB])
    assert {"relation", "event", "step", "collective"} <= played.rows[ACME].keys() & played.rows[BOB].keys()
    assert played.flows.num_rows > 10_000


def test_the_recording_ends_when_it_is_asked_to(played: Scene) -> None:
    times = [row["end_ns"] for row in played.rows[ACME]["step"]]
    assert played.from_ns < min(times) < max(times) <= played.to_ns == ENDS_NS
    assert all(row["data_ns"] < 10**12 for row in played.rows[ACME]["step"]), "lengths of time are not moved"


def test_a_process_belongs_to_whose_rank_runs_as_it() -> None:
    runs = {"child": f"rank:{JOB}/0", "parent": "process:h1/7", "kind": "runs-on"}
    processes = processes_of([runs])
    assert owner({"child": "process:h1/7", "parent": "host:h1"}, processes) == ACME
    assert owner({"child": "process:h1/8", "parent": "host:h1"}, processes) == PROVIDER
    assert owner({"child": f"rank:{NEIGHBOUR}/0"}, processes) == BOB


def test_hosts_of_acme_are_renamed_and_shared_ones_are_not() -> None:
    assert renamed("port:h1/eth0 of bert-1, port:h3/eth0, leaf1/Ethernet1") == (
        f"port:zqvh1/eth0 of {JOB}, port:h3/eth0, leaf1/Ethernet1"
    )


# --- what is a leak -------------------------------------------------------------------------------------------------


def test_a_canary_is_found_however_it_is_packed() -> None:
    said = f'{{"job": "{JOB}", "n": {NUMBER + 41}}}'
    assert canaries(said.encode()) == {JOB, f"{NUMBER + 41}"}
    assert canaries(gzip.compress(said.encode())) == canaries(said.encode())
    assert canaries(rb'{"a": "\u007aqvbert-7"}') == {JOB}
    assert canaries(b"rank%3Azqvbert-7%2F3") == {"zqvbert-7/3", "zqvbert-7"}
    assert canaries(b"8.675309000041e+12") == {"8.675309000041e+12"}
    assert not canaries(b'{"n": 1867530900, "word": "bert-1"}')


def test_tables_of_a_bundle_are_looked_through() -> None:
    table, bundle = io.BytesIO(), io.BytesIO()
    pq.write_table(pa.table({"job": [JOB]}), table, compression="zstd")
    with tarfile.open(fileobj=bundle, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        member = tarfile.TarInfo("step.parquet")
        member.size = len(table.getvalue())
        tar.addfile(member, io.BytesIO(table.getvalue()))
    assert canaries(bundle.getvalue()) == {JOB}


def test_an_echo_is_no_leak_and_more_than_the_echo_is_one() -> None:
    asked = "/api/v1/jobs/zqvbert-7?entity=rank%3Azqvbert-7%2F3"
    assert not_asked(canaries(b"no job zqvbert-7 is known"), asked) == set()
    assert not_asked(canaries(b"zqvbert-7/3"), asked) == set()
    assert not_asked(canaries(b"did you mean zqvbert-7/4?"), asked) == {"zqvbert-7/4"}


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ({"rows": [{"a": 1}, {"a": 2}]}, {"rows": [{"a": 2}, {"a": 1}]}, ""),
        ({"now_ns": 1, "batch": "a"}, {"now_ns": 2, "batch": "b"}, ""),
        ({"text": "at 1700000000000000001"}, {"text": "at 1700000000000000002"}, ""),
        ({"n": 3}, {"n": 4}, ".n: 3, without acme 4"),
        ({"rows": [1]}, {"rows": []}, ".rows: 1 of [1], without acme 0 of []"),
    ],
)
def test_answers_are_the_same_but_for_times_ids_and_order(one: Any, other: Any, differs: str) -> None:
    assert difference((200, json.dumps(one).encode()), (200, json.dumps(other).encode())) == differs


def test_another_status_is_a_difference() -> None:
    assert difference((400, b"{}"), (200, b"{}")) == "status 400, without acme 200"


# --- questions ----------------------------------------------------------------------------------------------------


def asker(seed: int) -> Asker:
    chance, acme, bob = random.Random(seed), Names(), Names()
    acme.take({"jobs": [{"job": JOB}], "incident": "i", "cursor": "c"})
    bob.take({"jobs": [{"job": NEIGHBOUR}]})
    writer = Writer(chance, BY_NAME, [JOB, "it's"])
    return Asker(
        chance, {"bob-read": "s", "none": ""}, acme, bob, (10**18, 2 * 10**18), list(BY_NAME), writer.statement
    )


def test_questions_are_drawn_by_the_seed() -> None:
    route = Route("GET", "/api/v1/jobs/{job}", (("job", "path", {}), ("from", "query", {})))
    drawn = [asker(7).question(route) for _ in range(2)]
    assert drawn[0] == drawn[1]
    one = asker(7)
    targets = {one.question(route).target for _ in range(300)}
    assert any(JOB in each for each in targets)
    assert any(NEIGHBOUR in each for each in targets)
    assert not any("{" in each.replace("%7B", "").replace("{{7*7}}", "") for each in targets)


def test_routes_are_those_of_the_description() -> None:
    said = {"paths": {"/a": {"get": {"parameters": [{"name": "x", "in": "query", "schema": {}}]}, "post": {}}}}
    assert [each.name for each in routes_of(said)] == ["GET /a", "POST /a"]


def test_most_statements_are_read_and_none_names_what_differs_by_itself() -> None:
    writer = Writer(random.Random(3), BY_NAME, [JOB, "it's", "a\\b"])
    read = 0
    for _ in range(300):
        statement = writer.statement()
        try:
            rewrite(statement, BOBS)
            read += 1
        except UsageError:
            continue
    assert read > 200


def test_a_route_that_only_ever_refuses_is_not_reached() -> None:
    found = Leaks(asked=Counter({"GET /a": 2, "GET /b": 1}), reached=Counter({"GET /a": 1, "GET /b": 0}))
    assert found.not_reached() == ["GET /b"]


# --- forged -------------------------------------------------------------------------------------------------------


def test_forged_rows_are_well_formed_and_about_others(played: Scene) -> None:
    real = played.rows[ACME]
    forger = Forger(random.Random(5), (played.from_ns, played.to_ns), names_of(real), real)
    for name, table in BY_NAME.items():
        if name in NOT_BY_ROWS:
            continue
        rows = [forger.row(table) for _ in range(20)]
        body = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        decode_rows(body, "application/x-ndjson", table)
        if name in ("event", "relation", "step"):
            assert canaries(body), name


def symptom(**more: Any) -> Mapping[str, Any]:
    return {
        "tenant": ACME,
        "cluster": "default",
        "entity": "job:j",
        "symptom": "slow",
        "start_ns": 5,
        "lost_share": 0.5,
        **more,
    }


def test_a_verdict_that_says_something_else_is_changed_and_one_judged_again_is_not() -> None:
    def held(row: Any) -> dict[str, dict[str, Any]]:
        return {"symptom": {said(row): row}}

    before = held(symptom(revision=0, seen_ns=1))
    assert changed(before, held(symptom(revision=1, seen_ns=2))) == []
    found = changed(before, held(symptom(lost_share=0.25)))
    assert [(table, how) for table, how, _ in found] == [("symptom", "gone"), ("symptom", "new")]
