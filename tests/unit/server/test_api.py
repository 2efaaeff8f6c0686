"""Every end point of the running server."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus_text
from tests.senders.running import RunningLeadline, imported, ndjson, wait_for

from leadline import __version__
from leadline.ingest.decode import NOT_BY_ROWS, OF_OPERATORS
from leadline.model.counters import COUNTERS
from leadline.model.tables import BY_NAME, TABLES, Column, Identity, Table, Type

NDJSON = {"content-type": "application/x-ndjson"}
NOW = time.time_ns()


def value_of(column: Column, number: int, table: Table) -> Any:
    """A value for row `number`; numbers 0 and 1 share their time, every third row has null where it may be."""
    if column.name == table.time:
        return NOW - 10**9 * (number // 2)
    if column.nullable and number % 3 == 0:
        return None
    if column.name == table.aged_by:  # a relation's age is counted from its end, a conflict's from when it was seen
        return NOW - number
    if table.identity is Identity.REVISION and column.name in ("version", "revision", table.newest):
        return number
    return {
        Type.SYM: f"{column.name}-{number % 4}",
        Type.STR: f"text {number} ☠",
        Type.SYMS: [f"s{number}", "t"],
        Type.I64: -number,
        Type.U64: 2**64 - 1 - number,
        Type.U128: f"{2**128 - 1 - number:032x}",
        Type.F64: number / 7,
        Type.BOOL: number % 2 == 0,
        Type.MAP: {"n": str(number)},
    }[column.type]


def rows_of(table: Table, count: int) -> list[dict[str, Any]]:
    return [{column.name: value_of(column, number, table) for column in table.given} for number in range(count)]


def send(leadline: RunningLeadline, table: str, rows: list[dict[str, Any]], **headers: str) -> None:
    given = {**NDJSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    answer = leadline.http.post(f"/api/v1/rows/{table}", content=ndjson(rows), headers=given)
    assert answer.status_code == 200, answer.text


def get(leadline: RunningLeadline, path: str, **params: Any) -> dict[str, Any]:
    answer = leadline.http.get(path, params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refused(leadline: RunningLeadline, path: str, status: int = 400, **params: Any) -> str:
    """The message of a refusal."""
    answer = leadline.http.get(path, params=params)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"reason", "message"}
    message: str = error["message"]
    return message


def pages(leadline: RunningLeadline, table: str, limit: int, **params: Any) -> Iterator[list[dict[str, Any]]]:
    cursor = ""
    while True:
        found = get(leadline, f"/api/v1/tables/{table}", limit=limit, cursor=cursor, **params)
        yield found["rows"]
        cursor = found["cursor"]
        if not cursor:
            return


# --- tables --------------------------------------------------------------------------------------------------


BY_ROWS = [table for table in TABLES if table.name not in NOT_BY_ROWS]


@pytest.mark.parametrize("table", BY_ROWS, ids=lambda each: each.name)
def test_rows_of_every_table_come_back_once_in_order_whatever_the_page(leadline: RunningLeadline, table: Table) -> None:
    tenant = {"leadline_tenant": f"page-{table.name}".replace("_", "-")}
    leadline.http.headers = {"leadline-tenant": tenant["leadline_tenant"]}
    try:
        sent = rows_of(table, 8)
        send(leadline, table.name, sent, **tenant, leadline_role="operator")
        for limit in (1, 3, 8, 100) if table.name == "event" else (3, 8):
            got = [row for page in pages(leadline, table.name, limit) for row in page]
            assert [row[table.time] for row in got] == sorted(row[table.time] for row in sent)
            names = [column.name for column in table.given]
            seen = [{**row, **dict.fromkeys(table.of_all)} for row in sent]  # a tenant asks
            assert sorted(_text(row, names) for row in got) == sorted(_text(row, names) for row in seen)
        only = get(leadline, f"/api/v1/tables/{table.name}", columns=table.given[0].name, limit=2)
        assert only["columns"] == [table.given[0].name]
        assert all(set(row) == {table.given[0].name} for row in only["rows"])
        assert only["cursor"]
    finally:
        leadline.http.headers = {}


def test_every_table_that_leadline_writes_is_known_as_such() -> None:
    theirs = ("analysis/", "server", "control", "runner", "store")
    written = {table.name for table in TABLES if table.written_by.startswith(theirs)}
    assert written == OF_OPERATORS | {"mark", "metric_rollup"}, "and nobody sends the two last"


@pytest.mark.parametrize("name", sorted(OF_OPERATORS))
def test_verdicts_are_not_for_tenants_to_send(leadline: RunningLeadline, name: str) -> None:
    """Neither as their own nor into another's rows; an operator may bring them, of whomever."""
    body, path = ndjson(rows_of(BY_NAME[name], 1)), f"/api/v1/rows/{name}"
    counted = ("ingest_refused", "verdict_table")
    before = leadline.refused().get(counted, 0)
    for tenant in ("forger", "rival"):
        answer = leadline.http.post(path, content=body, headers={**NDJSON, "leadline-tenant": tenant})
        assert (answer.status_code, answer.json()["error"]["reason"]) == (403, "verdict_table"), answer.text
        assert "operator" in answer.json()["error"]["message"]
        assert leadline.sql(f"SELECT * FROM {name}", leadline_tenant=tenant) == []
    assert leadline.refused()[counted] == before + 2
    answer = leadline.http.post(path, content=body, headers={**NDJSON, **imported("forger")})
    assert answer.status_code == 200, "as operator"
    assert len(leadline.sql(f"SELECT tenant FROM {name}", leadline_tenant="forger")) == 1
    assert leadline.sql(f"SELECT tenant FROM {name}", leadline_tenant="rival") == []


