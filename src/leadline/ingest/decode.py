"""One function per way in: body bytes to columns to the intake. Runs on decoder threads; knows no sockets."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from leadline.ingest.intake import Bodies, Intake, Receipt
from leadline.ingest.sources import Sender
from leadline.model.errors import DataError, LeadlineError, RefusedError
from leadline.model.names import event_entity
from leadline.model.principal import OPERATE, Principal
from leadline.model.tables import BY_NAME, TABLES, Identity, Table, renamed
from leadline.model.tables.accounts import EXPECTATION
from leadline.model.tables.verdicts import ACTION, ANALYSIS_RUN, EVENT, MARK
from leadline.wire.body import Body, Hold, without_bound
from leadline.wire.murmur import murmur3_slices
from leadline.wire.otlp.logs import decode_otlp_logs
from leadline.wire.otlp.metrics import decode_otlp_metrics
from leadline.wire.remote_write.requests import decode_remote_write
from leadline.wire.rows import NDJSON, decode_arrow, decode_rows, rows_of_alike

log = logging.getLogger(__name__)

OBJECTS_BYTES = (
    3  # of Python that a byte of JSON becomes: measured 2.1 for the smallest rows of `event`, 1.8 of `relation`
)
RING = "/api/v1/ring"
ROWS = "/api/v1/rows/"  # and the name of a table
ARROW = "application/vnd.apache.arrow.stream"
COUNTED_MAX = 2**32 - 1  # versions and revisions: 32 bits each of a verdict's stamp (`store.schema`)
_BATCH_ID = re.compile("[0-9a-fA-F]{32}")
V2 = "proto=io.prometheus.write.v2.request"


class LargeBodyError(Exception):
    """The body unpacks to more than is decoded at this turn; nothing became of it yet."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request with its body whole and not yet unpacked; `headers` have lower-case names."""

    path: str
    headers: Mapping[str, str]
    body: Body
    principal: Principal
    sender: Sender
    hold: Hold = without_bound
    small_bytes: int | None = None  # what a body may unpack to at this turn; None: whatever it may at all

    def unpacked(self) -> bytes:
        """The body, unpacked now. Errors: those of `Body.finish`; LargeBodyError, then it may be tried again."""
        if self.small_bytes is None:
            return self.body.finish(self.hold)
        data = self.body.finish_small(self.small_bytes, self.hold)
        if data is None:
            raise LargeBodyError
        return data


def take_remote_write(intake: Intake, request: Request) -> Receipt:
    """Prometheus remote-write; the content type says 1.0 or 2.0."""
    content_type = request.headers.get("content-type", "application/x-protobuf").lower().replace(" ", "")
    if not content_type.startswith("application/x-protobuf"):
        raise RefusedError(
            "unsupported_encoding", f"remote-write is application/x-protobuf with snappy, got {content_type}"
        )
    intake.require_scanners()
    samples = decode_remote_write(request.unpacked(), 2 if V2 in content_type else 1)
    return intake.samples(samples, request.principal, request.sender)


def take_metrics(intake: Intake, request: Request) -> Receipt:
    """OTLP metrics."""
    intake.require_scanners()
    samples = decode_otlp_metrics(request.unpacked(), _otlp_type(request))
    return intake.samples(samples, request.principal, request.sender)


def take_logs(intake: Intake, request: Request) -> Receipt:
    """OTLP logs, as rows of `event`. The body's hash is its batch id: the same body again is the same rows."""
    body = request.unpacked()
    columns = decode_otlp_logs(body, _otlp_type(request))
    return take_log_columns(intake, columns, _batch_of(request, "event", body), request.principal, request.sender)


def refuse_traces(intake: Intake, request: Request) -> Receipt:
    """OTLP traces, which nobody here reads. Errors: RefusedError("span"), always."""
    raise RefusedError("span", "Leadline takes metrics and logs, no traces; leave it out of the sender's traces")


def take_log_columns(
    intake: Intake, columns: dict[str, list[object]], batch: int, principal: Principal, sender: Sender
) -> Receipt:
    """Rows of `event` whose entities are read off their attributes."""
    attributes: list[Mapping[str, str]] = columns["attributes"]  # type: ignore[assignment]
    entities = [event_entity(each) for each in attributes]
    columns["entity_kind"] = [mapped.entity_kind for mapped in entities]
    columns["entity"] = [mapped.entity for mapped in entities]
    return intake.rows(EVENT, columns, len(attributes), batch, principal, sender)


