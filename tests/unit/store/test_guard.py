"""User SQL: what passes, what is refused and how that is said, and that no construct leaks another tenant's rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from leadline.model.errors import LeadlineError, StoreError, UsageError
from leadline.model.principal import Principal, Role
from leadline.model.tables import BY_NAME
from leadline.store import Store, StoreConfig, arrow_table
from leadline.store.guard import rewrite

MINE = Principal("mine", role=Role.TENANT_READ)
OPERATOR = Principal(role=Role.OPERATOR)
NOW_NS = time.time_ns() // 10**9 * 10**9
SECRET = "SECRET-7c1e"


def events(tenant: str, messages: list[str], batch: int) -> Any:
    count = len(messages)
    words = ("cluster", "host", "clock", "entity_kind", "entity", "severity", "source")
    columns: dict[str, Any] = {name: [name] * count for name in words}
    columns |= {"tenant": [tenant] * count, "time_ns": [NOW_NS + n for n in range(count)], "message": messages}
    columns |= {"kind": [f"k{n % 2}" for n in range(count)], "code": [None] * count}
    columns |= {"attributes": [{"m": m} for m in messages]}
    return arrow_table(BY_NAME["event"], columns | {"batch": [batch] * count, "batch_row": list(range(count))})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Two tenants in one part: `mine` has numbers for messages, `theirs` a secret that is no number."""
    store = Store(StoreConfig(path=str(tmp_path_factory.mktemp("guard"))))
    store.start()
    store.append(BY_NAME["event"], events("mine", ["1", "2", "3"], 1))
    store.append(BY_NAME["event"], events("theirs", [SECRET, "0"], 2))
    with store._writers.borrow() as client:
        client.command("OPTIMIZE TABLE leadline.event FINAL")
    yield store
    store.stop()


ANSWERED = [
    ("SELECT count() AS n FROM event", [{"n": 3}]),
    ("select message m from leadline.event order by m desc limit 1", [{"m": "3"}]),
    ("SELECT e.message AS m FROM event AS e WHERE e.message > '2'", [{"m": "3"}]),
    ("SELECT leadline.event.message AS m FROM leadline.event LIMIT 0", []),
    ("SELECT event.message AS m FROM event WHERE event.time_ns <= 0", []),
    ("WITH x AS (SELECT message AS m FROM event) SELECT max(m) AS m FROM x", [{"m": "3"}]),
    ("WITH 2 AS two SELECT count() AS n FROM event WHERE toInt64(message) > two", [{"n": 1}]),
    ("SELECT a.message AS m FROM event a JOIN event b USING (time_ns) WHERE b.message = '2'", [{"m": "2"}]),
    ("SELECT count() AS n FROM event a, event b", [{"n": 9}]),
    ("SELECT count() AS n FROM event WHERE message IN ('1', '2') AND message NOT IN (SELECT '2')", [{"n": 1}]),
    ("SELECT message AS m FROM event WHERE message = '1' UNION ALL SELECT '9' AS m ORDER BY m", None),
    ("SELECT kind, count() AS n FROM event GROUP BY 1 ORDER BY 1", [{"kind": "k0", "n": 2}, {"kind": "k1", "n": 1}]),
    ("SELECT sumIf(toInt64(message), kind = 'k0') AS s, quantile(0.5)(toFloat64(message)) AS q FROM event",
     [{"s": 4, "q": 2.0}]),
    ("SELECT argMax(message, time_ns) AS m, uniqExact(kind) AS u FROM event", [{"m": "3", "u": 2}]),
    ("SELECT message AS m, row_number() OVER (ORDER BY time_ns DESC) AS r FROM event ORDER BY r LIMIT 1",
     [{"m": "3", "r": 1}]),
    ("SELECT arrayMap(x -> x * 2, [1, 2]) AS a, attributes['m'] AS m FROM event ORDER BY time_ns LIMIT 1",
     [{"a": [2, 4], "m": "1"}]),
    ("SELECT intDiv(1790000000123456789, 1000) AS a, 7 DIV 2 AS b", [{"a": 1790000000123456, "b": 3}]),
    ("SELECT CAST('5' AS Int64) AS a, '6'::UInt8 AS b, if(1, 'x', 'y') AS c, 1 ? 2 : 3 AS d",
     [{"a": 5, "b": 6, "c": "x", "d": 2}]),
    ("SELECT count() AS n FROM event WHERE fromUnixTimestamp64Nano(time_ns) > now() - INTERVAL 1 DAY", [{"n": 3}]),
    ("SELECT toStartOfInterval(now(), INTERVAL 1 YEAR) AS t, count() AS n FROM event GROUP BY t HAVING n > 5", []),
    ("SELECT kind FROM event ORDER BY time_ns LIMIT 1 BY kind", [{"kind": "k0"}, {"kind": "k1"}]),
    ("SELECT * EXCEPT (message) FROM event LIMIT 0", []),
    ("SELECT lower(hex(batch)) AS h FROM event LIMIT 1", None),
    ("SELECT 'it''s' AS a, 'b\\\\s' AS b, 'n\\nl' AS c, 'é' AS d", [{"a": "it's", "b": "b\\s", "c": "n\nl", "d": "é"}]),
    ("SELECT 1 AS \"a name\"", [{"a name": 1}]),
    ("SELECT 1 AS x -- a comment'\n", [{"x": 1}]),
    ("SELECT x FROM (SELECT message AS x FROM event) ORDER BY x LIMIT 1", [{"x": "1"}]),
    ("SELECT count() AS n FROM event WHERE kind ILIKE 'K%' AND kind NOT ILIKE '%0'", [{"n": 1}]),
    ("SELECT (SELECT max(message) FROM event) AS m", [{"m": "3"}]),
    ("SELECT count() AS n FROM event WHERE EXISTS (SELECT 1 FROM series)", [{"n": 0}]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "rows"), ANSWERED, ids=[sql for sql, _ in ANSWERED])
