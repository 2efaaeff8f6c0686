"""The graph of imports between files of the source: its circles, and what no program reaches."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "leadline"
# What users, jobs, `make`, and an interpreter start by themselves.
PROGRAMS = (
    "leadline.cli.main", "leadline.torch", "leadline.server.background.kernels",
    "leadline.cli.start", "leadline.cli.manual.__main__",  # the command; its manual, for packages
    "leadline.torch.inject.sitecustomize",  # by every interpreter of a job of `leadline run`, found by its folder
    "leadline.cli.demo.otel_example",  # docs/how-to/connect-opentelemetry.md: by hand
    "leadline.lab.clock_start.sitecustomize",  # by every interpreter of a host in the lab, found by its folder
)  # fmt: skip
BESIDE = "leadline.testing"  # doubles for tests of users: shipped, and no program's

Edges = dict[str, set[str]]  # module -> modules that it imports


def imports_of_modules(source: Path = SOURCE) -> Edges:
    """Which module imports which, inside functions and for types alone as well. Names are without `.__init__`."""
    return _edges(source, _imports)


def circle(edges: Edges) -> list[str]:
    """Modules that import each other in a circle, the first that is found; empty if there is none."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def unreached(source: Path = SOURCE, programs: tuple[str, ...] = PROGRAMS) -> list[str]:
    """Modules that no program comes to, by imports or by their names in a text (`-m leadline.x`, the list of verbs)."""
    edges = _edges(source, lambda tree, names: _imports(tree, names) | _named(tree, names))
    seen: set[str] = set()
    wanted = list(programs)
    while wanted:
        name = wanted.pop()
        if name not in seen and name in edges:
            seen.add(name)
            wanted += [*edges[name], name.rpartition(".")[0]]
    return sorted(
        name for name in edges if name not in seen and not name.startswith(BESIDE) and not _empty(source, name)
    )


def _empty(source: Path, name: str) -> bool:
    """Whether a module is a package that nothing was put into yet."""
    package = source.joinpath(*name.split(".")[1:], "__init__.py")
    return package.exists() and not any(path.read_text().strip() for path in package.parent.rglob("*.py"))


def _edges(source: Path, read: Callable[[ast.AST, set[str]], set[str]]) -> Edges:
    paths = {_name(path, source): path for path in sorted(source.rglob("*.py"))}
    names = set(paths)
    return {name: read(ast.parse(path.read_text(), str(path)), names) - {name} for name, path in paths.items()}


def _name(path: Path, source: Path) -> str:
    parts = (source.name, *path.relative_to(source).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def _imports(tree: ast.AST, names: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & names
            found |= inner or {node.module}
    return found & names


def _named(tree: ast.AST, names: set[str]) -> set[str]:
    """Modules named in texts that are no docstrings."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    )
    return {name for text in texts for name in re.findall(r"\bleadline(?:\.\w+)+", text)} & names