def take_rows(intake: Intake, request: Request, name: str) -> Receipt:
    """Rows of a table by its name: NDJSON, or an Arrow IPC stream."""
    table = BY_NAME.get(name)
    if table is None or name in NOT_BY_ROWS:
        near = get_close_matches(name, [each for each in BY_NAME if each not in NOT_BY_ROWS], 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "see `leadline show tables`"
        hint = renamed(name) or hint
        hint = "say it with `leadline mark`, or POST /api/v1/marks" if name == MARK.name else hint
        raise RefusedError("unknown_table", f"no table {name!r} takes rows; {hint}")
    if name in OF_OPERATORS and not request.principal.may(OPERATE):
        raise RefusedError(
            "verdict_table",
            f"rows of {name} are Leadline's own ({table.written_by}): role {request.principal.role} sends what was "
            "measured, and verdicts follow from it; to bring verdicts from elsewhere is for the role operator",
        )
    body = request.unpacked()
    batch = _batch_of(request, name, body)
    content_type = request.headers.get("content-type", "application/x-ndjson").lower()
    try:
        if content_type.startswith(ARROW):
            arrow = decode_arrow(body, table)
            _require_counted(table, {name: arrow[name] for name in arrow.column_names})
            return intake.rows(table, arrow, arrow.num_rows, batch, request.principal, request.sender)
        request.hold(OBJECTS_BYTES * len(body))
        columns = decode_rows(body, content_type, table)
        _require_counted(table, columns)
    except DataError as error:
        raise RefusedError("bad_row", str(error)) from error
    count = len(next(iter(columns.values()), []))
    return intake.rows(table, columns, count, batch, request.principal, request.sender)


def take_rows_together(
    intake: Intake, requests: Sequence[Request], bodies: Sequence[bytes], name: str
) -> list[Receipt | LeadlineError] | None:
    """The same of small NDJSON bodies of one principal, in one append. None where one of them is out of the ordinary,
    but for a row that does not fit, which refuses its own body. Errors: BusyError."""
    table = BY_NAME.get(name)
    if table is None or name in NOT_BY_ROWS or name in OF_OPERATORS:
        return None
    refused, columns, counts = _decoded_together(bodies, table)
    found: list[Receipt | LeadlineError] = [refused.get(number, Receipt(Future(), 0)) for number in range(len(bodies))]
    good = [number for number in range(len(bodies)) if number not in refused]
    some = [requests[number] for number in good]
    batches = [_batch_of(request, name, bodies[number]) for number, request in zip(good, some, strict=True)]
    of = np.repeat(np.arange(len(good)), counts)
    part = Bodies(table, columns, of, batches)
    done = intake.rows_together([part] if len(of) else [], requests[0].principal, [each.sender for each in some])
    if done is None:
        return None
    for number, count in zip(good, counts, strict=True):
        found[number] = Receipt(done, count)
    return found


def _decoded_together(
    bodies: Sequence[bytes], table: Table
) -> tuple[dict[int, RefusedError], dict[str, list[Any]], list[int]]:
    """Bodies that are refused, by number; columns of all others one after the other, and how many rows each has."""
    if alike := rows_of_alike(bodies, table):
        return {}, *alike
    refused: dict[int, RefusedError] = {}
    columns: dict[str, list[Any]] = {column.name: [] for column in table.given}
    counts: list[int] = []
    for number, body in enumerate(bodies):
        try:
            each = decode_rows(body, NDJSON[0], table)
        except DataError as error:
            refused[number] = RefusedError("bad_row", str(error))
            continue
        counts.append(len(next(iter(each.values()), [])))
        for column, values in each.items():
            columns[column] += values
    return refused, columns, counts


def _require_counted(table: Table, columns: Mapping[str, Any]) -> None:
    """Version, revision and time of a verdict count from 0. A revision below 0 takes a verdict back, which is for the
    runner to do; of two verdicts of one key these say which is effective. Errors: DataError."""
    if table.identity is not Identity.REVISION:
        return
    for name in filter(None, ("version", "revision", table.newest)):
        if name not in columns:
            continue
        given = columns[name]
        given_N = np.array(given, np.int64) if isinstance(given, list) else given.to_numpy()
        most = 2**63 - 1 if name == table.newest else COUNTED_MAX
        wrong = np.flatnonzero((given_N < 0) | (given_N > most))
        if wrong.size:
            raise DataError(f"{table.name} row {wrong[0] + 1}", f"{name} from 0 to {most}", str(given_N[wrong[0]]))


# Streams are made from their samples, samples come by the metric ways, roll-ups by the store. Who marked what, and
# when, the server says: a mark silences rules and alerts.
NOT_BY_ROWS = frozenset({"series", "metric_sample", "metric_rollup", MARK.name})
# What Leadline concludes, promises and does: a tenant's word on it would alert, silence or spend as if it were ours. An
# operator may bring such rows from elsewhere (an import).
OF_OPERATORS = frozenset(
    {table.name for table in TABLES if table.identity is Identity.REVISION}
    | {ANALYSIS_RUN.name, EXPECTATION.name, ACTION.name}
)


def unreadable(error: Exception) -> DataError:
    """What a decoder raised that it should not have: no body may do more than be refused.

    One line of log and no trace: whoever can send such a body can send it again.
    """
    what = f"{type(error).__name__}: {error}"[:200]
    log.error("a decoder met a body that it cannot refuse by itself: %s", what)
    return DataError("the body", "what its content type says", what)


def _otlp_type(request: Request) -> str:
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type not in ("application/x-protobuf", "application/json"):
        raise RefusedError(
            "unsupported_encoding",
            f"OTLP is application/x-protobuf or application/json, got {content_type or 'no content type'}",
        )
    return content_type


def _batch_of(request: Request, table: str, body: bytes) -> int:
    """The batch id: the header `Leadline-Batch` (32 hex digits), else the hash of what was sent.

    Errors: DataError for a header that is not 32 hex digits.
    """
    given = request.headers.get("leadline-batch")
    if given is None:
        return batch_of_body(request.principal.tenant, table, body)
    if not _BATCH_ID.fullmatch(given):
        raise DataError("header Leadline-Batch", "32 hex digits", repr(given[:80]))
    return int(given, 16)


def batch_of_body(tenant: str, table: str, body: bytes) -> int:
    """Batch id of a body sent without one: its retry has the same.

    The kernel, not `model.ids.murmur3_128`, which has the same values and takes 100 ns a byte: 13 s for a body of 128
    MiB that unpacks from 130 kB.
    """
    data = np.frombuffer(f"{tenant}/{table}/".encode() + body, np.uint8)
    ids = np.zeros((1, 2), np.uint64)
    murmur3_slices(data, np.zeros(1, np.int64), np.full(1, len(data), np.int64), ids)
    return int(ids[0, 1]) << 64 | int(ids[0, 0])


assert all(BY_NAME[name].identity is not Identity.BATCH for name in NOT_BY_ROWS)