def test_ordinary_questions_are_answered(store: Store, sql: str, rows: list[dict[str, Any]] | None) -> None:
    answer = store.query_as(MINE, sql)
    if rows is not None:
        assert answer.to_pylist() == rows
    assert SECRET not in str(answer.to_pylist())
    rewrite(sql, OPERATOR)


REFUSED = [
    ("", "0 statements"),
    (";", "0 statements"),
    ("SELECT 1; SELECT 2", "2 statements"),
    ("SELECT 1; DROP TABLE event", "2 statements"),
    ("INSERT INTO event SELECT * FROM event", "begins with INSERT"),
    ("DROP TABLE event", "begins with DROP"),
    ("ALTER TABLE event DELETE WHERE 1", "begins with ALTER"),
    ("CREATE TABLE x AS event", "begins with CREATE"),
    ("CREATE VIEW x AS SELECT 1", "begins with CREATE"),
    ("TRUNCATE TABLE event", "begins with TRUNCATE"),
    ("OPTIMIZE TABLE event FINAL", "begins with OPTIMIZE"),
    ("SYSTEM SHUTDOWN", "begins with SYSTEM"),
    ("SET readonly = 0", "begins with SET"),
    ("USE system", "begins with USE"),
    ("SHOW TABLES", "begins with SHOW"),
    ("DESCRIBE event", "begins with DESCRIBE"),
    ("EXPLAIN SELECT 1", "begins with EXPLAIN"),
    ("KILL QUERY WHERE 1", "refused|cannot be read"),
    ("GRANT ALL ON *.* TO x", "begins with GRANT"),
    ("SELECT * FROM file('/etc/passwd')", "table function file"),
    ("SELECT * FROM `file`('/etc/passwd', 'LineAsString')", "refused"),
    ("SELECT * FROM url('http://example.org', CSV)", "table function url"),
    ("SELECT * FROM remote('host', leadline.event)", "table function remote"),
    ("SELECT * FROM s3('x')", "table function s3"),
    ("SELECT * FROM merge('leadline', '.*')", "refused"),
    ("SELECT * FROM merge(leadline, 'event')", "refused"),
    ("SELECT * FROM numbers(10)", "table function numbers"),
    ("SELECT * FROM executable('x', TSV, 'y')", "refused"),
    ("SELECT * FROM view(SELECT 1)", "refused"),
    ("SELECT * FROM cluster('x', leadline.event)", "refused"),
    ("SELECT * FROM values('a Int8', 1)", "refused"),
    ("SELECT * FROM generateRandom('a Int8')", "refused"),
    ("SELECT * FROM input('a Int8')", "refused"),
    ("SELECT * FROM format(CSV, '1')", "refused"),
    ("SELECT * FROM system.tables", "the table system.tables"),
    ("SELECT * FROM system.one", "the table system.one"),
    ("SELECT * FROM information_schema.tables", "the table information_schema.tables"),
    ("SELECT * FROM leadline.schema_version", "the table schema_version"),
    ("SELECT * FROM event_local", "the table event_local"),
    ("SELECT * FROM other.event", "the table other.event"),
    ("SELECT * FROM a.b.event", "refused"),
    ("SELECT 1 FROM event WHERE 1 IN (SELECT 1 FROM system.users)", "the table system.users"),
    ("SELECT (SELECT count() FROM system.parts)", "the table system.parts"),
    ("WITH x AS (SELECT * FROM system.one) SELECT * FROM x", "the table system.one"),
    ("SELECT 1 UNION ALL SELECT dummy FROM system.one", "the table system.one"),
    ("SELECT 1 FROM event JOIN system.one ON 1", "the table system.one"),
    ("WITH event AS (SELECT 1) SELECT * FROM event", "WITH event AS"),
    ("WITH RECURSIVE x AS (SELECT 1 UNION ALL SELECT * FROM x) SELECT * FROM x", "RECURSIVE"),
    ("SELECT * FROM event WHERE message IN event", "refused"),
    ("SELECT * FROM event WHERE message IN (event)", "IN with a name"),
    ("SELECT * FROM event WHERE message IN ((series))", "IN with a name"),
    ("SELECT * FROM event WHERE message NOT IN (leadline.event)", "IN with a name"),
    ("SELECT in(message, event) FROM event", "ALIASES"),
    ("SELECT IN(message, leadline.event) FROM event", "refused|cannot be read"),
    ("SELECT 1, in(message, leadline.event) AS x FROM event", "refused|cannot be read"),
    ("SELECT notIn(message, leadline.event) FROM event", "the function notIn"),
    ("SELECT `in`(message, leadline.event) FROM event", "refused|cannot be read"),
    ("SELECT exists(leadline.event)", "refused"),
    ("SELECT globalIn(message, event) FROM event", "the function globalIn"),
    ("SELECT * FROM event INTO OUTFILE 'x'", "cannot be read"),
    ("SELECT * FROM (VALUES ())", r"the parser cannot read \(IndexError\)"),  # found by fuzzing
    ("SELECT * FROM event FORMAT CSV", "FORMAT"),
    ("SELECT 1 SETTINGS max_threads = 64", "SETTINGS"),
    ("SELECT * FROM event SETTINGS final = 0", "SETTINGS"),
    ("SELECT * FROM (SELECT 1 SETTINGS max_threads = 64)", "SETTINGS"),
    ("SELECT * FROM event FINAL", "FINAL"),
    ("SELECT * FROM event SAMPLE 0.1", "SAMPLE"),
    ("SELECT * FROM event PREWHERE message = 'x'", "PREWHERE"),
    ("SELECT file('/etc/passwd')", "the function file"),
    ("SELECT dictGet('d', 'a', 1)", "the function dictGet"),
    ("SELECT joinGet('leadline.event', 'message', 1)", "the function joinGet"),
    ("SELECT getSetting('max_threads')", "the function getSetting"),
    ("SELECT currentUser()", "refused"),
    ("SELECT current_user", "refused"),
    ("SELECT user()", "refused"),
    ("SELECT hostName(), version(), uptime()", "refused"),
    ("SELECT currentDatabase()", "refused"),
    ("SELECT sleep(3)", "the function sleep"),
    ("SELECT sleepEachRow(1) FROM event", "the function sleepEachRow"),
    ("SELECT throwIf(message = 'x') FROM event", "the function throwIf"),
    ("SELECT evalMLMethod(1)", "refused"),
    ("SELECT arrayReduce('sum', [1])", "the function arrayReduce"),
    ("SELECT initializeAggregation('sum', 1)", "refused"),
    ("SELECT catboostEvaluate('x', 1)", "refused"),
    ("SELECT addressToLine(1)", "refused"),
    ("SELECT rand()", "refused"),
    ("SELECT editDistance(message, kind) FROM event", "the function editDistance"),
    ("SELECT levenshteinDistance(message, kind) FROM event", "the function (levenshtein|edit)Distance"),
    ("SELECT damerauLevenshteinDistance(message, kind) FROM event", "the function damerauLevenshteinDistance"),
    ("SELECT hasAny([1], [2])", "refused"),
    ("SELECT hasAll([1], [2])", "refused"),
    ("SELECT positionCaseInsensitive(message, kind) FROM event", "refused"),
    ("SELECT extractAll(message, 'a') FROM event", "the function extractAll"),
    ("SELECT replaceRegexpAll(message, 'a', 'b') FROM event", "the function replaceRegexpAll"),
    ("SELECT message ILIKE kind FROM event", "ILIKE with anything but a text"),
    ("SELECT ilike(message, kind) FROM event", "refused"),
    ("SELECT notILike(message, 'a') FROM event", "refused"),
    ("SELECT `sleep`(1)", "refused"),
    ('SELECT "sleep"(1)', "refused"),
    ("SELECT COLUMNS('.*') FROM event", "refused"),
    ("SELECT * APPLY(sum) FROM event", "refused"),
    ("SELECT {x:String}", "a parameter"),
    ("SELECT ?", "refused"),
    ("SELECT @@version", "refused"),
    ('SELECT 1 AS "a\'b"', "the name"),
    ("SELECT 1 AS `a\\`b`", "the name"),
    ("SELECT 1 FROM (SELECT 1) AS t(x)", "COLUMNS"),
    ("SELECT 'a\0b'", "zero byte"),
    ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "refused"),
    ("SELECT " + " + ".join("1" * 4000), "refused"),
    ("SELECT '" + "x" * 70_000 + "'", "more than 65536 bytes"),
    ("SELEC 1", "refused|cannot be read"),
    ("SELECT 'open", "cannot be read"),
    ("SELECT (", "cannot be read"),
    ("SELECT * FROM usual", "it is called baseline now"),
]


