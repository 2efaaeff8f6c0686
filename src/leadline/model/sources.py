"""What a module is made of: its source, and that of all of Leadline that it imports, as one short text.

numba keeps compiled code by what the file of a function holds, and does not see that a function or a number changed
which it takes from another file: after an upgrade it would run what no source says any more.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import leadline

ROOT = Path(leadline.__file__).parent
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(leadline[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+(leadline[\w.]*))", re.M
)


@cache
def stamp_of(module: str) -> str:
    """The same for the same sources, wherever they lie and whenever they were written. Errors: OSError."""
    told = hashlib.blake2b(digest_size=16)
    for name in sorted(_made_of(module)):
        told.update(f"{name} {_source(name)}\0".encode())
    return told.hexdigest()


def kept_by_content(compiled: Any) -> Any:
    """A function that numba compiles (`njit(cache=True)`), kept for as long as all that it is made of stays the same.

    numba has no public way to say so. Of a module that is not Leadline's or has no source here, and where numba keeps
    nothing or keeps it another way, its own rule stands.
    """
    module: str = compiled.py_func.__module__
    file: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp") and _made_of(module):
        file._source_stamp = stamp_of(module)
    return compiled


def _made_of(module: str) -> set[str]:
    found, left = set[str](), [module]
    while left:
        name = left.pop()
        if name in found or not _path(name):
            continue
        found.add(name)
        for origin, names, whole in _IMPORT.findall(_source(name)):
            left += [origin or whole, *(f"{origin}.{each}" for each in re.findall(r"\w+", names))]
    return found


@cache
def _source(name: str) -> str:
    path = _path(name)
    return path.read_text("utf-8") if path else ""


@cache
def _path(name: str) -> Path | None:
    """The file of a module of Leadline; None of anything else, as a class that is imported by its name."""
    package, *parts = name.split(".")
    if package != "leadline" or not parts:  # that one tells the version, and nothing else
        return None
    base = ROOT.joinpath(*parts)
    return next((each for each in (base.with_suffix(".py"), base / "__init__.py") if each.is_file()), None)
