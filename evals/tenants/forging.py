"""Rows that bob has no business to send: about acme's jobs, ranks, hosts, GPUs and flows.

Half are acme's own rows with one thing changed, since those fit; half are random but well-formed, from the table's
spec and from names of acme and the provider.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.tenants.scene import JOB, Row
from leadline.model.tables import Column, Table, Type

# Words that analyses look for in events and relations; other texts are taken from rows that were sent.
EVENT_KINDS = (
    "xid",
    "oom-kill",
    "link-down",
    "link-up",
    "process-exit",
    "checkpoint",
    "log",
    "reboot",
    "preempted",
    "clock-step",
    "gpu-lost",
    "ecc",
    "thermal-slowdown",
)
EVENT_CODES = ("79", "48", "63", "signal/SIGKILL", "exit/1", "exit/0", "signal/SIGSEGV", "")
RELATION_KINDS = ("runs-on", "in", "has", "linked", "member", "owns", "mounts", "shares-machine")
ENTITY_KINDS = ("rank", "host", "gpu", "port", "swport", "job", "link", "process")
SEVERITIES = ("info", "warning", "error", "fatal")


@dataclass(frozen=True, slots=True)
class Forger:
    """Makes rows; deterministic in `chance`."""

    chance: random.Random
    span: tuple[int, int]
    names: Mapping[str, Sequence[str]]  # entities by their kind
    real: Mapping[str, Sequence[Row]]  # acme's and the provider's own rows by table

    def row(self, table: Table) -> Row:
        """One row for `/api/v1/rows`."""
        real = self.real.get(table.name, ())
        if real and self.chance.random() < 0.5:
            return self._changed(table, dict(self.chance.choice(real)))
        row = {each.name: self._value(table, each) for each in columns(table)}
        return self._timed(table, row)

    def _changed(self, table: Table, row: Row) -> Row:
        for column in self.chance.sample(columns(table), self.chance.randint(1, 2)):
            row[column.name] = self._value(table, column)
        return row

    def _timed(self, table: Table, row: Row) -> Row:
        """A row whose beginning is before its end, as a sender's is."""
        names = [name for name in row if name.endswith("_ns") and isinstance(row[name], int) and row[name] > 10**18]
        for name, value in zip(names, sorted(row[each] for each in names), strict=True):
            row[name] = value
        return row

    def _value(self, table: Table, column: Column) -> Any:
        chance = self.chance
        if column.nullable and chance.random() < 0.3:
            return None
        match column.type:
            case Type.I64 | Type.U64:
                return self._whole(column)
            case Type.F64:
                return 1.0 if column.name == "confidence" else chance.choice((0.0, 0.5, 1.0, 100.0, 1e6))
            case Type.BOOL:
                return chance.random() < 0.5
            case Type.U128:
                return f"{chance.getrandbits(128):032x}" if chance.random() < 0.5 else self._flow()
            case Type.MAP:
                return {"pid": "1", "job": JOB, "count": str(chance.randint(1, 9))} if chance.random() < 0.5 else {}
            case Type.SYMS:
                return [self._entity()]
            case _:
                return self._text(table, column.name)

    def _whole(self, column: Column) -> int:
        if (
            column.unit == "ns"
            and not column.nullable
            and column.name not in ("data_ns", "forward_ns", "backward_ns", "optimizer_ns")
        ):
            return self.chance.randrange(*self.span)
        if column.name == "to_ns":
            return self.chance.randrange(*self.span)
        return self.chance.choice((0, 1, 2, 7, 40, 10**6, 10**9))

    def _text(self, table: Table, name: str) -> str:
        chance = self.chance
        match name:
            case "job":
                return JOB
            case "kind":
                return chance.choice(RELATION_KINDS if table.name == "relation" else EVENT_KINDS)
            case "code":
                return chance.choice(EVENT_CODES)
            case "severity":
                return chance.choice(SEVERITIES)
            case "entity_kind":
                return chance.choice(ENTITY_KINDS)
            case "state":
                return chance.choice(("open", "ended", "finished", "enqueued", "started"))
            case "protocol":
                return "tcp"
            case "child" if chance.random() < 0.3:
                return f"flow:{self._flow()}"
            case "host" | "switch":
                return self._entity(name).partition(":")[2]
            case "src_ip" | "dst_ip":
                return f"10.1.{chance.randint(1, 8)}.1"
            case _ if real := [
                row[name] for row in self.real.get(table.name, ())[:200] if isinstance(row.get(name), str)
            ]:
                return str(chance.choice(real))
            case _:
                return self._entity()

    def _entity(self, kind: str = "") -> str:
        kinds = [kind] if self.names.get(kind) else [each for each in self.names if self.names[each]]
        return self.chance.choice(self.names[self.chance.choice(kinds)]) if kinds else f"job:{JOB}"

    def _flow(self) -> str:
        flows = self.names.get("flow", ())
        return self.chance.choice(flows).partition(":")[2] if flows else f"{self.chance.getrandbits(128):032x}"


def columns(table: Table) -> list[Column]:
    """The columns that a sender gives."""
    return [each for each in table.columns if each.name not in ("tenant", "cluster", "batch", "batch_row")]


def names_of(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[str]]:
    """Every entity that rows name, by its kind."""
    found: dict[str, set[str]] = {}
    for each in rows.values():
        for row in each:
            for key in ("entity", "child", "parent"):
                kind, sign, _ = str(row.get(key) or "").partition(":")
                if sign and kind:
                    found.setdefault(kind, set()).add(row[key])
    return {kind: sorted(names) for kind, names in found.items()}