@pytest.mark.parametrize(("sql", "said"), REFUSED, ids=[sql[:60] for sql, _ in REFUSED])
@pytest.mark.parametrize("who", [MINE, OPERATOR], ids=["tenant", "operator"])
def test_everything_else_is_refused_with_a_reason(sql: str, said: str, who: Principal) -> None:
    with pytest.raises(UsageError, match=rf"(?is){said}.*allowed is one SELECT"):
        rewrite(sql, who)


# Each would fail, and tell SECRET in its error, if it were evaluated on a row of the other tenant.
ORACLES = [
    "SELECT count() AS n FROM event WHERE toUInt64(message) > 0",
    "SELECT count() AS n FROM event WHERE time_ns > 5 AND toUInt64(message) > 0",
    "SELECT count() AS n FROM event WHERE toUInt64(message) > 0 AND tenant != 'mine2'",
    "SELECT count() AS n FROM (SELECT toUInt64(message) AS m FROM event) WHERE m > 0",
    "SELECT count() AS n FROM event HAVING sum(toUInt64(message)) > 0",
    "WITH x AS (SELECT toUInt64(message) AS m FROM event) SELECT count() AS n FROM x JOIN x AS y USING m WHERE y.m > 0",
    "SELECT count() AS n FROM event a JOIN event b ON toUInt64(a.message) = toUInt64(b.message)",
    "SELECT count() AS n FROM event a JOIN event b USING time_ns WHERE toUInt64(b.message) > 0",
    "SELECT count() AS n FROM event a LEFT JOIN event b ON a.time_ns = b.time_ns AND toUInt64(b.message) > 0",
    "SELECT count() AS n FROM event WHERE toUInt64(message) IN (SELECT toUInt64(message) FROM event)",
    "SELECT count() AS n FROM (SELECT message FROM event ORDER BY toUInt64(message) LIMIT 100)",
    "SELECT count() AS n FROM (SELECT message FROM event LIMIT 1 BY toUInt64(message))",
    "SELECT count() AS n FROM (SELECT DISTINCT toUInt64(message) FROM event)",
    "SELECT countIf(CAST(message AS UInt64) > 0) AS n FROM event",
    "SELECT count() AS n FROM event WHERE intDiv(1, message != '0') = 1",
    "SELECT count() AS n FROM (SELECT sum(toUInt64(message)) OVER (PARTITION BY kind) AS s FROM event) WHERE s > 0",
]


