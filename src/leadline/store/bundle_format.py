"""The outside of an incident bundle: an uncompressed tar with a manifest, checked before anything in it is believed.

    NAME.leadline    manifest.json    format, span, versions, rows, length and SHA-256 of every other member
                     config.yaml      effective configuration of the Leadline that recorded it, without secrets
                     event.parquet    the rows of one table, for every table that has rows in the span

Pure: bytes in, words out. The tar is read by its 512-byte headers and not by an archive library, because nothing is
ever unpacked to a path: a member has one of the names above or the bundle is refused. See docs/formats/bundle.md.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

from leadline.model.errors import DataError
from leadline.model.tables import BY_FORMER_NAME, BY_NAME, Table

FORMAT_VERSION = 1
SUFFIX = ".leadline"
MANIFEST, CONFIG = "manifest.json", "config.yaml"

BLOCK = tarfile.BLOCKSIZE
TRAILER = bytes(2 * BLOCK)  # two empty blocks end a tar

# A manifest is 200 bytes a member; a configuration is some kB; the tables of a day of 64 hosts were under 1 GB.
TEXT_BYTES_MAX = 1 << 20
TABLE_BYTES_MAX = 8 << 30
MEMBERS_MAX = 1000

_TIME_MAX = 2**63
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Member:
    """One member as the manifest tells it. `rows` is 0 for what is no table."""

    bytes: int
    sha256: str
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle says about itself. Times are ns; `from_ns` is included in the span, `to_ns` is not.

    There is no time of writing and no name of a machine in it: the same rows give the same bytes.
    """

    from_ns: int
    to_ns: int
    tenant: str = ""  # empty: all
    cluster: str = ""
    redacted: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, Member] = field(default_factory=dict)
    format: int = FORMAT_VERSION

    def rows(self) -> dict[str, int]:
        """Rows by table, in the order of the members."""
        tables = {table_of(name): member.rows for name, member in self.members.items() if table_of(name)}
        return {BY_FORMER_NAME[name].name if name in BY_FORMER_NAME else name: rows for name, rows in tables.items()}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the bytes of a member lie in the file."""

    name: str
    offset: int
    bytes: int


def table_of(member: str) -> str:
    """The table that a member holds, empty for another member."""
    return member.removesuffix(".parquet") if member.endswith(".parquet") else ""


def member_of(table: str) -> str:
    """The member that holds the rows of a table."""
    return f"{table}.parquet"


def members_of(table: Table) -> list[str]:
    """The members that may hold the rows of a table: by its name, and by the one that it had before."""
    return [member_of(name) for name in (table.name, table.former.name) if name]


# --- manifest ------------------------------------------------------------------------------------------------


def manifest_bytes(manifest: Manifest) -> bytes:
    """The manifest as it is written."""
    body = {"format": manifest.format, "created_by": "leadline record", **asdict(manifest)}
    return (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode()


def read_manifest(raw: bytes, where: str) -> Manifest:
    """Errors: DataError; one that a newer Leadline wrote is told as such."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(where, "JSON", str(error)) from error
    if not isinstance(body, dict):
        raise DataError(where, "a JSON object", type(body).__name__)
    version = _whole(body, "format", where)
    versions = _texts(body, "versions", where)
    if not 1 <= version <= FORMAT_VERSION:
        made_by = versions.get("leadline", "an unknown version")
        raise DataError(
            where,
            f"a bundle of format 1 to {FORMAT_VERSION}",
            f"format {version}, made by Leadline {made_by}; read it with that one or a newer one",
        )
    span = _whole(body, "from_ns", where), _whole(body, "to_ns", where)
    if span[0] > span[1]:
        raise DataError(where, "from_ns <= to_ns", f"{span[0]} and {span[1]}")
    return Manifest(
        *span,
        tenant=_of(body, "tenant", str, where),
        cluster=_of(body, "cluster", str, where),
        redacted=_of(body, "redacted", bool, where),
        versions=versions,
        members=_members(_of(body, "members", dict, where), versions, where),
        format=version,
    )


def _members(body: Mapping[str, Any], versions: Mapping[str, str], where: str) -> dict[str, Member]:
    made_by = versions.get("leadline", "?")
    out: dict[str, Member] = {}
    for name, value in body.items():
        if name != CONFIG and table_of(name) not in BY_NAME and table_of(name) not in BY_FORMER_NAME:
            raise DataError(
                where,
                "members for tables that this Leadline has",
                f"{name!r}, made by Leadline {made_by}; a newer one?",
            )
        if not isinstance(value, dict):
            raise DataError(where, f"an object for {name}", type(value).__name__)
        sha256 = _of(value, "sha256", str, f"{where}, {name}")
        if not _SHA256.fullmatch(sha256):
            raise DataError(f"{where}, {name}", "sha256 as 64 hex digits", repr(sha256[:80]))
        numbers = [_whole(value, key, f"{where}, {name}") for key in ("bytes", "rows")]
        if min(numbers) < 0:
            raise DataError(f"{where}, {name}", "bytes and rows >= 0", str(numbers))
        out[name] = Member(numbers[0], sha256, numbers[1])
    if CONFIG not in out:
        raise DataError(where, f"a member {CONFIG}", "none")
    return out


