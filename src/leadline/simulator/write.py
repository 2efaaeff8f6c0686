"""Where simulated rows go: a bundle, a table's row group at a time, or a running Leadline. Rows dropped are counted.

    run ── tables ──> Sink ── one thread ──> Parquet in temporary files ── finish ──> NAME.leadline

Encoding and compressing leave Python's lock, so that the next chunk is made meanwhile on the other processor.
"""

from __future__ import annotations

import io
import os
import ssl
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import httpx
import pyarrow as pa

from leadline.host.found import Sample, Stream
from leadline.host.otlp import CONTENT_TYPE, metrics_request
from leadline.host.secret import Secret
from leadline.model.errors import UsageError, WorldError
from leadline.model.tables import Table
from leadline.store.bundle import Draft, our_versions, write_bundle
from leadline.store.bundle_format import Manifest
from leadline.store.bundle_stream import StreamedTables

HELD_MAX = 2  # chunks that wait for the writer
POST_ROWS, POST_SAMPLES = 100_000, 10_000
TRIES_MAX, RETRY_S = 60, 1.0
ARROW = "application/vnd.apache.arrow.stream"


class Sink(Protocol):
    """Takes rows, a table and a chunk at a time, each table in the order of time."""

    def write(self, table: Table, rows: pa.Table) -> None:
        """Take rows; returns before they are written. Errors of earlier ones are raised here."""

    def finish(self) -> int:
        """All is written when this returns. Returns: bytes."""

    def close(self) -> None:
        """Let everything go, also when it failed."""


class BundleSink:
    """A bundle in the making."""

    def __init__(self, path: Path, manifest: Manifest, config_text: str) -> None:
        self._path = path
        self._draft = Draft(manifest, config_text, path.parent)
        self._tables = StreamedTables(self._draft, path.parent)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bundle")
        self._waiting: list[Future[None]] = []

    def write(self, table: Table, rows: pa.Table) -> None:
        while len(self._waiting) > HELD_MAX:
            self._waiting.pop(0).result()
        self._waiting.append(self._pool.submit(self._tables.write, table, rows))

    def finish(self) -> int:
        for each in self._waiting:
            each.result()
        self._waiting.clear()
        self._tables.finish()
        return write_bundle(self._path, self._draft.chunks(), self._draft.size)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._tables.close()
        self._draft.close()


class ServerSink:
    """A running Leadline: samples go as the agents send them, by OTLP, other rows as Arrow to `/api/v1/rows/TABLE`.

    Its streams are made by the server from their samples: rows of `series` are kept here for their names.
    """

    def __init__(self, url: str, secret: Secret | None = None, verify: ssl.SSLContext | bool = True) -> None:
        headers = secret.headers() if secret else {}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=60.0, verify=verify)
        self._bytes = 0
        self._streams: dict[bytes, Stream] = {}

    def write(self, table: Table, rows: pa.Table) -> None:
        if table.name == "series":
            given = (rows[name].to_pylist() for name in ("series", "name", "labels", "unit", "type"))
            for series, name, labels, unit, kind in zip(*given, strict=True):
                self._streams[series] = Stream(name, tuple(labels), kind == "counter", unit or "")
        elif table.name == "metric_sample":
            for begin in range(0, rows.num_rows, POST_SAMPLES):
                self._samples(rows.slice(begin, POST_SAMPLES))
        else:
            self._rows(table, rows)

    def _samples(self, rows: pa.Table) -> None:
        columns = (rows[name].to_pylist() for name in ("series", "time_ns", "value"))
        samples = [Sample(self._streams[series], at_ns, value) for series, at_ns, value in zip(*columns, strict=True)]
        self._post("/v1/metrics", CONTENT_TYPE, metrics_request(samples, (), ()))

    def _rows(self, table: Table, rows: pa.Table) -> None:
        given = rows.select([column.name for column in table.given])
        for begin in range(0, rows.num_rows, POST_ROWS):
            body = io.BytesIO()
            part = given.slice(begin, POST_ROWS).unify_dictionaries().combine_chunks()
            with pa.ipc.new_stream(body, part.schema) as stream:
                stream.write_table(part)
            self._post(f"/api/v1/rows/{table.name}", ARROW, body.getvalue())

    def _post(self, path: str, content_type: str, body: bytes) -> None:
        for _ in range(TRIES_MAX):
            try:
                answer = self._client.post(path, content=body, headers={"Content-Type": content_type})
            except httpx.HTTPError as error:
                raise WorldError(f"{self._client.base_url}: {error}; is `leadline up` running there?") from error
            if answer.status_code not in (429, 503):
                break
            time.sleep(RETRY_S)  # it is full; a batch that comes again is the same batch
        if answer.status_code >= 300:
            raise WorldError(f"{self._client.base_url}{path} answered {answer.status_code}: {answer.text[:300]}")
        self._bytes += len(body)

    def finish(self) -> int:
        return self._bytes

    def close(self) -> None:
        self._client.close()


def bundle_sink(path: Path, from_ns: int, to_ns: int, config_text: str) -> BundleSink:
    """A sink for a bundle of this span."""
    return BundleSink(path, Manifest(from_ns, to_ns, versions=our_versions()), config_text)


# Bytes of a row in a bundle, measured on a fleet of 1,000 GPUs; for the estimate before the run.
ROW_BYTES = {
    "metric_sample": 6.0, "series": 12.0, "step": 22.0, "collective": 16.0, "flow_sample": 16.0, "event": 12.0,
    "relation": 9.0,
}  # fmt: skip


def room_needed(rows: dict[str, float]) -> int:
    """Bytes of disk for so many rows: the temporary files and the bundle made of them."""
    return int(2 * sum(ROW_BYTES.get(name, 20.0) * count for name, count in rows.items()))


def require_room(directory: Path, needed: int) -> None:
    """Errors: UsageError if the disk cannot hold it, or if there is no such directory."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is no directory; make it first")
    stat = os.statvfs(directory)
    free = stat.f_bavail * stat.f_frsize
    if needed > free * 0.9:
        raise UsageError(
            f"about {needed / 1e9:.1f} GB are needed and {directory} has {free / 1e9:.1f} GB free; fewer --minutes, "
            "--detail hosts or jobs, a longer --metrics-every, or another disk"
        )
