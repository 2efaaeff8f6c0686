"""OTLP over gRPC (4317): metrics and logs. Bytes go to the same decoders as OTLP over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc

from leadline.ingest.decode import batch_of_body, take_log_columns, unreadable
from leadline.ingest.http import Authorize
from leadline.ingest.intake import Intake, Receipt
from leadline.ingest.limits import sender_key
from leadline.ingest.otlp_answer import protobuf_answer
from leadline.ingest.sources import Sender
from leadline.model.errors import BusyError, DataError, LeadlineError, RefusedError, StoreError, WorldError
from leadline.model.principal import WRITE, Caller, Principal
from leadline.wire.otlp.logs import decode_otlp_logs
from leadline.wire.otlp.metrics import decode_otlp_metrics

if TYPE_CHECKING:  # generic in the stubs only
    _Handler = grpc.GenericRpcHandler[bytes, bytes]
else:
    _Handler = grpc.GenericRpcHandler

PROTOBUF = "application/x-protobuf"
WORKERS = 8  # each waits for its append; the decoding itself is short
HANDSHAKE_MS_MAX = 10_000  # as a header of HTTP: gRPC's own 120 s let idle connections hold files for as long
IDLE_MS_MAX = 300_000  # without a request; exporters send once a minute or more often, and connect again by themselves
Take = Callable[[Intake, bytes, Principal, Sender], Receipt]


def take_metrics(intake: Intake, body: bytes, principal: Principal, sender: Sender) -> Receipt:
    """ExportMetricsServiceRequest."""
    intake.require_scanners()
    return intake.samples(decode_otlp_metrics(body, PROTOBUF), principal, sender)


def take_logs(intake: Intake, body: bytes, principal: Principal, sender: Sender) -> Receipt:
    """ExportLogsServiceRequest."""
    columns = decode_otlp_logs(body, PROTOBUF)
    return take_log_columns(intake, columns, batch_of_body(principal.tenant, "event", body), principal, sender)


METHODS: tuple[tuple[str, str, Take], ...] = (
    ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", "/v1/metrics", take_metrics),
    ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", "/v1/logs", take_logs),
)


class OtlpGrpcServer(_Handler):
    """The gRPC listener. Construction is inert; `start()` binds, `stop()` answers what is in flight."""

    def __init__(
        self, intake: Intake, authorize: Authorize, address: str, tls: tuple[bytes, bytes] | None = None
    ) -> None:
        """`tls`: key and certificate chain, as PEM; without them the listener speaks in the clear."""
        self._tls = tls
        self._intake = intake
        self._authorize = authorize
        self._address = address
        self._takes = {method: (path, take) for method, path, take in METHODS}
        self._server: grpc.Server | None = None
        self.port = 0

    def start(self) -> None:
        """Listen. Errors: WorldError if the address cannot be bound."""
        limit = self._intake.config.body_bytes_max
        server = grpc.server(
            ThreadPoolExecutor(WORKERS, thread_name_prefix="otlp-grpc"),
            handlers=[self],
            options=(
                ("grpc.max_receive_message_length", limit),  # before and after it is unpacked
                ("grpc.so_reuseport", 0),
                ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS_MAX),
                ("grpc.max_connection_idle_ms", IDLE_MS_MAX),
            ),
            maximum_concurrent_rpcs=self._intake.config.requests_max,
        )
        try:
            if self._tls is None:
                self.port = server.add_insecure_port(self._address)
            else:
                self.port = server.add_secure_port(self._address, grpc.ssl_server_credentials([self._tls]))
        except RuntimeError as error:
            raise WorldError(f"cannot listen for OTLP/gRPC on {self._address}: {error}") from error
        server.start()
        self._server = server

    def stop(self, grace_s: float = 5.0) -> None:
        """Take no more requests and wait for those in flight."""
        if self._server is not None:
            self._server.stop(grace_s).wait()
            self._server = None

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a method, by its full name; None for one we do not serve (traces)."""
        found = self._takes.get(handler_call_details.method)
        if found is None:
            return None
        path, take = found

        def export(body: bytes, context: grpc.ServicerContext) -> bytes:
            return self._export(path, take, body, context)

        return grpc.unary_unary_rpc_method_handler(export)

    def _export(self, path: str, take: Take, body: bytes, context: grpc.ServicerContext) -> bytes:
        headers = {str(name).lower(): str(value) for name, value in context.invocation_metadata() or ()}
        host = _peer_host(context.peer())
        name = f"{headers.get('user-agent', 'unknown').split(' ')[0][:80]} at {host}"
        sender = Sender("", "otlp-grpc", name)
        try:
            peer = _peer_host(context.peer()) or "unknown"
            principal = self._authorize(Caller(headers, WRITE, "POST", path, peer))
            if not principal.may(WRITE):
                raise RefusedError(
                    "unauthorized", f"role {principal.role} may not write; use a token of the role write"
                )
            sender = Sender(principal.tenant, "otlp-grpc", name)
            receipt = self._take(take, body, principal, sender, host)
            receipt.done.result()
            return protobuf_answer(path, receipt)
        except LeadlineError as error:
            reason, status = _status(error)
            amount = error.amount if isinstance(error, RefusedError) else 1
            self._intake.refuse(sender, reason, str(error), amount)
            context.abort(status, str(error))
            raise AssertionError("abort does not return") from error

    def _take(self, take: Take, body: bytes, principal: Principal, sender: Sender, host: str) -> Receipt:
        """Decode the body, which holds its share of `ingest.decode_bytes_max` until that is done."""
        place = self._intake.room.enter(sender_key(host.strip("[]")))
        try:
            place.hold(len(body))
            place.arrived()
            return take(self._intake, body, principal, sender)
        except LeadlineError:
            raise
        except Exception as error:
            raise unreadable(error) from error
        finally:
            place.close()


def _status(error: LeadlineError) -> tuple[str, grpc.StatusCode]:
    """Our reason and gRPC's status; OTLP senders try again on UNAVAILABLE only."""
    if isinstance(error, BusyError):
        return error.reason, grpc.StatusCode.UNAVAILABLE
    if isinstance(error, StoreError):
        return "store_unavailable", grpc.StatusCode.UNAVAILABLE
    if isinstance(error, RefusedError):
        denied = {"unauthorized": grpc.StatusCode.UNAUTHENTICATED, "forbidden": grpc.StatusCode.PERMISSION_DENIED}
        return error.reason, denied.get(error.reason, grpc.StatusCode.INVALID_ARGUMENT)
    assert isinstance(error, DataError), error
    return "malformed", grpc.StatusCode.INVALID_ARGUMENT


def _peer_host(peer: str) -> str:
    """`ipv4:127.0.0.1:5061` and `ipv6:[::1]:5061` without the port, which changes with every connection."""
    return peer.partition(":")[2].rpartition(":")[0].replace("%5B", "[").replace("%5D", "]") or peer