@pytest.mark.parametrize("sql", ORACLES)
def test_no_condition_is_evaluated_on_another_tenants_row(store: Store, sql: str) -> None:
    assert store.query_as(MINE, sql).to_pylist() == [{"n": 3}]
    with pytest.raises(LeadlineError) as caught:  # the oracle works: over all rows it does fail
        store.query_as(OPERATOR, sql)
    assert SECRET in str(caught.value) or "ivision by zero" in str(caught.value)


def test_sums_of_whole_numbers_reach_the_stored_rows_worked_out() -> None:
    """Grafana writes the times of a dashboard so."""
    safe = rewrite("SELECT 1 FROM event WHERE time_ns > (1790000000000 * 1000000) - 3600000000000", MINE)
    assert "'mine' AND (\"time_ns\" > 1789996400000000000))" in safe


def test_conditions_on_time_reach_the_stored_rows() -> None:
    safe = rewrite(
        "SELECT count() FROM event e WHERE e.time_ns > 5 AND e.message = 'x' AND length(e.message) > 2", MINE
    )
    cut = safe[safe.index("(SELECT *") : safe.index(") AS")]
    assert '"time_ns" > 5' in cut
    assert "\"message\" = 'x'" in cut
    assert "length" not in cut


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS time_ns FROM event WHERE time_ns > 5",  # an alias of that name comes first
        "SELECT 1 FROM series s LEFT JOIN event e ON 1 WHERE e.time_ns > 5",  # would turn rows into non-matches
        "SELECT 1 FROM series s RIGHT JOIN event e ON 1 WHERE s.first_ns > 5",
        "SELECT 1 FROM event a, event b WHERE time_ns > 5",  # whose?
        "SELECT 1 FROM event WHERE time_ns > 5 OR message = 'x'",
        "SELECT 1 FROM event WHERE time_ns > toUInt64(message)",
        "SELECT 1 FROM event WHERE time_ns > (SELECT max(time_ns) FROM event)",
        "SELECT 1 FROM event WHERE time_ns > toDecimal64('0.5', 18)",  # overflows on another tenant's number
        "SELECT 1 FROM event WHERE time_ns > 0.5 AND time_ns > '5' AND message > 5 AND time_ns IN (1, '2')",
        "SELECT 1 FROM event WHERE time_ns > toInt64(1) AND time_ns > 1 / 2 AND time_ns > CAST('1' AS Int64)",
        "SELECT 1 FROM event WHERE time_ns > 9223372036854775807 + 1 AND time_ns < 99999999999999999999",
        "SELECT 1 FROM event WHERE message = concat('a', 'b') AND message > NULL AND time_ns = NULL",
    ],
)
def test_other_conditions_stay_where_they_are(sql: str) -> None:
    assert "'mine' AND" not in rewrite(sql, MINE)


