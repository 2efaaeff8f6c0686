"""Numbers that decide verdicts, and whether each says beside it in what unit it is, why it is that, and whence.

A constant is a name in capitals that a module binds to something with a number in it, a field of a dataclass or an
argument of a function with such a default, or a number inside a table of rules. 0, 1 and -1 as defaults are where
counts begin, and `A, B, C = 0, 1, 2` are names of cases: neither decides anything.

    # Seconds without progress after which a job with a dead rank has stalled: its healthy steps take less, and a false
    # alarm costs more than the delay. Source: judgement.
    SURE_NS = 5 * S

What counts as said beside it: the comment block above, comments on its own lines, and the string right below. A block
may head several constants in a row (until an empty line or the next block); each of them then has words of its own.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ANALYSIS = ROOT / "src" / "leadline" / "analysis"
PACKAGES = tuple(ANALYSIS / name for name in ("symptoms", "cause", "ledger"))
SOURCES = {
    "definition": "it follows from what the thing is, or from other numbers, by arithmetic",
    "textbook": "a formula or value with its author and year",
    "paper": "a published value for the same purpose",
    "manual": "how another system behaves, from its own documentation",
    "measured": "a measurement, and where it is written down",
    "recordings": "chosen or changed while looking at recordings, of the lab or of evals, which also score it",
    "judgement": "its author's: no measurement is on record, and no recording is known to have changed it",
    "bound": "a limit on memory, time or length of text; ordinary data stays below it",
}
UNITS = re.compile(
    r"\b(ns|ms|us|seconds?|minutes?|hours?|days?|months?|weeks?|years?|shares?|ratio|times|count|number|numbers|nats|"
    r"log-odds|odds|"
    r"probabilit(y|ies)|bytes|percent|digits|characters|sigmas?|deviations?|variances?|quantile|bits?|fraction|blocks?|"
    r"steps?|calls?|rows?|ranks?|collectives?|owners?|pieces?|windows?|links?|causes?|components?|symptoms?|kinds?|"
    r"units?|edges?|workers?|iterations?|values?|entries|cells?|threads?|hops?|lanes?|arrivals?|repetitions?|scatters?|"
    r"incidents?|readings?|marks|multiples?|factor|periods?|parts?|pauses?|overlaps?|restarts?|candidates|names?|"
    r"places|ticks?|spreads?|spans?|blames?)\b|%",
    re.IGNORECASE,
)
REASON = re.compile(
    r"\b(because|since|so|so that|lest|otherwise|while|as|to|of which|which|where|than|below|beyond|for)\b|[:;]"
)
SOURCE = re.compile(r"\bSource: (" + "|".join(re.escape(each) for each in SOURCES) + r")\b", re.IGNORECASE)
WORDS_MIN = 8  # words that unit and reason take at the very least, together
OWN_WORDS_MIN = 2  # words of a constant's own under a block that heads several
CAPITALS = re.compile(r"_?[A-Z][A-Z0-9_]*$")
NEUTRAL = (0, 1, -1)


@dataclass(frozen=True, slots=True)
class Constant:
    """One number, or several that are bound together, with what is said beside them."""

    path: Path
    line: int
    name: str  # `A, B` if several are bound at once; `function(argument)` and `Class.field` of defaults
    words: str
    own: str  # the same without a block that heads others too

    @property
    def where(self) -> str:
        """`symptoms/stalls.py:42 SURE_NS`."""
        return f"{self.path.parent.relative_to(self.path.parents[2])}/{self.path.name}:{self.line} {self.name}"

    @property
    def source(self) -> str | None:
        """Which of `SOURCES` it has; None: it tells none."""
        found = SOURCE.search(self._counts)
        return found[1].lower() if found else None

    @property
    def _counts(self) -> str:
        """Its own words where they have a source; else those of the block that heads it, too."""
        return self.own if SOURCE.search(self.own) else self.words

    @property
    def lacks(self) -> tuple[str, ...]:
        """What is not said, of unit, reason and source, in words."""
        said = SOURCE.sub("", self._counts).replace("(", " ").replace(")", " ")
        found = [] if self.source else [f"a source (`Source: ` and one of {', '.join(SOURCES)})"]
        if not UNITS.search(said) and not self.name.endswith("_NS"):
            found.append("a unit")
        if len(said.split()) < WORDS_MIN or not REASON.search(said):
            found.append("a reason")
        if len(self.own.split()) < OWN_WORDS_MIN:
            found.append("words of its own")
        return tuple(found)


def constants(folders: Iterable[Path] = PACKAGES) -> list[Constant]:
    """All of them, in the order of files and lines."""
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return [each for path in paths for each in constants_of(path, path.read_text())]


def without_reason(folders: Iterable[Path] = PACKAGES) -> list[str]:
    """Where a constant lacks something, and what: `symptoms/stalls.py:42 SURE_NS lacks a unit, a reason`."""
    return [f"{each.where} lacks {', '.join(each.lacks)}" for each in constants(folders) if each.lacks]


def constants_of(path: Path, text: str) -> list[Constant]:
    """Those of one module."""
    tree, said = ast.parse(text), _Said(text)
    found = [_bound(path, node, said, tree.body, place) for place, node in enumerate(tree.body)]
    found += [_default(path, owner, name, value, said) for owner, name, value in _defaults(tree)]
    found += [_in_table(path, value, said) for value in _in_tables(tree)]
    return sorted((each for each in found if each is not None), key=lambda each: (each.line, each.name))


class _Said:
    """The comments of a module by line, and which lines hold nothing else."""

    def __init__(self, text: str) -> None:
        lines = text.splitlines()
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        self._of = {
            token.start[0]: token.string.lstrip("#").strip()
            for token in tokens
            if token.type == tokenize.COMMENT and not token.string.startswith(("# fmt", "# noqa", "# type"))
        }
        self._alone = {line for line in self._of if lines[line - 1].lstrip().startswith("#")}

    def beside(self, first: int, last: int) -> str:
        """Comments on lines of code."""
        return " ".join(self._of[line] for line in range(first, last + 1) if line in self._of)

    def above(self, line: int) -> str:
        """The block of comments that ends right above a line."""
        first = line
        while first - 1 in self._alone:
            first -= 1
        return self.beside(first, line - 1)


def _bound(path: Path, node: ast.stmt, said: _Said, body: list[ast.stmt], place: int) -> Constant | None:
    """A name in capitals that is bound to numbers."""
    names = _names(node)
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if value is None or not names or _is_table(value) or not list(_numbers(value)) or _cases(names, value):
        return None
    last = node.end_lineno or node.lineno
    below = body[place + 1] if place + 1 < len(body) else None
    own = f"{said.above(node.lineno)} {said.beside(node.lineno, last)} {_string(below)}"
    return Constant(path, node.lineno, ", ".join(names), f"{_head(said, body, place)} {own}", own)


def _head(said: _Said, body: list[ast.stmt], place: int) -> str:
    """The block of comments over the run of statements that this one stands in, if it is not its own."""
    while place and not said.above(body[place].lineno):
        before = body[place - 1]
        if (before.end_lineno or before.lineno) + 1 != body[place].lineno:
            return ""
        place -= 1
    return said.above(body[place].lineno)


def _names(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    return names if all(CAPITALS.match(name) for name in names) else []


def _string(node: ast.stmt | None) -> str:
    value = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else ""
    return " ".join(value.split()) if isinstance(value, str) else ""


def _numbers(value: ast.AST) -> Iterator[ast.Constant]:
    for each in ast.walk(value):
        if isinstance(each, ast.Constant) and isinstance(each.value, int | float) and not isinstance(each.value, bool):
            yield each


def _cases(names: list[str], value: ast.expr) -> bool:
    """Whether `A, B, C = 0, 1, 2`: names of cases."""
    each = value.elts if isinstance(value, ast.Tuple) else []
    return len(names) > 1 and [getattr(one, "value", None) for one in each] == list(range(len(names)))


def _is_table(value: ast.expr) -> bool:
    """Whether it is a tuple of calls, as tables of rules are; or made of types, where numbers are widths."""
    if isinstance(value, ast.Tuple):
        return bool(value.elts) and all(isinstance(each, ast.Call) for each in value.elts) and _is_rules(value)
    return isinstance(value, ast.Call) and ast.unparse(value.func).startswith(("pa.", "re.", "np.dtype"))


def _is_rules(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) and ast.unparse(each.func) in ("Rule", "Sign") for each in ast.walk(value))


def _in_tables(tree: ast.Module) -> Iterator[ast.Constant]:
    """Numbers inside tables of rules."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_rules(node.value):
            yield from _numbers(node.value)


