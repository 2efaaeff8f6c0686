"""The HTTP ways in, as a plain ASGI application that `server` mounts.

It stands beside the framework that serves the API, not inside it: a remote-write request costs some tens of
microseconds here, and a routing framework alone would double that.

    POST /api/v1/write            Prometheus remote-write 1.0 and 2.0
    POST /v1/metrics, /v1/logs    OTLP over HTTP, protobuf and JSON
    POST /api/v1/rows/{table}     rows of any table: NDJSON or an Arrow stream
    POST /api/v1/ring             segments of event rings
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from leadline.ingest.decode import (
    RING,
    ROWS,
    LargeBodyError,
    Request,
    refuse_traces,
    take_logs,
    take_metrics,
    take_remote_write,
    take_rows,
    unreadable,
)
from leadline.ingest.intake import Intake, Receipt
from leadline.ingest.limits import BODY_IDLE_S_MAX, BODY_S_MAX, Place, Turns, sender_key
from leadline.ingest.ring import take_ring
from leadline.ingest.sources import Sender
from leadline.ingest.together import Gathering, Taken, is_small, take_together
from leadline.model.errors import BusyError, DataError, LeadlineError, RefusedError, StoreError
from leadline.model.principal import WRITE, Caller, Principal
from leadline.model.tables.fabric import WATERMARK
from leadline.wire.body import Body
from leadline.wire.ring.pace import LOOK_HEADER, look_s

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Authorize = Callable[[Caller], Principal]
"""From what is known of a request to who asks. Raises RefusedError("unauthorized") or ("forbidden")."""

OUR_SOCKET = "leadline.socket"  # in the scope of a request that came over the UNIX socket

WRITE_PATH = "/api/v1/write"
WATERMARK_ROWS = f"{ROWS}{WATERMARK.name}"
SMALL_BYTES = 8 << 20  # unpacked; Prometheus sends 1 MB, an agent's spool 16 MiB after an outage; rows take 0.1 s a MB
LOOK_KEPT_S = 5.0  # agents are counted so often
UNREAD = (408, 413)  # what is answered before the body was read to its end
LINGER_S_MAX = 5.0  # how long a refused sender may take to read the answer before its connection is cut

# How each kind of refusal is told: status, and whether the sender should try again.
STATUS = {
    "body_slow": 408,
    "body_too_large": 413,
    "decompressed_too_large": 413,
    "unsupported_encoding": 415,
    "unauthorized": 401,
    "forbidden": 403,
    "verdict_table": 403,
    "unknown_table": 404,
    "span": 404,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    unread: bool = False  # the rest of the body was not read: this connection carries no more requests


class IngestApp:
    """ASGI application of the ways in. `decoders` runs the decoding off the event loop."""

    def __init__(
        self, intake: Intake, decoders: Executor, authorize: Authorize, agents: Callable[[], int] = lambda: 0
    ) -> None:
        """`agents`: how many of them send, by which each is told how often to look into rings."""
        self._intake = intake
        self._agents = agents
        self._gathering = Gathering(self._decode_together)
        self._waiting: dict[Future[None], asyncio.Future[None]] = {}
        self._look, self._look_due = "0", 0.0  # what agents are told, and until when
        self._decoders = decoders
        self._authorize = authorize
        config = intake.config
        self._turns = Turns(decoders, config.decoders + 1, config.requests_max)
        # A large body takes seconds: with all decoders at such, everybody else would wait for them.
        self._large_turns = Turns(decoders, max(1, config.decoders - 1), config.requests_max)

    @staticmethod
    def serves(path: str) -> bool:
        """Whether this application answers for a path."""
        return path in ROUTES or path.startswith(ROWS)

    @staticmethod
    def template(path: str) -> str:
        """The route of a path that it serves, without the names that stand in it."""
        return f"{ROWS}{{table}}" if path.startswith(ROWS) else path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":  # a web socket; to close it at once is to answer 403
            await send({"type": "websocket.close"})
            return
        answer = await self._answer(scope, receive)
        headers = [(b"content-type", answer.content_type.encode()), (b"content-length", b"%d" % len(answer.body))]
        headers += [(name.encode(), value.encode()) for name, value in answer.headers]
        unread = answer.unread
        if unread:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": unread})
        if unread:
            await _linger(receive)
            await send({"type": "http.response.body", "body": b""})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path = scope["path"]
        if not self.serves(path):
            return _error(404, "not_found", f"nothing is served at {path}; telemetry is taken at {', '.join(PATHS)}")
        if scope["method"] != "POST":
            return _error(405, "method", f"{path} takes POST, got {scope['method']}", ("allow", "POST"))
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        way = _way(path)
        sender = Sender("", way, _sender_name(scope, headers))
        try:
            principal = self._authorize(Caller(headers, WRITE, "POST", path, peer_of(scope)))
            if not principal.may(WRITE):
                raise RefusedError(
                    "unauthorized", f"role {principal.role} may not write; use a token of the role write"
                )
            sender = Sender(principal.tenant, way, sender.name)
            body = self._body(path, headers)
            place = self._intake.room.enter(_sender_key(scope))
            try:
                await self._read(body, place, headers, receive)
                receipt = await self._decode(Request(path, headers, body, principal, sender, place.hold), place.sender)
            finally:
                place.close()
            await self._stored(receipt.done)
            answer = _accepted(path, headers, receipt)
            if path == WATERMARK_ROWS:
                answer = replace(answer, headers=((LOOK_HEADER, self._look_s()),))
            return answer
        except LeadlineError as error:
            return self._refused(sender, error)

    def _look_s(self) -> str:
        """How often an agent is to look into rings, seconds."""
        now = asyncio.get_running_loop().time()
        if now >= self._look_due:
            self._look, self._look_due = f"{look_s(self._agents()):.2f}", now + LOOK_KEPT_S
        return self._look

    def _body(self, path: str, headers: Mapping[str, str]) -> Body:
        config = self._intake.config
        # Remote-write is always snappy; some senders do not say so.
        encoding = headers.get("content-encoding", "snappy" if path == WRITE_PATH else "")
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > config.body_bytes_max:
            raise RefusedError(
                "body_too_large",
                f"the body has {length} bytes; at most {config.body_bytes_max} (ingest.body_bytes_max)",
            )
        return Body(encoding, config.body_bytes_max, config.decompressed_bytes_max)

    async def _read(self, body: Body, place: Place, headers: Mapping[str, str], receive: Receive) -> None:
        """Feed the body as it arrives. What all bodies hold together counts from their first byte on."""
        due = asyncio.get_running_loop().time() + BODY_S_MAX
        more = True
        while more:
            message = await _in_time(receive, due)
            if message["type"] == "http.disconnect":
                expected = headers.get("content-length", "more")
                raise DataError("request body", f"{expected} bytes", "the sender hung up")
            chunk = message.get("body", b"")
            if chunk:
                place.hold(len(chunk))
                body.feed(chunk)
            more = message.get("more_body", False)
        place.arrived()

    async def _decode(self, request: Request, whose: str) -> Receipt:
        small = replace(request, small_bytes=SMALL_BYTES)
        if is_small(request) and self._gathering.has_room(small, whose):
            return await self._gathering.take(small, whose)
        try:
            return await self._turns.run(whose, partial(self._take, small))
        except LargeBodyError:
            return await self._large_turns.run(whose, partial(self._take, request))

    async def _decode_together(self, requests: Sequence[Request]) -> list[Taken]:
        """Bodies of one path and principal, which is what turns are for here: each of them is small."""
        whose = f"{requests[0].path} of {requests[0].principal.signature()}"
        return await self._turns.run(whose, partial(take_together, self._intake, self._take, requests))

    async def _stored(self, done: Future[None]) -> None:
        """Wait until rows are stored. Of bodies that were taken together one waits for the lane, the others for that
        one: to be called from another thread costs a system call each time. Errors: StoreError."""
        waiting = self._waiting.get(done)
        if waiting is None:
            waiting = self._waiting[done] = asyncio.wrap_future(done)
            waiting.add_done_callback(partial(self._came, done))
        await asyncio.shield(waiting)

    def _came(self, done: Future[None], waiting: asyncio.Future[None]) -> None:
        self._waiting.pop(done, None)
        if not waiting.cancelled():
            waiting.exception()  # looked at, also where everybody who waited has hung up

    def _take(self, request: Request) -> Receipt:
        try:
            if request.path.startswith(ROWS):
                return take_rows(self._intake, request, request.path[len(ROWS) :])
            return ROUTES[request.path](self._intake, request)
        except (LeadlineError, LargeBodyError):
            raise
        except Exception as error:
            raise unreadable(error) from error

    def _refused(self, sender: Sender, error: LeadlineError) -> Answer:
        text = str(error)
        if isinstance(error, BusyError):
            self._intake.refuse(sender, error.reason, text)
            # Prometheus throws away what is answered 429, unless it is told otherwise (retry_on_http_429).
            return _error(
                503 if sender.way == "remote-write" else 429,
                error.reason,
                text,
                ("retry-after", str(error.retry_after_s)),
            )
        if isinstance(error, StoreError):
            self._intake.refuse(sender, "store_unavailable", text)
            return _error(503, "store_unavailable", text, ("retry-after", "5"))
        if isinstance(error, RefusedError):
            self._intake.refuse(sender, error.reason, text, error.amount)
            if error.reason == "body_slow" and sender.way == "remote-write":  # which gives up what is answered 408
                return replace(_error(503, error.reason, text, ("retry-after", "5")), unread=True)
            return _error(STATUS.get(error.reason, 400), error.reason, text)
        self._intake.refuse(sender, "malformed", text)
        return _error(400, "malformed", text)


ROUTES: dict[str, Callable[[Intake, Request], Receipt]] = {
    WRITE_PATH: take_remote_write,
    "/v1/metrics": take_metrics,
    "/v1/logs": take_logs,
    "/v1/traces": refuse_traces,
    RING: take_ring,
}
PATHS = (WRITE_PATH, "/v1/metrics", "/v1/logs", f"{ROWS}TABLE", RING)


async def _linger(receive: Receive) -> None:
    """Let the sender finish reading the answer: what it still sends is thrown away, for a bounded time.

    To close a socket with unread bytes resets the connection, and the reset can overtake the answer (RFC 9112,
    section 9.6): the sender would see a broken connection instead of "body too large".
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S_MAX):
            while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                pass


