"""User SQL, made safe by rewriting (contracts, section 3).

    text -> parse (sqlglot) -> every node on a list of what is allowed
         -> tables become sub-queries over the tenant's rows
         -> generate -> every name before a bracket on the list of functions -> text for the engine

The engine never sees the user's text, only what is generated from the tree that was checked. Everything fails
closed: a construct nobody thought of is refused.

The tenant's rows are cut out first and nothing is merged with the cut (see `_BARRIER` in client.py): otherwise
`WHERE toUInt64(message) = 1` could be evaluated on another tenant's row, and its error tell what stands there.
So that a query for one hour still reads one hour, conditions that compare a column with a constant, which
cannot fail, are copied into the cut.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp, parse
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.errors import SqlglotError
from sqlglot.generators.clickhouse import ClickHouseGenerator
from sqlglot.tokenizer_core import TokenType

from leadline.model.errors import UsageError
from leadline.model.principal import OPERATE, Principal
from leadline.model.tables import BY_NAME, Table, Type
from leadline.store.allowed import FUNCTIONS, KEYWORDS, NODES, PARTS, TYPES
from leadline.store.schema import DATABASE

SQL_BYTES_MAX = 65_536
NODES_MAX = 5_000  # a statement by hand has hundreds; the engine's time to plan grows with them

# Common table expressions are renamed, so that one used out of its scope cannot name a stored table.
_CTE_PREFIX = "cte_"

_NAME = re.compile(r"[A-Za-z_][\w .:%/()+*,=-]{0,127}")
_NUMBER = re.compile(r"[0-9][0-9a-fA-FxX._]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?")
_ALLOWED = "allowed is one SELECT (with WITH, UNION, joins, sub-queries) over Leadline's tables"

_BY_NAME_ONLY = (exp.Anonymous, exp.AnonymousAggFunc)  # the parser has no class of their own for them
_SAFE_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_SCALARS = frozenset({Type.SYM, Type.STR, Type.I64, Type.U64, Type.U128, Type.F64})


class Dialect(ClickHouse):
    """ClickHouse as sqlglot writes it, but for what it would change the meaning of."""

    class Generator(ClickHouseGenerator):
        TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
            **ClickHouseGenerator.TRANSFORMS,
            # Written as CAST(a / b AS Int64) it would lose the low digits of a time.
            exp.IntDiv: lambda self, node: self.func("intDiv", node.this, node.expression),
        }


# A statement it cannot read is refused and told to the user; the log need not have it.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


def rewrite(sql: str, principal: Principal, tables: Mapping[str, Table] = BY_NAME) -> str:
    """The statement that gives `principal` its answer: the same over its tenant's rows (an operator's: over all).

    Errors: UsageError saying what was refused and what is allowed.
    """
    tree = _parsed(sql)
    _check_nodes(tree)
    _rename_ctes(tree, tables)
    _check_in(tree)
    tenant = None if principal.may(OPERATE) else principal.tenant
    for table in list(tree.find_all(exp.Table)):
        if not table.args.get("leadline_cte"):
            table.replace(_cut(table, tables, tenant))
    _drop_database_from_columns(tree)
    try:
        # Every name is quoted, so that none can be read as a keyword.
        safe = tree.sql(dialect=Dialect, comments=False, normalize_functions=False, identify=True)
    except (SqlglotError, RecursionError) as error:
        raise _refused(f"the statement could not be written again: {error}") from error
    _check_functions(safe)
    return safe


def _refused(what: str) -> UsageError:
    return UsageError(f"refused: {what}; {_ALLOWED}")


def _parsed(sql: str) -> exp.Expr:
    if len(sql.encode()) > SQL_BYTES_MAX:
        raise _refused(f"a statement of more than {SQL_BYTES_MAX} bytes")
    if "\0" in sql:
        raise _refused("a zero byte")
    try:
        trees = [tree for tree in parse(sql, dialect=Dialect) if tree is not None]
    except SqlglotError as error:
        text = re.sub(r"\x1b\[[0-9]*m", "", str(error)).splitlines()[0]
        raise UsageError(f"the statement cannot be read: {text}; {_ALLOWED}") from error
    except RecursionError as error:
        raise _refused("a statement nested this deeply") from error
    if len(trees) != 1:
        raise _refused(f"{len(trees)} statements")
    tree = trees[0]
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        raise _refused(f"a statement that begins with {sql.strip().split(None, 1)[0][:40]}")
    return tree


# --- what it is made of --------------------------------------------------------------------------------------


def _check_nodes(tree: exp.Expr) -> None:
    for count, node in enumerate(tree.walk()):
        if count > NODES_MAX:
            raise _refused("a statement this long")
        name = type(node).__name__
        if name not in NODES and not isinstance(node, exp.Func):
            raise _refused(_spelling(node))
        node.comments = None
        allowed = PARTS.get(name)
        if allowed is not None:
            for part, value in node.args.items():
                if value and part not in allowed:
                    raise _refused(f"{part.strip('_').upper()} in {name.upper()}")
        _check_leaf(node)


def _check_leaf(node: exp.Expr) -> None:
    """Tables are named, and EXISTS is asked of a sub-query (of a name it might read the table of that name).

    Names and numbers are written into the statement as they are; texts are escaped by the generator.
    """
    if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
        raise _refused(f"the table function {node.this.sql(dialect=Dialect)[:60]}")
    if isinstance(node, exp.From | exp.Join) and not isinstance(node.this, exp.Table | exp.Subquery):
        raise _refused(f"reading from {node.this.sql(dialect=Dialect)[:60]}")
    if isinstance(node, exp.Exists) and not isinstance(node.this, exp.Query):
        raise _refused("EXISTS with a name; write a sub-query")
    if isinstance(node, exp.Identifier) and not _NAME.fullmatch(node.name):
        raise _refused(f"the name {node.name!r} (letters, digits, _ and blanks)")
    if isinstance(node, exp.Literal) and not node.is_string and not _NUMBER.fullmatch(node.name):
        raise _refused(f"the number {node.name!r}")
    if isinstance(node, exp.Literal) and node.is_string and "\0" in node.name:
        raise _refused("a zero byte in a text")
    if isinstance(node, exp.Var) and not re.fullmatch(r"\w+", node.name):
        raise _refused(f"the word {node.name!r}")
    # Also checked by its name in the text, but there `in (` is a keyword; as a function it reads a table.
    if isinstance(node, _BY_NAME_ONLY) and node.name.lower() not in FUNCTIONS:
        raise _refused(f"the function {node.name}")


def _spelling(node: exp.Expr) -> str:
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return "a parameter (write the value)"
    if isinstance(node, exp.Final):
        return "FINAL (rows are always read once)"
    return type(node).__name__.upper()


def _check_in(tree: exp.Expr) -> None:
    """`x IN name` reads a table called `name`, also in brackets: only lists of values and sub-queries pass."""
    for node in tree.find_all(exp.In):
        for item in node.expressions:
            if isinstance(_unwrapped(item), exp.Column | exp.Identifier | exp.Table | exp.Dot):
                raise _refused(f"IN with a name ({item.sql(dialect=Dialect)}); write values or a sub-query")


def _unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren | exp.Tuple) and len(inner := list(node.iter_expressions())) == 1:
        node = inner[0]
    return node


def _check_functions(safe: str) -> None:
    """Every word before an opening bracket is a function, a type or a keyword we know."""
    tokens = Dialect().tokenize(safe)
    for token, after in pairwise(tokens):
        if after.token_type is not TokenType.L_PAREN or token.token_type is TokenType.STRING:
            continue
        word = token.text.lower()
        if not re.search(r"\w", word) or re.fullmatch(r"[0-9.]+", word):
            continue
        quoted = token.token_type is TokenType.IDENTIFIER
        if word in FUNCTIONS or (not quoted and (word in TYPES or word in KEYWORDS)):
            continue
        raise _refused(f"the function {token.text}")


# --- which rows it reads -------------------------------------------------------------------------------------


def _rename_ctes(tree: exp.Expr, tables: Mapping[str, Table]) -> None:
    names: set[str] = set()
    for cte in tree.find_all(exp.CTE):
        if not isinstance(cte.this, exp.Select | exp.SetOperation | exp.Subquery):
            continue  # WITH 5 AS n: a value, not rows
        if cte.args.get("scalar"):
            continue
        if cte.alias in tables:
            raise _refused(f"WITH {cte.alias} AS: a table has that name; choose another")
        names.add(cte.alias)
        cte.args["alias"].set("this", exp.to_identifier(_CTE_PREFIX + cte.alias, quoted=True))
    for table in tree.find_all(exp.Table):
        if table.name in names and not table.db and isinstance(table.this, exp.Identifier):
            alias = table.alias or table.name
            table.set("this", exp.to_identifier(_CTE_PREFIX + table.name, quoted=True))
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
            table.args["leadline_cte"] = True


def _cut(table: exp.Table, tables: Mapping[str, Table], tenant: str | None) -> exp.Expr:
    """The rows of a table that may be seen, under the name that the statement uses for it."""
    if table.db not in ("", DATABASE):
        raise _refused(f"the table {table.db}.{table.name}")
    spec = tables.get(table.name)
    if spec is None:
        raise _refused(f"the table {table.name}; there are {', '.join(tables)}")
    stored = exp.Table(this=exp.to_identifier(spec.name, quoted=True), db=exp.to_identifier(DATABASE, quoted=True))
    alias = exp.TableAlias(this=exp.to_identifier(table.alias or spec.name, quoted=True))
    joins = table.args.get("joins")
    if tenant is None:
        stored.set("alias", alias)
        stored.set("joins", joins)
        return stored
    condition: exp.Expr = exp.EQ(
        this=exp.column(exp.to_identifier("tenant", quoted=True)), expression=exp.Literal.string(tenant)
    )
    for extra in _copied_conditions(table, spec):
        condition = exp.And(this=condition, expression=extra)
    rows = exp.Select(expressions=_columns(spec), from_=exp.From(this=stored), where=exp.Where(this=condition))
    return exp.Subquery(this=rows, alias=alias, joins=joins)


def _columns(spec: Table) -> list[exp.Expr]:
    """All columns of a table for a tenant: those that tell of other tenants too are null, for any condition on them."""
    if not spec.of_all:
        return [exp.Star()]
    names = [exp.to_identifier(column.name, quoted=True) for column in spec.columns]
    return [_nothing(name) if name.name in spec.of_all else exp.Column(this=name) for name in names]


def _nothing(name: exp.Identifier) -> exp.Expr:
    """Null under the name of a column, and of its type."""
    null = exp.Case(ifs=[exp.If(this=exp.Literal.number(1), true=exp.Null())], default=exp.Column(this=name.copy()))
    return exp.Alias(this=null, alias=name)


def _copied_conditions(table: exp.Table, spec: Table) -> Iterator[exp.Expr]:
    """Conditions of the surrounding WHERE that may be applied to this table's rows first, without changing the
    answer and without being able to fail on any row."""
    select = table.find_ancestor(exp.Select)
    if select is None or not select.args.get("where") or not _filter_commutes(table, select):
        return
    shadowed = {node.alias.lower() for node in select.root().find_all(exp.Alias, exp.CTE)}
    alone = not select.args.get("joins") and not table.args.get("joins")
    for condition in _conjuncts(select.args["where"].this):
        column = _compared_column(condition)
        if column is None or column.db or column.name not in {c.name for c in spec.columns} - spec.of_all:
            continue
        if spec.column(column.name).type not in _SCALARS:
            continue
        ours = column.table == (table.alias or table.name) if column.table else alone
        if not ours or (not column.table and column.name.lower() in shadowed):
            continue
        copy = condition.copy()
        for inner in copy.find_all(exp.Column):
            inner.set("table", None)
        yield exp.Paren(this=copy)


def _filter_commutes(table: exp.Table, select: exp.Select) -> bool:
    """Whether rows of `table` may be filtered before the joins: it stands first and no join adds rows on the
    left, or all joins are plain inner ones."""
    from_ = select.args.get("from_")
    if from_ is None or table.args.get("joins"):
        return False
    joins = select.args.get("joins") or []
    if from_.this is table:
        return all((join.side or "").upper() in ("", "LEFT") for join in joins)
    return any(join.this is table for join in joins) and all(
        not join.side and not join.method and (join.kind or "").upper() in ("", "INNER", "CROSS") for join in joins
    )


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    elif isinstance(node, exp.Paren):
        yield from _conjuncts(node.this)
    else:
        yield node


def _compared_column(node: exp.Expr) -> exp.Column | None:
    """The column of `column < constant`, `constant < column`, BETWEEN constants or IN (constants)."""
    if isinstance(node, _SAFE_COMPARISONS):
        left, right = node.left, node.right
        if isinstance(left, exp.Column) and _constant(right):
            return left
        return right if isinstance(right, exp.Column) and _constant(left) else None
    others: list[Any] = []
    if isinstance(node, exp.Between):
        others = [node.args["low"], node.args["high"]]
    elif isinstance(node, exp.In) and not node.args.get("query"):
        others = node.expressions
    if others and isinstance(node.this, exp.Column) and all(_constant(other) for other in others):
        return node.this
    return None


def _constant(node: exp.Expr) -> bool:
    """Computed once, from no row: it can fail, but the failure tells nothing."""
    rows = (exp.Column, exp.Identifier, exp.Query, exp.Star, exp.AggFunc, exp.Window, exp.Lambda, exp.Explode)
    return not any(isinstance(part, rows) for part in node.walk())


def _drop_database_from_columns(tree: exp.Expr) -> None:
    """`leadline.event.kind` is `event.kind` now."""
    for column in tree.find_all(exp.Column):
        if column.db == DATABASE:
            column.set("db", None)
        elif DATABASE in (column.db, column.table):
            raise _refused(f"the name {column.sql(dialect=Dialect)} where a column is expected")
