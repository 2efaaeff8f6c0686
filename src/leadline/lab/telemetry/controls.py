"""What faults tell a host's exporters and a switch's sampler, in two small files that are read again when they change.

    <state>/hosts/<host>/exporter_control.json   {"drop_labels": ["UUID"], "frozen": ["gpu", "ports"], "silent": true}
    <state>/switches/<switch>/control.json       {"silent": "flows" | "all"}

`frozen: true` is all parts: the GPUs' page, the ports' page, the tree of files; `silent: true` of a switch is "all".
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from leadline.model.errors import DataError

EXPORTER_FILE, SWITCH_FILE = "exporter_control.json", "control.json"
PARTS = ("gpu", "ports", "sys")
T = TypeVar("T")
_LABEL = re.compile(rb'((\w+)="(?:[^"\\]|\\.)*")')
_SERIES = re.compile(rb'([^{]*)\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}(.*)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExporterControl:
    """What a host's exporters are told."""

    drop_labels: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()  # of PARTS
    silent: bool = False  # connections are taken and closed without an answer


@dataclass(frozen=True, slots=True)
class SwitchControl:
    """What a switch's sampler is told: to be silent about flows, or about all."""

    silent: Literal["", "flows", "all"] = ""


def exporter_control(found: object, where: str) -> ExporterControl:
    """From the parsed file. Errors: DataError."""
    given = _fields(found, ("drop_labels", "frozen", "silent"), where)
    frozen = given.get("frozen", ())
    parts = PARTS if frozen is True else () if frozen is False else _names(frozen, where)
    if unknown := [each for each in parts if each not in PARTS]:
        raise DataError(where, f"frozen parts of {', '.join(PARTS)}", ", ".join(unknown))
    return ExporterControl(_names(given.get("drop_labels", ()), where), parts, bool(given.get("silent")))


def switch_control(found: object, where: str) -> SwitchControl:
    """From the parsed file. Errors: DataError."""
    silent = _fields(found, ("silent",), where).get("silent") or ""
    if silent not in ("", "flows", "all", True):
        raise DataError(where, "silent: true, flows or all", repr(silent)[:80])
    return SwitchControl("" if not silent else "flows" if silent == "flows" else "all")


class ControlFile(Generic[T]):
    """A control file that may come, change and go. One that cannot be understood is told, and the last one holds."""

    def __init__(self, path: Path, parse: Callable[[object, str], T]) -> None:
        self._path, self._parse = path, parse
        self._none = self._value = parse({}, str(path))
        self._seen = (0, 0)

    def read(self) -> T:
        """What it says now. Costs one `stat` while it stays the same."""
        try:
            status = self._path.stat()
            if (status.st_mtime_ns, status.st_ino) != self._seen:
                self._seen = (status.st_mtime_ns, status.st_ino)
                self._value = self._parse(json.loads(self._path.read_bytes()), str(self._path))
        except FileNotFoundError:
            self._value = self._none
        except (OSError, ValueError, DataError) as error:
            print(f"{self._path}: not used: {error}", file=sys.stderr, flush=True)
        return self._value


class ToldPage:
    """A page as its exporter serves it: `render`'s, or what a control file makes of it."""

    def __init__(self, part: str, control: ControlFile[ExporterControl], render: Callable[[], bytes]) -> None:
        self._part, self._control, self._render = part, control, render
        self._last: bytes | None = None

    def page(self) -> bytes:
        """The page. Errors: ConnectionAbortedError where the exporter shall be silent."""
        control = self._control.read()
        if control.silent:
            raise ConnectionAbortedError("the exporter is silent")
        if self._last is None or self._part not in control.frozen:
            self._last = self._render()
        return without_labels(self._last, control.drop_labels)


def without_labels(page: bytes, names: Sequence[str]) -> bytes:
    """An exposition page whose series have lost these labels. Two series may become one: then both stand there."""
    if not names:
        return page
    lost = {name.encode() for name in names}
    return b"\n".join(_line_without(line, lost) for line in page.split(b"\n"))


def _line_without(line: bytes, lost: set[bytes]) -> bytes:
    found = None if line.startswith(b"#") else _SERIES.fullmatch(line)
    if found is None:
        return line
    metric, labels, value = found.groups()
    kept = [pair for pair, name in _LABEL.findall(labels) if name not in lost]
    return metric + (b"{" + b",".join(kept) + b"}" if kept else b"") + value


def _fields(found: object, known: Sequence[str], where: str) -> dict[str, Any]:
    if not isinstance(found, dict) or not set(found) <= set(known):
        raise DataError(where, f"an object with {', '.join(known)}", json.dumps(found)[:80])
    return found


def _names(given: object, where: str) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) and each for each in given):
        raise DataError(where, "a list of names", repr(given)[:80])
    return tuple(given)
