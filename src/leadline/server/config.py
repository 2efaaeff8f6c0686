"""The effective configuration: defaults, then `leadline.yaml`, then the environment, then flags.

One section per package; a section is a frozen dataclass that lives in its package, and each field says in its
metadata what it means (`doc`, `unit`), what it may be (`min`, `max`, `above`, `choices`) and whether it is `secret`.
Reference page, checks and error texts derive from that. Every value remembers where it came from.

    leadline.yaml             environment                        flag
    ingest:
      body_bytes_max: 1024    LEADLINE_INGEST__BODY_BYTES_MAX    as the verb names it
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from leadline.alerts.config import AlertsConfig
from leadline.explain.config import ExplainConfig
from leadline.host.config import AgentConfig
from leadline.ingest.config import IngestConfig
from leadline.model.errors import ConfigError
from leadline.runner.config import RunnerConfig
from leadline.server.settings import ServerConfig, SleConfig
from leadline.store.config import StoreConfig
from leadline.views.ledger.config import LedgerConfig

# Every section of the file, in the order in which it is shown. A new package adds a line.
SECTIONS: tuple[tuple[str, type], ...] = (
    ("server", ServerConfig),
    ("ingest", IngestConfig),
    ("store", StoreConfig),
    ("agent", AgentConfig),
    ("runner", RunnerConfig),
    ("sle", SleConfig),
    ("ledger", LedgerConfig),
    ("alerts", AlertsConfig),
    ("explain", ExplainConfig),
)

DEFAULT_FILE = Path("leadline.yaml")  # read when it is there and no other was named
ENVIRONMENT_PREFIX = "LEADLINE_"
FILE_BYTES_MAX = 1 << 20  # a configuration is some kB; whatever is larger is another file

Key = tuple[str, str]  # section, key
T = TypeVar("T")


class Origin(NamedTuple):
    """Where a value came from. `text` is shown; `undo` completes "..., to use the default"."""

    text: str
    undo: str

    def __str__(self) -> str:
        return self.text


DEFAULT = Origin("default", "")


class Flag(NamedTuple):
    """A command-line flag that sets one key; a value of None was not given."""

    name: str
    section: str
    key: str
    value: object


class Given(NamedTuple):
    """A value as it was given, before it is checked. `text`: it comes as text, whatever the type."""

    value: object
    origin: Origin
    text: bool


class Setting(NamedTuple):
    """One effective setting, as `leadline config show` prints it."""

    section: str
    key: str
    value: object
    origin: str
    unit: str | None
    doc: str


@dataclass(frozen=True, slots=True)
class Config:
    """The effective configuration and the origin of each value."""

    sections: Mapping[str, Any]
    origins: Mapping[Key, Origin]

    @property
    def server(self) -> ServerConfig:
        return self.section("server", ServerConfig)

    @property
    def ingest(self) -> IngestConfig:
        return self.section("ingest", IngestConfig)

    @property
    def store(self) -> StoreConfig:
        return self.section("store", StoreConfig)

    @property
    def runner(self) -> RunnerConfig:
        return self.section("runner", RunnerConfig)

    @property
    def sle(self) -> SleConfig:
        return self.section("sle", SleConfig)

    @property
    def ledger(self) -> LedgerConfig:
        return self.section("ledger", LedgerConfig)

    @property
    def alerts(self) -> AlertsConfig:
        return self.section("alerts", AlertsConfig)

    @property
    def explain(self) -> ExplainConfig:
        return self.section("explain", ExplainConfig)

    def section(self, name: str, kind: type[T]) -> T:
        """The section of that name. Errors: KeyError for a name that is not declared."""
        found = self.sections[name]
        assert isinstance(found, kind)
        return found

    def settings(self) -> list[Setting]:
        """Every setting with its origin, in order of declaration. Secrets are masked."""
        return [
            Setting(
                name,
                field.name,
                shown(field, getattr(section, field.name)),
                str(self.origins[name, field.name]),
                field.metadata.get("unit"),
                field.metadata.get("doc", ""),
            )
            for name, section in self.sections.items()
            for field in dataclasses.fields(section)
        ]


def load(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Sequence[Flag] = (),
    sections: tuple[tuple[str, type], ...] = SECTIONS,
) -> Config:
    """The effective configuration.

    Inputs: `path`, or None for `leadline.yaml` in the working directory if there is one; `environ`, of which only
    names with `LEADLINE_` and `__` are read.
    Errors: ConfigError, naming what was expected, what came from where, and what to do.
    """
    kinds = dict(sections)
    given: dict[Key, Given] = {}
    given.update(_from_file(path, kinds))
    given.update(_from_environment(environ or {}, kinds))
    given = _over(given, _from_flags(flags, kinds))
    values = {name: _section(name, kind, given) for name, kind in sections}
    origins = {
        (name, field.name): given[name, field.name].origin if (name, field.name) in given else DEFAULT
        for name, kind in sections
        for field in dataclasses.fields(kind)
    }
    return Config(values, origins)


# --- where values come from -------------------------------------------------------------------------------------


def _from_file(path: Path | None, kinds: Mapping[str, type]) -> dict[Key, Given]:
    if path is None:
        if not DEFAULT_FILE.exists():
            return {}
        path = DEFAULT_FILE
    root = _compose(path)
    given: dict[Key, Given] = {}
    for section_node, body in _pairs(root, path, "sections"):
        section = section_node.value
        _require(section, kinds, "section", _at(path, section_node))
        if isinstance(body, yaml.ScalarNode) and body.tag == "tag:yaml.org,2002:null":
            continue  # `ingest:` with everything below it commented out
        names = {field.name for field in dataclasses.fields(kinds[section])}
        for key_node, value in _pairs(body, path, f"settings of {section}"):
            where = _at(path, key_node)
            _require(key_node.value, names, f"setting of {section}", where)
            origin = Origin(where, "remove the line")
            given[section, key_node.value] = Given(_plain(value, path), origin, text=False)
    return given


def _compose(path: Path) -> yaml.Node | None:
    """The file as YAML nodes, which know their lines. Aliases are refused: a few of them can mean gigabytes."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; name another file with --config") from error
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: expected a configuration of at most {FILE_BYTES_MAX} bytes, got more")
    try:
        text = raw.decode()
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise ConfigError(f"{path}, line {line}: YAML aliases (*name) are not taken; write the value out")
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8, got byte {raw[error.start]:#04x} at {error.start}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}, line {line}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error


def _pairs(node: yaml.Node | None, path: Path, what: str) -> Iterable[tuple[yaml.ScalarNode, yaml.Node]]:
    """Key and value nodes of a mapping, each key once. Errors: ConfigError with the line."""
    if node is None:
        return
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{_at(path, node)}: expected {what} as `name: value`, got {_kind(node)}")
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{_at(path, key)}: expected a name, got {_kind(key)}")
        if key.value in seen:
            raise ConfigError(
                f"{_at(path, key)}: {key.value} is given twice, first in line {seen[key.value]}; remove one"
            )
        seen[key.value] = line
        yield key, value


def _plain(node: yaml.Node, path: Path) -> object:
    """A node as Python's plain values; keys are text, and given once."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: _plain(value, path) for key, value in _pairs(node, path, "a mapping")}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, path) for item in node.value]
    assert isinstance(node, yaml.ScalarNode)
    return _scalar(node.value) if node.style is None else node.value  # in quotes it is text


def _scalar(text: str) -> object:
    """A plain YAML scalar; dates stay text, because no setting is a date."""
    try:
        value = yaml.safe_load(text) if text else None
    except (yaml.YAMLError, ValueError):  # 2026-02-31 looks like a date and is none
        return text
    return value if isinstance(value, str | int | float | bool | None) else text


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "a mapping" if isinstance(node, yaml.MappingNode) else repr(node.value)


def _at(path: Path, node: yaml.Node) -> str:
    return f"{path}, line {node.start_mark.line + 1}"


def _from_environment(environ: Mapping[str, str], kinds: Mapping[str, type]) -> dict[Key, Given]:
    given: dict[Key, Given] = {}
    for name, value in environ.items():
        section, separator, key = name.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if not name.startswith(ENVIRONMENT_PREFIX) or not separator:
            continue  # such as LEADLINE_CLICKHOUSE_URL, which the tests read
        where = f"environment {name}"
        _require(section, kinds, "section", where)
        _require(key, {f.name for f in dataclasses.fields(kinds[section])}, f"setting of {section}", where)
        given[section, key] = Given(value, Origin(where, f"unset {name}"), text=True)
    return given


def _from_flags(flags: Sequence[Flag], kinds: Mapping[str, type]) -> dict[Key, Given]:
    given: dict[Key, Given] = {}
    for flag in flags:
        assert flag.section in kinds, f"{flag.name} names the section {flag.section}, which is not declared"
        assert flag.key in {f.name for f in dataclasses.fields(kinds[flag.section])}, f"{flag.name}: no {flag.key}"
        if flag.value is not None:
            origin = Origin(f"flag {flag.name}", f"leave out {flag.name}")
            given[flag.section, flag.key] = Given(flag.value, origin, text=isinstance(flag.value, str))
    return given


def _over(before: Mapping[Key, Given], flags: Mapping[Key, Given]) -> dict[Key, Given]:
    """Flags win; one that sets a part of a setting (`--sflow-port`) leaves the rest of it as it was given.

    Errors: ConfigError where the whole is a text in the environment.
    """
    merged = {**before, **flags}
    for key, flag in flags.items():
        given = before.get(key)
        if given is None or not isinstance(flag.value, Mapping):
            continue
        if not isinstance(given.value, Mapping):
            raise ConfigError(f"{flag.origin} and {given.origin} both set {'.'.join(key)}; put all of it into one")
        merged[key] = flag._replace(value={**given.value, **flag.value})
    return merged


def _require(name: str, known: Iterable[str], what: str, where: str) -> None:
    names = sorted(known)
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
    raise ConfigError(f"there is no {what} called {name!r} ({where}); {hint}")


# --- what values may be -----------------------------------------------------------------------------------------


def _section(name: str, kind: type, given: Mapping[Key, Given]) -> Any:
    hints = typing.get_type_hints(kind)
    values = {
        field.name: _checked(name, field, hints[field.name], given[name, field.name])
        for field in dataclasses.fields(kind)
        if (name, field.name) in given
    }
    return kind(**values)


def _checked(section: str, field: Field[Any], hint: Any, given: Given) -> object:
    """The value in the field's type and within its bounds. Errors: ConfigError."""
    problem: str | None
    try:
        value = _converted(hint, given)
        problem = _out_of_bounds(field, value)
    except ValidationError as error:
        problem = _expected(hint, error)
    except (ValueError, yaml.YAMLError) as error:
        problem = f"must be {type_name(hint)} ({error})"
    if problem is None:
        return value
    got = "***" if field.metadata.get("secret") else _without_password(repr(given.value))
    doc = field.metadata.get("doc", "").rstrip(".")
    default = default_of(field)
    instead = f"; {given.origin.undo} to use {shown(field, default)!r}" if default is not MISSING else ""
    raise ConfigError(f"{section}.{field.name} {problem}, got {got} ({given.origin}); {doc}{instead}")


def _converted(hint: Any, given: Given) -> object:
    """YAML and flags are taken at their type; text from outside is read as that type.

    The strict checks run on JSON, where a list may become a tuple but "5" never becomes 5.
    """
    adapter: TypeAdapter[object] = TypeAdapter(hint)
    if given.text and _is_scalar(hint):
        return adapter.validate_strings(given.value)
    value = yaml.safe_load(str(given.value)) if given.text else given.value
    if isinstance(value, Path):
        value = str(value)
    _require_inside(hint, value, str(given.origin))
    return adapter.validate_json(json.dumps(value, default=str), strict=True)


def _require_inside(hint: Any, value: object, where: str) -> None:
    """Refuse unknown names inside nested groups, which pydantic would pass over in silence."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, dict):
        hints = typing.get_type_hints(hint)
        for name, inner in value.items():
            _require(str(name), hints, "setting", where)
            _require_inside(hints[str(name)], inner, where)
    if typing.get_origin(hint) in (list, tuple) and isinstance(value, list):
        for item in value:
            _require_inside(typing.get_args(hint)[0], item, where)


def _is_scalar(hint: Any) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(_is_scalar(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is Literal:
        return True
    return isinstance(hint, type) and not dataclasses.is_dataclass(hint) and not issubclass(hint, list | tuple | dict)


def _expected(hint: Any, error: ValidationError) -> str:
    """What pydantic expected, in a line: of a nested value, with the place of it."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"must be {type_name(hint)}" if not place else f"must have, at {place}: {first['msg'].lower()}"


def _out_of_bounds(field: Field[Any], value: object) -> str | None:
    """What is wrong with the value or with a nested one, or None."""
    meta = field.metadata
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "min" in meta and value < meta["min"]:
            return f"must be >= {meta['min']}"
        if "above" in meta and value <= meta["above"]:
            return f"must be > {meta['above']}"
        if "max" in meta and value > meta["max"]:
            return f"must be <= {meta['max']}"
    if "choices" in meta and value not in meta["choices"]:
        return f"must be one of {', '.join(map(str, meta['choices']))}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for inner in dataclasses.fields(value):
            problem = _out_of_bounds(inner, getattr(value, inner.name))
            if problem:
                return f"{problem} at {inner.name}"
    for number, item in enumerate(value if isinstance(value, list | tuple) else ()):
        for inner in dataclasses.fields(item) if dataclasses.is_dataclass(item) else ():
            problem = _out_of_bounds(inner, getattr(item, inner.name))
            if problem:
                return f"{problem} at {number}.{inner.name}"
    return None


# --- how values are shown ---------------------------------------------------------------------------------------


def default_of(field: Field[Any]) -> Any:
    """The field's default, or `dataclasses.MISSING`."""
    return field.default_factory() if field.default_factory is not MISSING else field.default


def shown(field: Field[Any], value: object) -> object:
    """The value as it may be printed: a secret is `***`, and so is a password inside a URL."""
    if field.metadata.get("secret") and value:
        return "***"
    return _plain_value(value)


def _plain_value(value: object) -> object:
    """The value as JSON and YAML can write it, all the way down; no text with a password in it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(name): _plain_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(each) for each in value]
    if isinstance(value, Path):
        return str(value)
    return _without_password(value) if isinstance(value, str) else value


def _without_password(text: str) -> str:
    return re.sub(r"(\w://[^/@:\s]*:)[^/@\s]+@", r"\1***@", text)


def type_name(hint: Any) -> str:
    """A type in words, for errors and the reference page."""
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}
    if hint in names:
        return names[hint]
    if dataclasses.is_dataclass(hint):
        return "a group"
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin in (list, tuple):
        item = arguments[0]
        return "a list of groups" if dataclasses.is_dataclass(item) else f"a list, each {type_name(item)}"
    if origin is dict:
        return "a mapping"
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(type_name(part) for part in arguments)
    return "nothing" if hint is type(None) else getattr(hint, "__name__", str(hint))
