"""How much priors, blame and signs tell: a table that a person can read and `evals.learned` can fit (`weights.csv`).

A line of the table has a name, the value by hand, what is in use now, how many cases taught it (0: it is by hand), and
a note. Lines that begin with `# fitted` name the simulated cases it was fitted on: nothing is scored on those
(`python -m evals.learned`, docs/analyses/learned-weights.md).
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType

from leadline.model.errors import DataError

# Of the table: another one has other names, or means something else by them. Source: definition.
VERSION = 1
FILE = "weights.csv"
# Each name with what was in use before any fit. Source: judgement and recordings, as docs/analyses/cause.md tells of
# each of them.
BY_HAND: Mapping[str, float] = MappingProxyType({
    "common": -1.0, "rare": -2.0, "proof": 6.0, "telling": 4.5, "fitting": 2.5, "weak": 1.0, "alone": 1.0,
    "blame": 1.0, "breadth": 1.5, "unknown": 4.5,
})  # fmt: skip
COLUMNS = ("name", "by_hand", "value", "cases", "note")
_FITTED = re.compile(r"# fitted (?P<source>\S+) (?P<split>\S+) (?P<first>\d+) (?P<count>\d+)")


@dataclass(frozen=True, slots=True)
class Fitted:
    """Cases that a table was fitted on: `count` of a split from number `first` on."""

    source: str
    split: str
    first: int
    count: int

    def has(self, split: str, numbers: range) -> bool:
        """Whether any of these cases is among them."""
        return split == self.split and max(self.first, numbers.start) < min(self.first + self.count, numbers.stop)


@dataclass(frozen=True, slots=True)
class Weights:
    """Log-odds, nats; `alone` and `blame` are factors of what rules and blame tell."""

    common: float
    rare: float
    proof: float
    telling: float
    fitting: float
    weak: float
    alone: float
    blame: float
    breadth: float
    unknown: float
    fitted: tuple[Fitted, ...] = ()


def read(text: str, where: str) -> Weights:
    """The table of a file. Errors: DataError, naming what was expected and what came."""
    lines = text.splitlines()
    first = lines[0] if lines else ""
    if first != f"# version {VERSION}":
        raise DataError(where, f"'# version {VERSION}' in the first line, from this version of Leadline", repr(first))
    rows = list(csv.DictReader(line for line in lines if line and not line.startswith("#")))
    values = {row.get("name"): row.get("value") for row in rows}
    if set(values) != set(BY_HAND) or len(rows) != len(BY_HAND):
        names = ", ".join(str(row.get("name")) for row in rows)
        raise DataError(where, f"one line each of {', '.join(BY_HAND)}", names or "none")
    numbers = {name: _number(values[name], f"{where}, {name}") for name in BY_HAND}
    return Weights(**numbers, fitted=tuple(_fitted(line, where) for line in lines if line.startswith("# fitted")))


def _number(value: str | None, where: str) -> float:
    try:
        number = float(value or "")
    except ValueError:
        number = math.nan
    if not abs(number) <= 20:
        raise DataError(where, "a value from -20 to 20", repr(value))
    return number


def _fitted(line: str, where: str) -> Fitted:
    each = _FITTED.fullmatch(line)
    if each is None:  # passed over, it would let cases score what was fitted on them
        raise DataError(where, "'# fitted SOURCE SPLIT FIRST COUNT'", repr(line))
    return Fitted(each["source"], each["split"], int(each["first"]), int(each["count"]))


WEIGHTS = read((resources.files(__package__) / FILE).read_text(), FILE)
