"""Questions: SQL that people write, and what a language model answers to ours."""

from __future__ import annotations

import contextlib

import sqlglot.expressions as exp
from sqlglot import parse

from leadline.explain.model import ModelError, parsed
from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.model.tables import BY_NAME
from leadline.store.allowed import FUNCTIONS, KEYWORDS, TYPES
from leadline.store.guard import Dialect, rewrite

WORDS = {
    "sql": [*BY_NAME, *(f"{name}(" for name in FUNCTIONS), *TYPES, *KEYWORDS, "leadline.", "system.", "SELECT * FROM ",
            " WHERE tenant = 'other'", "/*", "*/", "--", "\\'", "`", ' AS "', "::", "FORMAT ", "INTO OUTFILE ",
            "SETTINGS ", " UNION ALL ", " EXCEPT ", " ARRAY JOIN ", " FINAL", " SAMPLE 1", "{x:String}", "COLUMNS('.')",
            " IN event", "remote(", "url(", "file(", "merge(", "dictGet(", "joinGet(", "WITH RECURSIVE "],
    "explanation": ['"choices":[{', '"message":{', '"content":', "```json", "```", '"usage":{', '"prompt_tokens":',
                    "null", "1e999", "9" * 30],
}  # fmt: skip
TENANT = Principal("mine", role=Role.TENANT_READ)
OPERATOR = Principal("mine", role=Role.OPERATOR)


def sql(data: bytes) -> None:
    """A statement. What the guard lets through is one SELECT, over a tenant's own rows only."""
    text = data.decode("utf-8", "replace")
    for principal in (TENANT, OPERATOR):
        try:
            safe = rewrite(text, principal)
        except UsageError:
            continue
        (tree,) = parse(safe, dialect=Dialect)
        assert isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery)
        stored = [table for table in tree.find_all(exp.Table) if table.db]
        for table in stored:
            assert table.db == "leadline"
            assert table.name in BY_NAME
            if principal is TENANT:
                select = table.find_ancestor(exp.Select)
                assert select is not None
                assert any(_is_mine(each) for each in _conditions(select.args["where"].this)), safe


def _conditions(node: exp.Expr) -> list[exp.Expr]:
    return _conditions(node.left) + _conditions(node.right) if isinstance(node, exp.And) else [node]


def _is_mine(node: exp.Expr) -> bool:
    return isinstance(node, exp.EQ) and node.left.name == "tenant" and node.right == exp.Literal.string("mine")


def explanation(data: bytes) -> None:
    """What a language model's server answers."""
    with contextlib.suppress(ModelError):
        parsed(data)
