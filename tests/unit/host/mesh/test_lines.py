"""The lines of a prober: what is read, and what is refused."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.host.mesh.lines import Counters, Edge, Failed, Fit, Line, Ready, Silence, Truth, Way, parse_line
from leadline.model.errors import DataError

EDGE = {
    "kind": "edge", "src": "a", "dst": "b", "label": 0, "src_port": 7500, "back_port": 7600, "class": 0,
    "end_ns": 1795869221716266569,
    "window_ns": 2000000000, "report_ns": 250000000, "count": 398, "corners": 5, "valid": True, "state": "valid",
    "offset_ns": -650089, "rate_ppb": 6020.317, "bound_ns": 222, "width_ns": 194.0, "noise_ns": 2.36, "stamp": "kernel",
    "there": {"count": 24, "sent": 24, "lost": 0, "min_ns": 210, "p50_ns": 327, "p99_ns": 2332, "queue_p99_ns": 2139},
    "back": {"count": 26, "sent": 28, "lost": 2}, "stall_p99_ns": 163296,
}  # fmt: skip
READY = {"kind": "ready", "src": "a", "boot": 9, "port": 7500, "ports": 2, "stamp": "kernel", "base_ns": 1}


def told(line: dict[str, object]) -> Line:
    return parse_line(json.dumps(line).encode() + b"\n")


def test_an_edge() -> None:
    found = told(EDGE)
    assert isinstance(found, Edge)
    assert found.fit == Fit(-650089, 6020.317, 222, 194.0, 2.36)
    assert found.there == Way(24, 24, 0, 210, 327, 2332, 2139)
    assert found.back == Way(26, 28, 2, None, None, None, None)
    assert (found.end_ns, found.stamp, found.stall_p99_ns) == (1795869221716266569, "kernel", 163296)


def test_an_edge_without_a_line() -> None:
    found = told({**EDGE, "valid": False, "state": "torn"})
    assert isinstance(found, Edge)
    assert found.fit is None


def test_the_others() -> None:
    assert told(READY) == Ready("a", 9, 7500, 2, "kernel", 1)
    silent = {
        "kind": "silent",
        "src": "b",
        "dst": "a",
        "label": 0,
        "src_port": 7,
        "class": 46,
        "time_ns": 5,
        "age_ns": 6,
    }
    assert told({**silent, "was_heard": True}) == Silence(True, "b", "a", 0, 7, 46, 5, 6, True)
    assert told({**silent, "kind": "heard", "was_heard": False}) == Silence(False, "b", "a", 0, 7, 46, 5, 6, False)
    assert told({"kind": "truth", "raw_ns": -1, "host_ns": 2}) == Truth(-1, 2)
    assert told({"kind": "failed", "text": "port 1: Permission denied"}) == Failed("port 1: Permission denied")
    names = (
        "time_ns",
        "sent",
        "sent_bytes",
        "received",
        "received_bytes",
        "hellos",
        "stamps_lost",
        "send_errors",
        "lines_lost",
    )
    counters = told({"kind": "counters", **dict.fromkeys(names, 3), "cpu_s": 0.5, "refused": {"tag": 1}})
    assert counters == Counters(*[3] * 9, 0.5, {"tag": 1})


def test_what_a_newer_prober_adds_is_left_alone() -> None:
    assert told({**READY, "colour": "blue"}) == told(READY)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"", "a line of JSON"),
        (b"\xff\n", "a line of JSON"),
        (b"[" * 4000, "a line of JSON"),
        (b"[]", "a JSON object"),
        (b"{}", "one of ready"),
        (b'{"kind": ["edge"]}', "one of ready"),
        (b" " * 4097, "a line of at most"),
        (json.dumps({**READY, "boot": True}).encode(), "a whole number from 0 as 'boot', got True"),
        (json.dumps({**READY, "src": ""}).encode(), "a text as 'src'"),
        (json.dumps({**READY, "base_ns": 1 << 63}).encode(), "64 bits as 'base_ns'"),
        (json.dumps({**EDGE, "rate_ppb": float("nan")}).encode(), "a finite number as 'rate_ppb', got nan"),
        (json.dumps({**EDGE, "valid": False}).encode(), "what 'state' says"),
        (
            json.dumps({**EDGE, "back": {}}).encode(),
            "prober, back: expected a whole number from 0 as 'count', got nothing",
        ),
    ],
)
def test_what_is_no_line_says_what_was_expected(line: bytes, expected: str) -> None:
    with pytest.raises(DataError) as refused:
        parse_line(line)
    assert expected in str(refused.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*EDGE, "count"]), inner, max_size=4),
    max_leaves=6,
)


@given(
    line=st.binary(max_size=60)
    | st.dictionaries(st.sampled_from([*EDGE]), VALUES).map(lambda it: json.dumps(it).encode())
)
def test_any_bytes_are_a_line_or_data_error(line: bytes) -> None:
    with contextlib.suppress(DataError):
        parse_line(line)


@given(
    name=st.sampled_from([*EDGE]), value=VALUES, kind=st.sampled_from(["edge", "ready", "silent", "counters", "truth"])
)
def test_any_value_is_taken_or_data_error(name: str, value: object, kind: str) -> None:
    with contextlib.suppress(DataError):
        told({**EDGE, "kind": kind, name: value})