@pytest.mark.parametrize(
    "tenant", ["it's", "back\\", "' OR 1 = 1 --", "\\' OR 1=1 --", 'q"q', "é\n", "%", "{x:String}"]
)
def test_a_tenants_name_is_only_ever_a_text(store: Store, tenant: str) -> None:
    store.append(BY_NAME["event"], events(tenant, ["here"], 9))
    principal = Principal(tenant, role=Role.TENANT_READ)
    assert store.query_as(principal, "SELECT tenant, message FROM event").to_pylist() == [
        {"tenant": tenant, "message": "here"}
    ]


def test_engine_errors_of_the_user_are_usage_errors(store: Store) -> None:
    addresses = ("SELECT toIPv4(message) FROM event", "SELECT toIPv6('x')")
    for sql in ("SELECT nope FROM event", "SELECT toUInt64('x')", "SELECT message + 1 FROM event", *addresses):
        with pytest.raises(UsageError, match="cannot run"):
            store.query_as(MINE, sql)


def test_a_writer_may_read_its_own(store: Store) -> None:
    writer = Principal("mine", role=Role.TENANT_WRITE)
    assert store.query_as(writer, "SELECT count() AS n FROM event").to_pylist() == [{"n": 3}]
    assert issubclass(StoreError, LeadlineError)
