"""Pages of metrics as Prometheus reads them (text format 0.0.4). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]
Kind = Literal["counter", "gauge", "untyped"]
Row = tuple[str, Kind, str]  # name, type and help of a metric


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, type and help, and a value for each set of labels."""

    name: str
    kind: Kind
    help: str
    values: tuple[tuple[Labels, float], ...]


def page(families: Iterable[Family]) -> bytes:
    """The page of these metrics; those without a value are left out."""
    lines: list[str] = []
    for family in families:
        if not family.values:
            continue
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for labels, value in family.values:
            told = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            lines.append(f"{family.name}{{{told}}} {_number(value)}" if told else f"{family.name} {_number(value)}")
    lines.append("")
    return "\n".join(lines).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e17 else repr(float(value))


def families(rows: Iterable[Row], values: Mapping[str, list[tuple[Labels, float]]]) -> list[Family]:
    """Families in the order of `rows` with the values found for them."""
    return [Family(name, kind, text, tuple(values.get(name, ()))) for name, kind, text in rows]
