"""The storage host as a rank uses it: named objects and shards of text, over HTTP, with a checksum.

The server's side is `storage.server`; protocol:

    PUT /objects/NAME    body of `Content-Length` bytes, `Content-SHA256: <hex>`   201, or 422 if the sum differs
    GET /objects/NAME    200 with `Content-SHA256`, or 404
    GET /shards/NUMBER   200, text, made from the server's seed
"""

from __future__ import annotations

import hashlib
import http.client
import time

from leadline.model.errors import WorldError

TIMEOUT_S = 20.0
TRIES = 3
BETWEEN_S = 0.5


class StorageClient:
    """One connection at a time to one storage server. Not for several threads."""

    def __init__(self, address: str) -> None:
        """`address` is `host:port`."""
        host, _, port = address.rpartition(":")
        self._address = address
        self._connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)

    def put(self, name: str, body: bytes) -> None:
        """Store an object. Errors: WorldError after three tries; the server refused it or could not be reached."""
        self._ask("PUT", f"/objects/{name}", body, {"Content-SHA256": hashlib.sha256(body).hexdigest()})

    def get(self, name: str) -> bytes:
        """An object. Errors: WorldError: not there, not reached, or its bytes do not fit its checksum."""
        return self._ask("GET", f"/objects/{name}")

    def shard(self, number: int) -> str:
        """A shard of training text. Errors: WorldError."""
        return self._ask("GET", f"/shards/{number}").decode()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
        told = ""
        for attempt in range(TRIES):
            if attempt:
                time.sleep(BETWEEN_S * attempt)
            try:
                return self._once(method, path, body, headers or {})
            except (OSError, http.client.HTTPException) as error:
                told = f"{type(error).__name__}: {error}"
                self._connection.close()  # the next request opens a new one
        raise WorldError(f"storage {self._address}: {method} {path} failed {TRIES} times, last: {told}")

    def _once(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status >= 500:
            raise http.client.HTTPException(f"{answer.status} {answer.reason}")
        if answer.status >= 400:
            raise WorldError(
                f"storage {self._address}: {method} {path}: {answer.status} {data.decode(errors='replace')}"
            )
        expected = answer.getheader("Content-SHA256")
        if expected and method == "GET" and hashlib.sha256(data).hexdigest() != expected:
            raise http.client.HTTPException(f"{len(data)} bytes that do not fit their checksum")
        return data
