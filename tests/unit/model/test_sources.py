"""What is compiled is kept by content, of other files too: told by a small tree of modules that is run in another process."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.model.sources import ROOT, _made_of, stamp_of

COPIED = ("__init__.py", "model/__init__.py", "model/sources.py", "analysis/compiled.py")
CALLED = """from leadline.analysis.compiled import compiled
from leadline.analysis.number import NUMBER

@compiled()
def called(x):
    return x + NUMBER
"""
CALLER = """from leadline.analysis.called import called
from leadline.analysis.compiled import compiled

@compiled()
def caller(x):
    return 2 * called(x)
"""
RUN = "from leadline.analysis.caller import caller; print(caller(1), sum(caller.stats.cache_hits.values()))"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in COPIED:
        (tmp_path / "leadline" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "leadline" / name)
    analysis = tmp_path / "leadline" / "analysis"
    for name, text in (("__init__", ""), ("number", "NUMBER = 10\n"), ("called", CALLED), ("caller", CALLER)):
        (analysis / f"{name}.py").write_text(text)
    return analysis


def run(tree: Path) -> tuple[int, int]:
    """What the function says, and how often it was not compiled but loaded."""
    environ = {**os.environ, "PYTHONPATH": str(tree.parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    said = subprocess.run([sys.executable, "-c", RUN], env=environ, capture_output=True, text=True, check=True).stdout
    value, hits = map(int, said.split())
    return value, hits


def test_a_change_elsewhere_is_compiled_and_an_installation_anew_is_not(tree: Path) -> None:
    assert run(tree) == (22, 0)
    assert run(tree) == (22, 1)
    for path in tree.parent.rglob("*.py"):  # as an upgrade writes files that did not change
        os.utime(path, (1, 1))
    assert run(tree) == (22, 1)
    (tree / "number.py").write_text("NUMBER = 20\n")
    assert run(tree) == (42, 0)
    (tree / "called.py").write_text(CALLED.replace("x + NUMBER", "x - NUMBER"))
    assert run(tree) == (-38, 0)


def test_all_that_a_kernel_imports_is_seen() -> None:
    """The imports that are read from the text are those that the parser finds."""
    name = "leadline.wire.otlp.streams"
    for each in _made_of(name):
        path = ROOT.joinpath(*each.split(".")[1:])
        path = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("leadline."):
                assert node.module in _made_of(name), f"{each} imports {node.module}"
    assert {"leadline.wire.otlp.arena", "leadline.wire.murmur"} <= _made_of(name)


def test_a_module_of_somebody_else_is_kept_by_its_own_file(tree: Path) -> None:
    """An analysis of a user, in a package of its own: what we know nothing of must not look as if it never changed."""
    other = tree.parents[1] / "theirs.py"
    text = "from leadline.analysis.compiled import compiled\n\n@compiled()\ndef f(x):\n    return x + 1\n"
    environ = {**os.environ, "PYTHONPATH": str(tree.parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    said = []
    for one in (text, text.replace("x + 1", "x + 2")):
        other.write_text(one)
        command = [sys.executable, "-c", "import theirs; print(theirs.f(1))"]
        said.append(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.strip())
    assert said == ["2", "3"]


def test_another_module_has_another_stamp() -> None:
    assert stamp_of("leadline.wire.murmur") != stamp_of("leadline.wire.labels")
