"""Kernel log lines: the records of /dev/kmsg, and the forms that `dmesg` prints.

    6,3973,227986636,-;text\\n SUBSYSTEM=pci\\n      priority, number, us since boot, flags; text; dictionary lines
    [  227.986636] text                             dmesg; with <6> before it when raw, `kern  :info  : ` with -x
    [Sun Feb 23 16:24:18 2025] text                 dmesg -T, in the machine's own time zone
    2025-02-23T16:24:18,123456+01:00 text           dmesg --time-format iso

What the lines mean is in kernel_events.py. Standard library only: the agent imports this.
Source: Documentation/ABI/testing/dev-kmsg of Linux; dmesg(1) of util-linux.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

TEXT_CHARS_MAX = 4096  # of one line; the kernel's own limit is 1,024 bytes, 4 times that when escaped
_US = 1000

_NONE: Mapping[str, str] = MappingProxyType({})
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")


class LogLine(NamedTuple):
    """One line of a kernel log."""

    time_ns: int  # realtime
    level: int  # 0 emergency .. 7 debug; -1 if the form does not tell
    text: str
    sequence: int = -1  # of a /dev/kmsg record
    fields: Mapping[str, str] = _NONE  # dictionary lines: SUBSYSTEM, DEVICE


class Lines(NamedTuple):
    """What was read: lines, bytes consumed (an unfinished last line is left), lines that are none."""

    lines: list[LogLine]
    consumed: int
    skipped: int


# --- /dev/kmsg -----------------------------------------------------------------------------------------------

_KMSG = re.compile(r"(\d{1,4}),(\d{1,20}),(\d{1,16}),([^;]{0,80});(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


def read_kmsg(data: bytes, boot_ns: int) -> Lines:
    """Lines from /dev/kmsg records, one read or many.

    Inputs: the bytes; realtime of the machine's boot in ns (realtime minus CLOCK_MONOTONIC).
    Returns: Lines. What is no record is skipped and counted; dictionary lines without their record are, too.
    """
    lines: list[LogLine] = []
    skipped = 0
    end = data.rfind(b"\n") + 1
    for raw in data[:end].split(b"\n")[:-1]:
        if raw[:1] == b" ":
            if lines and _add_field(lines, raw):
                continue
            skipped += 1
            continue
        line = _kmsg_line(raw, boot_ns)
        if line is None:
            skipped += bool(raw.strip())
        else:
            lines.append(line)
    return Lines(lines, end, skipped)


def _kmsg_line(raw: bytes, boot_ns: int) -> LogLine | None:
    match = _KMSG.fullmatch(_decoded(raw))
    if match is None:
        return None
    priority, sequence, time_us = int(match[1]), int(match[2]), int(match[3])
    return LogLine(boot_ns + time_us * _US, priority & 7, _unescaped(match[5]), sequence)


def _add_field(lines: list[LogLine], raw: bytes) -> bool:
    """Add a dictionary line to the record before it; False if it is none."""
    name, equals, value = _unescaped(_decoded(raw[1:])).partition("=")
    if not equals or not name:
        return False
    lines[-1] = lines[-1]._replace(fields={**lines[-1].fields, name: value})
    return True


def kmsg_record(level: int, sequence: int, time_us: int, text: str, facility: int = 0) -> bytes:
    """One record as the kernel writes it: what is no printable ASCII, and the backslash, as \\xNN."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and byte != 0x5C else f"\\x{byte:02x}" for byte in text.encode("utf-8", "replace")
    )
    return f"{facility << 3 | level},{sequence},{time_us},-;{escaped}\n".encode()


def _decoded(raw: bytes) -> str:
    return raw[: 4 * TEXT_CHARS_MAX].decode("utf-8", "replace")


def _unescaped(text: str) -> str:
    if "\\x" in text:
        raw = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
        try:
            text = raw.encode("latin-1").decode("utf-8", "replace")
        except UnicodeEncodeError:  # bytes that the kernel should have escaped stand beside some that it has
            text = raw
    return text[:TEXT_CHARS_MAX]


# --- dmesg ---------------------------------------------------------------------------------------------------

_RAW = re.compile(r"<(\d{1,4})>(.*)", re.DOTALL)
_DECODED = re.compile(rf"\w{{1,8}} *:({'|'.join(_LEVELS)}) *: (.*)", re.DOTALL)
_SINCE_BOOT = re.compile(r"\[ *(\d{1,12})\.(\d{1,9})\] ?(.*)", re.DOTALL)
_HUMAN = re.compile(r"\[\w{3} (\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})\] ?(.*)", re.DOTALL)
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[,.](\d{1,9})(Z|[+-]\d\d:?\d\d) (.*)", re.DOTALL)
_MONTHS = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def read_dmesg(data: bytes, boot_ns: int = 0, utc_offset_s: int = 0) -> Lines:
    """Lines from the output of `dmesg`, in any of its forms, also mixed.

    Inputs: the bytes; realtime of boot for lines that count from it; what the machine's time zone is ahead of UTC,
    for human time stamps, which do not say.
    Returns: Lines. Lines in none of the forms are skipped and counted.
    """
    lines: list[LogLine] = []
    skipped = 0
    end = data.rfind(b"\n") + 1
    for raw in data[:end].split(b"\n")[:-1]:
        line = _dmesg_line(_decoded(raw), boot_ns, utc_offset_s)
        if line is None:
            skipped += bool(raw.strip())
        else:
            lines.append(line)
    return Lines(lines, end, skipped)


def _dmesg_line(text: str, boot_ns: int, utc_offset_s: int) -> LogLine | None:
    level = -1
    if match := _RAW.fullmatch(text):
        level, text = int(match[1]) & 7, match[2]
    elif match := _DECODED.fullmatch(text):
        level, text = _LEVELS.index(match[1]), match[2]
    for form, time_of in _FORMS:
        if match := form.fullmatch(text):
            try:
                time_ns = time_of(match, boot_ns, utc_offset_s)
            except (ValueError, OverflowError):  # a 31st of February, a month nobody knows
                return None
            return LogLine(time_ns, level, match[match.re.groups].rstrip("\r")[:TEXT_CHARS_MAX])
    return None


def _since_boot_ns(match: re.Match[str], boot_ns: int, _: int) -> int:
    return boot_ns + int(match[1]) * 10**9 + int(match[2].ljust(9, "0"))


def _human_ns(match: re.Match[str], _: int, utc_offset_s: int) -> int:
    hour, minute, second = int(match[3]), int(match[4]), int(match[5])
    at = datetime(int(match[6]), _MONTHS.index(match[1]), int(match[2]), hour, minute, second, tzinfo=UTC)
    return (int(at.timestamp()) - utc_offset_s) * 10**9


def _iso_ns(match: re.Match[str], _boot_ns: int, _offset_s: int) -> int:
    at = datetime.fromisoformat(f"{match[1]}{match[3]}")
    return int(at.timestamp()) * 10**9 + int(match[2].ljust(9, "0"))


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], int, int], int]], ...] = (
    (_SINCE_BOOT, _since_boot_ns),
    (_HUMAN, _human_ns),
    (_ISO, _iso_ns),
)
