"""The store under test, on each of the ways it can be reached.

`embedded` chDB in this process; `double` the server path against tests/doubles/clickhouse_http.py; `server` the same
against the real server that LEADLINE_CLICKHOUSE_URL names (only if that is set; it must have no database
`leadline`, or LEADLINE_CLICKHOUSE_MAY_DROP=yes must allow to drop it).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from leadline.store import Store, StoreConfig

DOUBLE = Path(__file__).parents[2] / "doubles" / "clickhouse_http.py"
URL = os.environ.get("LEADLINE_CLICKHOUSE_URL", "")


@pytest.fixture(scope="module", params=["embedded", "double", *(["server"] if URL else [])])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A started store, shared by the tests of one module: they use tenants of their own."""
    path = tmp_path_factory.mktemp("store")
    if request.param == "embedded":
        yield from started(StoreConfig(path=str(path)))
    elif request.param == "double":
        with RunningDouble(str(path), password="p@ss/word") as port:
            yield from started(StoreConfig(url=f"http://default:p%40ss%2Fword@127.0.0.1:{port}/leadline"))
    else:
        _drop_database(URL)
        yield from started(StoreConfig(url=URL))


def started(config: StoreConfig) -> Iterator[Store]:
    store = Store(config)
    store.start()
    try:
        yield store
    finally:
        store.stop()


class RunningDouble:
    """The double as a process of its own, for the time of a `with`; gives its port."""

    def __init__(self, path: str, password: str = "") -> None:
        self.command = [sys.executable, str(DOUBLE), path, *(["--password", password] if password else [])]

    def __enter__(self) -> int:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line.startswith("port "), f"the double did not start: {line!r}"
        return int(line.split()[1])

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


def _drop_database(url: str) -> None:
    import clickhouse_connect

    parts = urlsplit(url)
    client = clickhouse_connect.get_client(
        interface=parts.scheme,
        host=parts.hostname,
        port=parts.port or 8123,
        username=parts.username or "default",
        password=parts.password or "",
    )
    exists = int(client.command("SELECT count() FROM system.databases WHERE name = 'leadline'"))
    if exists and os.environ.get("LEADLINE_CLICKHOUSE_MAY_DROP") != "yes":
        pytest.fail(
            "the server of LEADLINE_CLICKHOUSE_URL has a database `leadline`, which this suite would drop; "
            "use an empty server, or set LEADLINE_CLICKHOUSE_MAY_DROP=yes"
        )
    client.command("DROP DATABASE IF EXISTS leadline SYNC")
    client.close()
