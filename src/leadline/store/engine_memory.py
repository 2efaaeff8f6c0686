"""What the embedded engine keeps in memory for speed, and how it is told to let go of it."""

from __future__ import annotations

import logging

from leadline.model.errors import StoreError
from leadline.store.client import Store

log = logging.getLogger(__name__)

# All of it is read again from the disk, or compiled again, when it is needed; then the allocator gives back the pages.
_LET_GO = (
    "SYSTEM DROP MARK CACHE",
    "SYSTEM DROP PRIMARY INDEX CACHE",
    "SYSTEM DROP UNCOMPRESSED CACHE",
    "SYSTEM DROP INDEX MARK CACHE",
    "SYSTEM DROP INDEX UNCOMPRESSED CACHE",
    "SYSTEM DROP MMAP CACHE",
    "SYSTEM DROP COMPILED EXPRESSION CACHE",
    "SYSTEM JEMALLOC PURGE",
)


def let_go(store: Store) -> None:
    """Empty the caches of an embedded engine; that of a server is its operator's. Errors: StoreError, of the last one.

    A cache that this engine does not have is passed over.
    """
    if store.config.url:
        return
    for statement in _LET_GO:
        try:
            store.command(statement)
        except StoreError as error:
            log.info("%s", error)
            if statement == _LET_GO[-1]:
                raise
