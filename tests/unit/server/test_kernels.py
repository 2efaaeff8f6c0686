"""What is compiled, by whom, and how a start knows; with warmers that compile nothing."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import psutil
import pytest

from leadline.model import sources
from leadline.runner.warm import WARMERS as ANALYSIS_WARMERS
from leadline.server.background import kernels
from leadline.server.background.kernels import ANALYSES, PARTS, SCANNERS, Kernels, findings, is_compiled
from leadline.wire.warm import WARMERS as SCANNER_WARMERS

DOUBLE = """
import sys, time
for name in sys.argv[1:]:
    if name == "fails":
        sys.exit("no compiler")
    if name == "lasts":
        print("begun", flush=True)
        time.sleep(60)
    print(name, flush=True)
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A double of the compiling program, whose stamps go to a directory of the test."""
    (tmp_path / "compiler_double.py").write_text(DOUBLE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(kernels, "PROGRAM", "compiler_double")
    monkeypatch.setattr(kernels, "bound_to_parent", lambda command: command)  # it runs Python without PYTHONPATH
    monkeypatch.setattr(kernels, "_stamp", lambda kind: tmp_path / "kept" / f"leadline-{kind}-v1")
    return tmp_path


def test_every_warmer_is_compiled_by_one_process() -> None:
    named = [name for parts in PARTS.values() for part in parts for name in part]
    assert sorted(named) == sorted(each.__name__ for each in (*SCANNER_WARMERS, *ANALYSIS_WARMERS))


def test_it_is_compiled_once_and_an_older_version_forgotten(compiler: Path) -> None:
    (compiler / "kept").mkdir()
    (compiler / "kept" / "leadline-scanners-v0").touch()
    first = Kernels()
    assert first.progress == [0, 17]
    assert "compiling" in next(findings(first))["text"]
    seen: list[int] = []
    first.run(lambda: seen.append(first.done))
    assert sorted(seen) == list(range(1, 18))
    assert (first.failed, first.progress, list(findings(first))) == (False, None, [])
    assert is_compiled(SCANNERS)
    assert is_compiled(ANALYSES)
    assert not (compiler / "kept" / "leadline-scanners-v0").exists()
    assert not Kernels().missing


def test_a_process_that_fails_is_tried_again_at_the_next_start(compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "PARTS", {SCANNERS: (("_murmur",), ("fails",)), ANALYSES: ()})
    failing, then = Kernels([SCANNERS]), threading.Event()
    failing.start(then.set)
    assert then.wait(30), "the server works without: whoever needs a kernel first compiles it"
    assert failing.failed
    assert not is_compiled(SCANNERS)


def _doubles() -> list[psutil.Process]:
    """Those that run; who has ended and was not waited for has no command line any more."""
    found = []
    for each in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie is one, too
            if "compiler_double" in each.cmdline():
                found.append(each)
    return found


def test_stopping_ends_its_processes_and_begins_nothing(compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "PARTS", {SCANNERS: (("lasts",),)})
    lasting, then = Kernels([SCANNERS]), threading.Event()
    lasting.start(then.set)
    while lasting.done == 0:
        pass
    lasting.stop()
    psutil.wait_procs(_doubles(), 10)
    assert not then.wait(0.2)
    assert not is_compiled(SCANNERS)
    assert _doubles() == []


def test_a_kernel_that_changed_is_compiled_again_and_no_other_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "wire").mkdir()
    scanner, number, other = (tmp_path / "wire" / f"{name}.py" for name in ("scanner", "number", "other"))
    scanner.write_text("from leadline.wire.number import NUMBER\n\n@kernel\ndef scan():\n    return NUMBER\n")
    number.write_text("NUMBER = 1\n")
    other.write_text("")
    monkeypatch.setattr(sources, "ROOT", tmp_path)

    def version() -> str:
        for each in (sources.stamp_of, sources._source, sources._path):
            each.cache_clear()
        return kernels._version()

    before = version()
    other.write_text("a = 1")
    os.utime(scanner, (1, 1))
    assert version() == before
    number.write_text("NUMBER = 2\n")
    assert version() != before
    monkeypatch.undo()
    version()  # and nothing of this tree is remembered