@pytest.mark.parametrize(("column", "value"), [("revision", -1), ("version", 2**32), ("seen_ns", -1)])
def test_an_imported_verdict_takes_none_back(leadline: RunningLeadline, column: str, value: int) -> None:
    """A revision below 0 is how the runner takes verdicts back; an import that did so would hide rows for good."""
    row = {**rows_of(BY_NAME["failure"], 1)[0], column: value}
    headers = {**NDJSON, **imported("forger")}
    answer = leadline.http.post("/api/v1/rows/failure", content=ndjson([row]), headers=headers)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert f"failure row 1: expected {column} from 0 to" in message
    assert message.endswith(f"got {value}")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"leadline-role": "tenant-read", "leadline-tenant": "blue"}, 401),
        ({"leadline-role": "tenant-read"}, 401),
        ({"leadline-role": "tenant-write", "leadline-tenant": "writer"}, 200),
        ({"leadline-role": "root"}, 401),
        ({"leadline-role": ""}, 401),
    ],
    ids=str,
)
def test_who_says_its_role_has_no_more_than_that(
    leadline: RunningLeadline, headers: dict[str, str], status: int
) -> None:
    answer = leadline.http.post(
        "/api/v1/rows/event", content=ndjson(rows_of(BY_NAME["event"], 1)), headers={**NDJSON, **headers}
    )
    assert answer.status_code == status, answer.text
    reads = leadline.http.get("/api/v1/config", headers=headers)
    assert reads.status_code == 401, "settings are for operators"


def test_a_role_of_a_tenant_reads_its_own_rows_only(leadline: RunningLeadline) -> None:
    send(leadline, "event", [{**rows_of(BY_NAME["event"], 1)[0], "kind": "of-reader"}], leadline_tenant="reader")
    head = {"leadline-tenant": "reader", "leadline-role": "tenant-read"}
    rows = leadline.http.get("/api/v1/tables/event", headers=head).json()["rows"]
    assert [row["kind"] for row in rows] == ["of-reader"]


def _text(row: dict[str, Any], names: list[str]) -> str:
    def plain(value: Any) -> Any:
        return sorted(value) if isinstance(value, list) else value

    return json.dumps({name: plain(row[name]) for name in names}, sort_keys=True)


def test_list_of_tables(leadline: RunningLeadline) -> None:
    found = get(leadline, "/api/v1/tables")
    assert found["schema"] == 1
    assert [each["name"] for each in found["tables"]] == [table.name for table in TABLES]
    for each in found["tables"]:
        assert [column["name"] for column in each["columns"]] == [
            column.name for column in BY_NAME[each["name"]].columns
        ]
        assert each["doc"]
    step = next(each for each in found["tables"] if each["name"] == "step")
    assert step["rows"] >= 0