async def _in_time(receive: Receive, due: float) -> dict[str, Any]:
    """The next message of a body that must be whole by `due`, by the loop's clock. Errors: RefusedError."""
    loop = asyncio.get_running_loop()
    idle = loop.time() + BODY_IDLE_S_MAX
    try:
        async with asyncio.timeout_at(min(due, idle)):
            return await receive()
    except TimeoutError:
        what = f"nothing of the body came for {BODY_IDLE_S_MAX:.0f} s"
        if due < idle:
            what = f"the body was not whole after {BODY_S_MAX:.0f} s"
        raise RefusedError("body_slow", f"{what}; send smaller batches, or see what holds them up") from None


def _sender_key(scope: Scope) -> str:
    client = scope.get("client")
    return sender_key(client[0]) if client else "our socket"


def _way(path: str) -> str:
    if path == WRITE_PATH:
        return "remote-write"
    if path == RING:
        return "ring"
    return "rows" if path.startswith(ROWS) else "otlp-http"


def peer_of(scope: Scope) -> str:
    """The address of who asks; empty over our socket, and only there: a connection that was reset has no address."""
    return "" if scope.get(OUR_SOCKET) else (scope.get("client") or ("unknown", 0))[0]


def _sender_name(scope: Scope, headers: Mapping[str, str]) -> str:
    client = scope.get("client") or ("our socket", 0)  # over a UNIX socket nobody has an address
    return f"{headers.get('user-agent', 'unknown').split(' ')[0][:80]} at {client[0]}"


