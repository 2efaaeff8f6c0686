"""Incident bundles: every table of a time span in one file, written from a store and read back.

    store ── slices of time ──> Draft (members as unnamed temporary files) ── chunks ──> file, or HTTP answer
    file ──> read_bundle (tar, manifest, hashes, footers checked) ──> Bundle.groups(table)

The members are made first, because a tar and its manifest tell their lengths and hashes before the bytes. Memory is
bounded by one slice of one table; the temporary files have no names, so nothing is left behind by `kill -9`.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from leadline import __version__
from leadline.model.errors import DataError, UsageError, WorldError
from leadline.model.tables import TABLES, Table
from leadline.store.bundle_format import (
    CONFIG,
    MANIFEST,
    TABLE_BYTES_MAX,
    TEXT_BYTES_MAX,
    TRAILER,
    Manifest,
    Member,
    manifest_bytes,
    member_of,
    members_of,
    padding,
    places,
    read_manifest,
    tar_bytes,
    tar_header,
)
from leadline.store.bundle_parquet import TableReader, TableWriter
from leadline.store.bundle_rows import Span, belongs, by_table, in_order, minutes_sql, slice_sql, slices
from leadline.store.migrate import SCHEMA_VERSION
from leadline.store.schema import arrow_schema

CHUNK_BYTES = 1 << 20
_LIBRARIES = ("pyarrow", "chdb", "numpy")


class Rows(Protocol):
    """What a bundle is made from: a started `Store`."""

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Rows of a statement."""


