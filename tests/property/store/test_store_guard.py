"""Laws of user SQL: whatever is accepted answers as if the other tenants did not exist."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.model.errors import StoreError, UsageError
from leadline.model.principal import Principal, Role
from leadline.model.tables import BY_NAME
from leadline.store import Limits, Store, StoreConfig, arrow_table
from leadline.store.guard import rewrite

MINE = Principal("mine", role=Role.TENANT_READ)
OPERATOR = Principal(role=Role.OPERATOR)
NOW_NS = time.time_ns() // 10**9 * 10**9
# Every stored name in an accepted statement stands in this form and in no other.
CUT = re.compile(r'\(SELECT \* FROM "leadline"\."(\w+)" WHERE "tenant" = \'mine\'')


def events(tenant: str, numbers: list[int], batch: int) -> Any:
    count = len(numbers)
    words = ("cluster", "host", "clock", "entity_kind", "severity", "source")
    columns: dict[str, Any] = {name: [name] * count for name in words}
    columns |= {"tenant": [tenant] * count, "time_ns": [NOW_NS + n for n in numbers]}
    columns |= {"message": [str(n) for n in numbers], "entity": [f"host:{n % 3}" for n in numbers]}
    columns |= {"kind": [f"k{n % 2}" for n in numbers], "code": [None if n % 2 else str(n) for n in numbers]}
    columns |= {"attributes": [{"n": str(n)} for n in numbers]}
    return arrow_table(BY_NAME["event"], columns | {"batch": [batch] * count, "batch_row": list(range(count))})


def relations(tenant: str, numbers: list[int]) -> Any:
    count = len(numbers)
    columns: dict[str, Any] = {name: [name] * count for name in ("cluster", "kind", "source")}
    columns |= {"tenant": [tenant] * count, "child": [f"host:{n}" for n in numbers]}
    columns |= {"parent": [f"k{n % 2}" for n in numbers], "from_ns": [NOW_NS + n for n in numbers]}
    columns |= {"to_ns": [None if n % 2 else NOW_NS for n in numbers], "confidence": [n / 2 for n in numbers]}
    return arrow_table(BY_NAME["relation"], columns)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Two tenants' rows in `leadline`, and a database `alone` with those of `mine` only: the truth to compare with."""
    store = Store(StoreConfig(path=str(tmp_path_factory.mktemp("guard"))))
    store.start()
    for tenant, numbers, batch in (("mine", [0, 1, 2, 3], 1), ("theirs", [1, 2, 5, 6, 7], 2), ("", [1, 8], 3)):
        store.append(BY_NAME["event"], events(tenant, numbers, batch))
        store.append(BY_NAME["relation"], relations(tenant, numbers))
    with store._writers.borrow() as client:
        client.command("CREATE DATABASE alone")
        for name in ("event", "relation"):
            client.command(f"OPTIMIZE TABLE leadline.{name} FINAL")
            client.command(f"CREATE TABLE alone.{name} AS leadline.{name}")
            client.command(f"INSERT INTO alone.{name} SELECT * FROM leadline.{name} WHERE tenant = 'mine'")
    yield store
    store.stop()


# --- random questions ----------------------------------------------------------------------------------------

COLUMNS = {
    "event": ("time_ns", "message", "entity", "kind", "code", "tenant"),
    "relation": ("child", "parent", "from_ns", "to_ns", "confidence", "tenant", "kind"),
}
NUMBERS = {"time_ns", "from_ns", "to_ns", "confidence"}


