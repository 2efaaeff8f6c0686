"""Values of a statement, apart from its text: `WHERE job = {job:String}` with `{"job": ...}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leadline.model.errors import UsageError

_TYPED = re.compile(r"\{\s*(\w+)\s*:\s*([^{}]+?)\s*\}")


def bound_parameters(sql: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the engine takes them. Errors: UsageError if one has no `{name:Type}` in the statement.

    The client library would otherwise write the value into the text of the statement, which we never want.
    """
    typed = dict(_TYPED.findall(sql))
    for name in parameters:
        if name not in typed:
            raise UsageError(f"parameter {name} has no place {{{name}:Type}} in the statement")
    for name in typed:
        if name not in parameters:
            raise UsageError(f"the statement wants a parameter {name}: {typed[name]}, which was not given")
    return {name: _engine_value(value) for name, value in parameters.items()}


def _engine_value(value: Any) -> Any:
    if isinstance(value, bytes) and len(value) == 16:
        return int.from_bytes(value, "little")
    if isinstance(value, list | tuple):
        return [_engine_value(item) for item in value]
    return value
