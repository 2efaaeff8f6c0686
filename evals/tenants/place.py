"""A `leadline up` with tokens of several tenants, and requests to it that nothing makes tidy on their way."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import cramjam
import pyarrow as pa

from evals.jobs.place import free_ports
from evals.tenants.questions import Question
from evals.tenants.scene import PROVIDER, Row, Scene, Stream
from leadline.host.bound import bound_to_parent
from leadline.model.errors import WorldError
from leadline.model.ids import canonical_labels
from leadline.model.tables import BY_NAME
from leadline.runner.offline import judge_bundle
from leadline.server.tokens import file, token
from leadline.server.tokens.token import ID_BYTES, SECRET_BYTES

READY_S_MAX = 90.0
END_S_MAX = 40.0
ANSWER_S_MAX = 60.0
FOLLOWED_S = 3.0  # how long a stream of changes is read
ARROW = "application/vnd.apache.arrow.stream"
BUNDLE = ".leadline"
ROWS_OF_A_BODY = 5000
Answer = tuple[int, Mapping[str, str], bytes]

# Name of the token: (role, tenant, how long it is good in ns, 0: as long as this takes).
TOKENS: Mapping[str, tuple[str, str, int]] = {
    "root": ("admin", "", 0),
    "acme-read": ("read", "acme", 0),
    "acme-write": ("write", "acme", 0),
    "acme-operate": ("operate", "acme", 0),
    "provider-write": ("provider", PROVIDER, 0),
    "bob-read": ("read", "bob", 0),
    "bob-write": ("write", "bob", 0),
    "bob-operate": ("operate", "bob", 0),
    "bob-expired": ("read", "bob", 1),
    "acme-expired": ("read", "acme", 1),
    "bob-revoked": ("read", "bob", 0),
    "acme-revoked": ("operate", "acme", 0),
}
WRITES = {"acme": "acme-write", "bob": "bob-write", PROVIDER: "provider-write"}


def secrets_of(path: Path) -> dict[str, str]:
    """Make a token file with TOKENS, as `leadline token create` does; the secrets by their names."""
    found = {}
    for name, (role, tenant, lasts_ns) in TOKENS.items():
        now_ns = time.time_ns()
        made, found[name] = token.made(
            name, role, tenant, now_ns, lasts_ns, secrets.token_bytes(ID_BYTES + SECRET_BYTES)
        )
        file.changed(path, lambda before, made=made, now_ns=now_ns: token.added(before, made, now_ns))  # type: ignore[misc]
    for name in TOKENS:
        if name.endswith("-revoked"):
            file.changed(path, lambda before, name=name: token.revoked(before, name, time.time_ns()))  # type: ignore[misc]
    return found


class Server:
    """One `leadline up` on a store of its own."""

    def __init__(self, directory: Path, name: str, token_file: Path, given: Mapping[str, str]) -> None:
        """`given`: secrets by the names of their tokens."""
        self.name, self.secrets = name, given
        self._directory = directory / name
        self._directory.mkdir(parents=True)
        self.port, otlp_http, otlp_grpc = free_ports(3)
        self._environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("LEADLINE_")},
            "LEADLINE_SERVER__OTLP_HTTP_PORT": str(otlp_http),
            "LEADLINE_SERVER__OTLP_GRPC_PORT": str(otlp_grpc),
            "LEADLINE_RUNNER__PROVIDER": PROVIDER,
            "LEADLINE_RUNNER__ENABLED": "false",  # see `judged`
        }
        self._command = [
            sys.executable,
            "-m",
            "leadline.cli.main",
            "up",
            "--port",
            str(self.port),
            "--token-file",
            str(token_file),
            "--data-dir",
            str(self._directory / "store"),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def spawn(self) -> None:
        """Start it."""
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                bound_to_parent(self._command),
                env=self._environ,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Errors: WorldError with what it said."""
        end = time.monotonic() + READY_S_MAX
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.send("GET", "/ready")[0] == 200:
                    return
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > end:
                said = (self._directory / "log").read_text(errors="replace")
                raise WorldError(f"leadline up ({self.name}) is not ready; it said: {said[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL for what stays."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    # -- requests ----------------------------------------------------------------------------------------------

    def send(
        self, method: str, target: str, headers: Sequence[tuple[str, str]] = (), body: bytes = b"", who: str = ""
    ) -> Answer:
        """One request, its target as it is given. Errors: OSError, HTTPException, ValueError for what is no request."""
        given = [*headers, *([("authorization", f"Bearer {self.secrets[who]}")] if who else [])]
        for last in (False, True):
            made = self._connected()
            try:
                made.putrequest(
                    method, target, skip_host=any(k.lower() == "host" for k, _ in given), skip_accept_encoding=True
                )
                for name, value in given:
                    made.putheader(name, value)
                if body or method == "POST":
                    made.putheader("content-length", str(len(body)))
                made.endheaders(body or None)
                answer = made.getresponse()
                return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            except (OSError, http.client.HTTPException):
                self._forget()
                if last:
                    raise
        raise AssertionError("the second try returns or raises")

    def ask(self, question: Question) -> Answer:
        """The answer to a question; status 0 for one that never came."""
        try:
            return self.send(question.method, question.target, question.headers, question.body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._forget()
            return 0, {}, type(error).__name__.encode()

    def follow(self, headers: Sequence[tuple[str, str]], seconds: float = FOLLOWED_S) -> Answer:
        """What `/api/v1/changes` tells in some seconds."""
        with socket.create_connection(("127.0.0.1", self.port), ANSWER_S_MAX) as made:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
            made.sendall(f"GET /api/v1/changes HTTP/1.1\r\nhost: localhost:{self.port}\r\n{lines}\r\n".encode())
            end, got = time.monotonic() + seconds, b""
            while (left := end - time.monotonic()) > 0:
                made.settimeout(left)
                try:
                    chunk = made.recv(65_536)
                except TimeoutError:
                    break
                if not chunk:
                    break
                got += chunk
        status = got.split(b" ", 2)[1:2]
        return int(status[0]) if status else 0, {}, got

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S_MAX)
        return self._connection

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def json(self, target: str, who: str = "root", body: Mapping[str, Any] | None = None) -> Any:
        """An answer that must come. Errors: WorldError."""
        sent = json.dumps(body).encode() if body is not None else b""
        kind = [("content-type", "application/json")] if body is not None else []
        status, _, got = self.send("POST" if body is not None else "GET", target, kind, sent, who)
        if status != 200:
            raise WorldError(f"{self.name}: {target} as {who}: {status} {got[:500]!r}")
        return json.loads(got)

    def sql(self, statement: str, who: str = "root") -> list[Row]:
        """Rows of a SELECT."""
        rows: list[Row] = self.json("/api/v1/sql", who, {"sql": statement})["rows"]
        return rows

    # -- what it is given ------------------------------------------------------------------------------------------

    def play(self, scene: Scene, tenants: Sequence[str]) -> int:
        """Send what these tenants have, each with its own token; how many rows and samples. Errors: WorldError."""
        count = 0
        for tenant in tenants:
            for table, rows in scene.rows[tenant].items():
                for chunk in _chunks(rows):
                    count += self._take(
                        f"/api/v1/rows/{table}", ndjson(chunk), "application/x-ndjson", WRITES[tenant], len(chunk)
                    )
            for some in _chunks(scene.streams[tenant]):
                body = remote_write(some)
                samples = sum(len(each.samples) for each in some)
                count += self._take("/api/v1/write", body, "application/x-protobuf", WRITES[tenant], samples, "snappy")
        if PROVIDER in tenants:
            rows = scene.flows.num_rows
            count += self._take("/api/v1/rows/flow_sample", arrow_stream(scene.flows), ARROW, WRITES[PROVIDER], rows)
        return count

    def _take(self, target: str, body: bytes, kind: str, who: str, count: int, encoding: str = "") -> int:
        headers = [("content-type", kind), *([("content-encoding", encoding)] if encoding else [])]
        status, _, got = self.send("POST", target, headers, body, who)
        if status >= 300:
            raise WorldError(f"{self.name}: {target} as {who}: {status} {got[:500]!r}")
        return count

    def judged(self, span: tuple[int, int]) -> dict[str, pa.Table]:
        """The verdicts on all that is stored of a span, of all tenants; nothing of them is stored.

        From a bundle of this server, by what judges a live run too, window for window with the same outcome: two
        judgements of the same rows are the same, however busy the machine is. Errors: WorldError, JudgementError.
        """
        target = f"/api/v1/bundle?from={span[0]}&to={span[1]}"
        status, _, got = self.send("GET", target, who="root")
        if status != 200:
            raise WorldError(f"{self.name}: {target}: {status} {got[:500]!r}")
        path = self._directory / f"judged{BUNDLE}"
        path.write_bytes(got)
        return judge_bundle(path, provider=PROVIDER)

    def bring(self, verdicts: Mapping[str, pa.Table]) -> None:
        """Store verdicts as an operator's import. Errors: WorldError."""
        for name, all_rows in verdicts.items():
            # An hour's verdict ends with the hour, and what lies ahead is not taken.
            time_ns = all_rows[BY_NAME[name].time]
            rows = all_rows.filter(pa.compute.less(time_ns, pa.scalar(time.time_ns(), time_ns.type)))
            for tenant in pa.compute.unique(rows["tenant"]).to_pylist():
                mine = rows.filter(pa.compute.equal(rows["tenant"], tenant))
                given = [each for each in mine.column_names if each not in ("tenant", "cluster", "batch", "batch_row")]
                body = arrow_stream(mine.select(given))
                as_one = [("leadline-tenant", tenant), ("leadline-role", "operator"), ("content-type", ARROW)]
                status, _, got = self.send("POST", f"/api/v1/rows/{name}", as_one, body, "root")
                if status >= 300:
                    raise WorldError(f"{self.name}: verdicts in {name}: {status} {got[:500]!r}")


def _chunks(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for at in range(0, len(rows), ROWS_OF_A_BODY):
        yield rows[at : at + ROWS_OF_A_BODY]


def arrow_stream(rows: pa.Table) -> bytes:
    """Rows as an Arrow stream, for the same."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as out:
        out.write_table(rows)
    return bytes(stream.getvalue().to_pybytes())


def ndjson(rows: Sequence[Row]) -> bytes:
    """Rows as a body of `/api/v1/rows`."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def remote_write(streams: Sequence[Stream]) -> bytes:
    """A body of remote-write 1.0, packed."""
    import struct

    body = bytearray()
    for each in streams:
        stream = bytearray(canonical_labels(each.labels))
        for at_ms, value in each.samples:
            sample = b"\x09" + struct.pack("<d", value) + b"\x10" + varint(at_ms)
            stream += b"\x12" + varint(len(sample)) + sample
        body += b"\x0a" + varint(len(stream)) + stream
    return bytes(cramjam.snappy.compress_raw(bytes(body)))


def varint(value: int) -> bytes:
    """A whole number as protobuf writes it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def both(one: Callable[[], None], other: Callable[[], None]) -> None:
    """Two things at the same time; the first error is raised when both have ended."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(one), pool.submit(other)]:
            each.result()