def _error(status: int, reason: str, text: str, *headers: tuple[str, str]) -> Answer:
    body = json.dumps({"error": {"reason": reason, "message": text}}).encode() + b"\n"
    return Answer(status, body, headers=headers, unread=status in UNREAD)


def _accepted(path: str, headers: Mapping[str, str], receipt: Receipt) -> Answer:
    if path == WRITE_PATH:
        return _remote_write_answer(headers, receipt)
    if path.startswith(ROWS):
        return Answer(200, json.dumps({"rows": receipt.taken}).encode() + b"\n")
    if path == RING:
        told = {"rows": receipt.taken, "tables": dict(receipt.tables), "refused": dict(receipt.refused)}
        return Answer(200, json.dumps(told).encode() + b"\n")
    return _otlp_answer(path, headers, receipt)


def _remote_write_answer(headers: Mapping[str, str], receipt: Receipt) -> Answer:
    """204; or 400 after a partial write: the specification's way to say 'do not send this again'."""
    written = (
        ("x-prometheus-remote-write-samples-written", str(receipt.taken)),
        ("x-prometheus-remote-write-histograms-written", "0"),
        ("x-prometheus-remote-write-exemplars-written", "0"),
    )
    if not receipt.wrong:
        return Answer(204, headers=written)
    reasons = ", ".join(f"{amount} {reason}" for reason, amount in receipt.refused.items() if amount)
    text = f"{receipt.taken} samples stored, others refused ({reasons}): {'; '.join(receipt.messages[:3])}"
    refused = _error(400, "partial", text)
    return Answer(400, refused.body, headers=written)


def _otlp_answer(path: str, headers: Mapping[str, str], receipt: Receipt) -> Answer:
    from leadline.ingest.otlp_answer import json_answer, protobuf_answer

    if headers.get("content-type", "").startswith("application/json"):
        return Answer(200, json_answer(path, receipt))
    return Answer(200, protobuf_answer(path, receipt), "application/x-protobuf")
