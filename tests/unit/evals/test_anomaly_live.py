"""The live analysis over a recording: driven as the runner drives it, window after window."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import pytest
from evals import anomaly_live
from evals.anomaly_live import BIN_NS, HOST, T0, Kept, live, samples_of, series

from leadline.analysis.anomaly.anomaly import anomalies
from leadline.analysis.anomaly.profile import BINS_KNOWN
from leadline.analysis.columns import Floats
from leadline.model.tables.metrics import METRIC_SAMPLE, SERIES
from leadline.runner.execute import InProcess, Task
from leadline.runner.offline import judge_rows
from leadline.runner.worker import FAILED, Outcome

METRICS = 5
SAMPLES = 260


def a_recording(seed: int = 3) -> Floats:
    rng = np.random.default_rng(seed)
    value_NM = 10 + rng.normal(size=(SAMPLES, METRICS))
    value_NM[160:170, :3] += 30
    return value_NM


def test_what_stands_out_is_told_from_its_window_on_and_by_which_metrics() -> None:
    whole = live(a_recording())
    assert np.flatnonzero(whole.told_N).tolist() == list(range(162, 167))  # in the third window that is out, of four
    assert whole.told_N.max() > 5
    assert set(np.argsort(-whole.share_NM[162])[:3].tolist()) == {0, 1, 2}
    assert whole.share_NM[162].sum() == pytest.approx(1.0)
    assert whole.seen_N[160:167].min() > 2 * whole.seen_N[60:160].max()


def test_it_is_what_the_runner_concludes_of_the_same_rows_at_once() -> None:
    """Rows that are added and let go of on the way change nothing: all told at the end is what the windows told."""
    value_NM = a_recording()
    tables = {SERIES.name: series(METRICS, SAMPLES), METRIC_SAMPLE.name: samples_of(value_NM, 0)}
    kept = Kept()
    told = judge_rows(tables, T0, T0 + SAMPLES * BIN_NS, [anomalies], kept)
    again = anomaly_live.told(kept, SAMPLES, METRICS)
    whole = live(value_NM)
    assert whole.told_N.tolist() == again.told_N.tolist()
    assert whole.share_NM.tolist() == again.share_NM.tolist()
    assert whole.seen_N.tolist() == again.seen_N.tolist()
    rows = told["anomaly"].to_pylist()
    assert {row["entity"] for row in rows} == {f"host:{HOST}"}
    assert max(row["score"] for row in rows) == whole.told_N.max()
    assert max(told["profile"]["bins"].to_pylist()) > BINS_KNOWN  # windows are judged by what was learnt, too


def test_a_missing_sample_is_no_row_and_a_recording_of_one_metric_is_judged() -> None:
    value_NM = a_recording()[:, :1]
    value_NM[100:110] = np.nan
    assert samples_of(value_NM, 0).num_rows == SAMPLES - 10
    whole = live(value_NM)
    assert whole.seen_N[160] > 2 * whole.seen_N[60:160].max()
    assert not whole.seen_N[102:110].any()


def test_with_too_little_past_nothing_is_said() -> None:
    assert not live(a_recording()[:4]).told_N.any()


def test_a_window_that_cannot_be_judged_is_no_calm_window() -> None:
    class Broken(InProcess):
        def submit(self, task: Task) -> Future[Outcome]:
            done: Future[Outcome] = Future()
            done.set_result(Outcome(FAILED, {}, error="a bug"))
            return done

    with pytest.raises(RuntimeError, match="a bug"):
        Kept(inner=Broken()).submit(Task(anomalies, None, ()))  # type: ignore[arg-type]
