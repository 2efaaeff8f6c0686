"""Whether a value of a scenario can be a parameter of a workload: known before anything starts."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

PLAIN = (str, int, float, bool)


def parameters_of_workload(kind: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a workload by name, with their types."""
    hints = typing.get_type_hints(kind)
    return {name: hints.get(name, Any) for name in inspect.signature(kind).parameters if name != "name"}


def misfit(value: object, hint: Any) -> str | None:
    """What was expected where a value cannot be of a type, else None. Types that YAML cannot write fit nothing."""
    return None if _fits(value, hint) else _told(hint)


def _fits(value: object, hint: Any) -> bool:
    if hint is Any:
        return True
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in typing.get_args(hint))
    if _is_list(hint):
        [element, *_] = typing.get_args(hint) or (Any,)
        # What an element must be that is no plain value (a transfer), the workload itself knows.
        plain = element in PLAIN
        return isinstance(value, list | tuple) and (not plain or all(_fits(each, element) for each in value))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(hint, type) and isinstance(value, hint)


def _told(hint: Any) -> str:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_told(each) for each in typing.get_args(hint))
    if _is_list(hint):
        [element, *_] = typing.get_args(hint) or (Any,)
        return f"a list of {_told(element)}"
    return "nothing" if hint is type(None) else str(getattr(hint, "__name__", hint))


def _is_list(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Sequence)
