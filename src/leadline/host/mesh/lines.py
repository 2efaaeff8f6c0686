"""The lines that a prober writes: JSON, one record each, of the kinds below.

    ready     it runs; from which port, with which stamps
    edge      what one edge, source port and class showed in a window; four times a second
    silent    nothing came from a peer for nearly a tenth of a second; `heard` when something came again
    counters  what it sent, received and refused, and what it costs; once a second
    trace     the routers on the way of a source port, as asked for
    truth     of an injected clock only: the raw clock and the told one, together
    refused   a command that it did not follow, and what it expected; it goes on
    failed    why it cannot begin; it ends

A line that is none of these is DataError. Keys that are not known are left alone: a newer prober may say more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from leadline.model.errors import DataError

LINE_BYTES_MAX = 4096  # what a pipe takes whole
STAMPS = ("user", "kernel", "hardware", "none")
STATES = ("valid", "few-points", "few-corners", "torn", "no-overlap")
REFUSALS = ("truncated", "magic", "version", "length", "reflected", "tag", "field", "stranger", "replayed", "boot")
_INT64 = 1 << 63
_SHOWN = 80


class Ready(NamedTuple):
    """It runs. Host time is the raw clock plus `base_ns`, constant as long as it runs; `boot` names this run."""

    src: str
    boot: int
    port: int
    ports: int
    stamp: str
    base_ns: int


class Way(NamedTuple):
    """One direction since the last report. Delays are less the edge's own offset line; None while there is no line.

    `queue_p99_ns`: `p99_ns` less the smallest delay of the last five minutes. `sent`, `lost`: of packets whose fate is
    known; `stamped`: packets that have both stamps.
    """

    stamped: int
    sent: int
    lost: int
    min_ns: int | None
    p50_ns: int | None
    p99_ns: int | None
    queue_p99_ns: int | None


class Fit(NamedTuple):
    """The line of an edge. `offset_ns`: dst's clock less src's at the end of the window; `rate_ppb`: what dst gains.

    `bound_ns`: no straight line that all stamps allow is further away at the end of the window. `width_ns`: half the
    smallest delay there and back. `noise_ns`: standard error.
    """

    offset_ns: int
    rate_ppb: float
    bound_ns: int
    width_ns: float
    noise_ns: float


class Edge(NamedTuple):
    """What an edge showed in the window that ends at `end_ns`, by src's clock. `fit`: None where `state` is not valid.

    `src_port`, `back_port`: source ports of the two directions, which have the same `label` at both ends. `stamp`: the
    least exact kind since the last report. `stall_p99_ns`: how much later than it wanted to did user space see packets;
    large beside a small delay, it is the host that stalls and not the network.
    """

    src: str
    dst: str
    label: int
    src_port: int
    back_port: int
    traffic_class: int
    end_ns: int
    window_ns: int
    report_ns: int
    points: int
    corners: int
    state: str
    fit: Fit | None
    stamp: str
    there: Way
    back: Way
    stall_p99_ns: int | None


class Silence(NamedTuple):
    """From `src` nothing came to `dst` for `age_ns` (`is_silent`), or something came again. By dst's clock."""

    is_silent: bool
    src: str
    dst: str
    label: int
    src_port: int
    traffic_class: int
    time_ns: int
    age_ns: int
    was_heard: bool


class Trace(NamedTuple):
    """The routers that packets of this five-tuple passed, in order; None: nobody told. The destination never does."""

    src: str
    dst: str
    src_port: int
    traffic_class: int
    time_ns: int
    hops: tuple[str | None, ...]


class Counters(NamedTuple):
    """Since it began. `refused`: packets by reason."""

    time_ns: int
    sent: int
    sent_bytes: int
    received: int
    received_bytes: int
    hellos: int
    stamps_lost: int
    send_errors: int
    lines_lost: int
    cpu_s: float
    refused: dict[str, int]


class Truth(NamedTuple):
    """Of an injected clock: `host_ns` is what it told when the raw clock said `raw_ns`."""

    raw_ns: int
    host_ns: int


class Refused(NamedTuple):
    """A command that was not followed."""

    text: str


class Failed(NamedTuple):
    """Why it could not begin."""

    text: str


Line = Ready | Edge | Silence | Trace | Counters | Truth | Refused | Failed