def test_rows_by_entity(leadline: RunningLeadline) -> None:
    rows = rows_of(BY_NAME["event"], 4)
    for number, row in enumerate(rows):
        row["entity"] = f"gpu:GPU-{number}"
    send(leadline, "event", rows, leadline_tenant="entities")
    steps = rows_of(BY_NAME["step"], 2)
    steps[0]["job"] = "bert-7"
    send(leadline, "step", steps, leadline_tenant="entities")
    found = get(leadline, "/api/v1/tables/event", entity="gpu:GPU-2")["rows"]
    assert [row["entity"] for row in found] == ["gpu:GPU-2"]
    assert [row["job"] for row in get(leadline, "/api/v1/tables/step", entity="job:bert-7")["rows"]] == ["bert-7"]
    assert get(leadline, "/api/v1/tables/event", entity="gpu:GPU-no")["rows"] == []
    assert "have no gpu" in refused(leadline, "/api/v1/tables/step", entity="gpu:GPU-2")
    assert "kind:name" in refused(leadline, "/api/v1/tables/event", entity="nothing")


def test_rows_by_time_in_every_form(leadline: RunningLeadline) -> None:
    rows = rows_of(BY_NAME["event"], 2)
    moment = datetime.now(UTC).replace(microsecond=123456) - timedelta(hours=30)
    time_ns = (int(moment.timestamp()) * 10**6 + 123456) * 1000
    for row in rows:
        row["kind"] = "timed"
        row["time_ns"] = time_ns
    send(leadline, "event", rows, leadline_tenant="times")

    def count(since: str, until: str) -> int:
        params = {"from": since, "to": until}
        found = get(leadline, "/api/v1/tables/event", **params)["rows"]
        return sum(row["kind"] == "timed" for row in found)

    plain = moment.replace(tzinfo=None).isoformat()
    east = moment.astimezone(tz=datetime.strptime("+0530", "%z").tzinfo).isoformat()
    later = str(time_ns + 1)
    for since in (str(time_ns), plain, f"{plain}Z", east, "-31h", "-2d", "-1860m"):
        assert count(since, later) == 2, since
    assert count(str(time_ns), str(time_ns)) == 0
    assert count(str(time_ns + 1), "-1s") == 0
    assert count("-29h", "-0s") == 0
    for wrong in ("tomorrow", "", "-5y", "9" * 30, "-" + "9" * 400 + "d", "2026-13-01", "²"):
        assert "a time is 14:02" in refused(leadline, "/api/v1/tables/event", **{"from": wrong})


def test_pages_that_cannot_be(leadline: RunningLeadline) -> None:
    path = "/api/v1/tables/event"
    assert "did you mean message" in refused(leadline, path, columns="mesage")
    assert "no table 'usual'; it is called baseline now" in refused(leadline, "/api/v1/tables/usual", status=404)
    assert "it is called reported_ns now" in refused(leadline, "/api/v1/tables/incident", columns="told_ns")
    assert "no table 'evnt'" in refused(leadline, "/api/v1/tables/evnt", status=404)
    refused(leadline, path, status=422, limit=0)
    assert "limit" in refused(leadline, path, status=422, limit="many")
    send(leadline, "event", rows_of(BY_NAME["event"], 2), leadline_tenant="cursors")
    good = get(leadline, path, limit=1)["cursor"]
    values = json.loads(base64.urlsafe_b64decode(good))
    forged = [values[:-1], [*values[:-1], -1], ["x", *values[1:]], [True, *values[1:]], [2**64, *values[1:]], {}, 5]
    for value in (*forged, [[] * 3]):
        cursor = base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
        assert "begin again" in refused(leadline, path, cursor=cursor)
    for cursor in ("!", "%%%", "[" * 5000, base64.urlsafe_b64encode(b"[" * 5000).decode()):
        assert "begin again" in refused(leadline, path, cursor=cursor)


# --- SQL and series ------------------------------------------------------------------------------------------


