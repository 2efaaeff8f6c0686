"""Filters of streams as people type them: `host=h3 gpu~="0|1" mode!=idle`, as conditions with parameters."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from leadline.model.errors import UsageError

MATCHERS_MAX = 20
EXAMPLE = 'host=h3 gpu~="0|1" mode!=idle'
COLUMNS = ("entity", "entity_kind", "host", "source")  # of a series; all else is a label
_FORM = re.compile(r"([A-Za-z_][\w.:]*)(=~|~=|!~|!=|=)(.*)", re.DOTALL)
_NOT_RE2 = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]")


@dataclass(frozen=True, slots=True)
class Matcher:
    """One filter. `how`: `=`, `!=`, `~=` (a regular expression for the whole value) or `!~`."""

    label: str
    how: str
    value: str


def matchers(text: str) -> list[Matcher]:
    """Filters with blanks between; a value with blanks in quotes. `=~` is taken for `~=`.

    Errors: UsageError with what was expected.
    """
    try:
        parts = shlex.split(text)
    except ValueError:
        raise UsageError(f"`where` has a quote that is not closed: {text[:200]!r}; write {EXAMPLE}") from None
    if len(parts) > MATCHERS_MAX:
        raise UsageError(f"`where` takes at most {MATCHERS_MAX} filters, got {len(parts)}")
    return [_matcher(part) for part in parts]


def _matcher(part: str) -> Matcher:
    found = _FORM.fullmatch(part)
    if found is None:
        raise UsageError(f"a filter is LABEL=VALUE, != or ~= (regular expression); got {part[:100]!r}; write {EXAMPLE}")
    label, how, value = found.groups()
    how = {"=~": "~="}.get(how, how)
    if "~" in how:
        _check(value)
    return Matcher(label, how, value)


def _check(expression: str) -> None:
    """Errors: UsageError for what is no regular expression of the engine's (RE2)."""
    if _NOT_RE2.search(expression):
        raise UsageError(
            f"{expression[:100]!r} looks ahead, behind or back, which the store's expressions (RE2) do not"
        )
    try:
        re.compile(expression)
    except re.error as error:
        raise UsageError(f"{expression[:100]!r} is no regular expression: {error}") from None


def conditions(some: list[Matcher]) -> tuple[list[str], dict[str, object]]:
    """Conditions on rows of `series`, and their parameters. A label that a stream does not have is empty."""
    where, given = [], {}
    for place, each in enumerate(some):
        value = f"ifNull(toString({each.label}), '')" if each.label in COLUMNS else f"labels[{{l{place}:String}}]"
        if each.label not in COLUMNS:
            given[f"l{place}"] = each.label
        given[f"v{place}"] = f"^(?:{each.value})$" if "~" in each.how else each.value
        told = f"{{v{place}:String}}"
        said = f"match({value}, {told})" if "~" in each.how else f"{value} = {told}"
        where.append(f"NOT ({said})" if each.how.startswith("!") else f"({said})")
    return where, dict(given)
