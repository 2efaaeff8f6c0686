"""Figures of the house come from what is there: a circle, a module that nothing reaches, a verdict that moved."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from bench.house_parts.imports import circle, imports_of_modules, unreached
from bench.house_parts.ready import compile_s, kernels
from bench.house_parts.verdicts import RECORDED, changed, digest, recorded, recordings


def package(folder: Path, **sources: str) -> Path:
    """A package `leadline` of flat modules; in names `__` stands for a dot."""
    source = folder / "leadline"
    source.mkdir()
    (source / "__init__.py").write_text("")
    for name, text in sources.items():
        path = source.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    return source


def test_a_circle_is_found_even_if_it_is_for_types_alone(tmp_path: Path) -> None:
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from leadline import a\n"
    source = package(tmp_path, a="from leadline.b import x\n", b=types)
    assert set(circle(imports_of_modules(source))) == {"leadline.a", "leadline.b"}


def test_without_a_circle_there_is_none(tmp_path: Path) -> None:
    assert circle(imports_of_modules(package(tmp_path, a="import leadline.b\n", b=""))) == []


def test_what_no_program_reaches_is_named(tmp_path: Path) -> None:
    source = package(
        tmp_path,
        main="from leadline.inner import used\nSTART = 'from leadline.started import run; run()'\n",
        inner__used="",
        inner__alone='"""leadline.main is spoken of here, which reaches nothing."""\nX = 1\n',
        started="",
    )
    assert unreached(source, ("leadline.main",)) == ["leadline.inner.alone"]


def test_an_empty_package_is_nothing_to_reach(tmp_path: Path) -> None:
    source = package(tmp_path, main="", later__x="")
    assert unreached(source, ("leadline.main",)) == ["leadline.later.x"]
    (source / "later" / "x.py").unlink()
    assert unreached(source, ("leadline.main",)) == []


def test_a_digest_holds_values_not_order_or_coding() -> None:
    rows = pa.table({"job": ["a", "b"], "lost": [1.5, 2.5]})
    turned = rows.take([1, 0])
    coded = rows.set_column(0, "job", rows["job"].dictionary_encode())
    assert digest(rows) == digest(turned) == digest(coded)
    assert digest(rows) != digest(pa.table({"job": ["a", "b"], "lost": [1.5, 2.5000000001]}))
    assert digest(rows) != digest(rows.slice(1))


def test_what_changed_is_named_new_and_gone_included() -> None:
    before = {"x": {"cause": "1", "symptom": "2"}, "gone": {"cause": "3"}}
    now = {"x": {"cause": "1", "symptom": "9", "sle": "4"}}
    assert changed(before, now) == ["gone: cause", "x: sle", "x: symptom"]
    assert changed(before, before) == []


def test_every_recording_is_among_those_recorded() -> None:
    root = RECORDED.parents[2]
    assert set(recorded()) == {str(path.relative_to(root)) for path in recordings()}


def test_kernels_are_counted_however_they_are_marked(tmp_path: Path) -> None:
    marked = "@njit\ndef a(): ...\n@njit(cache=True)\ndef b(): ...\n@numba.njit(cache=True)\ndef c(): ...\n"
    other = "@kernel\ndef d(): ...\n@kernel(parallel=True)\ndef e(): ...\n"
    source = package(tmp_path, kernels=marked + "def njit(): ...\n@cached\ndef f(): return njit\n", wire=other)
    assert kernels(source) == 5


def test_compiling_is_timed_from_nothing_and_leaves_caches_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that stands for a warmer: it must see an empty cache of its own, and what it uses is what is told."""
    (tmp_path / "warmer.py").write_text(
        "import os, time\n"
        "assert os.listdir(os.environ['NUMBA_CACHE_DIR']) == []\n"
        "while time.process_time() < 0.3: pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert 0.3 <= compile_s("warmer") < 3.0
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert 0.3 <= compile_s("warmer") < 3.0
    (tmp_path / "warmer.py").write_text("raise SystemExit(2)")
    with pytest.raises(subprocess.CalledProcessError):
        compile_s("warmer")
