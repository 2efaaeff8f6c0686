"""A test double of a ClickHouse server: ClickHouse's HTTP interface in front of a chDB process.

    python clickhouse_http.py DIRECTORY [--user U --password P]     prints "port N" when it listens

What is real: the SQL engine, its storage, typed parameters, settings, the formats. What is not: this front
(written from ClickHouse's documentation and from what clickhouse-connect sends), users, sessions, clusters,
Distributed tables, replication, Keeper, TLS, progress headers, limits of a server. It listens on loopback only.

Every distinct set of settings gets a connection of its own, as every request has its own settings on a server.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import re
import tempfile
import threading
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import chdb

# Parameters of the HTTP interface itself, as opposed to settings of the engine.
TRANSPORT = frozenset({
    "query", "database", "session_id", "session_timeout", "session_check", "query_id", "quota_key", "compress",
    "decompress", "default_format", "wait_end_of_query", "client_protocol_version", "role", "buffer_size",
    "send_progress_in_http_headers", "http_headers_progress_interval_ms", "enable_http_compression",
    "cancel_http_readonly_queries_on_client_close",
})  # fmt: skip
INSERT = re.compile(r"\A\s*(INSERT\s+INTO\s.*?)\s+FORMAT\s+(\w+)\s*\Z", re.IGNORECASE | re.DOTALL)
FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*;?\s*\Z", re.IGNORECASE)
ANSWERS = re.compile(r"\A\s*(SELECT|WITH|SHOW|DESCRIBE|DESC|EXISTS|EXPLAIN)\b", re.IGNORECASE)
CONNECTIONS_MAX = 16


class Engine:
    """chDB connections by settings, the least recently used one closed when there are too many."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.keep_open = chdb.connect(path)
        self.lock = threading.Lock()
        self.connections: OrderedDict[tuple[tuple[str, str], ...], tuple[Any, threading.Lock]] = OrderedDict()

    def run(self, sql: str | bytes, form: str, settings: dict[str, str], parameters: dict[str, str]) -> bytes:
        connection, lock = self._connection(settings)
        with lock:
            try:
                return connection.query(sql, form, params=parameters).bytes() or b""
            except Exception:
                # chDB would give what it had written before it failed as the next answer; a server does not.
                with self.lock:
                    self.connections.pop(tuple(sorted(settings.items())), None)
                raise

    def _connection(self, settings: dict[str, str]) -> tuple[Any, threading.Lock]:
        key = tuple(sorted(settings.items()))
        with self.lock:
            if key not in self.connections:
                if len(self.connections) >= CONNECTIONS_MAX:
                    self.connections.popitem(last=False)
                connection = chdb.connect(self.path)
                for name, value in sorted(settings.items(), key=lambda item: item[0] == "readonly"):
                    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
                    connection.query(f"SET {name} = '{escaped}'")
                self.connections[key] = (connection, threading.Lock())
            self.connections.move_to_end(key)
            return self.connections[key]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # head and body are two packets: the second would wait 40 ms for the first to be acknowledged
    )
    engine: Engine
    authorization: str | None = None

    def do_GET(self) -> None:
        if self.path == "/ping":
            self._answer(200, b"Ok.\n", {})
        else:
            self._execute()

    def do_POST(self) -> None:
        self._execute()

    def _execute(self) -> None:
        body = self._body()
        if self.authorization and self.headers.get("Authorization") != self.authorization:
            self._fail("Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)")
            return
        given = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        parameters = {name[6:]: value for name, value in given.items() if name.startswith("param_")}
        settings = {k: v for k, v in given.items() if k not in TRANSPORT and not k.startswith("param_")}
        query = given.get("query", "")
        try:
            head, newline, rest = body.partition(b"\n")
            if INSERT.match(query):
                answer, form = self._insert(query, body, settings), None
            elif newline and INSERT.match(head.decode(errors="replace")):
                answer, form = self._insert(head.decode(), rest, settings), None
            else:
                sql = query + ("\n" if query and body else "") + body.decode()
                answer, form = self._query(sql, given.get("default_format", "TabSeparated"), settings, parameters)
        except Exception as error:
            self._fail(str(error))
            return
        headers = {"X-ClickHouse-Summary": json.dumps({"read_rows": "0"}), "X-ClickHouse-Timezone": "UTC"}
        if form:
            headers["X-ClickHouse-Format"] = form
        self._answer(200, answer, headers)

    def _query(
        self, sql: str, default: str, settings: dict[str, str], parameters: dict[str, str]
    ) -> tuple[bytes, str | None]:
        named = FORMAT.search(sql)
        form = named.group(1) if named else default
        answer = self.engine.run(sql, form, settings, parameters)
        return answer, form if ANSWERS.match(sql) else None

    def _insert(self, query: str, data: bytes, settings: dict[str, str]) -> bytes:
        found = INSERT.match(query)
        assert found
        if not data:
            return b""
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            sql = f"{found.group(1)} FROM INFILE '{file.name}' FORMAT {found.group(2)}"
            return self.engine.run(sql, "TabSeparated", settings, {})

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            body = b"".join(parts)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        encoding = self.headers.get("Content-Encoding", "")
        if encoding == "gzip":
            return gzip.decompress(body)
        if encoding == "lz4":
            import lz4.frame

            return bytes(lz4.frame.decompress(body))
        return body

    def _fail(self, text: str) -> None:
        found = re.search(r"Code: (\d+)", text)
        code = found.group(1) if found else "1002"
        status = {"516": 403, "60": 404, "62": 400, "159": 408}.get(code, 500)
        self._answer(status, text.encode(), {"X-ClickHouse-Exception-Code": code})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet: the tests read standard output."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--user", default="default")
    parser.add_argument("--password", default="")
    arguments = parser.parse_args()
    Handler.engine = Engine(arguments.directory)
    if arguments.password:
        pair = f"{arguments.user}:{arguments.password}".encode()
        Handler.authorization = "Basic " + base64.b64encode(pair).decode()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"port {server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
