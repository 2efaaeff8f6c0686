"""A store for evals: what ships is asked of rows that are stored, as a user's are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import pyarrow as pa

from leadline.model.principal import DEFAULT_CLUSTER, DEFAULT_TENANT, Principal
from leadline.model.tables import Table
from leadline.store import Store, StoreConfig
from leadline.store.schema import arrow_table
from leadline.views.asked import Asked

OPERATOR = Principal()


@contextmanager
def empty_store() -> Iterator[Store]:
    """An embedded store that keeps rows of any age, for the time of a `with`."""
    with TemporaryDirectory(prefix="leadline-eval-") as directory:
        store = Store(StoreConfig(path=directory, ttl=False))
        store.start()
        try:
            yield store
        finally:
            store.stop()


def append(store: Store, table: Table, rows: pa.Table) -> None:
    """Store rows as the ingestion does for a sender without a tenant: `rows` have the columns that senders give."""
    given = {name: rows.column(name).to_pylist() for name in rows.column_names}
    owner = {"tenant": DEFAULT_TENANT, "cluster": DEFAULT_CLUSTER, "host": "", "clock": "", "batch": bytes(15) + b"\1"}
    count = rows.num_rows
    added = {"batch_row": list(range(count)), **{name: [value] * count for name, value in owner.items()}}
    columns = {
        column.name: given.get(column.name) or added.get(column.name) or [None] * count for column in table.columns
    }
    store.append(table, arrow_table(table, columns))


def asked(at_ns: int) -> Asked:
    """The question of an operator, up to a time."""
    return Asked(OPERATOR, DEFAULT_CLUSTER, at_ns, latest=True)