class _Fields:
    """The fields of one line, taken by name and type."""

    def __init__(self, where: str, found: dict[str, Any]) -> None:
        self.where = where
        self.found = found

    def wrong(self, name: str, expected: str) -> DataError:
        got = repr(self.found[name])[:_SHOWN] if name in self.found else "nothing"
        return DataError(self.where, f"{expected} as {name!r}", got)

    def whole(self, name: str) -> int:
        value = self.found.get(name)
        if type(value) is not int or not -_INT64 <= value < _INT64:
            raise self.wrong(name, "a whole number of 64 bits")
        return value

    def amount(self, name: str) -> int:
        value = self.found.get(name)
        if type(value) is not int or not 0 <= value < 2 * _INT64:
            raise self.wrong(name, "a whole number from 0")
        return value

    def number(self, name: str) -> float:
        value = self.found.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise self.wrong(name, "a finite number")
        return float(value)

    def text(self, name: str) -> str:
        value = self.found.get(name)
        if type(value) is not str or not value:
            raise self.wrong(name, "a text")
        return value

    def one_of(self, name: str, values: tuple[str, ...]) -> str:
        value = self.found.get(name)
        if value not in values:
            raise self.wrong(name, f"one of {', '.join(values)}")
        return str(value)

    def flag(self, name: str) -> bool:
        value = self.found.get(name)
        if type(value) is not bool:
            raise self.wrong(name, "true or false")
        return value

    def within(self, name: str) -> _Fields:
        value = self.found.get(name)
        if type(value) is not dict:
            raise self.wrong(name, "an object")
        return _Fields(f"{self.where}, {name}", value)

    def maybe(self, name: str) -> int | None:
        return self.whole(name) if name in self.found else None


def parse_line(line: bytes, where: str = "prober") -> Line:
    """One line, with or without its end. Errors: DataError."""
    if len(line) > LINE_BYTES_MAX:
        raise DataError(where, f"a line of at most {LINE_BYTES_MAX} bytes", f"{len(line)} bytes")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(where, "a line of JSON", repr(line[:_SHOWN])) from None
    if type(found) is not dict:
        raise DataError(where, "a JSON object", repr(line[:_SHOWN]))
    fields = _Fields(where, found)
    parse: Callable[[_Fields], Line] = _KINDS[fields.one_of("kind", tuple(_KINDS))]
    return parse(fields)


def _ready(of: _Fields) -> Ready:
    return Ready(
        of.text("src"),
        of.amount("boot"),
        of.amount("port"),
        of.amount("ports"),
        of.one_of("stamp", STAMPS),
        of.whole("base_ns"),
    )


def _edge(of: _Fields) -> Edge:
    state = of.one_of("state", STATES)
    if of.flag("valid") != (state == "valid"):
        raise of.wrong("valid", f"what 'state' says, {state}")
    return Edge(
        src=of.text("src"),
        dst=of.text("dst"),
        label=of.amount("label"),
        src_port=of.amount("src_port"),
        back_port=of.amount("back_port"),
        traffic_class=of.amount("class"),
        end_ns=of.whole("end_ns"),
        window_ns=of.amount("window_ns"),
        report_ns=of.amount("report_ns"),
        points=of.amount("count"),
        corners=of.amount("corners"),
        state=state,
        fit=_fit(of) if state == "valid" else None,
        stamp=of.one_of("stamp", STAMPS),
        there=_way(of.within("there")),
        back=_way(of.within("back")),
        stall_p99_ns=of.maybe("stall_p99_ns"),
    )


def _fit(of: _Fields) -> Fit:
    return Fit(
        of.whole("offset_ns"),
        of.number("rate_ppb"),
        of.amount("bound_ns"),
        of.number("width_ns"),
        of.number("noise_ns"),
    )


def _way(of: _Fields) -> Way:
    return Way(
        of.amount("count"),
        of.amount("sent"),
        of.amount("lost"),
        of.maybe("min_ns"),
        of.maybe("p50_ns"),
        of.maybe("p99_ns"),
        of.maybe("queue_p99_ns"),
    )


def _silence(of: _Fields) -> Silence:
    return Silence(
        of.text("kind") == "silent",
        of.text("src"),
        of.text("dst"),
        of.amount("label"),
        of.amount("src_port"),
        of.amount("class"),
        of.whole("time_ns"),
        of.whole("age_ns"),
        of.flag("was_heard"),
    )


def _trace(of: _Fields) -> Trace:
    hops = of.found.get("hops")
    if type(hops) is not list or not all(each is None or type(each) is str for each in hops):
        raise of.wrong("hops", "a list of addresses and nulls")
    return Trace(
        of.text("src"), of.text("dst"), of.amount("src_port"), of.amount("class"), of.whole("time_ns"), tuple(hops)
    )


def _counters(of: _Fields) -> Counters:
    refused = of.within("refused")
    return Counters(
        time_ns=of.whole("time_ns"),
        sent=of.amount("sent"),
        sent_bytes=of.amount("sent_bytes"),
        received=of.amount("received"),
        received_bytes=of.amount("received_bytes"),
        hellos=of.amount("hellos"),
        stamps_lost=of.amount("stamps_lost"),
        send_errors=of.amount("send_errors"),
        lines_lost=of.amount("lines_lost"),
        cpu_s=of.number("cpu_s"),
        refused={name: refused.amount(name) for name in refused.found},
    )


_KINDS: dict[str, Callable[[_Fields], Line]] = {
    "ready": _ready,
    "edge": _edge,
    "silent": _silence,
    "heard": _silence,
    "trace": _trace,
    "counters": _counters,
    "truth": lambda of: Truth(of.whole("raw_ns"), of.whole("host_ns")),
    "refused": lambda of: Refused(of.text("text")),
    "failed": lambda of: Failed(of.text("text")),
}
