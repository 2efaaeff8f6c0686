"""The effective configuration as the text of a bundle's `config.yaml`: everything that is set, and no secret."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import yaml

from leadline.server.config import Config

_HEAD = "# Effective configuration of the Leadline that recorded this bundle; secrets are left out.\n"
_PASSWORD = re.compile(r"(\w://[^/@:\s]*:)[^/@\s]+@")


def config_text(config: Config) -> str:
    """Every setting by section, defaults included. A secret setting is left out, a password in a URL is `***`."""
    body = {name: _group(section) for name, section in config.sections.items()}
    return _HEAD + yaml.safe_dump(body, sort_keys=False, allow_unicode=True)


def _group(section: Any) -> dict[str, Any]:
    return {
        field.name: _plain(getattr(section, field.name))
        for field in dataclasses.fields(section)
        if not field.metadata.get("secret")
    }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return _group(value)
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return _PASSWORD.sub(r"\1***@", value)
    return value if isinstance(value, int | float | bool | None) else str(value)
