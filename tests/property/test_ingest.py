"""Laws of the way in: what is sent is taken or refused by one reason, and what is taken is what is stored."""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.ingest.config import IngestConfig
from leadline.ingest.counts import Counts
from leadline.ingest.intake import Intake
from leadline.ingest.relabel import Relabelled
from leadline.ingest.sources import Sender, Sources
from leadline.ingest.streams import Streams
from leadline.model.ids import series_id
from leadline.model.principal import Principal
from leadline.testing import FakeClock, MemoryStore
from leadline.testing.clock import START_NS as T
from leadline.wire.samples import Metadata, Samples, samples_from

S = 10**9
LAW = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
CONFIG = IngestConfig(linger_s=0.0, series_max=6, labels_per_series_max=4, label_bytes_max=16)

NAMES = st.sampled_from(["up", "DCGM_FI_DEV_GPU_T", "m", "x" * 17, "", "http.size", "node_load1"])
TEXTS = st.one_of(st.sampled_from(["x", "n12:9100", "GPU-1", "v" * 17, "é" * 9, ":9100", "[]:1"]), st.text(max_size=4))
LABELS = st.dictionaries(st.sampled_from(["job", "instance", "UUID", "l" * 17, "a", "b", "é"]), TEXTS, max_size=5)
STREAMS = st.builds(lambda name, labels: {"__name__": name, **labels}, NAMES, LABELS)
TIMES = st.one_of(
    st.integers(-5, 5).map(lambda s: T + s * S),
    st.sampled_from([T - 28 * 86400 * S, T - 28 * 86400 * S - 1, T + 600 * S, T + 600 * S + 1, -(2**63), 2**63 - 1, 0]),
)
VALUES = st.one_of(st.floats(), st.sampled_from([2.0**63, 2147483632.0, 140737488355328.0]))
METADATA = st.dictionaries(NAMES, st.builds(Metadata, st.text(max_size=5), st.text(max_size=5)), max_size=3)


@st.composite
def requests(draw: st.DrawFn) -> Samples:
    streams = draw(st.lists(STREAMS, min_size=1, max_size=5))
    points = draw(st.lists(st.tuples(st.integers(0, len(streams) - 1), TIMES, VALUES), max_size=8))
    columns = [list(column) for column in zip(*points, strict=True)] or [[], [], []]
    return samples_from(streams, *columns, draw(METADATA))


class Model:
    """The same decisions, one sample at a time, in plain Python."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.stored: dict[tuple[int, int], float] = {}
        self.newest: dict[int, int] = {}
        self.late = 0

    def admit(self, request: Samples) -> dict[int, str]:
        """Why each stream of a request is refused, by its place; those not named are known now."""
        refused = {}
        for place in range(len(request.ids)):
            labels = request.labels(place)
            series = series_id(labels)
            if series in self.known:
                continue
            sizes = [len(text.encode()) for pair in labels.items() for text in pair]
            if len(self.known) >= CONFIG.series_max:
                refused[place] = "series_limit"
            elif not labels.get("__name__"):
                refused[place] = "label_invalid"
            elif len(labels) > CONFIG.labels_per_series_max:
                refused[place] = "labels_too_many"
            elif max(sizes) > CONFIG.label_bytes_max:
                refused[place] = "label_too_long"
            else:
                self.known.add(series)
        return refused

    def take(self, request: Samples) -> Tally[str]:
        """What is refused of a request, by reason."""
        refused = self.admit(request)
        tally: Tally[str] = Tally()
        for place, time_ns, value in zip(
            request.sample_series.tolist(), request.time_ns.tolist(), request.value.tolist(), strict=True
        ):
            labels = request.labels(place)
            series = series_id(labels)
            if place in refused:
                tally[refused[place]] += 1
            elif time_ns < T - CONFIG.age_max_s * S:
                tally["too_old"] += 1
            elif time_ns > T + CONFIG.future_max_s * S:
                tally["in_future"] += 1
            elif labels["__name__"].startswith("DCGM_") and value in (2.0**63, 2147483632.0, 140737488355328.0):
                tally["blank_value"] += 1
            else:
                self.stored[series, time_ns] = value
                self.late += time_ns < self.newest.get(series, 0)
                self.newest[series] = max(self.newest.get(series, 0), time_ns)
        return tally


def bits(value: float) -> Any:
    return np.float64(value).view(np.uint64).item()


@LAW
@given(st.lists(requests(), min_size=1, max_size=4))
def test_the_intake_does_what_the_model_does(bodies: list[Samples]) -> None:
    model, store, counts = Model(), MemoryStore(), Counts()
    intake = Intake(CONFIG, store, counts, Sources(counts), FakeClock())  # type: ignore[arg-type]
    intake.start()
    try:
        for body in bodies:
            receipt = intake.samples(body, Principal(), Sender("default", "otlp-http", "law"))
            receipt.done.result(10)
            assert {reason: n for reason, n in receipt.refused.items() if n} == model.take(body)
            assert receipt.taken + sum(receipt.refused.values()) == len(body.time_ns)
    finally:
        intake.stop()
    stored = {
        (int.from_bytes(row["series"], "little"), row["time_ns"]): bits(row["value"])
        for row in store.rows("metric_sample")
    }
    assert stored == {key: bits(value) for key, value in model.stored.items()}
    rows = {int.from_bytes(row["series"], "little"): row for row in store.rows("series")}
    assert set(rows) == model.known
    for series, row in rows.items():
        assert series_id({"__name__": row["name"], **dict(row["labels"])}) == series
        times = [time_ns for known, time_ns in model.stored if known == series] or [T]
        assert (row["first_ns"], row["last_ns"]) == (min(times), max(times))
    late = next(total for counter, total in counts.totals().items() if counter.reason == "late_samples")
    assert late == model.late


@LAW
@given(st.lists(requests(), min_size=2, max_size=4))
def test_admission_does_not_depend_on_how_streams_are_cut_into_requests(bodies: list[Samples]) -> None:
    """Streams of many requests, or one request at a time: the same are known, in the same order."""
    together, apart = Streams(CONFIG), Streams(CONFIG)
    labels = [body.labels(place) for body in bodies for place in range(len(body.ids))]
    together.admit(samples_from(labels, [], [], []), "law")
    for one in labels:
        apart.admit(samples_from([one], [], [], []), "law")
    assert [row.labels | {"__name__": row.name} for row in together.unsaved()[0]] == [
        row.labels | {"__name__": row.name} for row in apart.unsaved()[0]
    ]


@LAW
@given(st.lists(requests(), min_size=1, max_size=4), LABELS.map(lambda labels: labels | {"job": "ours"}), st.booleans())
def test_relabelling_by_cache_equals_relabelling_by_hand(
    pages: list[Samples], target: dict[str, str], honor: bool
) -> None:
    relabelled = Relabelled(target, honor)
    for page in pages:
        got = relabelled.apply(page)
        for place in range(len(page.ids)):
            labels = got.labels(place)
            own = {name: value for name, value in page.labels(place).items() if value}
            ours = {name: value for name, value in target.items() if value}
            assert int(got.ids[place, 0]) | int(got.ids[place, 1]) << 64 == series_id(labels)
            kept = own if honor else {name: value for name, value in own.items() if name not in target}
            assert kept.items() <= labels.items()
            assert honor or ours.items() <= labels.items()
            assert sorted(labels.values()) == sorted(
                [*own.values(), *(value for name, value in ours.items() if not (honor and name in own))]
            ), "no value of the page or of the target is lost"
        assert got.sample_series is page.sample_series