def _in_table(path: Path, value: ast.Constant, said: _Said) -> Constant:
    words = f"{said.above(value.lineno)} {said.beside(value.lineno, value.lineno)}"
    return Constant(path, value.lineno, f"{value.value!r} of a rule", words, words)


def _defaults(tree: ast.Module) -> Iterator[tuple[ast.AST, str, ast.expr]]:
    """Defaults with numbers other than neutral ones: what they stand in, their name, the value."""
    for node in ast.walk(tree):
        found: list[tuple[str, ast.expr | None]] = []
        if isinstance(node, ast.FunctionDef):
            given, named = node.args, node.args.kwonlyargs
            last = [*given.posonlyargs, *given.args][-len(given.defaults) :] if given.defaults else []
            pairs = [*zip(last, given.defaults, strict=True), *zip(named, given.kw_defaults, strict=True)]
            found = [(f"{node.name}({each.arg})", value) for each, value in pairs]
        elif isinstance(node, ast.ClassDef):
            fields = (each for each in node.body if isinstance(each, ast.AnnAssign))
            found = [(f"{node.name}.{ast.unparse(each.target)}", each.value) for each in fields]
        for name, value in found:
            if value is not None and any(abs(_float(each)) not in NEUTRAL for each in _numbers(value)):
                yield node, name, value


def _float(value: ast.Constant) -> float:
    return float(value.value) if isinstance(value.value, int | float) else 0.0


def _default(path: Path, owner: ast.AST, name: str, value: ast.expr, said: _Said) -> Constant:
    """The comment beside it, and the docstring of what it stands in."""
    docstring = ast.get_docstring(owner) if isinstance(owner, ast.FunctionDef | ast.ClassDef) else ""
    words = f"{said.beside(value.lineno, value.lineno)} {' '.join((docstring or '').split())}"
    return Constant(path, value.lineno, name, words, words)