def test_sql(leadline: RunningLeadline) -> None:
    query = "SELECT 1 AS one, 0 / 0 AS n, -1 / 0 AS i, map('a', 1) AS m"
    found = leadline.http.post("/api/v1/sql", json={"sql": query})
    assert found.json() == {
        "schema": 1,
        "columns": ["one", "n", "i", "m"],
        "rows": [{"one": 1, "n": "NaN", "i": "-Inf", "m": {"a": 1}}],
        "cursor": "",
    }
    for sql, part in [
        ("DROP TABLE event", "DROP"),
        ("SELECT * FROM system.tables", "system.tables"),
        ("SELECT * FROM file('/etc/passwd')", "file"),
        ("SELECT nothing FROM event", "nothing"),
        ("SELECT (", "cannot be read"),
    ]:
        answer = leadline.http.post("/api/v1/sql", json={"sql": sql})
        assert answer.status_code == 400, answer.text
        assert part.lower() in answer.json()["error"]["message"].lower()
    answer = leadline.http.post("/api/v1/sql", json={"sql": "SELECT arrayJoin(range(200000))"})
    assert (answer.status_code, answer.json()["error"]["reason"]) == (400, "limit")
    assert "add LIMIT" in answer.json()["error"]["message"]
    assert leadline.http.post("/api/v1/sql", json={"query": "SELECT 1"}).status_code == 422
    assert leadline.http.post("/api/v1/sql", content=b"{").status_code == 422
    assert leadline.refused()["query_refused", "not_allowed"] >= 5
    assert leadline.refused()["query_refused", "limit"] >= 1


def gauge(name: str, labels: dict[str, str], value: float, time_ns: int) -> bytes:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    point = metric.gauge.data_points.add(time_unix_nano=time_ns, as_double=value)
    for label, text in labels.items():
        point.attributes.add(key=label).value.string_value = text
    return bytes(request.SerializeToString())


def send_gauge(leadline: RunningLeadline, body: bytes, **headers: str) -> None:
    given = {"content-type": "application/x-protobuf", **{k.replace("_", "-"): v for k, v in headers.items()}}
    assert leadline.http.post("/v1/metrics", content=body, headers=given).status_code == 200


def test_series(leadline: RunningLeadline) -> None:
    for number in range(3):
        send_gauge(
            leadline, gauge("api.temp", {"UUID": f"GPU-{number}", "x": str(number % 2)}, math.nan, time.time_ns())
        )
    (row,) = get(leadline, "/api/v1/series", match="api.temp")["rows"]
    assert (row["name"], row["streams"], row["type"]) == ("api.temp", 3, "gauge")
    assert row["most_values"] == "UUID=3, x=2"
    assert get(leadline, "/api/v1/series", match="nothing like it")["rows"] == []
    assert len(get(leadline, "/api/v1/series", limit=1)["rows"]) == 1


# --- tenants and other sites ---------------------------------------------------------------------------------


def test_who_names_a_tenant_sees_that_tenant_only(leadline: RunningLeadline) -> None:
    now_ns = time.time_ns()
    for tenant in ("blue", "red"):
        send(leadline, "event", [{**rows_of(BY_NAME["event"], 1)[0], "kind": f"of-{tenant}"}], leadline_tenant=tenant)
        send_gauge(leadline, gauge(f"of.{tenant}", {}, 1.0, now_ns), leadline_tenant=tenant)
    for tenant, other in (("blue", "red"), ("red", "blue")):
        head = {"leadline-tenant": tenant}
        rows = leadline.http.get("/api/v1/tables/event", headers=head).json()["rows"]
        assert {row["kind"] for row in rows} == {f"of-{tenant}"}
        assert {row["tenant"] for row in rows} == {tenant}
        assert leadline.sql("SELECT DISTINCT kind FROM event", leadline_tenant=tenant) == [{"kind": f"of-{tenant}"}]
        assert leadline.sql(f"SELECT kind FROM event WHERE tenant = '{other}'", leadline_tenant=tenant) == []
        names = [row["name"] for row in leadline.http.get("/api/v1/series", headers=head).json()["rows"]]
        assert names == [f"of.{tenant}"]
        assert leadline.http.get("/api/v1/config", headers=head).status_code == 401
    # Nobody named: the operator, who reads all.
    kinds = {row["kind"] for row in leadline.sql("SELECT DISTINCT kind FROM event")}
    assert kinds >= {"of-blue", "of-red"}
    wrong = leadline.http.get("/api/v1/tables", headers={"leadline-tenant": "a b"})
    assert wrong.status_code == 401
    assert "leadline-tenant" in wrong.json()["error"]["message"]