@st.composite
def conditions(draw: st.DrawFn, names: list[str]) -> str:
    """A condition on columns, some of which the guard copies into the cut, some not."""
    name = draw(st.sampled_from(names))
    bare = name.rpartition(".")[2]
    if bare in NUMBERS:
        value = draw(st.sampled_from([str(NOW_NS + n) for n in range(4)] + ["0", "0.5", "1"]))
        forms = ["{0} > {1}", "{1} >= {0}", "{0} BETWEEN 0 AND {1}", "{0} IN ({1}, 0)", "{0} = {1}", "NOT ({0} < {1})"]
        forms += ["{0} IS NULL", "intDiv({0}, 2) > {1}", "isNull({0}) OR {0} != {1}"]
    else:
        value = draw(st.sampled_from(["'1'", "'2'", "'k0'", "'k1'", "'host:1'", "''", "'mine'", "'theirs'"]))
        forms = ["{0} = {1}", "{0} != {1}", "{0} IN ({1}, 'k1')", "{0} NOT IN ({1})", "{1} < {0}", "{0} LIKE '%1%'"]
        forms += ["{0} IS NOT NULL", "length({0}) > 1", "{0} = {1} OR 1 = 1", "{0} IN (SELECT kind FROM event)"]
        forms += ["{0} IN (SELECT child FROM relation WHERE kind != {1})", "toUInt64OrZero({0}) > 0", "({0} = {1})"]
    text = draw(st.sampled_from(forms)).format(name, value)
    if draw(st.integers(0, 4)) == 0:
        text = f"{text} {draw(st.sampled_from(['AND', 'OR']))} {draw(conditions(names))}"
    return text


@st.composite
def selects(draw: st.DrawFn, depth: int = 0) -> str:
    """One SELECT: one table or a join of two, conditions, perhaps grouped, perhaps over a sub-query."""
    table = draw(st.sampled_from(["event", "relation"]))
    alias = draw(st.sampled_from(["", "a"]))
    source = f"{table} {alias}".strip()
    here = alias or table
    names = list(COLUMNS[table])
    if draw(st.booleans()):
        other = "relation" if table == "event" else "event"
        kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "ANY LEFT JOIN", "SEMI LEFT JOIN", "ANTI LEFT JOIN"]
        join = draw(st.sampled_from([*kinds, "CROSS JOIN", ","]))
        left, right = (f"{here}.kind", "b.parent") if table == "event" else (f"{here}.parent", "b.kind")
        source += f"{join} {other} b" if join == "," else f" {join} {other} b"
        if join not in ("CROSS JOIN", ","):
            source += f" ON {left} = {right}"
        only_left = join.startswith(("SEMI", "ANTI"))
        names = [f"{here}.{name}" for name in names] + ([] if only_left else [f"b.{name}" for name in COLUMNS[other]])
    elif draw(st.booleans()):
        names += [f"{here}.{name}" for name in names]
    where = f" WHERE {' AND '.join(draw(st.lists(conditions(names), min_size=1, max_size=3)))}"
    where = where if draw(st.integers(0, 5)) else ""
    columns = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    shape = draw(st.integers(0, 4))
    if shape == 0:
        return f"SELECT count() AS n, min({columns[0]}) AS x, uniqExact({columns[-1]}) AS y FROM {source}{where}"
    if shape == 1:
        return f"SELECT {columns[0]} AS x, count() AS n FROM {source}{where} GROUP BY x HAVING n > 0"
    if shape == 2:  # an alias that shadows a column
        bare = columns[0].rpartition(".")[2]
        return f"SELECT {columns[-1]} AS {bare}, 1 AS one FROM {source}{where}"
    if shape == 3 and depth < 2:
        inner = draw(selects(depth=depth + 1))
        return f"SELECT count() AS n, (SELECT count() FROM event) AS m FROM ({inner}) AS s"
    return f"SELECT {', '.join(f'{name} AS c{place}' for place, name in enumerate(columns))} FROM {source}{where}"


@st.composite
def statements(draw: st.DrawFn) -> str:
    text = draw(selects())
    shape = draw(st.integers(0, 5))
    if shape == 0:
        return f"WITH q AS ({text}) SELECT count() AS n FROM q, q AS r"
    if shape == 1:
        return (
            f"SELECT toString(tuple(*)) AS x FROM ({text}) UNION ALL SELECT toString(tuple(*)) FROM ({draw(selects())})"
        )
    return text


def answer(store: Store, sql: str, barrier: bool) -> list[str] | None:
    """The rows in any order, or nothing if the engine does not take the statement."""
    try:
        rows = store._run(store._user_pool(not barrier, Limits(100_000, 20, 1 << 30)), sql, {}, None).to_pylist()
    except StoreError:
        return None
    return sorted(map(repr, rows))


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=statements())
def test_the_answer_is_that_of_a_store_without_the_others(store: Store, sql: str) -> None:
    seen = answer(store, rewrite(sql, MINE), barrier=True)
    alone = answer(store, rewrite(sql, OPERATOR).replace('"leadline".', '"alone".'), barrier=False)
    assert seen == alone


