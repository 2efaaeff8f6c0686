"""Statements that nest: whatever the construct, the guard has read or refused it within a moment.

The parser tries some constructs again at each level, so that its time doubles with every one: of sqlglot 30 types do
that. This list is why its version is pinned; before another one is taken, all of it must pass.
"""

from __future__ import annotations

import contextlib
import time

import pytest

from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.store.guard import DEPTH_MAX, LAMBDA_NODES_MAX, rewrite

MINE = Principal("mine", role=Role.TENANT_READ)
# Of the processor, so that a busy machine is none the matter: each takes some 10 ms, one that doubled for ever.
SECONDS_MAX = 1.0

# What comes before, between and after what is nested: each `n` times.
NESTINGS = [
    ("SELECT ", "(", "1", ")", ""), ("SELECT ", "[", "1", "]", ""), ("SELECT ", "{", "1", "}", ""),
    ("SELECT ", "((", "1", "))", ""), ("SELECT ", "([", "1", "])", ""), ("SELECT ", "(1, ", "1", ")", ""),
    ("SELECT ", "tuple(", "1", ")", ""), ("SELECT ", "array(", "1", ")", ""), ("SELECT ", "map(1, ", "1", ")", ""),
    ("SELECT 1::", "Tuple(", "Int8", ")", ""), ("SELECT 1::", "Array(", "Int8", ")", ""),
    ("SELECT 1::", "Nullable(", "Int8", ")", ""), ("SELECT 1::", "Map(String, ", "Int8", ")", ""),
    ("SELECT 1::", "Map(", "Int8", ", Int8)", ""), ("SELECT 1::", "Variant(", "Int8", ")", ""),
    ("SELECT 1::", "Nested(a ", "Int8", ")", ""), ("SELECT 1::", "Tuple(a ", "Int8", ")", ""),
    ("SELECT 1::", "LowCardinality(", "Int8", ")", ""), ("SELECT 1::", "AggregateFunction(sum, ", "Int8", ")", ""),
    ("SELECT 1::", "Array<", "Int8", ">", ""), ("SELECT 1::", "Struct<a ", "Int8", ">", ""),
    ("SELECT 1::", "Map<Int8, ", "Int8", ">", ""), ("SELECT 1::", "Struct(a ", "Int8", ")", ""),
    ("SELECT CAST(1 AS ", "Tuple(", "Int8", ")", ")"), ("SELECT ", "CAST(", "1", " AS Int8)", ""),
    ("SELECT ", "CAST(1 AS Tuple(", "Int8", "))", ""), ("SELECT ", "if(1, ", "1", ", 2)", ""),
    ("SELECT ", "1 ? ", "1", " : 2", ""), ("SELECT ", "CASE WHEN 1 THEN ", "1", " END", ""),
    ("SELECT ", "CASE 1 WHEN ", "1", " THEN 1 END", ""), ("SELECT ", "x -> ", "1", "", ""),
    ("SELECT ", "arrayMap(x -> ", "1", ", [1])", ""), ("SELECT ", "(x, y) -> (", "1", ")", ""),
    ("SELECT ", "NOT ", "1", "", ""), ("SELECT ", "NOT (", "1", ")", ""), ("SELECT ", "- ", "1", "", ""),
    ("SELECT ", "(SELECT ", "1", ")", ""), ("SELECT 1 FROM ", "(SELECT 1 FROM ", "event", ")", ""),
    ("", "WITH x AS (", "SELECT 1", ") SELECT 1", ""), ("", "(", "SELECT 1", ")", ""),
    ("", "(SELECT 1 UNION ALL ", "SELECT 1", ")", ""), ("SELECT 1 FROM ", "(event JOIN ", "event", " ON 1)", ""),
    ("SELECT 1 WHERE 1 IN ", "(", "1", ")", ""), ("SELECT 1 WHERE ", "1 IN (", "1", ")", ""),
    ("SELECT 1 WHERE ", "EXISTS (SELECT 1 WHERE ", "1", ")", ""), ("SELECT ", "INTERVAL (", "1", ") DAY", ""),
    ("SELECT ", "quantile(", "1", ")(1)", ""), ("SELECT 1", "[", "1", "]", ""), ("SELECT a", ".b", "", "", ""),
    ("SELECT sum(1) OVER ", "(ORDER BY ", "1", ")", ""), ("SELECT ", "toDate(", "1", ")", ""),
    ("SELECT ", "1 BETWEEN ", "1", " AND 1", ""), ("SELECT ", "(1 AS x, ", "1", ")", ""),
    ("SELECT ", "extract(day FROM ", "1", ")", ""), ("SELECT ", "substring(", "'a'", " FROM 1)", ""),
    ("SELECT ", "date_add(day, 1, ", "1", ")", ""), ("SELECT ", "'a' LIKE ", "'b'", "", ""),
    ("SELECT ", "concat('a', ", "'b'", ")", ""), ("SELECT 1::", "Decimal(", "1", ")", ""),
]  # fmt: skip


@pytest.mark.parametrize("times", [6, DEPTH_MAX // 2, 400])
@pytest.mark.parametrize("parts", NESTINGS, ids=lambda parts: "".join(parts[:2]))
def test_nesting_costs_no_more_than_a_moment(parts: tuple[str, ...], times: int) -> None:
    before, opening, inner, closing, after = parts
    began = time.process_time()
    with contextlib.suppress(UsageError):
        rewrite(before + opening * times + inner + closing * times + after, MINE)
    assert time.process_time() - began < SECONDS_MAX


def test_brackets_beyond_the_bound_are_told() -> None:
    rewrite("SELECT " + "(" * 20 + "1" + ")" * 20, MINE)
    with pytest.raises(UsageError, match="more than 32 brackets within each other"):
        rewrite("SELECT " + "(" * 33 + "1" + ")" * 33, MINE)
    with pytest.raises(UsageError, match="more than 6 types within each other"):
        rewrite("SELECT 1::" + "Tuple(" * 40 + "Int8" + ")" * 40, MINE)
    rewrite("SELECT '" + "(" * 100 + "'", MINE)  # in a text they are none


def test_what_is_done_in_lambdas_is_bounded() -> None:
    calls = LAMBDA_NODES_MAX // 4
    rewrite("SELECT arrayMap(x -> " + " + ".join(["x"] * calls) + ", [1])", MINE)
    with pytest.raises(UsageError, match="calls and operators in lambdas, more than 100"):
        rewrite("SELECT " + ", ".join(["arrayMap(x -> sin(x + 1), [1])"] * LAMBDA_NODES_MAX), MINE)