def our_versions() -> dict[str, str]:
    """Versions of what writes a bundle here: Leadline, the schema, Python and the libraries that matter."""
    out = {"leadline": __version__, "schema": str(SCHEMA_VERSION), "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out


# --- writing -------------------------------------------------------------------------------------------------


class Draft:
    """A bundle that is made and not yet written. Closes its temporary files at the end of a `with`."""

    def __init__(
        self, manifest: Manifest, config_text: str, directory: Path | None, *, free_bytes_min: int = 0
    ) -> None:
        """`directory`: where the temporary files lie while they are needed; None for the system's place, of whose space
        `free_bytes_min` stays free."""
        self._free_bytes_min = free_bytes_min
        self._manifest = replace(manifest, members={})
        self._config = config_text.encode()
        self._directory = directory
        self._files: dict[str, tuple[BinaryIO, Member]] = {}
        self._stack = ExitStack()
        if len(self._config) > TEXT_BYTES_MAX:
            raise UsageError(f"a configuration of {len(self._config)} bytes is too long; at most {TEXT_BYTES_MAX}")

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the temporary files go. Closing twice is harmless."""
        self._stack.close()

    def add(self, table: Table, groups: Iterable[pa.Table]) -> None:
        """Write a table's row groups; without rows there will be no member. Errors: WorldError for a full disk."""
        with _disk(f"a temporary file for {table.name}"):
            file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 (closed by `close`)
            self._stack.callback(file.close)
            writer = TableWriter(table, file)
            try:
                for rows in groups:
                    self._require_room(rows.nbytes)
                    writer.write(in_order(table, rows))
            finally:
                writer.close()
            self._take(table, file, writer.rows)

    def _require_room(self, size_bytes: int) -> None:
        """Errors: WorldError if so much more would leave less free than is to stay so."""
        where = self._directory or Path(tempfile.gettempdir())
        free_bytes = shutil.disk_usage(where).free
        if self._free_bytes_min and free_bytes - size_bytes < self._free_bytes_min:
            raise WorldError(
                f"only {free_bytes >> 20} MiB are free on the disk of {where}, where bundles are drafted, and "
                f"{self._free_bytes_min >> 20} MiB stay free (store.free_bytes_min); ask for a shorter span, or set "
                "TMPDIR to a larger disk"
            )

    def adopt(self, table: Table, file: BinaryIO, rows: int) -> None:
        """Take over a table's finished file (`bundle_stream`); `close` closes it."""
        self._stack.callback(file.close)
        self._take(table, file, rows)

    def disk(self, table: Table) -> _disk:
        """OSErrors of writing a table's temporary file become WorldErrors."""
        return _disk(f"a temporary file for {table.name}")

    def _take(self, table: Table, file: BinaryIO, rows: int) -> None:
        if not rows:
            return
        size = file.seek(0, os.SEEK_END)
        if size >= TABLE_BYTES_MAX:
            raise UsageError(f"{table.name} has {size} bytes in this span, too many for a bundle; ask for less")
        file.seek(0)
        self._files[table.name] = (file, Member(size, _sha256(file), rows))

    @property
    def manifest(self) -> Manifest:
        """The manifest with what was added so far, members in the order of the tables."""
        members = {CONFIG: Member(len(self._config), hashlib.sha256(self._config).hexdigest())}
        for table in TABLES:
            if table.name in self._files:
                members[member_of(table.name)] = self._files[table.name][1]
        return replace(self._manifest, members=members)

    @property
    def size(self) -> int:
        """Length of the bundle, bytes."""
        sizes = [member.bytes for member in self.manifest.members.values()]
        return tar_bytes([len(manifest_bytes(self.manifest)), *sizes])

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the bundle, some at a time."""
        head = manifest_bytes(self.manifest)
        yield tar_header(MANIFEST, len(head)) + head + padding(len(head))
        yield tar_header(CONFIG, len(self._config)) + self._config + padding(len(self._config))
        for table in TABLES:
            if table.name not in self._files:
                continue
            file, member = self._files[table.name]
            yield tar_header(member_of(table.name), member.bytes)
            file.seek(0)
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
            yield padding(member.bytes)
        yield TRAILER


def draft_bundle(
    store: Rows,
    span: Span,
    config_text: str,
    *,
    versions: Mapping[str, str] | None = None,
    redacted: bool = False,
    directory: Path | None = None,
    free_bytes_min: int = 0,
) -> Draft:
    """Make the bundle of a span from a store. The caller closes it.

    Inputs: `config_text`, the effective configuration as YAML without secrets; `versions`, ours if None; `redacted`
    if the rows in the store are (those of a replay may be).
    Errors: UsageError for an empty span; WorldError for a full disk, StoreError, RefusedError("limit").
    """
    if span.from_ns >= span.to_ns:
        raise UsageError(f"a bundle needs a span: from {span.from_ns} to {span.to_ns} holds nothing")
    manifest = Manifest(span.from_ns, span.to_ns, span.tenant, span.cluster, redacted, dict(versions or our_versions()))
    draft = Draft(manifest, config_text, directory, free_bytes_min=free_bytes_min)
    try:
        for table in by_table(TABLES):
            draft.add(table, _groups(store, table, span))
    except BaseException:
        draft.close()
        raise
    return draft


def _groups(store: Rows, table: Table, span: Span) -> Iterator[pa.Table]:
    condition, parameters = belongs(table, span), span.parameters()
    minutes = store.query(minutes_sql(table, condition), parameters)
    counted = list(zip(minutes["minute"].to_pylist(), minutes["n"].to_pylist(), strict=True))
    for bounds in slices(counted):
        sql = slice_sql(table, condition, bounds, of_one_tenant=bool(span.tenant))
        yield store.query(sql, parameters)


def write_bundle(path: Path, chunks: Iterable[bytes], expected_bytes: int | None = None) -> int:
    """Write a bundle's bytes: to a temporary name beside `path`, to the disk, then renamed. Returns: bytes.

    So `path` is the whole bundle or what it was before. Errors: WorldError, also if fewer bytes came than expected.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with _disk(str(path)):
        try:
            with partial.open("xb") as file:
                for chunk in chunks:
                    file.write(chunk)
                size = file.tell()
                if expected_bytes not in (None, size):
                    raise WorldError(f"{path}: {size} of {expected_bytes} bytes came, then the answer ended; try again")
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return size


class _disk:
    """OSErrors of writing become WorldErrors that say what to do."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise WorldError(
                f"{self._what}: cannot be written: {reason}; nothing was kept of it. "
                "Make room or name another directory"
            ) from error


# --- reading -------------------------------------------------------------------------------------------------


class Bundle:
    """A bundle whose outside was checked: tar, manifest, hashes, and the schema of every table.

    The rows themselves are checked as they are read. Holds the file open until `close`.
    """

    def __init__(self, file: BinaryIO, where: str) -> None:
        """Use `read_bundle`. Takes the file over, also when it fails. Errors: DataError."""
        self._file = file
        self.where = where
        try:
            self._size = file.seek(0, os.SEEK_END)
            self._places = places(file, self._size, where)
            head = self._places[MANIFEST]
            self.manifest = read_manifest(self._region(head.name).read(), f"{where}, {MANIFEST}")
            self._check_members()
            self._check_hashes()
            self.config_text = self._config()
            for table in self.tables:
                self._reader(table)
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def tables(self) -> list[Table]:
        """The tables that have rows, in the order they are declared."""
        return [table for table in TABLES if self._member(table)]

    def groups(self, table: Table) -> Iterator[pa.Table]:
        """The rows of a table, a slice of time at a time, oldest slice first; columns as `arrow_schema(table)`.

        Columns that an older Leadline did not have are added. Errors: DataError.
        """
        if self._member(table):
            yield from self._reader(table).groups()

    def rows(self, table: Table) -> pa.Table:
        """All rows of a table at once; for tests and small tables."""
        found = list(self.groups(table))
        if not found:
            return arrow_schema(table).empty_table()
        return pa.concat_tables(found).unify_dictionaries().combine_chunks()

    def _region(self, name: str) -> _Region:
        place = self._places[name]
        return _Region(self._file, place.offset, place.bytes)

    def _member(self, table: Table) -> str:
        """The member with the rows of a table; empty: there are none."""
        return next((name for name in members_of(table) if name in self.manifest.members), "")

    def _reader(self, table: Table) -> TableReader:
        name = self._member(table)
        where = f"{self.where}, {name}"
        made_by = self.manifest.versions.get("leadline", "?")
        reader = TableReader(table, self._region(name), where, made_by)  # type: ignore[arg-type]
        if reader.rows != self.manifest.members[name].rows:
            raise DataError(where, f"{self.manifest.members[name].rows} rows, as {MANIFEST} says", str(reader.rows))
        return reader

    def _check_members(self) -> None:
        there = {name: place.bytes for name, place in self._places.items() if name != MANIFEST}
        told = {name: member.bytes for name, member in self.manifest.members.items()}
        for name in sorted(there.keys() | told.keys()):
            if there.get(name) != told.get(name):
                want = f"{told[name]} bytes, as {MANIFEST} says" if name in told else f"only what {MANIFEST} lists"
                got = f"{there[name]} bytes" if name in there else "no such member"
                raise DataError(f"{self.where}, {name}", want, got)

    def _check_hashes(self) -> None:
        for name, member in self.manifest.members.items():
            got = _sha256(self._region(name))
            if got != member.sha256:
                raise DataError(f"{self.where}, {name}", f"SHA-256 {member.sha256}", f"{got}: the bundle was changed")

    def _config(self) -> str:
        try:
            return self._region(CONFIG).read().decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{self.where}, {CONFIG}", "UTF-8", str(error)) from error


def read_bundle(path: Path) -> Bundle:
    """Open and check a bundle. Errors: DataError for one that is none, WorldError if it cannot be read."""
    try:
        if path.exists() and not path.is_file():  # to open a pipe would wait for its writer
            raise WorldError(f"{path}: expected a bundle, got something that is no file; name a bundle (NAME.leadline)")
        file = path.open("rb")
    except OSError as error:
        raise WorldError(f"{path}: cannot be read: {error.strerror}; name a bundle (NAME.leadline)") from error
    return Bundle(file, str(path))


class _Region(io.RawIOBase):
    """A part of a file as a file of its own. Not for two threads at once: they would share one position."""

    def __init__(self, file: BinaryIO, offset: int, length: int) -> None:
        self._file, self._offset, self._length = file, offset, length
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        self._at = min(max(base + offset, 0), self._length)
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        """Length of the part."""
        return self._length

    def read(self, size: int | None = -1) -> bytes:
        left = self._length - self._at
        wanted = left if size is None or size < 0 else min(size, left)
        self._file.seek(self._offset + self._at)
        found = self._file.read(wanted)
        self._at += len(found)
        return found

    def readall(self) -> bytes:
        return self.read()


def _sha256(file: Any) -> str:
    """The hash of a file from where it stands."""
    found = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        found.update(chunk)
    return found.hexdigest()