def test_the_random_questions_are_mostly_answered(store: Store) -> None:
    """Else the law above would compare nothing with nothing."""
    answered: list[bool] = []
    rows: list[int] = []

    @settings(max_examples=40, deadline=None, database=None)
    @given(sql=statements())
    def ask(sql: str) -> None:
        result = answer(store, rewrite(sql, MINE), barrier=True)
        answered.append(result is not None)
        rows.append(len(result or []))

    ask()
    assert sum(answered) > 0.8 * len(answered)
    assert sum(count > 0 for count in rows) > 0.5 * len(rows)


# --- constants of other types ----------------------------------------------------------------------------------
#
# A comparison may fail for some values of a column only: of a decimal, for those that are too large for its scale.
# Where it is evaluated on others' rows, the error is an oracle.

OTHERS = 500_000_000  # what `theirs` has in every number, in the same part; `mine` has 0
ODD = [
    "toDecimal64('0.5', 18)", "toDecimal128('0.5', 38)", "toDecimal32('0.5', 9)", "CAST('0.5' AS Decimal(76, 76))",
    "'0.5'::Decimal(38, 30)", "toDecimal64('0.5', 10)", "0.5", "-0.5", "1e-30", "1e300", "1", "-1",
    "18446744073709551615", "99999999999999999999999999", "1 / 3", "'1'", "'x'", "''", "NULL", "toUInt8(1)",
    "toInt256('-1')", "toIPv4('1.2.3.4')",
    "toDate('2020-01-01')", "toDateTime64('2020-01-01 00:00:00', 9)", "[1]", "(1, 2)", "toFixedString('a', 3)",
    "CAST('a' AS Enum8('a' = 1))", "INTERVAL 1 DAY", "true", "map('a', 1)", "intDiv(1, 0)", "7 DIV 2", "5 - 7",
]  # fmt: skip
ODD_FORMS = ["{0} > {1}", "{1} >= {0}", "{0} = {1}", "{0} != {1}", "{0} BETWEEN {1} AND {2}", "{0} IN ({1}, {2})"]


def steps(tenant: str, number: int, count: int) -> Any:
    columns: dict[str, Any] = {name: [name] * count for name in ("cluster", "host", "clock", "job")}
    columns |= {"tenant": [tenant] * count, "step": list(range(count)), "rank": [number] * count}
    times = [NOW_NS + number] * count
    columns |= {"start_ns": times, "end_ns": times, "data_ns": [number] * count, "loss": [float(number)] * count}
    columns |= {"metrics": [{}] * count, "batch": [number] * count, "batch_row": list(range(count))}
    absent = [column.name for column in BY_NAME["step"].columns if column.name not in columns]
    return arrow_table(BY_NAME["step"], columns | {name: [None] * count for name in absent})


@pytest.fixture(scope="module")
def two(store: Store) -> Store:
    """The store, with steps of two tenants in one part, which share granules; `alone` has those of `mine`."""
    store.append(BY_NAME["step"], steps("mine", 0, 30))
    store.append(BY_NAME["step"], steps("theirs", OTHERS, 30))
    with store._writers.borrow() as client:
        client.command("OPTIMIZE TABLE leadline.step FINAL")
        client.command("CREATE TABLE alone.step AS leadline.step")
        client.command("INSERT INTO alone.step SELECT * FROM leadline.step WHERE tenant = 'mine'")
    return store


def told(store: Store, sql: str, barrier: bool) -> str:
    """The answer, or the engine's number of the error and its first words."""
    try:
        rows = store._run(store._user_pool(not barrier, Limits(100_000, 20, 1 << 30)), sql, {}, None)
    except StoreError as error:
        found = re.search(r"Code: (\d+)\. DB::Exception: ([^:(]*)", str(error))
        return f"error {found[1]} {found[2]}" if found else "error"
    return str(rows.to_pylist())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    column=st.sampled_from(["data_ns", "rank", "step", "start_ns", "loss", "job"]),
    form=st.sampled_from(ODD_FORMS),
    constants=st.tuples(st.sampled_from(ODD), st.sampled_from(ODD)),
)
def test_answer_and_error_are_those_of_a_store_without_the_others(
    two: Store, column: str, form: str, constants: tuple[str, str]
) -> None:
    sql = f"SELECT count() AS n FROM step WHERE {form.format(column, *constants)}"
    try:
        mine, alone = rewrite(sql, MINE), rewrite(sql, OPERATOR).replace('"leadline".', '"alone".')
    except UsageError:
        return
    # Same settings: they alone decide whether a bound that no row comes to is looked at (0 BETWEEN 0.5 AND 'x').
    assert told(two, mine, barrier=True) == told(two, alone, barrier=True)


