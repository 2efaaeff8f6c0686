"""A test double of an OpenAI-compatible API: POST /v1/chat/completions on loopback, answering as a test tells it.

What is real: HTTP, the request as it is sent, the shape of answers (written from the API's reference). What is not: any
model. An answer is a text that the model says, or a function that gets the handler and writes what it likes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = str | Callable[[BaseHTTPRequestHandler], None]


class OpenAiApi:
    """The double. `answers` are given in order, the last one again and again; `requests` are what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                double.requests.append(json.loads(body))
                double.headers.append({name.lower(): value for name, value in self.headers.items()})
                answer = double.answers.pop(0) if len(double.answers) > 1 else double.answers[0]
                if self.path != "/v1/chat/completions":
                    send(self, 404, b'{"error": {"message": "no such path"}}')
                elif callable(answer):
                    answer(self)
                else:
                    send(self, 200, completion(answer))

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # who asks may hang up

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @contextmanager
    def listening(self) -> Iterator[OpenAiApi]:
        """The double, for the time of a `with`."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def sent(self) -> str:
        """Everything that was ever asked, as text."""
        return json.dumps(self.requests, ensure_ascii=False)


def completion(content: str, tokens_in: Any = 1300, tokens_out: Any = 120) -> bytes:
    """The body of an answer in which the model says `content`."""
    body = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_750_000_000, "model": "double",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
        "usage": {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": 1420},
    }  # fmt: skip
    return json.dumps(body).encode()


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    """One whole answer."""
    handler.send_response(status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def redirect(to: str) -> Answer:
    """An answer that sends elsewhere, in the way that a client repeats its POST."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(307)
        handler.send_header("location", to)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


def said(*sentences: tuple[str, list[Any]]) -> str:
    """What a model says that obeys the schema."""
    return json.dumps({"sentences": [{"text": text, "cites": cites} for text, cites in sentences]})
