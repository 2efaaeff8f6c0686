"""A target's labels on its page: clashes, the cache and its bounds."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.ingest import relabel
from leadline.ingest.relabel import Relabelled
from leadline.model.errors import RefusedError
from leadline.model.ids import series_id
from leadline.wire.samples import Metadata, Samples, samples_from

T = 1_750_000_000 * 10**9
TARGET = {"instance": "n12:9100", "job": "node"}


def page(*streams: dict[str, str]) -> Samples:
    count = len(streams)
    told, dropped = {"a": Metadata("gauge")}, {"exemplar": 1}
    return samples_from(list(streams), list(range(count)), [T] * count, list(map(float, range(count))), told, dropped)


def labels_of(samples: Samples) -> list[dict[str, str]]:
    return [samples.labels(stream) for stream in range(len(samples.ids))]


def ids_of(samples: Samples) -> list[int]:
    return [int(low) | int(high) << 64 for low, high in samples.ids.tolist()]


def test_every_stream_gets_the_labels_and_the_id_of_them() -> None:
    given = page({"__name__": "a"}, {"__name__": "b", "device": "eth0"})
    got = Relabelled(TARGET, honor_labels=False).apply(given)
    assert labels_of(got) == [{"__name__": "a", **TARGET}, {"__name__": "b", "device": "eth0", **TARGET}]
    assert ids_of(got) == [series_id(labels) for labels in labels_of(got)]
    assert got.value.tolist() == [0.0, 1.0]
    assert (got.metadata, got.dropped) == (given.metadata, given.dropped)


@pytest.mark.parametrize(
    ("target", "honor", "stream", "expected"),
    [
        ({"job": "node"}, False, {"job": "own"}, {"job": "node", "exported_job": "own"}),
        ({"job": "node"}, True, {"job": "own"}, {"job": "own"}),
        ({"job": "node"}, True, {}, {"job": "node"}),
        (
            {"job": "node"},
            False,
            {"job": "own", "exported_job": "first"},
            {"job": "node", "exported_job": "first", "exported_exported_job": "own"},
        ),
        (
            {"app": "ours", "exported_app": "ours too"},
            False,
            {"app": "own"},
            {"app": "ours", "exported_app": "ours too", "exported_exported_app": "own"},
        ),
        ({"job": "same"}, False, {"job": "same"}, {"job": "same", "exported_job": "same"}),
    ],
    ids=["clash", "honoured", "nothing to honour", "clash of the clash", "target has exported_", "equal values"],
)
def test_clashes_are_solved_as_prometheus_does(
    target: dict[str, str], honor: bool, stream: dict[str, str], expected: dict[str, str]
) -> None:
    got = Relabelled(target, honor).apply(page({"__name__": "m", **stream}))
    assert labels_of(got) == [{"__name__": "m", **expected}]


def test_the_second_page_costs_no_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    relabelled = Relabelled(TARGET, honor_labels=False)
    streams = [{"__name__": f"m{n}"} for n in range(50)]
    first = relabelled.apply(page(*streams))
    monkeypatch.setattr(Samples, "labels", lambda *_: pytest.fail("a known stream was decoded again"))
    second = relabelled.apply(page(*reversed(streams)))
    assert ids_of(second) == ids_of(first)[::-1]


def test_a_stream_twice_on_a_page_is_one_stream() -> None:
    got = Relabelled(TARGET, honor_labels=False).apply(page({"__name__": "a"}, {"__name__": "a"}, {"__name__": "b"}))
    first, second, third = ids_of(got)
    assert first == second != third


def test_pages_whose_streams_come_and_go_do_not_fill_memory() -> None:
    relabelled = Relabelled(TARGET, honor_labels=False)
    for number in range(60):
        streams = [{"__name__": "m", "request": f"{number}-{n}"} for n in range(100)]
        got = relabelled.apply(page(*streams))
        assert [labels["request"] for labels in labels_of(got)] == [stream["request"] for stream in streams]
        assert len(relabelled._index) <= 4 * 100 + 1000 + 100
        assert len(relabelled._ids) == len(relabelled._start) == len(relabelled._index)


def test_a_page_of_too_many_streams_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relabel, "STREAMS_MAX", 10)
    relabelled = Relabelled(TARGET, honor_labels=False)
    with pytest.raises(RefusedError, match="11 streams; at most 10"):
        relabelled.apply(page(*({"__name__": f"m{n}"} for n in range(11))))
    for start in range(0, 40, 8):
        got = relabelled.apply(page(*({"__name__": f"m{n}"} for n in range(start, start + 8))))
        assert [labels["__name__"] for labels in labels_of(got)] == [f"m{n}" for n in range(start, start + 8)]


def test_an_empty_page_stays_empty() -> None:
    got = Relabelled(TARGET, honor_labels=False).apply(page())
    assert got.ids.shape == (0, 2)
    assert got.value.dtype == np.float64
