"""Names in the order in which people read them: h2 before h10."""

from __future__ import annotations


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key for `sorted`: numbers within a name count by their size."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for sign in [*name, ""]:
        if sign.isdecimal():
            digits += sign
            continue
        if digits:
            parts.append((int(digits), ""))
            digits = ""
        parts.append((-1, sign))
    return tuple(parts)
