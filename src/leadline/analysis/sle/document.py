"""A YAML document read with its lines: every complaint says file, line, what was expected, what came and what to do.

part = root(text, "site.yaml")          the document
part.mapping("bound", KEYS).number("above", low=0)
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import yaml

from leadline.model.errors import ConfigError
from leadline.model.tables.accounts import LEDGER

TEXT_BYTES_MAX = 1 << 20  # a hundred expectations are 50 kB; whatever is larger is another file


@dataclass(frozen=True, slots=True)
class Part:
    """One node of a document."""

    node: yaml.Node
    file: str

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.file}, line {self.node.start_mark.line + 1}"

    @property
    def kind(self) -> str:
        """What it is, for a complaint."""
        if isinstance(self.node, yaml.ScalarNode):
            return repr(self.node.value) if self.node.value else "nothing"
        return "a list" if isinstance(self.node, yaml.SequenceNode) else "a mapping"

    @property
    def is_mapping(self) -> bool:
        """Whether it is `name: value` pairs."""
        return isinstance(self.node, yaml.MappingNode)

    def wrong(self, expected: str, got: str = "") -> ConfigError:
        """The complaint about it."""
        return ConfigError(f"{self.place}: expected {expected}, got {got or self.kind}")

    def items(self, what: str) -> list[Part]:
        """Its parts, if it is a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.wrong(f"a list of {what}")
        return [Part(each, self.file) for each in self.node.value]

    def mapping(self, what: str, known: Iterable[str] = ()) -> Fields:
        """Its fields, if it is a mapping. `known`: the names there may be; without any, all may."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.wrong(f"{what} as `name: value`")
        found: dict[str, Part] = {}
        names = list(known)
        for key, value in self.node.value:
            place = Part(key, self.file)
            if not isinstance(key, yaml.ScalarNode):
                raise place.wrong("a name")
            if key.value in found:
                raise ConfigError(f"{place.place}: {key.value} is given twice in {what}; remove one")
            if names and key.value not in names:
                raise ConfigError(f"{place.place}: {what} has no {key.value!r}; {near(key.value, names)}")
            found[key.value] = Part(value, self.file)
        return Fields(self, what, found)

    def text(self, what: str) -> str:
        """A text of one or more characters."""
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value.strip():
            raise self.wrong(what)
        return str(self.node.value).strip()

    def texts(self, what: str) -> tuple[str, ...]:
        """A list of texts, or one text."""
        if isinstance(self.node, yaml.SequenceNode):
            found = tuple(each.text(what) for each in self.items(what))
            if not found:
                raise self.wrong(f"at least one {what}", "an empty list")
            return found
        return (self.text(what),)

    def number(self, what: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number within [low, high]."""
        expected = f"{what}: a number{_within(low, high)}"
        if not isinstance(self.node, yaml.ScalarNode) or self.node.style is not None:
            raise self.wrong(expected)
        try:
            value = float(int(self.node.value, 16)) if self.node.value.startswith("0x") else float(self.node.value)
        except (ValueError, OverflowError):
            raise self.wrong(expected) from None
        if not math.isfinite(value) or not low <= value <= high:
            raise self.wrong(expected)
        return value


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a mapping; `what` it is."""

    part: Part
    what: str
    by_name: dict[str, Part]

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def needed(self, name: str) -> Part:
        """A field that must be there."""
        if name not in self.by_name:
            raise ConfigError(f"{self.part.place}: {self.what} needs {name!r}; add a line `{name}: ...`")
        return self.by_name[name]

    def text(self, name: str, default: str = "") -> str:
        """A text, or the default."""
        return self.by_name[name].text(name) if name in self.by_name else default

    def texts(self, name: str) -> tuple[str, ...]:
        """Texts, none if they are not given."""
        return self.by_name[name].texts(name) if name in self.by_name else ()

    def number(self, name: str, default: float, low: float = -math.inf, high: float = math.inf) -> float:
        """A number, or the default."""
        return self.by_name[name].number(name, low, high) if name in self.by_name else default

    def choice(self, name: str, choices: Sequence[str], default: str = "") -> str:
        """One of several words; needed if there is no default."""
        if name not in self.by_name and default:
            return default
        part = self.needed(name)
        found = part.text(f"one of {', '.join(choices)}")
        if found not in choices:
            raise ConfigError(f"{part.place}: {name} cannot be {found!r}; {near(found, choices)}")
        return found

    def one_of(self, names: Sequence[str]) -> str:
        """The one of several fields that is given."""
        given = [name for name in names if name in self.by_name]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise ConfigError(f"{self.part.place}: {self.what} needs exactly one of {', '.join(names)}, got {got}")
        return given[0]


def root(text: str, where: str) -> Part | None:
    """The document; None if it is empty. Errors: ConfigError. Aliases are refused: a few can mean gigabytes."""
    if len(text.encode(errors="replace")) > TEXT_BYTES_MAX:
        raise ConfigError(f"{where}: expected at most {TEXT_BYTES_MAX} bytes, got more; is this the right file?")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise ConfigError(f"{where}, line {line}: YAML aliases (*name) are not taken; write the value out")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{where}, line {line}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{where}: not YAML: {error}") from error
    return None if node is None else Part(node, where)


def near(name: str, names: Iterable[str]) -> str:
    """What somebody who wrote `name` may have meant."""
    known = sorted(names)
    if (now := dict(LEDGER.former.words["category"]).get(name)) in known:
        return f"it is called {now} now"
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {found[0]}?" if found else f"there are: {', '.join(known)}"


def _within(low: float, high: float) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f" from {low:g} to {high:g}"
    return f" of at least {low:g}" if math.isfinite(low) else ""
