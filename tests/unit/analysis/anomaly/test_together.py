"""What is odd together though nothing is out alone; what comes back; how much is told at once; one budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.anomalies import WINDOW, Said, since, tables, wavy
from tests.builders.fabrics import T0, S
from tests.builders.small_job import table
from tests.common.analysis_laws import judged
from tests.unit.analysis.anomaly.test_anomaly import series_of_windows, told

from leadline.analysis.anomaly.anomaly import LEFT_OUT, TOLD_MAX, anomalies
from leadline.analysis.anomaly.detector import fit, score
from leadline.analysis.anomaly.recurring import without_recurring
from leadline.analysis.anomaly.scores import GUARD
from leadline.analysis.anomaly.spans import ON, Span, threshold
from leadline.analysis.anomaly.together import METRIC, distances
from leadline.analysis.columns import Floats

QUEUES = 16


def queues(host: int, lift: float, since_s: float, until_s: float = 1e9) -> list[Said]:
    """Queue lengths of a host, of which one standard deviation is 16 at least, all a little longer for a while."""

    def value(queue: int) -> Said:
        calm = wavy(100, 20, 17 * host + queue)
        name = f"somebody_{'abcdefghijklmnop'[queue]}_queue_length"
        return Said(name, f"host:h{host}", lambda at: calm(at) + (lift if since_s <= at < until_s else 0.0),
                    host=f"h{host}")  # fmt: skip

    return [value(queue) for queue in range(QUEUES)]


def site(lift: float, until_s: float = 1e9, to_s: float = 5.0) -> dict[str, pa.Table]:
    said = [each for host in range(4) for each in queues(host, lift if host == 2 else 0.0, -20, until_s)]
    return tables(said, to_s=to_s)


def test_many_metrics_that_are_a_little_odd_are_odd_together_and_it_is_said_which() -> None:
    (row,) = told(site(100.0))
    assert (row["entity"], row["metric"], row["direction"], row["witness"]) == ("host:h2", METRIC, "shape", "past")
    assert row["score"] == row["seen"] > ON
    assert row["label"].count("_queue_length") == 3
    assert T0 - 25 * S <= row["earliest_ns"] < row["start_ns"] <= T0 - 10 * S
    assert row["share"] == 1.0
    assert told(site(8.0)) == []


def test_what_is_told_alone_is_not_told_together() -> None:
    rows = told(site(400.0))
    assert METRIC not in {row["metric"] for row in rows}
    assert len({row["metric"] for row in rows}) == QUEUES
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)


def test_what_is_odd_together_goes_on_with_one_key_and_ends() -> None:
    windows = series_of_windows(site(100.0, until_s=15, to_s=60), 8)
    rows = [row for rows in windows for row in rows if row["metric"] == METRIC]
    assert {row["start_ns"] for row in rows} == {windows[0][0]["start_ns"]}
    assert [row["end_ns"] is None for row in rows].count(False) == 1
    assert T0 + 10 * S <= rows[-1]["end_ns"] <= T0 + 35 * S


def test_a_window_that_is_judged_again_says_the_same_of_what_is_odd_together() -> None:
    given = site(100.0)
    first = told(given)
    assert told({**given, "anomaly": table("anomaly", first)}) == first


def test_more_samples_than_features_and_fewer_give_one_distance() -> None:
    """Of 30 metrics and 32 samples the products of samples are inverted, of 3 the covariance: held against numpy."""
    for metrics in (3, 30):
        past_TM = np.random.default_rng(metrics).normal(size=(32, metrics))
        now_NM = np.random.default_rng(9).normal(size=(3, metrics)) * 3
        model = fit(past_TM, standard=True)
        assert (len(model.past_ETF[0]) == 32) == (metrics == 30)
        feature_TF = features(past_TM, past_TM[:0], model.centre_EF[0], model.scale_EF[0])
        feature_NF = features(now_NM, past_TM, model.centre_EF[0], model.scale_EF[0])
        wide = feature_TF.shape[1]
        covariance_FF = (1 - model.shrink) * feature_TF.T @ feature_TF / 32 + model.shrink * np.eye(wide)
        distance_N = np.sqrt(np.einsum("nf,fg,ng->n", feature_NF, np.linalg.inv(covariance_FF), feature_NF))
        middle, high = model.distance_E2[0]
        expected_N = (distance_N - middle) / max((high - middle) / 1.6448536, model.unit_min)
        np.testing.assert_allclose(score(model, now_NM, past_TM).score, expected_N, rtol=1e-9)


def features(value_NM: Floats, before_BM: Floats, centre_F: Floats, scale_F: Floats) -> Floats:
    """Levels, and how far they are from the mean of the newest 4, on their scales."""
    whole_TM = np.concatenate([before_BM, value_NM])
    metrics = value_NM.shape[1]
    out = []
    for t in range(len(before_BM), len(whole_TM)):
        move_M = whole_TM[t] - whole_TM[max(0, t - 3) : t + 1].mean(0)
        out.append(np.concatenate([whole_TM[t], (move_M - centre_F[metrics:]) / scale_F[metrics:]]))
    return np.array(out)


def test_one_deviation_of_one_metric_is_not_more_than_that() -> None:
    deviation_EMB = np.zeros((1, 12, 37))
    deviation_EMB[0, 4, 0] = 3.0
    told = distances(deviation_EMB)
    assert 2.0 < told.score[0, -1] <= 3.0 * np.sqrt(1 + (3 / 4) ** 2) + 1e-9  # the level, and how far it moved
    assert told.share[0, -1].argmax() == 4
    assert np.isnan(distances(np.full((1, 12, 10 + GUARD), np.nan)).score).all()


# --- what comes back ----------------------------------------------------------------------------------------------


def span(at_s: float, metric: str = "somebody_says", seen: float = 9.0, end_s: float | None = 20) -> Span:
    start_ns = round(at_s * S)
    return Span("t", "host:h1", metric, None, "past", start_ns, start_ns - S, None if end_s is None else start_ns + S,
                None, 9.0, "high", 1.0, seen, start_ns + 5 * S, 9.0)  # fmt: skip


def kept(now: Span, *before: Span) -> bool:
    return without_recurring([now], before, now.reported_ns) == [now]


def test_a_load_that_comes_back_the_fourth_time_is_baseline() -> None:
    before = [span(at_s) for at_s in (600, 1203, 1798)]
    assert not kept(span(2401), *before)
    assert not kept(span(3600), *before)  # the one between was not told
    assert kept(span(2401), *before[1:])  # twice is no season
    assert kept(span(2100), *before)  # half a period too early
    assert kept(span(2401, seen=14.0), *before)  # further out than ever
    assert kept(span(2401), *(replace(each, direction="low") for each in before))


@pytest.mark.parametrize("metric", ["node_network_carrier_changes_total", "step.data_seconds", "up"])
def test_what_is_not_a_load_is_told_each_time(metric: str) -> None:
    before = [span(at_s, metric) for at_s in (600, 1200, 1800)]
    assert kept(span(2400, metric), *before)


def test_what_comes_back_within_the_look_back_is_told() -> None:
    assert kept(span(400), *(span(at_s) for at_s in (100, 200, 300)))


def test_a_span_that_was_told_goes_on() -> None:
    going = span(1800, end_s=None)
    assert without_recurring([going], [span(600), span(1200), going], going.reported_ns + 5 * S) == [going]


# --- budget and cap ----------------------------------------------------------------------------------------------


def test_the_threshold_follows_from_the_budget() -> None:
    assert pytest.approx(5.0, abs=0.01) == ON
    assert threshold(10.0) < threshold(0.1) < threshold(0.001)


def test_of_very_many_metrics_the_furthest_out_are_told_and_the_others_counted() -> None:
    def all_of(host: int) -> list[Said]:
        far = {first: since(-20, 500.0 if first == "a" else 900.0, 0.0) for first in "abcdefgh"}
        loads = [
            Said(f"somebody_{first}{second}_queue_length", f"host:h{host}", far[first] if host == 1 else lambda at: 0.0)
            for first in "abcdefgh" for second in "abcdefgh"
        ]  # fmt: skip
        oom = Said("container_oom_events_total", f"host:h{host}", since(1, float(host == 1), 0.0), "counter")
        return [*loads, oom]

    rows = told(tables([each for host in range(4) for each in all_of(host)]))
    (more,) = (row for row in rows if row["metric"] == LEFT_OUT)
    assert {row["entity"] for row in rows} == {"host:h1"}
    assert len(rows) == TOLD_MAX + 1
    assert (more["seen"], more["label"], more["end_ns"]) == (2 * 65 - TOLD_MAX, "reason=too-many-metrics", T0 + 5 * S)
    assert "container_oom_events_total" in {row["metric"] for row in rows}
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    weakest = {name for name in (row["metric"] for row in rows) if name.startswith("somebody_a")}
    assert not weakest


def test_windows_say_the_same_whether_their_rows_or_the_whole_recording_is_at_hand() -> None:
    """The law of batches: what a window concludes depends on nothing but the rows that it reads."""
    given = site(100.0, until_s=15, to_s=60)
    read_ns = next(read.look_back_ns for read in anomalies.reads if read.table.name == "metric_sample")
    for place in range(6):
        window = replace(WINDOW, from_ns=WINDOW.from_ns + place * 5 * S, to_ns=WINDOW.to_ns + place * 5 * S)
        whole = given["metric_sample"]
        time_N = whole["time_ns"].to_numpy()
        own = whole.filter(pa.array((time_N >= window.from_ns - read_ns) & (time_N < window.to_ns)))
        assert own.num_rows < whole.num_rows
        assert judged(anomalies, {**given, "metric_sample": own}, window) == judged(anomalies, given, window)
