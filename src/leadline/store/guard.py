"""User SQL, made safe by rewriting."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.model.errors import UsageError
from leadline.model.principal import Principal
from leadline.model.tables import BY_NAME, Table


def rewrite(sql: str, principal: Principal, tables: Mapping[str, Table] = BY_NAME) -> str:
    """The statement over the rows of `principal`. For now everything is refused."""
    raise UsageError("user SQL is not taken yet")
