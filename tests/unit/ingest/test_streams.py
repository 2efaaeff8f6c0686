"""Streams: who is admitted, what a refusal costs, and the times that a series row tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from leadline.ingest.config import IngestConfig
from leadline.ingest.streams import NOT_SEEN_NS, Streams
from leadline.wire.blank import Blank
from leadline.wire.samples import Metadata, Samples, samples_from

T = 1_750_000_000 * 10**9
SMALL = IngestConfig(series_max=3, labels_per_series_max=4, label_bytes_max=16)


def page(
    *streams: dict[str, str], samples: list[int] | None = None, metadata: dict[str, Metadata] | None = None
) -> Samples:
    """Streams with one sample each, or with `samples` as their indices."""
    index = list(range(len(streams))) if samples is None else samples
    return samples_from(list(streams), index, [T + n for n in range(len(index))], [1.0] * len(index), metadata)


def named(name: str, **labels: str) -> dict[str, str]:
    return {"__name__": name, **labels}


def test_new_streams_are_numbered_on_and_known_ones_keep_their_number() -> None:
    streams = Streams(SMALL)
    first = streams.admit(page(named("a"), named("b")), "scrape")
    second = streams.admit(page(named("b"), named("c"), named("a")), "scrape")
    assert (first.number.tolist(), first.new) == ([0, 1], 2)
    assert (second.number.tolist(), second.new) == ([1, 2, 0], 1)
    assert len(streams) == 3


def test_streams_of_all_tenants_together_are_bounded() -> None:
    known = [1]
    streams = Streams(SMALL, lambda: 3 - known[0])
    admission = streams.admit(page(named("a"), named("b"), named("c")), "scrape")
    assert (admission.number.tolist(), dict(admission.refused)) == ([0, 1, -1], {"series_limit": 1})
    assert "ingest.series_all_max" in admission.messages[0]
    known[0] += 2
    assert streams.admit(page(named("a"), named("b")), "scrape").refused == {}, "who is known stays"


def test_a_stream_twice_in_one_request_is_one_stream() -> None:
    streams = Streams(SMALL)
    admission = streams.admit(page(named("a"), named("a")), "scrape")
    assert (admission.number.tolist(), admission.new, len(streams)) == ([0, 0], 1, 1)


@pytest.mark.parametrize(
    ("labels", "reason", "message"),
    [
        (named("m", a="1", b="2", c="3", d="4"), "labels_too_many", "m has 5 labels; at most 4"),
        (named("m", a="x" * 17), "label_too_long", "label 'a' has 17 bytes; at most 16"),
        (named("m", a="é" * 9), "label_too_long", "has 18 bytes"),
        (named("m", **{"n" * 17: "x"}), "label_too_long", "has 17 bytes"),
        ({"job": "x"}, "label_invalid", "a stream without a name: job='x'"),
    ],
    ids=["count", "value", "bytes, not characters", "name", "no name"],
)
def test_a_refused_stream_takes_its_samples_along_and_no_others(
    labels: dict[str, str], reason: str, message: str
) -> None:
    streams = Streams(SMALL)
    body = page(named("good"), labels, samples=[1, 0, 1, 1])
    for _ in range(2):  # it stays refused, and is counted each time
        admission = streams.admit(body, "scrape")
        assert admission.number.tolist() == [0, -1]
        assert {name: n for name, n in admission.refused.items() if n} == {reason: 3}
        assert message in admission.messages[0]
        assert "ingest." in admission.messages[0] or reason == "label_invalid"
    assert len(streams) == 1


def test_labels_at_their_limits_are_taken() -> None:
    streams = Streams(SMALL)
    admission = streams.admit(page(named("m", a="x" * 16, b="é" * 8, c="3")), "scrape")
    assert (admission.number.tolist(), dict(admission.refused)) == ([0], {})


def test_the_limit_of_streams_refuses_the_rest_of_a_body_and_keeps_the_known() -> None:
    streams = Streams(SMALL)
    body = page(*(named(name) for name in "abcde"), samples=[0, 1, 2, 3, 3, 4])
    admission = streams.admit(body, "scrape")
    assert admission.number.tolist() == [0, 1, 2, -1, -1]
    assert dict(admission.refused) == {"series_limit": 3}
    assert "3 streams are known" in admission.messages[0]
    assert streams.admit(body, "scrape").number.tolist() == [0, 1, 2, -1, -1]


def test_messages_of_many_refusals_are_bounded() -> None:
    admission = Streams(SMALL).admit(page(*({"job": str(n)} for n in range(50))), "scrape")
    assert admission.refused["label_invalid"] == 50
    assert len(admission.messages) == 5


def test_labels_that_are_not_utf8_are_refused_alone() -> None:
    good, bad = page(named("a")), page(named("b", c="xy"))
    raw = bad.label_bytes.tobytes().replace(b"xy", b"\xff\xfe")
    both = replace(
        page(named("a"), named("b", c="xy")),
        label_bytes=np.frombuffer(good.label_bytes.tobytes() + raw, np.uint8),
    )
    admission = Streams(SMALL).admit(both, "scrape")
    assert admission.number.tolist() == [0, -1]
    assert admission.refused["label_invalid"] == 1


def test_a_row_says_what_the_stream_is() -> None:
    streams = Streams(IngestConfig())
    told = {"requests": Metadata("counter", "By", "help")}
    labels = named("requests_total", job="trainer", instance="n12:9100")
    streams.admit(page(labels, metadata=told), "remote-write")
    rows, _, _ = streams.unsaved()
    assert rows[0].name == "requests_total"
    assert rows[0].labels == {"job": "trainer", "instance": "n12:9100"}
    assert (rows[0].type, rows[0].unit, rows[0].source) == ("counter", "bytes", "remote-write")
    assert rows[0].id_low | rows[0].id_high << 64 == int(page(labels).ids[0, 0]) | int(page(labels).ids[0, 1]) << 64


@pytest.mark.parametrize(
    ("labels", "tells"),
    [
        (named("x", **{"service.name": "trainer"}), {"trainer"}),
        (named("DCGM_FI_DEV_GPU_TEMP", UUID="GPU-1", Hostname="n1"), {"dcgm"}),
        (named("something", job="trainer"), {"trainer"}),
        (named("alone"), {"alone"}),
    ],
    ids=["service", "family", "job", "name"],
)
def test_streams_tell_what_their_sender_is(labels: dict[str, str], tells: set[str]) -> None:
    assert Streams(IngestConfig()).admit(page(labels), "scrape").tells == tells


def test_rows_wait_until_they_are_saved() -> None:
    streams = Streams(SMALL)
    streams.admit(page(named("a"), named("b")), "scrape")
    rows, first_ns, last_ns = streams.unsaved()
    assert [row.name for row in rows] == ["a", "b"]
    streams.saved(rows[:1], first_ns[:1], last_ns[:1])
    assert [row.name for row in streams.unsaved()[0]] == ["b"]


def touched(streams: Streams, samples: Samples) -> int:
    admission = streams.admit(samples, "scrape")
    return streams.touch(admission.number, samples.sample_series, samples.time_ns)


def test_times_of_a_stream_reach_from_its_oldest_sample_to_its_newest() -> None:
    streams = Streams(SMALL)
    assert touched(streams, samples_from([named("a")], [0, 0], [T + 5, T + 2], [1, 1])) == 1
    assert touched(streams, samples_from([named("a")], [0], [T + 9], [1])) == 0
    assert touched(streams, samples_from([named("a")], [0], [T + 9], [1])) == 0, "the same time again is a retry"
    assert touched(streams, samples_from([named("a")], [0], [T + 1], [1])) == 1
    _, first_ns, last_ns = streams.unsaved()
    assert (first_ns.tolist(), last_ns.tolist()) == ([T + 1], [T + 9])


def test_times_are_noted_by_whichever_request_comes_first() -> None:
    """Two requests bring the same new stream; the one that did not admit it is the first to note its times."""
    streams = Streams(SMALL)
    body, other = page(named("a")), samples_from([named("a")], [0], [T + 7], [1])
    number = streams.admit(body, "scrape").number
    touched(streams, other)
    assert streams.unsaved()[1].tolist() == [T + 7]
    streams.touch(number, body.sample_series, body.time_ns)
    assert [column.tolist() for column in streams.unsaved()[1:]] == [[T], [T + 7]]


def test_a_refused_stream_does_not_touch_another() -> None:
    streams = Streams(replace(SMALL, series_max=1))
    touched(streams, samples_from([named("a"), named("b")], [0, 1, 1], [T, T + 50, T - 50], [1, 1, 1]))
    assert [column.tolist() for column in streams.unsaved()[1:]] == [[T], [T]]


def test_a_stream_moves_when_its_newest_sample_is_ahead_of_its_row() -> None:
    streams = Streams(SMALL)
    touched(streams, page(named("a")))
    streams.saved(*streams.unsaved())
    assert not streams.moved(0)
    touched(streams, samples_from([named("a")], [0], [T + 100], [1]))
    assert streams.moved(99)
    assert not streams.moved(100)
    held, first_ns, last_ns = streams.times(page(named("a"), named("unknown")).ids)
    assert (held.tolist(), first_ns.tolist(), last_ns.tolist()) == ([True, False], [T], [T + 100])
    assert not streams.moved(0)
    streams.unsave()
    assert streams.moved(0)


def test_a_stream_without_a_sample_has_no_times_to_save() -> None:
    streams = Streams(SMALL)
    touched(streams, samples_from([named("a"), named("b")], [0], [T], [1]))
    held, first_ns, last_ns = streams.times(page(named("a"), named("b")).ids)
    assert (held.tolist(), first_ns.tolist(), last_ns.tolist()) == ([True, False], [T], [T])


def test_what_came_while_a_row_was_being_saved_is_not_forgotten() -> None:
    streams = Streams(SMALL)
    touched(streams, page(named("a")))
    rows, first_ns, last_ns = streams.unsaved()
    touched(streams, samples_from([named("a")], [0], [T + 1], [1]))
    streams.saved(rows, first_ns, last_ns)
    assert streams.moved(0)
    held = streams.times(page(named("a")).ids)
    assert held[2].tolist() == [T + 1]
    touched(streams, samples_from([named("a")], [0], [T - 1], [1]))
    assert streams.moved(3600 * 10**9), "an older first sample changes the row too"


def test_restored_streams_are_known_and_saved() -> None:
    body = page(named("a"), named("DCGM_x"))
    streams = Streams(SMALL)
    streams.restore(body.ids, np.array([T - 9, T - 8]), np.array([T, T + 1]), np.array([0, Blank.DCGM], np.uint8))
    admission = streams.admit(body, "scrape")
    assert (admission.number.tolist(), admission.new) == ([0, 1], 0)
    assert streams.unsaved()[0] == []
    assert not streams.moved(0)
    blanks = streams.blanks(admission.number)
    assert blanks is not None
    assert blanks.tolist() == [Blank.NONE, Blank.DCGM]
    assert streams.blanks(admission.number[:1]) is None
    assert touched(streams, samples_from([named("a")], [0], [T - 1], [1])) == 1, "late, against what the store knew"


def test_a_store_with_more_streams_than_the_limit_does_not_mix_them_up() -> None:
    body = page(*(named(name) for name in "abcde"))
    streams = Streams(SMALL)
    streams.restore(body.ids, np.arange(5) + T, np.arange(5) + T + 100, np.zeros(5, np.uint8))
    assert len(streams) == 3
    held, first_ns, last_ns = streams.times(body.ids)
    assert held.tolist() == [True] * 3 + [False] * 2
    assert first_ns.tolist() == [T, T + 1, T + 2]
    assert last_ns.tolist() == [T + 100, T + 101, T + 102]
    assert streams.admit(body, "scrape").refused["series_limit"] == 2


def test_markers_are_looked_for_only_where_a_stream_has_them() -> None:
    streams = Streams(IngestConfig())
    first = streams.admit(page(named("a")), "scrape")
    assert streams.blanks(first.number) is None
    second = streams.admit(page(named("DCGM_TEMP"), named("a"), named("node_network_speed_bytes")), "scrape")
    blanks = streams.blanks(second.number)
    assert blanks is not None
    assert blanks.tolist() == [Blank.DCGM, Blank.NONE, Blank.BELOW_ZERO]
    assert streams.blanks(first.number) is None


def test_columns_grow_with_the_streams() -> None:
    streams = Streams(IngestConfig())
    many = page(*(named(f"m{n}") for n in range(3000)))
    touched(streams, many)
    rows, first_ns, last_ns = streams.unsaved()
    assert len(rows) == 3000
    assert first_ns.tolist() == last_ns.tolist() == many.time_ns.tolist()
    assert NOT_SEEN_NS not in first_ns
