"""The store: DDL, append, query, migrations. The one engine that does I/O: its own directory or server."""

from leadline.store.client import Store
from leadline.store.config import Limits, StoreConfig
from leadline.store.facts import TableFacts
from leadline.store.schema import arrow_schema, arrow_table

__all__ = ["Limits", "Store", "StoreConfig", "TableFacts", "arrow_schema", "arrow_table"]
