"""The eval of the what-if replay: errors near and away from zero, damaged files, and what is told."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from evals.whatif import SMALL, Judged, all_judged, error, figures, line, main
from evals.whatif_data import cause_of, read

from leadline.analysis.ledger.operations.cause import Cause


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SMALL, tmp_path / "data"))


def values(directory: Path) -> dict[str, float | None]:
    return {each.figure: each.value for each in figures(list(all_judged(directory)))}


def only(directory: Path, name: str) -> Judged:
    """What is said of one trace of a directory."""
    return next(each for each in all_judged(directory) if each.told.name == name)


def test_the_kept_trace_meets_every_target() -> None:
    told = figures(list(all_judged(SMALL)))
    assert {each.figure for each in told} == {
        "S_error_ST", "Mw_error_ST", "Ms_error_ST", "class_right", "place_right",
    }  # fmt: skip
    assert all(each.met for each in told)


def test_errors_are_relative_away_from_zero_and_absolute_near_it() -> None:
    assert error(1.1, 1.0) == pytest.approx(0.1)
    assert error(0.03, 0.01) == pytest.approx(0.02)
    assert error(-1.9, -2.0) == pytest.approx(0.05)
    assert error(None, 1.0) is None
    assert error(1.0, None) is None


@pytest.mark.parametrize(
    ("label", "cause"),
    [
        ("single slow worker (artificial slowdown of one worker)", Cause.WORKER),
        ("stage partitioning imbalance (last pipeline stage too long)", Cause.STAGE),
        ("sequence-length imbalance (of micro-batches, across workers)", Cause.SEQUENCE),
        ("Python garbage collection", Cause.GARBAGE),
        ("slow NIC", Cause.COMMUNICATION),
        ("???", None),
    ],
)
def test_labels_are_understood(label: str, cause: Cause | None) -> None:
    assert cause_of(label) is cause


def test_without_published_files_the_values_are_told_without_errors(data: Path) -> None:
    for name in ("result-ST.json", "mw-ST.json", "ms-ST.json", "labels.csv", "meta-ST.json"):
        (data / name).unlink()
    assert set(values(data).values()) == {None}
    assert "S 1.179" in line(only(data, "ST"))


def test_a_file_that_was_cut_is_read_as_far_as_it_goes(data: Path) -> None:
    path = data / "trace-ST.csv.gz"
    path.write_bytes(path.read_bytes()[:-20_000])
    found = only(data, "ST")
    assert "cut" in found.told.notes[0]
    assert 0 < found.answer["operations"] < 6784
    assert "left out" in line(found)


def test_a_file_that_is_damaged_is_read_up_to_there(data: Path) -> None:
    path = data / "trace-ST.csv.gz"
    packed = bytearray(path.read_bytes())
    packed[40_000:40_100] = bytes(100)
    path.write_bytes(bytes(packed))
    assert only(data, "ST").told.notes


def test_rows_that_cannot_be_read_and_columns_that_are_missing_are_told(data: Path) -> None:
    path = data / "trace-ST.csv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    (data / "trace-ODD.csv").write_text("\n".join([lines[0], "x,0,0,1,gc,0,0,0,0,0,0", *lines[1:]]))
    assert read(data / "trace-ODD.csv").notes == ["1 lines could not be read"]
    (data / "trace-NONE.csv").write_text("a,b\n1,2\n")
    assert "begins with 'a, b'" in read(data / "trace-NONE.csv").notes[0]
    assert "nothing can be told" in line(only(data, "NONE"))


def test_ranks_that_the_sizes_promise_are_missed(data: Path) -> None:
    meta = data / "meta-ST.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"dp_size": 3}))
    assert "1 of 3 dp ranks" in line(only(data, "ST"))


def test_published_files_of_nonsense_are_as_if_not_there(data: Path) -> None:
    (data / "result-ST.json").write_text("[1, 2")
    (data / "mw-ST.json").write_text('{"Mw": "much"}')
    found = values(data)
    assert found["S_error_ST"] is None
    assert found["Mw_error_ST"] is None
    assert found["Ms_error_ST"] is not None


def test_an_empty_directory_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--data", str(tmp_path), "--json"])
    out, err = capsys.readouterr()
    assert "ByteDance-Seed/StragglerAnalysis" in err
    assert json.loads(out)["figures"][0]["value"] is None


def test_the_answer_names_worker_stage_and_class(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json", "--quick"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["conditions"]["traces"]["ST"]
    assert told["top_worker"] == {"dp_rank": 1, "stage": 3, "rank": 7}
    assert (told["top_stage"], told["class"], told["left_out"]) == (3, "stage-imbalance", {})
