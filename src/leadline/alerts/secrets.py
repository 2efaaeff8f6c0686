"""Secrets of what we send to: from a file or the environment, read once at the start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from leadline.model.errors import ConfigError

SECRET_BYTES_MAX = 8192


def secret(file: str, variable: str, environ: Mapping[str, str], what: str) -> str:
    """The secret in a file, or in an environment variable; empty where neither is named. White space at its ends goes.

    `what` names the setting in errors. Errors: ConfigError for a file or variable that is not there, or empty.
    """
    if file and variable:
        raise ConfigError(f"{what}: a file ({file}) and a variable ({variable}) are named; remove one")
    if variable and variable not in environ:
        raise ConfigError(f"{what}: the environment has no variable {variable}; set it, or name a file instead")
    found = _read(Path(file), what) if file else environ.get(variable, "") if variable else ""
    if (file or variable) and not found.strip():
        raise ConfigError(f"{what}: {file or variable} is empty; write the secret there, or remove the setting")
    if any(not each.isprintable() for each in found.strip()):
        raise ConfigError(f"{what}: expected one line of text in {file or variable}")
    return found.strip()


def _read(path: Path, what: str) -> str:
    try:
        with path.open("rb") as opened:
            raw = opened.read(SECRET_BYTES_MAX + 1)
        if len(raw) > SECRET_BYTES_MAX:
            raise ConfigError(f"{what}: {path}: expected a secret of at most {SECRET_BYTES_MAX} bytes, got more")
        return raw.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{what}: {path}: expected text in UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{what}: {path}: cannot be read: {error.strerror}") from error


def checked_url(url: str, what: str) -> str:
    """The address without a slash at its end. Errors: ConfigError for what is no http(s) address."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.split() == [url]
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"{what}: expected http://HOST:PORT/... or https://..., got {without_password(url)[:200]!r}")
    return url.rstrip("/")


def without_password(url: str) -> str:
    """An address as it may be shown: whose. Who knows the path of a chat's web hook may post there."""
    head, at, tail = url.partition("://")
    host, slash, path = (tail if at else head).partition("?")[0].rpartition("@")[2].partition("/")
    return f"{head if at else ''}{at}{host}{slash}{'…' if path else ''}"
