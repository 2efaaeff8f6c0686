"""What a storage server wrote down: one line per request that it answered, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Request:
    """One answered request: what for, how many bytes it moved, how long the server was at it."""

    object: str  # folder/name of what was stored or read; "shards/7"
    bytes: int
    seconds: float
    stored: bool


def line(request: Request) -> str:
    """A request as the server prints it."""
    told = {"object": request.object, "bytes": request.bytes, "seconds": round(request.seconds, 4)}
    return json.dumps(told if request.stored else {**told, "read": True})


def requests(log: Path) -> list[Request]:
    """All requests of a log, oldest first; what is no whole line of one is passed over. No file: none."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return []
    found = []
    for each in text.splitlines():
        if not each.startswith('{"object"'):
            continue
        try:
            told = json.loads(each)
            found.append(
                Request(str(told["object"]), int(told["bytes"]), float(told["seconds"]), not told.get("read", False))
            )
        except (ValueError, KeyError, TypeError):
            continue  # half a line: the server is writing
    return found