def test_the_oracle_would_speak(two: Store) -> None:
    """Over all rows the comparison does fail: else the law above would compare nothing."""
    sql = "SELECT count() AS n FROM step WHERE data_ns > toDecimal64('0.5', 18)"
    assert "error 407" in told(two, rewrite(sql, OPERATOR), barrier=False)
    assert told(two, rewrite(sql, MINE), barrier=True) == "[{'n': 0}]"


# --- hostile texts -------------------------------------------------------------------------------------------

PIECES = [
    "SELECT", "*", "FROM", "event", "leadline.event", "system.tables", "WHERE", "(", ")", ",", "'a'", "1", "message",
    "IN", "NOT", "EXISTS", "JOIN", "ON", "USING", "UNION ALL", "WITH", "x", "AS", "file('/etc/passwd')", "é", "\n", "?",
    "merge('', '')", "GROUP BY", "ORDER BY", "LIMIT", "FORMAT CSV", "SETTINGS final = 0", "INTO OUTFILE 'x'", ";", "--",
    "/*", "*/", "#", "`", '"', "'", "\\", "\\'", "$$", "{a:String}", "->", "::", "[", "]", ".", "FINAL", "ARRAY JOIN",
    "SAMPLE 1", "in", "tenant = 'theirs'", "OR 1 = 1", "EXCEPT", "INTERSECT", "REPLACE", "APPLY", "COLUMNS('.*')",
    "remote('h', leadline.event)", "view(SELECT 1)", "GLOBAL", "ANY", "ALL", "ASOF", "QUALIFY", "WINDOW w AS", "OVER",
    "CASE", "WHEN", "END", "INTERVAL 1 DAY", "\0", "0x1F", "1e9", "NULL", "dictGet('a', 'b', 1)", "currentUser()", "@x",
    "DROP TABLE event", "<=>",
]  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=14), glue=st.sampled_from([" ", "", "\n"]))
def test_any_text_is_refused_or_cut(pieces: list[str], glue: str) -> None:
    check_cut("SELECT " + glue.join(pieces))
    check_cut(glue.join(pieces))


@settings(max_examples=300, deadline=None)
@given(sql=st.text(max_size=80))
def test_any_characters_are_refused_or_cut(sql: str) -> None:
    check_cut(sql)
    check_cut(f"SELECT * FROM event WHERE message = {sql}")


@settings(max_examples=300, deadline=None)
@given(sql=statements(), piece=st.sampled_from(PIECES), at=st.integers(0, 400))
def test_a_question_with_something_in_it_is_refused_or_cut(sql: str, piece: str, at: int) -> None:
    check_cut(sql[: at % len(sql)] + f" {piece} " + sql[at % len(sql) :])


def check_cut(sql: str) -> None:
    """Refused as a usage error, or every table in what comes out stands in a cut, and nothing else is named."""
    try:
        safe = rewrite(sql, MINE)
    except UsageError:
        return
    assert '"leadline".' not in CUT.sub("", safe)
    outside = re.sub(r"'(?:[^'\\]|\\.|'')*'", "''", CUT.sub("(SELECT 1", safe), flags=re.DOTALL)
    outside = re.sub(r'"(?!cte_)[^"]*"', "name", outside)
    assert not re.search(r"(?<!DISTINCT )\b(FROM|JOIN)\s+(?!\(|\"cte_)", outside), "something else than a cut is read"
    assert not re.search(r"\b(format|settings|outfile|final|prewhere)\b", outside, re.IGNORECASE)
    assert ";" not in outside


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_a_text_reaches_the_engine_as_it_is(store: Store, text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    assert store.query_as(MINE, f"SELECT '{escaped}' AS x").to_pylist() == [{"x": text}]
