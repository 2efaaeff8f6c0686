"""One constant moved: its module is compiled anew with the number scaled, before anything else imports it.

What is derived from it (other constants, defaults, declarations of look-backs) follows, because it is computed from the
scaled number. Kernels freeze the globals that they were compiled with, so those of the module itself and of all modules
that import it, directly or not, are compiled without numba's cache: it is neither read nor written.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from bench.house_parts.constants import ROOT, Constant, constants
from bench.house_parts.imports import Edges, imports_of_modules

SOURCE = ROOT / "src"
_RULE = " of a rule"


class CannotMoveError(Exception):
    """Why a constant cannot be moved so far."""


@dataclass(frozen=True, slots=True)
class Movable:
    """One number, or the numbers that one name is bound to."""

    module: str  # `leadline.analysis.symptoms.stalls`
    name: str  # `SURE_NS`, or `1.5 of a rule`
    constant: Constant

    @property
    def key(self) -> str:
        """`symptoms.stalls.SURE_NS`."""
        return f"{self.module.removeprefix('leadline.analysis.')}.{self.name}"


def movables(only: Sequence[str] = (), bounds: bool = False) -> list[Movable]:
    """All constants that have a reason to be moved, one for each name.

    only: parts of keys; none: all. bounds: those too that only bound memory, time or text.
    """
    found = []
    for each in constants():
        if each.source == "bound" and not bounds:
            continue
        module = ".".join(each.path.relative_to(SOURCE).with_suffix("").parts)
        found += [Movable(module, name, each) for name in each.name.split(", ")]
    return [each for each in found if not only or any(part in each.key for part in only)]


def moved(value: Any, factor: float) -> Any:
    """A number, or all numbers of a tuple or a dictionary, times `factor`.

    Whole numbers stay whole, and at least 1. A share or probability of 0.5 and more cannot be doubled: it goes half of
    the way to 1. Errors: CannotMoveError if nothing changes by it, or there is no number.
    """
    scaled = _scaled(value, factor)
    if scaled == value and factor != 1:
        raise CannotMoveError(f"{value!r} times {factor:g} is no other number")
    return scaled


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return max(1, int(value * factor)) if value > 0 else int(value * factor)
    if isinstance(value, float):
        return (1 + value) / 2 if 0.5 <= value < 1 and factor > 1 else value * factor
    if isinstance(value, tuple):
        return tuple(_scaled(each, factor) for each in value)
    if isinstance(value, dict):
        return {key: _scaled(each, factor) for key, each in value.items()}
    if getattr(value, "__dataclass_fields__", None):
        return replace(value, **{name: _scaled(getattr(value, name), factor) for name in value.__dataclass_fields__})
    return value


def move(module: str, name: str, factor: float, importers: Collection[str]) -> None:
    """Have this process import a module with a number scaled. importers: as `importers_of` says.

    Nothing may have imported it before.
    """
    assert module not in sys.modules, f"{module} was imported before its number was moved"
    sys.meta_path.insert(0, _Finder(module, name, factor, frozenset(importers)))


@functools.cache
def importers_of(module: str) -> tuple[str, ...]:
    """The module, and all that import it, directly or not, in order of their names."""
    found = {module}
    while more := {name for name, asked in _edges().items() if asked & found} - found:
        found |= more
    return tuple(sorted(found))


@functools.cache
def _edges() -> Edges:
    return imports_of_modules()


class _Finder(MetaPathFinder):
    """Finds the module of the constant, and those whose kernels may have frozen it."""

    def __init__(self, module: str, name: str, factor: float, importers: frozenset[str]) -> None:
        self._module, self._name, self._factor, self._importers = module, name, factor, importers

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._importers:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        mine = self._name if fullname == self._module else None
        spec.loader = _Loader(fullname, spec.loader.path, mine, self._factor)
        return spec


class _Loader(SourceFileLoader):
    """Compiles a module with its number scaled, its kernels without a cache."""

    def __init__(self, fullname: str, path: str, name: str | None, factor: float) -> None:
        super().__init__(fullname, path)
        self._name, self._factor = name, factor

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path), self.path)
        if self._name is not None:
            tree = with_moved(tree, self._name, self._factor)
        tree = ast.fix_missing_locations(_Uncached().visit(tree))
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Uncached(ast.NodeTransformer):
    """`@compiled(...)` as `@compiled(..., cache=False)`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "compiled":
            node.keywords.append(ast.keyword("cache", ast.Constant(False)))
        return self.generic_visit(node)


def with_moved(tree: ast.Module, name: str, factor: float) -> ast.Module:
    """The module with one constant scaled, or one number of its tables of rules (`1.5 of a rule`)."""
    if name.endswith(_RULE):
        return _rules_moved(tree, float(name.removesuffix(_RULE)), factor)
    for place, node in enumerate(tree.body):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if _is_typed(node) else []  # type: ignore[attr-defined]
        if any(isinstance(each, ast.Name) and each.id == name for target in targets for each in ast.walk(target)):
            call = f"from {__name__} import moved as _moved\n{name} = _moved({name}, {factor!r})"
            tree.body[place + 1 : place + 1] = ast.parse(call).body
            return tree
    raise CannotMoveError(f"no {name} in the module")


def _is_typed(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is not None


def _rules_moved(tree: ast.Module, number: float, factor: float) -> ast.Module:
    class Scaled(ast.NodeTransformer):
        def visit_keyword(self, node: ast.keyword) -> ast.keyword:
            if node.arg == "strength" and isinstance(node.value, ast.Constant) and node.value.value == number:
                node.value = ast.Constant(moved(number, factor))
            return node

    found: ast.Module = Scaled().visit(tree)
    return found


def number_at(path: Path, name: str) -> str:
    """What a constant is bound to, as it is written."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and node.value is not None:
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    return ast.unparse(node.value)
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for one, value in zip(target.elts, node.value.elts, strict=True):
                        if isinstance(one, ast.Name) and one.id == name:
                            return ast.unparse(value)
    return name.removesuffix(_RULE)
