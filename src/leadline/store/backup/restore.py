"""Bringing a back-up into an empty store that nobody has open.

    manifest ──> the store is opened (its lock taken), and empty ──> merges stopped
             ──> of each table: parts copied beside it, attached, which checks their sums ──> rows counted

Parts are copied, never linked: a back-up that was restored is still one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leadline.model.errors import DataError, LeadlineError, StoreError, UsageError
from leadline.store.backup.take import Manifest, copied, read_manifest
from leadline.store.client import Store
from leadline.store.config import StoreConfig
from leadline.store.migrate import SCHEMA_VERSION


def restore(directory: Path, config: StoreConfig) -> Manifest:
    """Bring all rows of a back-up into the store of `config`.

    Errors: UsageError for a store that has rows, a store on a server, or a back-up of another schema; StoreLockedError
    if a server runs on the store; DataError for a back-up of which something is missing or spoilt; StoreError.
    What was attached before an error stays: empty the store's directory and begin again.
    """
    manifest = read_manifest(directory)
    if config.url:
        raise UsageError("the store is a ClickHouse server (store.url): restore it with its own RESTORE statement")
    if manifest.schema != SCHEMA_VERSION:
        raise UsageError(
            f"the back-up in {directory} has schema {manifest.schema}, this Leadline {SCHEMA_VERSION}: restore it with "
            f"Leadline {manifest.leadline}, then start this one on the store"
        )
    store = Store(config)
    unknown = sorted(set(manifest.tables) - set(store.tables))
    if unknown:
        raise UsageError(f"the back-up has tables that this Leadline does not know: {', '.join(unknown)}")
    _require_parts(directory, manifest)
    store.start()
    try:
        _require_empty(store)
        for table, parts in manifest.tables.items():
            _attach(store, directory, table, parts)
    finally:
        store.stop()
    return manifest


def _require_parts(directory: Path, manifest: Manifest) -> None:
    for table, parts in manifest.tables.items():
        for part in parts:
            if "/" in table + part or not (directory / table / part / "checksums.txt").is_file():
                raise DataError(str(directory), f"the part {table}/{part}, as the manifest has it", "none")


def _require_empty(store: Store) -> None:
    filled = [fact.table for fact in store.facts() if fact.rows]
    if filled:
        raise UsageError(
            f"the store at {store.config.path} has rows already ({', '.join(filled[:5])}); a back-up is restored into "
            "an empty one: name another directory with --data-dir, or move this one away"
        )


def _attach(store: Store, directory: Path, table: str, parts: Mapping[str, int]) -> None:
    try:
        detached = store.detached(table)
        for part in parts:
            copied(directory / table / part, detached / part)
        store.attach(table, list(parts))
    except OSError as error:
        raise StoreError(f"cannot restore {table}: {error.strerror}: {error.filename}") from error
    except LeadlineError as error:
        raise DataError(str(directory / table), "parts that are whole", str(error)) from error
    got, expected = store.rows_of_parts(table), sum(parts.values())
    if got != expected:
        raise DataError(str(directory / table), f"{expected} rows", f"{got}")
