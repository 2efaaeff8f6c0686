"""Connections to ClickHouse: the embedded engine or a server, through one client library.

A connection serialises its calls, so a pool of them is what runs in parallel. Settings are given once, when
a connection opens: with the embedded engine a setting given per call costs four extra queries.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from leadline.model.errors import ConfigError, StoreError
from leadline.store.config import StoreConfig
from leadline.store.schema import DATABASE

MIB = 1 << 20

# Of the embedded engine as a whole, told when its first connection opens. Its own bounds are for a server that has the
# machine to itself, 5 GiB for each cache; twenty minutes of 5,000 samples/s take 0.1 MB of marks and 1 MB of primary
# keys. Sizes of thread pools are no use here: chDB 26.9 reports those that it is given, and makes as many threads.
_ENGINE = {
    "mark_cache_size": 128 * MIB,
    "primary_index_cache_size": 128 * MIB,
    "compiled_expression_cache_size": 32 * MIB,
}


class Pool:
    """A fixed number of connections. Who finds none free waits for one.

    Connections are opened when they are first needed, so that a pool nobody uses costs nothing.
    """

    def __init__(self, config: StoreConfig, size: int, settings: Mapping[str, str]) -> None:
        self._config = config
        self._settings = dict(settings)
        self._size = size
        self._closed = False
        self._free: queue.LifoQueue[Any] = queue.LifoQueue()
        for _ in range(size):
            self._free.put(None)

    @contextmanager
    def borrow(self) -> Iterator[Any]:
        """One connection for the time of a `with`. Errors: StoreError if it cannot be opened or the pool is closed.

        A connection on which something failed is not used again: the embedded engine keeps what a statement had
        written before it failed, and gives it as the answer to the next one, whoever asks.
        """
        client = self._free.get()
        try:
            if self._closed:
                raise StoreError(f"the store at {place(self._config)} was closed")
            if client is None:
                client = connect(self._config, self._settings)
            yield client
        except BaseException:
            if client is not None:
                client.close()
                client = None
            raise
        finally:
            self._free.put(client)

    def close(self) -> None:
        """Close every connection, for good; calls in progress are waited for, who waits for one is refused."""
        self._closed = True
        clients = [self._free.get() for _ in range(self._size)]
        for client in clients:
            if client is not None:
                client.close()
            self._free.put(None)


def connect(config: StoreConfig, settings: Mapping[str, str]) -> Any:
    """Open one connection with these settings. Errors: ConfigError for a bad URL, StoreError."""
    # Imported here: the library and the engine take a second to load, which a program that only prints its
    # help should not pay.
    import clickhouse_connect
    from clickhouse_connect import common

    # A session would make the server refuse two calls at once; we keep no state in one.
    common.set_setting("autogenerate_session_id", False)
    embedded = {"interface": "chdb", "path": config.path, "chdb_options": _ENGINE}
    arguments = _server_arguments(config) if config.url else embedded
    # `readonly` forbids further settings, so it has to come last.
    ordered = sorted(settings.items(), key=lambda item: item[0] == "readonly")
    try:
        return clickhouse_connect.get_client(settings=dict(ordered), **arguments)
    except Exception as error:
        raise StoreError(f"cannot open the store at {place(config)}: {first_line(error)}") from error


def insert(client: Any, embedded: bool, table: str, rows: pa.Table) -> None:
    """Insert rows; returns when the engine has put the part in place. Errors: whatever the client raises."""
    if not embedded:
        client.insert_arrow(table, rows)
        return
    # The engine in this process reads an insert from a file. Ours lives in memory: the client library's would be
    # in the temporary directory, where `kill -9` leaves it behind.
    memory = os.memfd_create("leadline-append", os.MFD_CLOEXEC)
    try:
        with os.fdopen(memory, "wb", closefd=False) as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        names = ", ".join(f"`{name}`" for name in rows.column_names)
        client.command(f"INSERT INTO {table} ({names}) FROM INFILE '/proc/self/fd/{memory}' FORMAT Arrow")
    finally:
        os.close(memory)


def _server_arguments(config: StoreConfig) -> dict[str, Any]:
    url = urlsplit(config.url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(f"store.url must be http://host:port or https://host:port, got {place(config)}")
    if url.path.strip("/") not in ("", DATABASE):
        raise ConfigError(
            f"store.url: the database is {DATABASE}; got {url.path.strip('/')}; write http://host:8123/{DATABASE}"
        )
    return {
        "interface": url.scheme,
        "host": url.hostname,
        "port": url.port or (8443 if url.scheme == "https" else 8123),
        "username": unquote(url.username) if url.username else "default",
        "password": unquote(url.password or ""),
        "connect_timeout": config.connect_seconds_max,
        # The engine stops a query at its own limit; this only notices a server that went silent.
        "send_receive_timeout": config.load_seconds_max + 30,
        "compress": "lz4",
    }


def place(config: StoreConfig) -> str:
    """Where the store is, for messages: the URL without its password, or the path."""
    if not config.url:
        return config.path
    url = urlsplit(config.url)
    return f"{url.scheme}://{url.hostname or '?'}:{url.port or ''}{url.path}"


def first_line(error: BaseException) -> str:
    """The engine's message without its version trailer and stack."""
    text = str(error).strip() or type(error).__name__
    for line in text.splitlines():
        if line.strip() and "Stack trace" not in line:
            return line.strip()[:2000]
    return text[:2000]


def error_code(error: BaseException) -> int:
    """ClickHouse's number of an error, 0 if it has none."""
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else 0
