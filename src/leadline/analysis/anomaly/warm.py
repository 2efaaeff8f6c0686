"""The analysis on three hosts with two samples each: it compiles, or loads from the cache, all kernels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from leadline.analysis.anomaly.anomaly import LOOK_BACK_NS, anomalies
from leadline.analysis.anomaly.detector import SAMPLES_MIN, Scores
from leadline.analysis.anomaly.profile_kernels import features, squared
from leadline.analysis.anomaly.scores import GUARD
from leadline.analysis.anomaly.together import distances
from leadline.analysis.spec import S, Verdicts, Window

_TEXT = pa.dictionary(pa.int32(), pa.string())


def warm_anomalies() -> Verdicts:
    """Verdicts on three hosts, one of which has an OOM kill."""
    ids = [bytes([place] * 16) for place in range(3)]
    series = pa.table(
        {
            "tenant": pa.array([""] * 3, _TEXT),
            "series": pa.array(ids, pa.binary(16)),
            "name": pa.array(["container_oom_events_total"] * 3, _TEXT),
            "entity": pa.array(["host:h1", "host:h2", "host:h3"], _TEXT),
            "labels": pa.array([[]] * 3, pa.map_(pa.string(), pa.string())),
            "type": pa.array(["counter"] * 3, _TEXT),
            "host": pa.array(["h1", "h2", "h3"], _TEXT),
            "first_ns": [0] * 3,
        }
    )
    times = [at * S for at in range(0, 180, 5)]
    sample = pa.table(
        {
            "tenant": pa.array([""] * 3 * len(times), _TEXT),
            "series": pa.array([each for each in ids for _ in times], pa.binary(16)),
            "time_ns": times * 3,
            "value": [float(at > 170 * S and each == ids[0]) for each in ids for at in times],
        }
    )
    warm_together()
    given = {"series": series, "metric_sample": sample}
    tables = [given.get(read.table.name, _empty(read.names)) for read in anomalies.reads]
    return anomalies(*tables, window=Window(LOOK_BACK_NS - 5 * S, LOOK_BACK_NS))


def warm_together() -> Scores:
    """The distance of one entity with three metrics, which takes bins of a past; and that from its profile."""
    raw_ENF, feature_ENF = features(np.zeros((2, 24, 3)), np.array([4, 16]), 4, np.ones((2, 6)), 8.0)
    inverse_EKK = np.stack([np.eye(4), np.eye(4)])
    assert not squared(feature_ENF, np.ones((2, 9)), np.zeros((2, 9, 4)), inverse_EKK).any()
    assert raw_ENF.shape == (2, 4, 9)
    return distances(np.zeros((1, 3, SAMPLES_MIN + GUARD)))


def _empty(names: tuple[str, ...]) -> pa.Table:
    texts = {name: pa.array([], _TEXT) for name in names if not name.endswith("_ns") and name not in ("rank", "seq")}
    return pa.table({name: texts.get(name, pa.array([], pa.int64())) for name in names})
