"""Profiles: what is learnt a few bins at a time, kept in rows, read back, and judged by."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.anomalies import WINDOW, Said, job_rows, tables, wavy
from tests.builders.fabrics import T0, S
from tests.builders.small_job import Row, table
from tests.common.analysis_laws import judged

from leadline.analysis.anomaly.anomaly import anomalies
from leadline.analysis.anomaly.profile import BINS_KNOWN, FACTORS, Bins, Profile, begun, distances, learnt, matched
from leadline.analysis.anomaly.profile_rows import AT_ONCE_MIN, packed, unpacked
from leadline.analysis.anomaly.together import METRIC
from leadline.analysis.columns import Floats

METRICS = 6


def seen_of(value_TM: Floats) -> Bins:
    """A window without peers, of metrics whose floor is small."""
    y_MB = np.ascontiguousarray(value_TM[::-1].T)
    metrics = len(y_MB)
    return Bins(y_MB, np.full(y_MB.shape, np.nan), np.full(metrics, 0.01), np.zeros(metrics))


def of_past(value_NM: Floats, each: int = 18) -> Profile:
    """Learnt from N samples, window by window of 36."""
    known = begun(seen_of(value_NM[:36]), 2)
    assert known is not None
    for until in range(36 + each, len(value_NM) + 1, each):
        known = learnt(known, seen_of(value_NM[until - 36 : until]), each)
    return known


def scores_of(known: Profile, seen: Bins, newest: int) -> tuple[Floats, Floats]:
    """Scores and parts of one entity."""
    (score_N,), (share_NM,) = distances([known], seen, newest)
    return score_N, share_NM


def calm(samples: int, seed: int = 1) -> Floats:
    """Two that go together, and four alone."""
    value_NM = np.random.default_rng(seed).normal(size=(samples, METRICS))
    value_NM[:, 1] = value_NM[:, 0] + 0.1 * value_NM[:, 1]
    return 100 + value_NM * np.arange(1, METRICS + 1)


def test_centre_and_scale_are_those_of_the_past() -> None:
    known = of_past(calm(1800))
    assert known.knows
    assert known.bins == pytest.approx(1800, abs=18)
    assert known.centre_M == pytest.approx(np.full(METRICS, 100.0), abs=0.6)
    assert known.scale_M[2:] == pytest.approx(np.arange(3, METRICS + 1), rel=0.1)


def test_of_calm_bins_few_are_odd_and_a_shift_of_what_goes_together_is() -> None:
    known = of_past(calm(1800))
    now = calm(936, seed=2)
    scores = np.concatenate([scores_of(known, seen_of(now[at : at + 36]), 18)[0] for at in range(0, 900, 18)])
    assert (scores >= 5).mean() < 0.005
    apart = calm(36, seed=3)
    apart[-4:, 1] -= 12.0  # in its range nearly; but metric 0 does not go with it
    score_N, share_NM = scores_of(known, seen_of(apart), 4)
    assert score_N.min() > 4
    assert (share_NM.argmax(axis=1) == 1).all()
    assert share_NM.sum(axis=1) == pytest.approx(np.ones(4))


def test_what_lasts_longer_than_a_window_is_still_odd() -> None:
    """36 samples of look-back know nothing else by then; the profile has learnt less than half of it."""
    value_NM = np.concatenate([calm(1800), calm(120, seed=5) + 40.0])
    known = of_past(value_NM)
    assert (scores_of(known, seen_of(value_NM[-36:]), 4)[0] > 5).all()


def test_what_stays_so_for_hours_is_baseline_in_the_end() -> None:
    value_NM = np.concatenate([calm(900), calm(9000, seed=5) + 40.0])
    known = of_past(value_NM)
    assert known.centre_M == pytest.approx(np.full(METRICS, 140.0), abs=4)
    assert (scores_of(known, seen_of(value_NM[-36:]), 4)[0] < 5).all()


def test_of_several_at_once_each_has_the_numbers_that_it_has_alone() -> None:
    known = [of_past(calm(900 + 180 * seed, seed)) for seed in range(1, 6)]
    seen = [seen_of(calm(36, seed) + 3.0 * seed) for seed in range(1, 6)]
    all_of = Bins(
        *(
            np.concatenate(parts)
            for parts in zip(*((s.y_MB, s.peers_MB, s.floor_M, s.side_M) for s in seen), strict=True)
        )
    )
    score_EN, share_ENM = distances(known, all_of, 4)
    for place, (one, now) in enumerate(zip(known, seen, strict=True)):
        score_N, share_NM = scores_of(one, now, 4)
        assert score_EN[place].tolist() == score_N.tolist()
        assert share_ENM[place].tolist() == share_NM.tolist()


def test_beside_peers_the_lesser_counts() -> None:
    known = of_past(calm(900))
    odd = calm(36)
    odd[-4:] += 60.0
    seen = seen_of(odd)
    shared = replace(seen, peers_MB=np.zeros_like(seen.peers_MB))
    assert scores_of(known, seen, 4)[0].min() > 5
    assert scores_of(known, shared, 4)[0].max() < 1


def test_a_metric_that_is_new_is_not_judged_and_others_keep_what_is_known() -> None:
    known = of_past(calm(900))
    now = np.column_stack([np.full(36, 7.0), calm(36)])[:, [0, 1, 2, 4]]
    other = matched(known, np.array([-1, 0, 1, 3]), seen_of(now))
    assert other.count_M.tolist() == [0.0, *known.count_M[[0, 1, 3]]]
    assert other.centre_M[1:].tolist() == known.centre_M[[0, 1, 3]].tolist()
    assert other.factor_FK[1:4].tolist() == known.factor_FK[[0, 1, 3]].tolist()
    assert other.moves_D[5:].tolist() == known.moves_D[[6, 7, 9]].tolist()
    now[-1, 0] = 1e9
    assert (scores_of(other, seen_of(now), 1)[1][0, 0]) == 0.0


def test_a_metric_is_new_to_a_profile_with_as_few_moves_as_metrics() -> None:
    known = begun(seen_of(calm(36)), 1)
    assert known is not None
    other = matched(known, np.array([-1, *range(METRICS)]), seen_of(calm(36, seed=2)[:, [0, *range(METRICS)]]))
    assert other.moves_D.tolist() == [1.0] * (METRICS + 1)
    assert other.count_M.tolist() == [0.0, *known.count_M]


def test_a_row_gives_back_what_was_written_and_nonsense_gives_nothing() -> None:
    known = of_past(calm(180))
    text = packed(known)
    back = unpacked(text, METRICS, known.bins)
    assert back is not None
    assert packed(back) == text
    assert back.centre_M.tolist() == known.centre_M.tolist()
    assert back.factor_FK == pytest.approx(known.factor_FK, rel=1e-3, abs=1e-4)
    assert back.factor_FK.shape == (METRICS * 3, FACTORS)
    assert unpacked(text, METRICS + 1, 1.0) is None
    assert unpacked(base64.b64encode(base64.b64decode(text)[:-2]).decode(), METRICS, 1.0) is None
    for nonsense in ("redacted!", text[:-1]):
        with pytest.raises(ValueError, match=r".+"):
            unpacked(nonsense, METRICS, 1.0)
    assert unpacked(packed(replace(known, scale_M=-known.scale_M)), METRICS, 1.0) is None


# --- through the analysis --------------------------------------------------------------------------------------


def hosts(count: int, lift: float = 0.0, from_s: float = 1e9) -> list[Said]:
    """Hosts of which each is alone in its role by its label, with five metrics."""

    def said(host: int, metric: str) -> Said:
        calm_at = wavy(100, 20, 17 * host + ord(metric))
        return Said(f"somebody_{metric}_queue_length", f"host:h{host}",
                    lambda at: calm_at(at) + (lift if at >= from_s else 0.0), host=f"h{host}")  # fmt: skip

    return [said(host, metric) for host in range(count) for metric in "abcde"]


def windows_of(given: dict[str, pa.Table], count: int) -> list[dict[str, list[Row]]]:
    """What windows one after the other write, each reading what the earlier ones wrote."""
    kept: dict[str, list[Row]] = {"anomaly": [], "profile": []}
    found = []
    for place in range(count):
        by_ns = place * WINDOW.window_ns
        window = replace(WINDOW, from_ns=WINDOW.from_ns + by_ns, to_ns=WINDOW.to_ns + by_ns)
        found.append(rows_of(given, kept, window))
        for name, rows in found[-1].items():
            kept[name] = (kept[name] + rows)[-400:]
    return found


def rows_of(given: dict[str, pa.Table], kept: dict[str, list[Row]], window: Any) -> dict[str, list[Row]]:
    written = judged(anomalies, {**given, **{name: table(name, rows) for name, rows in kept.items()}}, window)
    return {
        name: [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for name, columns in written.items()
    }


def test_a_profile_is_written_each_90_s_and_goes_on_from_the_one_before() -> None:
    windows = windows_of(tables(hosts(2), to_s=300), 60)
    ends = [row["end_ns"] - T0 for window in windows for row in window["profile"] if row["entity"] == "host:h1"]
    assert ends == [5 * S, 95 * S, 185 * S, 275 * S]
    last = next(window["profile"] for window in reversed(windows) if window["profile"])
    assert {(row["entity"], row["bins"], row["since_ns"]) for row in last} == {
        (f"host:h{host}", 37 + 3 * 18, T0 + 5 * S) for host in range(2)
    }


def test_when_an_entity_gets_another_job_what_it_did_before_is_no_past() -> None:
    rows_of_job = job_rows()
    given = tables(hosts(2), step=rows_of_job["step"], collective=rows_of_job["collective"])
    first = rows_of(given, {"profile": []}, WINDOW)["profile"]
    mine = next(row for row in first if row["entity"] == "rank:bert-1/3")
    assert list(mine["jobs"]) == ["bert-1"]
    earlier = {**mine, "end_ns": WINDOW.to_ns - 90 * S, "since_ns": T0 - 900 * S, "bins": 500}
    for jobs, since_ns in ((["bert-1"], T0 - 900 * S), (["bert-2"], WINDOW.to_ns)):
        rows = rows_of(given, {"profile": [{**earlier, "jobs": jobs}]}, WINDOW)["profile"]
        assert next(row for row in rows if row["entity"] == "rank:bert-1/3")["since_ns"] == since_ns


def test_a_window_judged_again_writes_the_same_whatever_came_of_it_and_rows_nobody_can_read_begin_anew() -> None:
    given = tables(hosts(2))
    first = rows_of(given, {"profile": []}, WINDOW)
    assert rows_of(given, {"profile": first["profile"]}, WINDOW) == first
    for bad in ({"numbers": "redacted"}, {"streams": "redacted"}, {"streams": "[1,2]"}, {"bin_s": 0}, {"bins": 2**60}):
        spoilt = [{**row, "end_ns": WINDOW.to_ns - 90 * S, **bad} for row in first["profile"]]
        assert rows_of(given, {"profile": spoilt}, WINDOW).keys() == first.keys()


def test_no_window_learns_all_of_many() -> None:
    said = hosts(2 * AT_ONCE_MIN)
    windows = windows_of(tables(said, to_s=20), 4)
    assert [len(window["profile"]) for window in windows] == [AT_ONCE_MIN, AT_ONCE_MIN, 0, 0]
    assert {row["entity"] for row in windows[0]["profile"]}.isdisjoint(row["entity"] for row in windows[1]["profile"])


def test_what_is_a_little_odd_is_told_by_the_profile() -> None:
    """A shift that all of an entity's metrics share, each within what is told alone."""
    windows = windows_of(tables(hosts(1, lift=70.0, from_s=400), to_s=440), 88)
    told = [row for window in windows for row in window["anomaly"]]
    assert {row["metric"] for row in told} == {METRIC}
    assert T0 + 385 * S <= min(row["start_ns"] for row in told) <= T0 + 405 * S
    assert BINS_KNOWN < 36 + 4 * 18
