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

from leadline.lab.located import Located, read_file, read_mapping
from leadline.lab.topology.build import build
from leadline.lab.topology.parts import Topology
from leadline.lab.topology.shape import TOGETHER, Shape, complaint
from leadline.model.errors import ConfigError, UsageError

PRESETS = Path(__file__).parent / "presets"


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
    return _built(read_mapping(text_or_preset, "topology"))


def load_named(name: str) -> Topology:
    """A topology by what a person gives: a preset or the path of a file. Errors: ConfigError, with file and line."""
    looks_like_file = os.sep in name or name.endswith((".yaml", ".yml"))
    return load_file(Path(name)) if looks_like_file or Path(name).is_file() else load(name)


def load_file(path: Path) -> Topology:
    """A topology from a YAML file. Errors: ConfigError naming file and line."""
    return _built(read_file(path, "a topology"))


def read_shape(text: str, where: str) -> Shape:
    """The parameters that a YAML text gives. Errors: ConfigError naming `where`, the line and what was expected."""
    return _shape(read_mapping(text, where))


def _built(values: Located) -> Topology:
    try:
        return build(_shape(values))
    except ConfigError:
        raise
    except UsageError as error:
        raise ConfigError(f"{values.place_of('links_down')}: {error}") from error


def _shape(values: Located) -> Shape:
    known = [each.name for each in fields(Shape)]
    for key, value in values.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
            raise ConfigError(f"{values.place_of(key)}: no parameter {key!r} of a topology{hint}")
        if expected := complaint(key, value):
            raise ConfigError(f"{values.place_of(key)}: {key}: expected {expected}, got {value!r}")
    if "name" not in values:
        raise ConfigError(f"{values.where}: expected a `name` of the topology, got none")
    shape = Shape(**{key: _plain(key, value) for key, value in values.items()})
    for key, wrong, expected in TOGETHER:
        if wrong(shape):
            at = values.place_of(key) if key in values else values.where
            raise ConfigError(f"{at}: {key}: expected {expected}, got {getattr(shape, key)}")
    return shape


def _plain(key: str, value: Any) -> Any:
    # A rate may be written 2.5e+8; YAML reads that as a float.
    return int(value) if isinstance(value, float) and key != "oversubscription" else value
