"""A double of the server for agents of the mesh: a real roster says whom to probe, rows are taken and forgotten."""

from __future__ import annotations

import contextlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from leadline.server.mesh.roster import Member, Roster


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    roster = Roster()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body, answer = self.rfile.read(int(self.headers["content-length"])), b"{}"
        if self.path == "/api/v1/mesh/members":
            joined = self.server.roster.join(("", ""), Member(**json.loads(body)))
            answer = json.dumps({**joined._asdict(), "peers": [each._asdict() for each in joined.peers]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):
            self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    _Server((sys.argv[1], int(sys.argv[2])), _Handler).serve_forever()