def _of(body: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = body.get(key)
    if type(value) is not kind:
        raise DataError(where, f"{key} as {kind.__name__}", "nothing" if value is None else type(value).__name__)
    return value


def _whole(body: Mapping[str, Any], key: str, where: str) -> int:
    value: int = _of(body, key, int, where)
    if not -_TIME_MAX <= value < _TIME_MAX:
        raise DataError(where, f"{key} within 64 bits", str(value)[:40])
    return value


def _texts(body: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    value: dict[str, Any] = _of(body, key, dict, where)
    if not all(isinstance(each, str) for each in value.values()):
        raise DataError(where, f"{key} as an object of strings", "another value")
    return value


# --- tar -----------------------------------------------------------------------------------------------------


def tar_header(name: str, size: int) -> bytes:
    """The header of a member: no owner, no time, so that equal contents give equal bytes."""
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o644
    # ustar says up to 8 GiB in octal; TABLE_BYTES_MAX is what fits.
    return info.tobuf(tarfile.USTAR_FORMAT)


def padding(size: int) -> bytes:
    """What fills the last block of a member."""
    return bytes(-size % BLOCK)


def tar_bytes(sizes: Iterable[int]) -> int:
    """Length of a tar with members of these sizes."""
    return sum(BLOCK + size + len(padding(size)) for size in sizes) + len(TRAILER)


def places(file: BinaryIO, size: int, where: str) -> dict[str, Place]:
    """Where the members lie in a tar of `size` bytes; the manifest comes first.

    Errors: DataError for anything but plain files with the names of a bundle, each once, filling the file; a name
    with a path in it, a link or an extension header is none of these.
    """
    found: dict[str, Place] = {}
    if size < BLOCK:
        raise DataError(where, "a Leadline recording (NAME.leadline)", f"a file of {size} bytes")
    offset = 0
    while True:
        header = _read(file, offset, BLOCK, where)
        if header == bytes(BLOCK):
            break
        place = _place(header, offset, size, where)
        if place.name in found:
            raise DataError(f"{where}, byte {offset}", "every member once", f"{place.name} again")
        if not found and place.name != MANIFEST:
            raise DataError(f"{where}, byte {offset}", f"{MANIFEST} first", place.name)
        if len(found) >= MEMBERS_MAX:
            raise DataError(where, f"at most {MEMBERS_MAX} members", "more")
        found[place.name] = place
        offset = place.offset + place.bytes + len(padding(place.bytes))
    _check_end(file, offset, size, where)
    if not found:
        raise DataError(where, f"a tar with {MANIFEST}", "an empty tar")
    return found


def _place(header: bytes, offset: int, size: int, where: str) -> Place:
    at = f"{where}, byte {offset}"
    try:
        info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
    except (tarfile.TarError, ValueError) as error:
        if offset == 0:
            raise DataError(where, "a Leadline recording (NAME.leadline)", "a file of another kind") from error
        raise DataError(at, "the header of a tar member", str(error) or type(error).__name__) from error
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise DataError(at, "a plain file", f"tar type {info.type!r} ({info.name[:80]!r})")
    known = info.name in (MANIFEST, CONFIG) or re.fullmatch(r"[a-z][a-z0-9_]{0,60}\.parquet", info.name)
    if not known:
        raise DataError(at, f"{MANIFEST}, {CONFIG} or TABLE.parquet", repr(info.name[:80]))
    most = TABLE_BYTES_MAX if table_of(info.name) else TEXT_BYTES_MAX
    room = size - offset - BLOCK
    if not 0 <= info.size <= min(most, room):
        raise DataError(at, f"{info.name} of at most {min(most, room)} bytes", f"{info.size} (cut off?)")
    return Place(info.name, offset + BLOCK, info.size)


def _check_end(file: BinaryIO, offset: int, size: int, where: str) -> None:
    """After the last member there are empty blocks: two, and then up to a multiple of 20 where GNU tar wrote it."""
    rest = size - offset
    if not 2 * BLOCK <= rest <= 21 * BLOCK:
        raise DataError(f"{where}, byte {offset}", "the end of the tar: two empty blocks, at most 21", f"{rest} bytes")
    if any(_read(file, offset, rest, where)):
        raise DataError(f"{where}, byte {offset}", "empty blocks to the end", "other bytes")


def _read(file: BinaryIO, offset: int, length: int, where: str) -> bytes:
    file.seek(offset)
    raw = file.read(length)
    if len(raw) < length:
        raise DataError(f"{where}, byte {offset}", f"{length} bytes", f"{len(raw)} (cut off?)")
    return raw