PATHS = ("/metrics", "/api/v1/doctor", "/api/v1/config", "/api/v1/tables", "/api/v1/tables/event", "/api/v1/series")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://example.org"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1.example.org"},
        {"host": "example.org:8440"},
        {"host": "127.0.0.1.example.org"},
        {"host": "127.example.org"},
        {"host": "localhost.example.org"},
        {"host": "10.0.0.1"},
    ],
    ids=lambda headers: next(iter(headers.values())),
)
def test_other_sites_and_other_names_are_not_answered(
    leadline: RunningLeadline, path: str, headers: dict[str, str]
) -> None:
    answer = leadline.http.get(path, headers=headers)
    assert (answer.status_code, answer.json()["error"]["reason"]) == (401, "unauthorized")
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8440", "127.0.0.1:1", "127.0.0.5", "[::1]", "[::1]:8440"])
def test_our_own_names_are_answered(leadline: RunningLeadline, host: str) -> None:
    headers = {"host": host, "origin": f"http://{host}"}
    assert leadline.http.get("/api/v1/tables", headers=headers).status_code == 200


# --- the state of the process --------------------------------------------------------------------------------


def test_health_ready_and_what_is_not_there(leadline: RunningLeadline) -> None:
    assert get(leadline, "/health") == {"state": "ok"}
    assert all(get(leadline, path) == {"state": "ok"} for path in ("/healthz", "/livez", "/-/healthy"))
    assert all(get(leadline, path)["state"] == "ready" for path in ("/readyz", "/-/ready"))
    assert get(leadline, "/ready") == {"state": "ready", "pid": leadline.wait_ready(), "compiling": None}
    assert "/docs/api" in refused(leadline, "/api/v1/nothing", status=404)
    assert refused(leadline, "/api/v1/jobs", 422, limit=0) == "limit: Input should be greater than or equal to 1"
    assert leadline.http.get("/api/v1/jobs?limit=0").headers["link"] == '</docs/api>; rel="help"'
    answer = leadline.http.post("/api/v1/tables", json={})
    assert (answer.status_code, answer.json()["error"]["reason"]) == (405, "method")
    assert "GET" in answer.headers["allow"]


def test_head_is_get_without_a_body(leadline: RunningLeadline) -> None:
    for path in ("/", "/health", "/metrics", "/jobs/bert-7"):
        answer = leadline.http.head(path)
        assert (answer.status_code, answer.content) == (200, b""), path
    assert leadline.http.head("/nothing").status_code == 404
    assert leadline.http.head("/api/v1/now").status_code == 405


def test_requests_are_timed_by_route(leadline: RunningLeadline) -> None:
    get(leadline, "/api/v1/tables/event")
    send(leadline, "event", rows_of(BY_NAME["event"], 1))
    leadline.http.get("/no/such/page")
    samples = {
        (sample.labels["route"], sample.labels["method"], sample.labels["status"]): sample.value
        for family in prometheus_text(leadline.http.get("/metrics").text)
        for sample in family.samples
        if sample.name == "leadline_http_request_duration_seconds_count"
    }
    assert samples["/api/v1/tables/{table}", "GET", "2xx"] >= 1
    assert samples["/api/v1/rows/{table}", "POST", "2xx"] >= 1
    assert samples["other", "GET", "4xx"] >= 1
    assert not any("such" in route for route, _, _ in samples)


def test_config_shows_values_and_origins(leadline: RunningLeadline) -> None:
    settings = {f"{each['section']}.{each['key']}": each for each in get(leadline, "/api/v1/config")["settings"]}
    assert settings["server.port"]["value"] == leadline.port
    assert settings["server.port"]["origin"] == "environment LEADLINE_SERVER__PORT"
    assert settings["server.host"]["origin"] == "default"


