"""Whether two servers answered the same: one that has acme's rows, one that never had them.

Left out of the comparison is what differs between any two servers: ids that are drawn, when a row came or was judged,
how long something took, and the order of rows that nobody asked to be in order.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq

# Names of fields, whatever route tells them.
OWN = re.compile(
    r"(^|_)(batch|batch_row|revision|revisions|judged_ns|judged_to_ns|reported_ns|heard_ns|now_ns|at_ns|made_ns|stored_ns|"
    r"pid|port|age_s|lag_s|took_s|seconds|elapsed_s|uptime_s|started_ns|since_ns|statistics|written|version_id|"
    r"first_ns|last_ns|bin_ns|last_heard_s|up_s|interval_s|per_s)$"
)
_DRAWN = re.compile(
    r"\b[0-9a-f]{16,32}\b|\b1[0-9]{18}\b|\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?\b|127\.0\.0\.1:\d+"
    r"|\bfor \d+ s\b"
)
# What a tenant is meant to learn of others, by path: how many other jobs use a link, host or switch of its own, without
# names and bytes.
DISCLOSED: Mapping[str, frozenset[str]] = {
    "/api/v1/flows": frozenset({"others"}),
    "/api/v1/graph": frozenset({"shared"}),
}


def normal(value: Any, disclosed: frozenset[str] = frozenset()) -> Any:
    """An answer without what differs between any two servers; lists in an order of their own."""
    if isinstance(value, Mapping):
        kept = {key: each for key, each in value.items() if not OWN.search(key) and key not in disclosed}
        return {key: normal(each, disclosed) for key, each in kept.items()}
    if isinstance(value, list):
        return sorted(
            (normal(each, disclosed) for each in value), key=lambda each: json.dumps(each, sort_keys=True, default=repr)
        )
    if isinstance(value, str):
        return _DRAWN.sub("#", value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**15:
        return "#"
    return round(value, 6) if isinstance(value, float) else value


def body_of(answer: bytes, path: str = "") -> Any:
    """What is compared of a body."""
    if answer[:2] == b"\x1f\x8b":
        answer = gzip.decompress(answer)
    if answer[257:262] == b"ustar":
        return normal(tables_of(answer))
    try:
        read = json.loads(answer)
    except ValueError:
        return _DRAWN.sub("#", answer.decode("utf-8", "replace"))
    return normal(read, DISCLOSED.get(path, frozenset()))


def tables_of(bundle: bytes) -> dict[str, Any]:
    """Rows of each table of a bundle; its manifest tells lengths and hashes of these."""
    with tarfile.open(fileobj=io.BytesIO(bundle)) as tar:
        files = {each.name: tar.extractfile(each) for each in tar if each.name.endswith(".parquet")}
        read = {name: io.BytesIO(file.read()) for name, file in files.items() if file}
    return {name: [plain(row) for row in pq.read_table(file).to_pylist()] for name, file in read.items()}


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its ids and maps as texts."""
    return {name: repr(value) if isinstance(value, bytes | list) else value for name, value in row.items()}


def difference(one: tuple[int, bytes], other: tuple[int, bytes], path: str = "") -> str:
    """Where two answers differ, in words; empty if they do not."""
    if one[0] != other[0]:
        return f"status {one[0]}, without acme {other[0]}"
    if one[1] == other[1]:
        return ""
    return differing(body_of(one[1], path), body_of(other[1], path))


def differing(one: Any, other: Any, where: str = "") -> str:
    """The first place at which two values differ, in words."""
    if one == other:
        return ""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys(), key=str):
            if found := differing(one.get(key), other.get(key), f"{where}.{key}"):
                return found
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            if found := differing(mine, theirs, f"{where}[{number}]"):
                return found
    return f"{where or 'the body'}: {_short(one)}, without acme {_short(other)}"


def _short(value: Any) -> str:
    text = json.dumps(value, default=repr)
    return f"{len(value)} of {text[:300]}" if isinstance(value, list) else text[:300]
