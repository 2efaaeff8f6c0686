"""What `evals.anomaly` tells, of what, and beside whom."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from evals import anomaly, anomaly_data
from evals.anomaly_data import Published, Recording, recordings
from evals.anomaly_scores import hit_rates, n_sigma, pca

from leadline.analysis.columns import Floats
from leadline.model.errors import DataError

TABLE = "file,A,B,ts_len,anomaly_len,num_anomaly\n{}"


def a_machine(directory: Path, value_NM: Floats, odd: slice, name: str = "machine-1-1") -> None:
    label_N = np.zeros(len(value_NM), int)
    label_N[odd] = 1
    head = ",".join(f"m{metric:02}" for metric in range(value_NM.shape[1]))
    rows = "".join(f"{','.join(map(str, row))},{label}\n" for row, label in zip(value_NM, label_N, strict=True))
    directory.mkdir(exist_ok=True)
    with gzip.open(directory / f"{name}_test.csv.gz", "wt") as file:
        file.write(f"{head},label\n{rows}")


def a_jump() -> Floats:
    """3 metrics, 400 samples; the second is elsewhere in samples 300 to 319."""
    value_NM = np.random.default_rng(5).normal(size=(400, 3))
    value_NM[300:320, 1] += 12
    return value_NM


def test_the_cut_is_judged_by_what_its_windows_tell_and_see(capsys: pytest.CaptureFixture[str]) -> None:
    anomaly.main(["--quick", "--json"])
    told = {each["figure"]: each["value"] for each in json.loads(capsys.readouterr().out)["figures"]}
    assert told["vus_pr_mean"] == told["vus_pr_machine_2_1"] > 22 / 500  # what chance comes to
    assert told["vus_pr_mean_seen"] == told["vus_pr_machine_2_1_seen"] > told["vus_pr_mean"]
    assert told["interpretation_hit_rate"] is not None


def test_the_same_series_is_found_in_the_published_table_and_its_training_part_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_machine(tmp_path / "smd", a_jump(), slice(300, 320))
    table = tmp_path / "table.csv"
    monkeypatch.setitem(anomaly_data.PUBLISHED, "smd", table)
    same, other = "001_SMD_id_1_Facility_tr_120_1st_300.csv", "002_SMD_id_2_Facility_tr_9_1st_30.csv"
    rows = f"{same},0.2,0.3,400,20,1\n{other},1,1,400,20,1\n"
    table.write_text(TABLE.format(rows))
    (recording,) = recordings("smd", tmp_path / "smd")
    assert recording.published is not None
    assert (recording.past, recording.published.value_of) == (120, {"A": 0.2, "B": 0.3})
    told = {each.figure: each for each in anomaly.figures("smd", [anomaly.judged(recording)])}
    assert told["vus_pr_mean"].target == 0.3
    assert told["vus_pr_mean"].met
    assert told["interpretation_hit_rate"].value is None


def test_the_published_tables_are_whole() -> None:
    smd, nab = (anomaly_data.published(path) for path in anomaly_data.PUBLISHED.values())
    assert (len(smd), len(nab)) == (20, 23)
    by_file = {each.file[:3]: each for each in smd}
    assert (by_file["063"].past, by_file["063"].value_of["TranAD"]) == (5923, 0.5046)
    of_three = anomaly.best_published([by_file[number] for number in ("063", "069", "066")])
    assert of_three == ("TranAD", pytest.approx(0.4704, abs=1e-4))


def test_of_several_series_the_best_method_is_the_best_in_the_mean() -> None:
    series = [Published("", 1, 1, 1, {"A": 0.9, "B": 0.5}), Published("", 1, 1, 1, {"A": 0.0, "B": 0.6, "C": 1.0})]
    assert anomaly.best_published(series) == ("B", pytest.approx(0.55))


def test_a_series_of_no_table_has_no_target(tmp_path: Path) -> None:
    a_machine(tmp_path, a_jump(), slice(300, 320))
    told = anomaly.figures("smd", [anomaly.judged(each) for each in recordings("smd", tmp_path)])
    assert told[0].target is None
    assert told[0].value is not None
    assert told[0].value > 0.3  # 0.05 of it is odd, so that is what chance comes to


def test_a_part_of_a_recording_has_the_spans_that_lie_in_it() -> None:
    told = ((1, 2, frozenset({0})), (3, 5, frozenset({1})), (8, 9, frozenset({2})))
    part = Recording("a", np.arange(20.0).reshape(10, 2), np.arange(10) > 4, told, None).part(3, 8)
    assert part.value_NM[0].tolist() == [6.0, 7.0]
    assert part.label_N.tolist() == [False, False, True, True, True]
    assert part.told == ((0, 2, frozenset({1})),)


def test_windows_of_nab_are_labels(tmp_path: Path) -> None:
    rows = "".join(f"2014-02-14 {n // 60:02}:{n % 60:02}:00,{np.sin(n)}\n" for n in range(300))
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.csv").write_text(f"timestamp,value\n{rows}")
    (tmp_path / "windows.json").write_text(
        json.dumps({"x/a.csv": [["2014-02-14 00:10:00.000000", "2014-02-14 00:19:00.000000"]]})
    )
    (recording,) = recordings("nab", tmp_path)
    assert np.flatnonzero(recording.label_N).tolist() == list(range(10, 20))
    assert recording.value_NM.shape == (300, 1)


def test_bad_files_are_named_with_what_was_expected(tmp_path: Path) -> None:
    for suite in ("smd", "nab"):
        with pytest.raises(DataError, match="public repository"):
            list(recordings(suite, tmp_path))
    for text, said in (("m00,m01\n1,2\n", "last column called label"), ("m00,label\n1,x\n", "line 2: expected numbers"),
                       ("m00,label\n1,0\n1\n", "line 3: expected 2 values")):  # fmt: skip
        with gzip.open(tmp_path / "a_test.csv.gz", "wt") as file:
            file.write(text)
        with pytest.raises(DataError, match=said):
            list(recordings("asd", tmp_path))


def test_a_suite_without_data_says_where_it_can_be_had(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        anomaly.main(["--suite", "nab"])
    assert "numenta/NAB" in capsys.readouterr().err


def test_of_what_is_at_fault_one_and_a_half_times_as_many_may_be_named() -> None:
    told = ((0, 1, frozenset({0, 3})), (2, 2, frozenset({1})))
    recording = Recording("a", np.zeros((3, 5)), np.ones(3, bool), told, None)
    share_NM = np.array([[0.5, 0.3, 0.2, 0, 0], [0, 0, 0.4, 0.6, 0], [0.9, 0.1, 0, 0, 0]])
    assert hit_rates(recording, share_NM, np.ones(3)) == [1.0, 0.0]  # three of: 3, 0, 2; one of: 0
    assert hit_rates(recording, share_NM, np.array([1.0, 0.0, 1.0])) == [0.5, 0.0]  # three of: 0, 1, 2


def test_the_floors_see_what_leaves_its_range() -> None:
    value_NM = a_jump()
    odd = np.arange(400) // 20 == 15
    for score_N in (pca(value_NM), n_sigma(value_NM, 100)):
        assert np.isfinite(score_N).all()
        assert score_N[odd].mean() > 2 * score_N[~odd].mean()
    assert pca(value_NM[:, :1]).shape == (400,)
    assert pca(np.ones((50, 3))).tolist() == [0.0] * 50