@pytest.mark.parametrize(
    ("accept", "parse"),
    [("text/plain", prometheus_text), ("application/openmetrics-text; version=1.0.0", openmetrics)],
    ids=["text", "openmetrics"],
)
def test_metrics_have_every_declared_counter(leadline: RunningLeadline, accept: str, parse: Any) -> None:
    answer = leadline.http.get("/metrics", headers={"accept": accept})
    assert answer.headers["content-type"].startswith(accept.split(";")[0])
    samples = {
        (sample.name, sample.labels.get("reason", "")): sample.value
        for family in parse(answer.text)
        for sample in family.samples
    }
    for counter in COUNTERS:
        assert samples[f"leadline_{counter.family}_total", counter.reason] >= 0
    assert samples["leadline_ingest_refused_total", "histogram_buckets"] == 0
    assert samples["leadline_ingest_accepted_total", "rows"] >= 1
    assert samples["leadline_private_bytes", ""] > 10e6
    assert samples["leadline_queue_rows", ""] == 0
    assert f'version="{__version__}"' in answer.text


def test_doctor_ok_then_warning(leadline: RunningLeadline) -> None:
    before = leadline.doctor()
    name = {"user-agent": "doctor-test/1"}
    send_gauge(leadline, gauge("doctor.temp", {}, 1.0, time.time_ns()), user_agent="doctor-test/1")
    source = wait_for("the source", lambda: leadline.source("doctor-test/1"))
    assert (source["way"], source["state"], source["samples"]) == ("otlp-http", "ok", 1)
    assert source["data_age_s"] < 60
    leadline.http.post("/v1/metrics", content=b"\xff", headers={"content-type": "application/x-protobuf", **name})
    found = leadline.doctor()
    assert found["state"] == "warning"
    (finding,) = [each for each in found["findings"] if "doctor-test/1" in each["text"]]
    assert "expected" in finding["text"]
    assert "correct the sender" in finding["do"]
    assert found["accepted"]["samples"] > before["accepted"]["samples"]
    assert {each["table"] for each in found["tables"]} == set(BY_NAME)
    refusals = {each["reason"]: each for each in found["refused"]}
    assert refusals["malformed"]["do"]


# --- what is of all tenants -----------------------------------------------------------------------------------


def test_a_tenant_is_told_nothing_of_other_senders(leadline: RunningLeadline) -> None:
    send(leadline, "event", rows_of(BY_NAME["event"], 2), leadline_tenant="loud")
    quiet = {"leadline-tenant": "quiet", "user-agent": "someone"}
    metrics = leadline.http.get("/metrics", headers=quiet)
    assert metrics.status_code == 200
    assert "loud" not in metrics.text
    assert "leadline_sources" not in metrics.text
    doctor = leadline.http.get("/api/v1/doctor", headers=quiet).json()
    assert (doctor["sources"], doctor["tables"], doctor["refused"]) == ([], [], [])
    assert doctor["private_bytes"] is None
    tables = leadline.http.get("/api/v1/tables", headers=quiet).json()["tables"]
    assert {(each["rows"], each["bytes"], each["newest_ns"]) for each in tables} == {(None, None, None)}
    telemetry = leadline.http.get("/api/v1/telemetry", headers=quiet).json()
    assert (telemetry["sources"], telemetry["cardinality"]) == ([], [])
    assert {each["state"] for each in telemetry["kinds"]} == {"missing"}
    heard = leadline.http.get("/api/v1/telemetry").json()["sources"]
    assert "loud" in {each["tenant"] for each in heard}, "an operator is told of all"


def test_large_answers_are_packed_for_who_takes_them_and_events_are_not_held_back(leadline: RunningLeadline) -> None:
    packed = leadline.http.get("/api/v1/tables", headers={"accept-encoding": "gzip"})
    plain = leadline.http.get("/api/v1/tables", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert int(packed.headers["content-length"]) < len(plain.content) / 2
    assert packed.json()["tables"][0]["columns"] == plain.json()["tables"][0]["columns"]
    assert "content-encoding" not in leadline.http.get("/health", headers={"accept-encoding": "gzip"}).headers
    with leadline.http.stream("GET", "/api/v1/changes", headers={"accept-encoding": "gzip"}) as events:
        assert "content-encoding" not in events.headers
        assert next(events.iter_lines()).startswith("data: ")
