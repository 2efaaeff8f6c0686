"""User SQL, made safe by rewriting (contracts, section 3).

    text -> parse (sqlglot) -> every node on a list of what is allowed
         -> tables become sub-queries over the tenant's rows
         -> generate -> every name before a bracket on the list of functions -> text for the engine

The engine never sees the user's text, only what is generated from the tree that was checked. Everything fails
closed: a construct nobody thought of is refused.

The tenant's rows are cut out first and nothing is merged with the cut (see `_BARRIER` in client.py): otherwise
`WHERE toUInt64(message) = 1` could be evaluated on another tenant's row, and its error tell what stands there.
So that a query for one hour still reads one hour, conditions that compare a column with a whole number or a text, as
the column holds them, are copied into the cut: they cannot fail on any row. (A decimal can: its comparison with another
tenant's number overflows, and the error tells how large that is.)

Reading a statement can take for ever: see `guard_process.py`, which does it where it can be ended.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from sqlglot import exp, parse
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.errors import SqlglotError
from sqlglot.generators.clickhouse import ClickHouseGenerator
from sqlglot.tokenizer_core import TokenType

from leadline.model.errors import UsageError
from leadline.model.principal import OPERATE, Principal
from leadline.model.tables import BY_NAME, Table, Type, renamed
from leadline.store.allowed import FUNCTIONS, KEYWORDS, NODES, PARTS, TYPES
from leadline.store.schema import DATABASE

SQL_BYTES_MAX = 65_536
NODES_MAX = 5_000  # a statement by hand has hundreds; the engine's time to plan grows with them
DEPTH_MAX = 32  # brackets within each other; the parser tries some constructs again at each level. By hand: ten
# Types within each other. The parser tries each twice, so its time doubles with every level (16 us * 2**n with
# sqlglot 30): a millisecond at six, an hour at 28. No column of ours has more than two.
TYPE_DEPTH_MAX = 6
# Calls and operators in all lambdas of a statement. Over one array of 2 GiB, all that a query may hold by default, each
# takes about a second, and the engine looks at its time limit only between arrays. By hand: ten.
LAMBDA_NODES_MAX = 100
ILIKE_BYTES_MAX = 200  # it may be compared with each place of a text anew, see `allowed.py`
_TYPE_WORDS = TYPES | {"variant", "nested", "object", "struct", "union", "aggregatefunction", "simpleaggregatefunction"}

# Common table expressions are renamed, so that one used out of its scope cannot name a stored table.
_CTE_PREFIX = "cte_"

_NAME = re.compile(r"[A-Za-z_][\w .:%/()+*,=-]{0,127}")
_NUMBER = re.compile(r"[0-9][0-9a-fA-FxX._]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?")
_ALLOWED = "allowed is one SELECT (with WITH, UNION, joins, sub-queries) over Leadline's tables"

_BY_NAME_ONLY = (exp.Anonymous, exp.AnonymousAggFunc)  # the parser has no class of their own for them
_SAFE_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_TEXTS = frozenset({Type.SYM, Type.STR})
_NUMBERS = frozenset({Type.I64, Type.U64, Type.U128, Type.F64})
_DIGITS = re.compile(r"[0-9]{1,19}")
_INT64 = range(-(2**63), 2**63)
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})


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
    except Exception as error:  # also of its own kind, as in `_read`
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
        _check_depth(sql)
        trees = [tree for tree in _read(sql) if tree is not None]
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


def _read(sql: str) -> list[exp.Expr | None]:
    """What the parser makes of it. Errors: SqlglotError, RecursionError; UsageError where it fails in a way of its own
    (`VALUES ()` is an IndexError of sqlglot 30.30)."""
    try:
        return list(parse(sql, dialect=Dialect))
    except (SqlglotError, RecursionError):
        raise
    except Exception as error:
        raise _refused(f"a statement that the parser cannot read ({type(error).__name__})") from error


def _check_depth(sql: str) -> None:
    """Brackets within each other, before the parser, whose time some of them double. Errors: SqlglotError."""
    open_types: list[bool] = []
    before = None
    for token in Dialect().tokenize(sql):
        if token.token_type in _OPENING:
            open_types.append(before is not None and before.text.lower() in _TYPE_WORDS)
            if len(open_types) > DEPTH_MAX:
                raise _refused(f"more than {DEPTH_MAX} brackets within each other")
            if sum(open_types) > TYPE_DEPTH_MAX:
                raise _refused(f"more than {TYPE_DEPTH_MAX} types within each other")
        elif token.token_type in _CLOSING and open_types:
            open_types.pop()
        before = token


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
    in_lambdas = sum(
        isinstance(part, exp.Func | exp.Binary | exp.Unary)
        for node in tree.find_all(exp.Lambda)
        if not node.find_ancestor(exp.Lambda)
        for part in node.walk()
    )
    if in_lambdas > LAMBDA_NODES_MAX:
        raise _refused(f"{in_lambdas} calls and operators in lambdas, more than {LAMBDA_NODES_MAX}")


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
    if isinstance(node, exp.ILike) and not _is_short_text(node.expression):
        raise _refused(f"ILIKE with anything but a text of at most {ILIKE_BYTES_MAX} bytes")
    if isinstance(node, exp.Var) and not re.fullmatch(r"\w+", node.name):
        raise _refused(f"the word {node.name!r}")
    # Also checked by its name in the text, but there `in (` is a keyword; as a function it reads a table.
    if isinstance(node, _BY_NAME_ONLY) and node.name.lower() not in FUNCTIONS:
        raise _refused(f"the function {node.name}")


def _is_short_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string and len(node.name.encode()) <= ILIKE_BYTES_MAX


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
        raise _refused(f"the table {table.name}; {renamed(table.name) or 'there are ' + ', '.join(tables)}")
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
        compared = _compared(condition)
        if compared is None:
            continue
        column, constants = compared
        if column.db or column.name not in {c.name for c in spec.columns} - spec.of_all:
            continue
        ours = column.table == (table.alias or table.name) if column.table else alone
        if not ours or (not column.table and column.name.lower() in shadowed):
            continue
        plain = [_plain(constant, spec.column(column.name).type) for constant in constants]
        if None not in plain:
            yield exp.Paren(this=_copied(condition, column, constants, plain))


def _copied(
    condition: exp.Expr, column: exp.Column, constants: list[exp.Expr], plain: Sequence[exp.Expr | None]
) -> exp.Expr:
    """The condition on the stored column, each constant as it was worked out."""
    stored = exp.column(exp.to_identifier(column.name, quoted=True))
    written = {id(column): stored, **{id(old): new for old, new in zip(constants, plain, strict=True)}}
    args = {
        name: [written[id(each)] for each in value] if isinstance(value, list) else written[id(value)]
        for name, value in condition.args.items()
        if value
    }
    return type(condition)(**args)


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


def _compared(node: exp.Expr) -> tuple[exp.Column, list[exp.Expr]] | None:
    """The column and the rest of `column < constant`, `constant < column`, BETWEEN constants or IN (constants)."""
    if isinstance(node, _SAFE_COMPARISONS):
        left, right = node.left, node.right
        if isinstance(left, exp.Column):
            return left, [right]
        return (right, [left]) if isinstance(right, exp.Column) else None
    if not isinstance(node.this, exp.Column):
        return None
    if isinstance(node, exp.Between) and set(_given(node)) == {"this", "low", "high"}:
        return node.this, [node.args["low"], node.args["high"]]
    if isinstance(node, exp.In) and set(_given(node)) == {"this", "expressions"}:
        return node.this, node.expressions
    return None


def _given(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _plain(node: exp.Expr, kind: Type) -> exp.Expr | None:
    """A constant as a text for a column of texts, as a whole number for one of numbers; None if it is anything else.

    Nothing else is compared with other tenants' rows: not decimals (the comparison can overflow), no functions.
    """
    if kind in _TEXTS:
        return exp.Literal.string(node.name) if isinstance(node, exp.Literal) and node.is_string else None
    number = _whole(node) if kind in _NUMBERS else None
    if number is None:
        return None
    literal = exp.Literal.number(abs(number))
    return literal if number >= 0 else exp.Neg(this=literal)


def _whole(node: exp.Expr) -> int | None:
    """What sums and products of whole numbers come to (a dashboard writes `1790000000000 * 1000000`), if the engine
    would say the same: all of it within 63 bits, where none of its types wraps."""
    number = None
    if isinstance(node, exp.Paren):
        return _whole(node.this)
    if isinstance(node, exp.Literal) and not node.is_string and _DIGITS.fullmatch(node.name):
        number = int(node.name)
    elif isinstance(node, exp.Neg) and (inner := _whole(node.this)) is not None:
        number = -inner
    elif isinstance(node, exp.Add | exp.Sub | exp.Mul):
        left, right = _whole(node.left), _whole(node.right)
        if left is not None and right is not None:
            number = {exp.Add: left + right, exp.Sub: left - right, exp.Mul: left * right}[type(node)]
    return number if number is not None and number in _INT64 else None


def _drop_database_from_columns(tree: exp.Expr) -> None:
    """`leadline.event.kind` is `event.kind` now."""
    for column in tree.find_all(exp.Column):
        if column.db == DATABASE:
            column.set("db", None)
        elif DATABASE in (column.db, column.table):
            raise _refused(f"the name {column.sql(dialect=Dialect)} where a column is expected")
