"""The program on an emulated storage host: keeps objects in a directory, serves text to train on.

    python -m leadline.lab.workloads.storage.server --listen 172.16.9.1:30500 --directory DIR [--seed N]

Bounded: objects of 256 MiB, 2 objects per name's first part are kept (`ckpt/step100` and `ckpt/step200`), the oldest
goes. Standard library only, so it starts in a tenth of a second.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import threading
import time
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from leadline.lab.workloads.storage.log import Request, line
from leadline.lab.workloads.text import Language

OBJECT_BYTES_MAX = 256 << 20
KEPT = 2  # objects per folder: a checkpoint is only worth something until the one after the next
CHUNK_BYTES = 1 << 18
NAME = re.compile(r"/objects/([\w-]+)/([\w.-]+)")
SHARD = re.compile(r"/shards/(\d{1,9})")
TIMEOUT_S = 60  # a client that stopped in the middle does not hold its thread for ever


class StorageServer(ThreadingHTTPServer):
    """Keeps objects under `directory`."""

    daemon_threads = True

    def __init__(self, listen: tuple[str, int], directory: Path, seed: int) -> None:
        super().__init__(listen, Handler)
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        language = Language(seed)
        self.shard = lru_cache(maxsize=64)(lambda number: language.shard(number, seed).encode())
        self.lock = threading.Lock()

    def keep(self, folder: str, name: str, part: Path) -> None:
        """Let a received object appear under its name, and let the oldest of its folder go."""
        with self.lock:
            home = self.directory / folder
            part.replace(home / name)
            objects = sorted(
                (path for path in home.iterdir() if path.suffix != ".part"), key=lambda p: p.stat().st_mtime_ns
            )
            for old in objects[:-KEPT]:
                old.unlink()


class Handler(BaseHTTPRequestHandler):
    """One connection; see `storage` for the protocol."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    server: StorageServer

    def do_GET(self) -> None:
        """An object or a shard."""
        began = time.monotonic()
        if match := SHARD.fullmatch(self.path):
            body = self.server.shard(int(match[1]))
            self._answer(200, body)
        elif (match := NAME.fullmatch(self.path)) and (path := self.server.directory / match[1] / match[2]).is_file():
            body = path.read_bytes()
            self._answer(200, body)
        else:
            self._answer(404, b"no such object")
            return
        self._tell(self.path.removeprefix("/objects/").removeprefix("/"), len(body), began, stored=False)

    def do_PUT(self) -> None:
        """An object, kept only if its bytes fit its checksum."""
        match = NAME.fullmatch(self.path)
        length = self.headers.get("Content-Length", "")
        if not match or not length.isdigit() or int(length) > OBJECT_BYTES_MAX:
            self.close_connection = True
            self._answer(400, b"expected PUT /objects/FOLDER/NAME with a Content-Length of at most 256 MiB")
            return
        began = time.monotonic()
        home = self.server.directory / match[1]
        home.mkdir(exist_ok=True)
        part = home / f"{match[2]}.{threading.get_native_id()}.part"
        digest = self._receive(part, int(length))
        if digest != self.headers.get("Content-SHA256"):
            part.unlink(missing_ok=True)
            self.close_connection = True
            self._answer(422, f"the bytes have SHA-256 {digest}, not what the request said".encode())
            return
        self.server.keep(match[1], match[2], part)
        self._tell(f"{match[1]}/{match[2]}", int(length), began, stored=True)
        self._answer(201, b"")

    def _receive(self, part: Path, length: int) -> str:
        """Read the body into a file; its SHA-256, or "" if it ended early."""
        digest = hashlib.sha256()
        with part.open("wb") as file:
            while length:
                piece = self.rfile.read(min(length, CHUNK_BYTES))
                if not piece:
                    return ""
                file.write(piece)
                digest.update(piece)
                length -= len(piece)
        return digest.hexdigest()

    def _tell(self, name: str, size: int, began: float, stored: bool) -> None:
        # The answer to a read is in the socket's buffer by then: of the network its time has only what waited for room.
        print(line(Request(name, size, time.monotonic() - began, stored)), flush=True)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-SHA256", hashlib.sha256(body).hexdigest())
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing per request; what was stored or read is told by `_tell`."""


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description="Storage of an emulated cluster: objects and text to train on.")
    parser.add_argument("--listen", required=True, metavar="ADDRESS:PORT")
    parser.add_argument("--directory", required=True, type=Path)
    parser.add_argument("--seed", type=int, default=0, help="seed of the text (default 0)")
    given = parser.parse_args()
    host, _, port = given.listen.rpartition(":")
    with StorageServer((host, int(port)), given.directory, given.seed) as server:
        print(f"listening on {given.listen}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
