"""YAML whose mappings know in which line they and their keys stand, so that what is wrong is told with its line.

text:   hosts: 8                  read_mapping(text, "my.yaml")["hosts"]            -> 8
        faults:                   read_mapping(text, "my.yaml").place_of("faults")  -> "my.yaml, line 2"
          - {fault: xid}          read_mapping(text, "my.yaml")["faults"][0].place  -> "my.yaml, line 3"
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from leadline.model.errors import ConfigError

FILE_BYTES_MAX = 1 << 16  # topologies and scenarios are some hundred bytes; whatever is larger is another file
DEPTH_MAX = 20  # a scenario has 4; deeper is a mistake or an attack on the stack


class Located(dict[str, Any]):
    """A mapping and where it stands. A copy of it is a plain dict."""

    def __init__(self, values: dict[str, Any], where: str, line: int, line_of: dict[str, int]) -> None:
        super().__init__(values)
        self.where = where
        self.line = line
        self._line_of = line_of

    @property
    def place(self) -> str:
        """Where it begins: `FILE, line N`."""
        return f"{self.where}, line {self.line}"

    def place_of(self, key: str) -> str:
        """Where a key stands; where the mapping begins if it has no such key."""
        return f"{self.where}, line {self._line_of.get(key, self.line)}"


def read_file(path: Path, what: str) -> Located:
    """The mapping of a YAML file. `what` it should be, as "a topology". Errors: ConfigError naming file and line."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"{path}: expected {what} of at most {FILE_BYTES_MAX} bytes, got a larger file")
        return read_mapping(data.decode(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a YAML file of {what}, got {error}") from error


def read_mapping(text: str, where: str) -> Located:
    """The mapping that a YAML text is. Errors: ConfigError naming `where`, the line and what was expected.

    A key that stands twice is refused, one of the two would be ignored; also what refers to itself.
    """
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        if not isinstance(root, yaml.MappingNode):
            got = "nothing" if root is None else root.tag
            raise ConfigError(f"{where}: expected a mapping like `hosts: 8`, got {got}")
        found = _Reader(where).value(root, 0)
        assert isinstance(found, Located)
        return found
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: expected YAML, got: {' '.join(str(error).split())}") from error


class _Reader:
    """Values of nodes. Each node is read once, however often an alias names it: a few lines cannot become millions."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._loader = yaml.SafeLoader("")
        self._known: dict[int, Any] = {}

    def value(self, node: yaml.Node, depth: int) -> Any:
        if depth > DEPTH_MAX:
            line = node.start_mark.line + 1
            raise ConfigError(f"{self._where}, line {line}: expected at most {DEPTH_MAX} levels, got more")
        if id(node) not in self._known:
            self._known[id(node)] = self._read(node, depth)
        return self._known[id(node)]

    def _read(self, node: yaml.Node, depth: int) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, depth)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.value(each, depth + 1) for each in node.value]
        return self._loader.construct_object(node, deep=True)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> Located:
        values: dict[str, Any] = {}
        line_of: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"{self._where}, line {line}: expected a word before the colon, got {key_node.tag}")
            key = str(self._loader.construct_object(key_node))
            if key in values:
                raise ConfigError(
                    f"{self._where}, line {line}: {key} stands twice; the first is in line {line_of[key]}"
                )
            values[key], line_of[key] = self.value(value_node, depth + 1), line
        return Located(values, self._where, node.start_mark.line + 1, line_of)
