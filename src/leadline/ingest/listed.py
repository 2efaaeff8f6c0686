"""Files that list things (targets to scrape, switches that may send), in JSON or YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from leadline.model.errors import ConfigError

FILE_BYTES_MAX = 16 << 20
DEPTH_MAX = 32  # a list of groups with labels has 4


def read_listed(path: Path) -> Any:
    """What a file says, JSON by its suffix, else YAML.

    YAML aliases are not taken: a few lines of them stand for gigabytes, in memory and in every message that shows them.
    Errors: ConfigError, naming the file; OSError.
    """
    with path.open("rb") as file:
        raw = file.read(FILE_BYTES_MAX + 1)
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: expected at most {FILE_BYTES_MAX} bytes, got more")
    try:
        if path.suffix == ".json":
            return json.loads(raw)
        _require_plain(path, raw)
        return yaml.safe_load(raw)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: expected JSON or YAML, got {str(error)[:300]}") from error


def _require_plain(path: Path, raw: bytes) -> None:
    """Refuse aliases and deep nesting, of which each level costs more than the last. Errors: ConfigError."""
    depth = 0
    for event in yaml.parse(raw, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(f"{path}, line {line}: YAML aliases (*name) are not taken; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            raise ConfigError(f"{path}, line {line}: expected at most {DEPTH_MAX} levels, got more")
