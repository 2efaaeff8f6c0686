"""Every input that is kept runs through its target; the list of targets is whole; and the fuzzer is awake."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench import fuzz
from tests.fuzz.mutate import scanners
from tests.fuzz.registry import BY_NAME, TARGETS
from tests.fuzz.seeds import seeds
from tests.fuzz.target import CORPORA, Target

from leadline.ingest.http import PATHS

ROOT = Path(__file__).parents[2]
# Which targets read what a way in takes, and what comes by other ways than HTTP. OTLP over gRPC has the same decoders.
READ_BY = {
    "/api/v1/write": {"remote_write_1", "remote_write_2", "body"},
    "/v1/metrics": {"otlp_metrics", "otlp_metrics_json"},
    "/v1/logs": {"otlp_logs", "otlp_logs_json"},
    "/api/v1/rows/TABLE": {"ndjson", "rows_json", "arrow"},
    "/api/v1/ring": {"ring_segments"},
}
OTHERWISE = {
    "exposition", "openmetrics", "sflow", "http", "sql", "explanation", "probe_packet",  # over the network
    "ring", "spool", "netlink", "kernel_log", "lldp", "proc_files", "prober_line",  # to the agent, on its host
    "trace", "bundle", "bundle_table", "probe_record",  # as files
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_kept_input_is_decoded_or_refused(target: Target) -> None:
    for name, data in target.kept():
        try:
            target.run(data)
        except Exception as error:
            error.add_note(f"input {name} of {target.name}: python -m bench.fuzz --replay --target {target.name}")
            raise


def test_every_way_in_has_a_target() -> None:
    assert READ_BY.keys() == set(PATHS)
    assert set().union(*READ_BY.values()) | OTHERWISE == BY_NAME.keys()


def test_every_corpus_has_its_seeds_and_a_target() -> None:
    assert {path.name for path in CORPORA.iterdir()} == BY_NAME.keys()
    for name, inputs in seeds().items():
        kept = dict(BY_NAME[name].kept())
        assert {f"seed-{each}" for each in inputs} == {each for each in kept if each.startswith("seed-")}, name
        # A library of another version may write the same rows in other bytes; a small one is as it was.
        assert all(len(data) <= BY_NAME[name].bytes_max for data in kept.values()), f"{name}: longer than it mutates"


def test_modules_with_kernels_are_known() -> None:
    """They are not traced when compiled, since numba reads their byte code."""
    assert {"leadline.wire.proto", "leadline.wire.words", "leadline.wire.sflow.kernels"} <= set(scanners())


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed: make bench does")
@pytest.mark.parametrize("interpreted", [True, False], ids=["interpreted", "as-it-ships"])
def test_a_fault_is_found(tmp_path: Path, interpreted: bool) -> None:
    """A scanner that reads one byte too far is found, both ways: by its bounds, and by the end of memory."""
    program = f"""
import sys
sys.argv = ["mutate", "exposition", "--seconds", "20", "--work", {str(tmp_path)!r}, *{["--interpreted"] * interpreted}]
from tests.fuzz import mutate
def with_a_fault(atheris, name, interpreted):
    target = imported(atheris, name, interpreted)
    import numpy as np
    from leadline.wire import words
    from tests.fuzz.targets import metrics
    from tests.fuzz.targets.guarded import Guarded
    room = Guarded(1 << 16)
    if interpreted:
        read = words.byte_at
    else:
        from numba import njit
        read = njit(lambda data, at: words.byte_at(data, at))
    def exposition(data):
        if data:
            read(np.frombuffer(room.place(data), np.uint8), len(data) - (b"{{" not in data))
    metrics.exposition = exposition
    return target
imported, mutate.imported = mutate.imported, with_a_fault
mutate.main()
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert ran.returncode == 77, ran.stderr[-3000:]
    (found,) = (tmp_path / "findings").iterdir()
    assert b"{" in found.read_bytes()


def test_without_atheris_it_fails_and_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--quick", "--target", "spool"])
    with pytest.raises(SystemExit) as ended:
        fuzz.main()
    assert "pip install" in str(ended.value.code)


def test_what_was_found_ends_it_with_1_and_the_file_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = fuzz.Ran(5, 1, 2, 77, (Path("build/fuzz/spool/findings/crash-1"),), "a trace")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(fuzz, "fuzz", lambda *_: [ran])
    monkeypatch.setattr(sys, "argv", ["fuzz", "--quick", "--target", "spool", "--json"])
    with pytest.raises(SystemExit) as ended:
        fuzz.main()
    told = capsys.readouterr()
    assert ended.value.code == 1
    assert "findings/crash-1" in told.err
    figures = {each["figure"]: each["value"] for each in json.loads(told.out)["figures"]}
    assert (figures["findings"], figures["inputs"]) == (1, 5)


def test_a_finding_is_told_when_it_is_run_again(tmp_path: Path) -> None:
    good = tmp_path / "an-input"
    good.write_bytes(b"a 1\n")
    command = [sys.executable, "-m", "tests.fuzz.replay", "exposition", "--files", str(good)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(ran.stdout) == {"exposition": {"inputs": 1, "findings": 0}}
