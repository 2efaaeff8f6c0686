"""Topologies from YAML, checked with file and line.

    name: clos8
    leaves: 2
    spines: 2
    hosts: 8
    homes: 2                      # NICs of a host, each on a leaf (a rail) of its own
    host_rate_bps: 250_000_000
    uplink_rate_bps: 250_000_000  # or: oversubscription: 4

Every field of `shape.Shape` may stand in the file; what is left out has the default written there.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from leadline.lab.topology.build import build
from leadline.lab.topology.parts import Topology
from leadline.lab.topology.shape import TOGETHER, Shape, complaint
from leadline.model.errors import ConfigError

PRESETS = Path(__file__).parent / "presets"
FILE_BYTES_MAX = 1 << 16  # a topology is some hundred bytes; whatever is larger is another file


def preset_names() -> tuple[str, ...]:
    """The topologies that come with the package."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.yaml")))


def load(text_or_preset: str) -> Topology:
    """A topology from the name of a preset or from YAML text. Errors: ConfigError."""
    if text_or_preset in preset_names():
        return load_file(PRESETS / f"{text_or_preset}.yaml")
    if ":" not in text_or_preset:
        presets = ", ".join(preset_names())
        raise ConfigError(f"topology: expected a preset ({presets}) or YAML text, got {text_or_preset!r}")
    return build(read_shape(text_or_preset, "topology"))


def load_named(name: str) -> Topology:
    """A topology by what a person gives: a preset or the path of a file. Errors: ConfigError, with file and line."""
    looks_like_file = os.sep in name or name.endswith((".yaml", ".yml"))
    return load_file(Path(name)) if looks_like_file or Path(name).is_file() else load(name)


def load_file(path: Path) -> Topology:
    """A topology from a YAML file. Errors: ConfigError naming file and line."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"{path}: expected a topology of at most {FILE_BYTES_MAX} bytes, got a larger file")
        return build(read_shape(data.decode(), str(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a YAML file of a topology, got {error}") from error


def read_shape(text: str, where: str) -> Shape:
    """The parameters that a YAML text gives. Errors: ConfigError naming `where`, the line and what was expected."""
    values, line_of = _mapping(text, where)
    known = [each.name for each in fields(Shape)]
    for key, value in values.items():
        at = f"{where}, line {line_of[key]}"
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
            raise ConfigError(f"{at}: no parameter {key!r} of a topology{hint}")
        if expected := complaint(key, value):
            raise ConfigError(f"{at}: {key}: expected {expected}, got {value!r}")
    if "name" not in values:
        raise ConfigError(f"{where}: expected a `name` of the topology, got none")
    shape = Shape(**{key: _plain(key, value) for key, value in values.items()})
    for key, wrong, expected in TOGETHER:
        if wrong(shape):
            at = f"{where}, line {line_of[key]}" if key in line_of else where
            raise ConfigError(f"{at}: {key}: expected {expected}, got {getattr(shape, key)}")
    return shape


def _plain(key: str, value: Any) -> Any:
    # A rate may be written 2.5e+8; YAML reads that as a float.
    return int(value) if isinstance(value, float) and key != "oversubscription" else value


def _mapping(text: str, where: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Values and line numbers of a YAML mapping. A key that stands twice is refused: one of them would be ignored."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(
                f"{where}: expected a mapping like `hosts: 8`, got {'nothing' if root is None else root.tag}"
            )
        loader = yaml.SafeLoader("")
        values: dict[str, Any] = {}
        line_of: dict[str, int] = {}
        for key_node, value_node in root.value:
            key, line = str(loader.construct_object(key_node, deep=True)), key_node.start_mark.line + 1
            if key in values:
                raise ConfigError(f"{where}, line {line}: {key} stands twice; the first is in line {line_of[key]}")
            values[key], line_of[key] = loader.construct_object(value_node, deep=True), line
        return values, line_of
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: expected YAML, got: {' '.join(str(error).split())}") from error
