"""Reference reader of exposition pages: regular expressions and Python numbers, one line at a time.

Written from the format's description, not from the scanner: it shares no code with `wire.exposition`.
"""

from __future__ import annotations

import re
from decimal import Decimal

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
QUOTED = r'"(?:[^"\\]|\\.)*"'
LABEL_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
PAIR = rf"(?P<name>{LABEL_NAME}|{QUOTED})[ \t]*=[ \t]*(?P<value>{QUOTED})"
ITEM = rf"[ \t]*(?:(?P<metric>{QUOTED})(?=[ \t]*[,}}])|{PAIR})[ \t]*"
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
VALUE = re.compile(rf"(?:{NUMBER}|[+-]?(?i:inf(?:inity)?)|(?i:nan))(?=[ \t]|$)", re.ASCII)
ONE = re.compile(ITEM, re.DOTALL)

Line = tuple[tuple[tuple[str, str], ...], float, int]


class Malformed(Exception):
    """The page is not one."""


def unescape(text: str) -> str:
    return re.sub(r'\\([\\"n])', lambda found: "\n" if found[1] == "n" else found[1], text)


def read(body: bytes, openmetrics: bool, now_ns: int) -> tuple[list[Line], int]:
    """Samples as (sorted labels, value, time in ns), and the number of exemplars. Errors: Malformed."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Malformed from error
    lines: list[Line] = []
    exemplars = 0
    ended = False
    for raw in (one.removesuffix("\r") for one in text.split("\n")):
        line = raw.lstrip(" \t")
        if openmetrics and ended and raw:
            raise Malformed("behind EOF")
        if openmetrics and line == "# EOF":
            ended = True
        elif line.startswith("#"):
            _check_comment(line)
        elif line:
            one, has_exemplar = _line(line, openmetrics, now_ns)
            exemplars += has_exemplar
            lines.append(one)
    if openmetrics and not ended:
        raise Malformed("no EOF")
    return lines, exemplars


def _check_comment(line: str) -> None:
    found = re.match(r"#[ \t]+(HELP|TYPE|UNIT)(?:[ \t]+|$)", line)
    if not found:
        return
    rest = line[found.end() :]
    name = re.match(rf"({QUOTED}|[^ \t\"][^ \t]*)[ \t]*", rest)
    if not name or name[1] == '""':
        raise Malformed("no name")
    types = ["counter", "gauge", "histogram", "summary", "untyped", "unknown", "info", "stateset", "gaugehistogram"]
    if found[1] == "TYPE" and rest[name.end() :].strip(" \t") not in types:
        raise Malformed("type")


def _labels(line: str, at: int, name: str | None) -> tuple[int, str | None, list[tuple[str, str]]]:
    labels: list[tuple[str, str]] = []
    closing = re.compile(r"[ \t]*\}")
    first = True
    while True:
        end = closing.match(line, at)
        if end:
            return end.end(), name, labels
        if not first:
            if line[at : at + 1] != ",":
                raise Malformed("comma")
            at += 1
            end = closing.match(line, at)
            if end:
                return end.end(), name, labels
        first = False
        item = ONE.match(line, at)
        if not item:
            raise Malformed("label")
        if item["metric"] is not None:
            if name:
                raise Malformed("two names")
            name = unescape(item["metric"][1:-1])
            if not name:
                raise Malformed("empty name")
        else:
            key = item["name"]
            key = unescape(key[1:-1]) if key.startswith('"') else key
            if not key:
                raise Malformed("empty label name")
            labels.append((key, unescape(item["value"][1:-1])))
        at = item.end()


def _line(line: str, openmetrics: bool, now_ns: int) -> tuple[Line, bool]:
    bare = re.match(NAME, line)
    name = bare[0] if bare else None
    at = bare.end() if bare else 0
    blank = re.compile(r"[ \t]*")
    labels: list[tuple[str, str]] = []
    behind = blank.match(line, at)
    assert behind
    if line[behind.end() : behind.end() + 1] == "{":
        at, name, labels = _labels(line, behind.end() + 1, name)
    elif behind.end() == at:
        raise Malformed("no blank behind the name")
    if not name:
        raise Malformed("no name")
    labels.append(("__name__", name))
    if len({key for key, _ in labels}) != len(labels):
        raise Malformed("a label twice")
    rest = line[at:].strip(" \t")
    value = VALUE.match(rest)
    if not value:
        raise Malformed("value")
    rest = rest[value.end() :].strip(" \t")
    exemplar = False
    if openmetrics and "#" in rest:
        rest, _, told = rest.partition("#")
        rest = rest.rstrip(" \t") if not rest or rest[-1] in " \t" else "?"
        exemplar = True
        _check_exemplar(told)
    time_ns = _time(rest, openmetrics) if rest else now_ns
    kept = tuple(sorted((key, text) for key, text in labels if text))
    return (kept, float(value[0]), time_ns), exemplar


def _check_exemplar(told: str) -> None:
    told = told.strip(" \t")
    if not told.startswith("{"):
        raise Malformed("exemplar")
    at, _, _ = _labels(told, 1, "an exemplar has no name")
    rest = told[at:].strip(" \t")
    value = re.match(rf"(?:{NUMBER}|[+-]?(?i:inf(?:inity)?)|(?i:nan))", rest, re.ASCII)
    if not value:
        raise Malformed("exemplar's value")
    time = rest[value.end() :].strip(" \t")
    if time and not re.fullmatch(NUMBER, time, re.ASCII):
        raise Malformed("exemplar's time")
    if time and "e" not in time.lower():  # how large one with an exponent is nobody works out: it is not kept
        _time(time, True)


def _time(text: str, openmetrics: bool) -> int:
    if not openmetrics:
        if not re.fullmatch(r"[+-]?\d+", text, re.ASCII) or abs(int(text)) > (2**63 - 1) // 10**6:
            raise Malformed("ms")
        return int(text) * 10**6
    if not re.fullmatch(NUMBER, text, re.ASCII) or abs(float(text)) >= 9_223_372_036:
        raise Malformed("s")
    return 0 if abs(float(text)) < 1e-10 else round(Decimal(text) * 10**9)
