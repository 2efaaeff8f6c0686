"""Random SQL over Leadline's tables, as somebody writes it who wants to see the rows of others.

Most statements can be run; some cannot, because errors must not tell either. Those whose answer depends on the moment
or on the order of rows are not made: the answers of two servers are compared.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.tenants.scene import ACME
from leadline.model.tables import Table, Type

# What may differ between two servers without telling anything (see `same.py`); never chosen, so never counted.
OWN_COLUMNS = frozenset(
    {
        "batch",
        "batch_row",
        "revision",
        "judged_ns",
        "reported_ns",
        "heard_ns",
        "at_ns",
        "first_ns",
        "last_ns",
        "host",
        "clock",
    }
)
AGGREGATES = (
    "count()",
    "uniqExact({})",
    "max(toString({}))",
    "min(toString({}))",
    "countIf({} = {})",
    "groupUniqArray(toString({}))",
)
PLAIN = (
    "{}",
    "toString({})",
    "length(toString({}))",
    "hex(toString({}))",
    "toTypeName({})",
    "({}, 1)",
    "[{}]",
    "isNull({})",
    "cityHash64(toString({}))",
    "reverse(toString({}))",
    "ifNull(toString({}), 'none')",
    "toFloat64OrNull(toString({}))",
)
FAILS = (
    "toUInt64(toString({}))",
    "toDecimal64(toString({}), 18)",
    "toDateTime(toString({}))",
    "accurateCast({}, 'Int8')",
    "toIPv4(toString({}))",
    "arrayElement([1], toInt64(toString({})))",
    "CAST({} AS UInt8)",
    "intDiv(1, toInt64OrZero(toString({})) - 7)",
    "toFixedString(toString({}), 2)",
    "JSONExtractInt(toString({}), 'a')",
)
NUMBERS = (
    "0",
    "1",
    "-1",
    "0.5",
    "1e308",
    "inf",
    "nan",
    "18446744073709551615",
    "9223372036854775808",
    "toDecimal64('0.5', 18)",
    "toDecimal128('1', 38)",
    "toInt256('8675309000000')",
    "8675309000000",
    "8675309000041.0",
    "NULL",
    "toDate('2026-01-01')",
    "500000000",
    "86753090000",
    "(1 + 1)",
    "toUInt8(300)",
    "1::Decimal(76, 76)",
)
# Tables that one can ask for, and ones that nobody may.
OTHERS = (
    "system.tables",
    "system.query_log",
    "information_schema.columns",
    "numbers(10)",
    "file('/etc/passwd')",
    "url('http://127.0.0.1')",
    "merge('.*')",
    "remote('127.0.0.1', system.one)",
    "default.step",
    "leadline.step",
    "x",
)


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes statements; deterministic in `chance`. `texts`: names and words of acme's and bob's."""

    chance: random.Random
    tables: Mapping[str, Table]
    texts: Sequence[str]

    def statement(self) -> str:
        """One SELECT."""
        kinds = (
            self._plain,
            self._grouped,
            self._joined,
            self._union,
            self._cte,
            self._nested,
            self._failing,
            self._window,
            self._exists,
            self._foreign,
        )
        return self.chance.choices(kinds, (4, 4, 3, 2, 2, 2, 5, 1, 2, 1))[0]()

    def _table(self) -> Table:
        return self.tables[self.chance.choice(list(self.tables))]

    def _column(self, table: Table) -> str:
        return self.chance.choice([each.name for each in table.columns if each.name not in OWN_COLUMNS])

    def _text(self) -> str:
        text = self.chance.choice(self.texts) if self.texts else ACME
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def _constant(self, table: Table, column: str) -> str:
        kind = next(each.type for each in table.columns if each.name == column)
        texts = kind in (Type.SYM, Type.STR)
        if self.chance.random() < 0.15:
            texts = not texts
        return self._text() if texts else self.chance.choice(NUMBERS)

    def _condition(self, table: Table, prefix: str = "") -> str:
        column = self._column(table)
        said = f"{prefix}{column}"
        value = self._constant(table, column)
        sign = self.chance.choice(("=", "!=", "<", ">", "<=", ">="))
        return self.chance.choice(
            (
                f"{said} {sign} {value}",
                f"{said} {sign} {value}",
                f"NOT {said} {sign} {value}",
                f"{said} IN ({value}, {value})",
                f"toString({said}) LIKE '%{self.chance.choice('zq8ab1')}%'",
                f"{said} BETWEEN {value} AND {value}",
                f"{said} IS NOT NULL",
                f"{prefix}tenant = '{ACME}'",
                f"{prefix}tenant != 'bob' OR 1 = 1",
                f"{said} {sign} {value} OR {prefix}tenant = '{ACME}'",
            )
        )

    def _expression(self, table: Table, prefix: str = "") -> str:
        column = f"{prefix}{self._column(table)}"
        return self.chance.choice(PLAIN).replace("{}", column)

    def _aggregate(self, table: Table) -> str:
        column = self._column(table)
        out = self.chance.choice(AGGREGATES).replace("{}", column, 1)
        return out.replace("{}", self._constant(table, column))

    def _plain(self) -> str:
        table = self._table()
        picked = ", ".join(f"{self._expression(table)} AS c{number}" for number in range(self.chance.randint(1, 4)))
        return f"SELECT DISTINCT {picked} FROM {table.name} WHERE {self._condition(table)} LIMIT 10000"

    def _grouped(self) -> str:
        table = self._table()
        by = self._column(table)
        return (
            f"SELECT toString({by}) AS k, {self._aggregate(table)} AS v, count() AS n FROM {table.name} "
            f"WHERE {self._condition(table)} GROUP BY k "
            f"HAVING n {self.chance.choice('<>')} {self.chance.choice(NUMBERS)} "
            "LIMIT 10000"
        )

    def _joined(self) -> str:
        one, other = self._table(), self._table()
        how = self.chance.choice(("JOIN", "LEFT JOIN", "FULL JOIN", "CROSS JOIN"))
        on = "" if how == "CROSS JOIN" else f" ON toString(a.{self._column(one)}) = toString(b.{self._column(other)})"
        return (
            f"SELECT count() AS n, uniqExact(toString(b.{self._column(other)})) AS u FROM {one.name} AS a "
            f"{how} {other.name} AS b{on}"
        )

    def _union(self) -> str:
        parts = []
        for _ in range(self.chance.randint(2, 3)):
            table = self._table()
            parts.append(
                f"SELECT toString({self._column(table)}) AS t FROM {table.name} WHERE {self._condition(table)}"
            )
        return f"SELECT DISTINCT t FROM ({' UNION ALL '.join(parts)}) LIMIT 10000"

    def _cte(self) -> str:
        table, other = self._table(), self._table()
        name = self.chance.choice(("x", table.name, other.name, "tenant"))
        return (
            f"WITH {name} AS (SELECT {self._expression(table)} AS c FROM {table.name} WHERE {self._condition(table)}) "
            f"SELECT count() AS n, (SELECT count() FROM {other.name} WHERE {self._condition(other)}) AS m FROM {name}"
        )

    def _nested(self) -> str:
        table, other = self._table(), self._table()
        return (
            f"SELECT DISTINCT toString({self._column(table)}) AS c FROM {table.name} "
            f"WHERE toString({self._column(table)}) IN "
            f"(SELECT toString({self._column(other)}) FROM {other.name} WHERE {self._condition(other)}) LIMIT 10000"
        )

    def _failing(self) -> str:
        table = self._table()
        wrong = self.chance.choice(FAILS).replace("{}", self._column(table))
        where = self.chance.choice(
            (wrong + " = 1", f"{self._condition(table)} AND {wrong} > 0", self._condition(table))
        )
        return f"SELECT count() AS n, max(toString({wrong})) AS m FROM {table.name} WHERE {where}"

    def _window(self) -> str:
        table = self._table()
        return (
            f"SELECT DISTINCT n FROM (SELECT count() OVER (PARTITION BY toString({self._column(table)})) AS n "
            f"FROM {table.name}) LIMIT 10000"
        )

    def _exists(self) -> str:
        table, other = self._table(), self._table()
        return (
            f"SELECT count() AS n FROM {table.name} WHERE {self.chance.choice(('', 'NOT '))}EXISTS "
            f"(SELECT 1 FROM {other.name} WHERE {self._condition(other)})"
        )

    def _foreign(self) -> str:
        return f"SELECT * FROM {self.chance.choice(OTHERS)} LIMIT 3"
