"""The intake on the real embedded store: its questions about series are SQL, which no fake can answer for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders.stores import opened_store

from leadline.ingest.config import IngestConfig
from leadline.ingest.counts import Counts
from leadline.ingest.intake import Intake
from leadline.ingest.sources import Sources
from leadline.model.counters import accepted
from leadline.model.principal import Principal
from leadline.store import Store
from leadline.testing import FakeClock
from leadline.testing.clock import START_NS
from leadline.wire.samples import Metadata, samples_from

from .conftest import SENDER

S = 10**9
T = START_NS - 3 * 3600 * S
UP = {"__name__": "up", "job": "é'\\"}
GPU = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "UUID": "GPU-1"}
TWO = (Principal(), Principal("acme", "c'1"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path: Path = tmp_path_factory.mktemp("ingest")
    with opened_store(path) as store:
        yield store


def started(store: Store) -> tuple[Intake, Counts]:
    counts = Counts()
    intake = Intake(IngestConfig(linger_s=0.0), store, counts, Sources(counts), FakeClock())
    intake.start()
    return intake, counts


def test_streams_times_and_types_live_on_in_the_store(store: Store) -> None:
    intake, counts = started(store)
    assert intake.series_known == 0
    for who in TWO:
        both = samples_from([UP, GPU], [0, 1, 1], [T, T, T + S], [1.0, 40.0, 41.0])
        intake.samples(both, who, SENDER).done.result(10)
    told = samples_from([], [], [], [], {"up": Metadata("gauge"), "DCGM_FI_DEV_GPU_TEMP": Metadata("gauge", "celsius")})
    intake.samples(told, TWO[1], SENDER)
    later = samples_from([UP], [0, 0], [T + 7200 * S, T - S], [1.0, 2.0])
    intake.samples(later, TWO[1], SENDER).done.result(10)
    intake.save_streams()
    assert _series(store, "acme") == [
        ("DCGM_FI_DEV_GPU_TEMP", "gauge", "Cel", T, T + S),
        ("up", "gauge", None, T - S, T + 7200 * S),
    ]
    intake.samples(samples_from([UP], [0], [T + 5 * S], [1.0]), TWO[0], SENDER).done.result(10)
    intake.stop()
    assert [row[3:] for row in _series(store, "default")] == [(T, T + S), (T, T + 5 * S)]

    again, counts = started(store)
    assert again.series_known == 4
    blank = samples_from([GPU, UP], [0, 1], [T + 2 * S, T + S], [2.0**63, 0.0])
    receipt = again.samples(blank, TWO[0], SENDER)
    receipt.done.result(10)
    again.stop()
    assert dict(receipt.refused) == {"blank_value": 1}
    totals = counts.totals()
    assert (totals[accepted("series")], totals[accepted("late_samples")]) == (0, 1)
    orphans = store.query(
        "SELECT count() AS n FROM leadline.metric_sample WHERE (tenant, cluster, series) NOT IN "
        "(SELECT tenant, cluster, series FROM leadline.series)"
    )
    assert orphans.to_pylist() == [{"n": 0}]


def _series(store: Store, tenant: str) -> list[tuple[object, ...]]:
    rows = store.query("SELECT * FROM leadline.series WHERE tenant = {t:String} ORDER BY name", {"t": tenant})
    return [tuple(row[name] for name in ("name", "type", "unit", "first_ns", "last_ns")) for row in rows.to_pylist()]
