"""A site to try sources on, and a double of a server that answers what a test says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from leadline.host.config import AgentConfig
from leadline.host.counts import AgentCounts
from leadline.host.sources.site import Site

RECORDED = Path(__file__).parent / "recorded"
BOOT_ID = "7f3a90b1-0000-4000-8000-000000000001"


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def site_with(**settings: Any) -> Site:
    config = AgentConfig(**settings)
    return Site(config, "h3", "h3/7f3a90b1", BOOT_ID, AgentCounts())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return site_with(ring_dir=tmp_path / "ring", sys_root=tmp_path / "sys")


class AnsweringDouble:
    """A double of Leadline's ways in: keeps what came, and answers the next of `answers`, at last 200."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                double.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers, text = double.answers.pop(0) if double.answers else (200, {}, b"{}")
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(text))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def answering() -> Iterator[AnsweringDouble]:
    double = AnsweringDouble()
    yield double
    double.close()
