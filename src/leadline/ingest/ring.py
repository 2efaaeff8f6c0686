"""`POST /api/v1/ring`: segments of event rings, as rows of several tables.

One body becomes up to five appends. It is acknowledged when all of them are in the store; a part that was stored
when another failed is not stored twice by the retry, because each table's batch id is made from the same body.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from hashlib import blake2b

from leadline.ingest.decode import Request
from leadline.ingest.intake import Intake, Receipt
from leadline.model.tables import BY_NAME
from leadline.wire.ring.segments import RingRows, decode_ring


def take_ring(intake: Intake, request: Request) -> Receipt:
    """Rows of every table that the segments tell of.

    Rows out of time are left out and counted, as are records that the agent lost before it read them.
    Errors: DataError for what is no segment (nothing is taken); BusyError (a part may be taken; send it again).
    """
    body = request.unpacked()
    rows = decode_ring(body)
    offered: list[Future[None]] = []
    tables: dict[str, int] = {}
    repeated = False
    for name, columns in rows.tables.items():
        table = BY_NAME[name]
        kept = intake.in_time(table, columns, request.sender)
        batch = _batch(request.principal.tenant, name, body)
        repeated |= intake.is_repeated(table, batch, request.principal)
        receipt = intake.rows(table, kept, kept.num_rows, batch, request.principal, request.sender)
        tables[name] = receipt.taken
        offered.append(receipt.done)
    refused = {} if repeated else _count(intake, request, rows)
    return Receipt(all_done(offered), sum(tables.values()), refused, (), tables)


def _count(intake: Intake, request: Request, rows: RingRows) -> dict[str, int]:
    """Count what the body says is missing; returns it by reason."""
    found = {"ring_lost": rows.lost, "ring_unknown": rows.unknown}
    texts = {
        "ring_lost": f"{rows.lost} records were overwritten before the agent read them",
        "ring_unknown": f"{rows.unknown} records are of kinds that this version does not know",
    }
    for reason, amount in found.items():
        if amount:
            intake.refuse(request.sender, reason, texts[reason], amount)
    return {reason: amount for reason, amount in found.items() if amount}


def _batch(tenant: str, table: str, body: bytes) -> int:
    """The batch id of one table's rows: its retry has the same. A library hash, because bodies reach megabytes."""
    return int.from_bytes(blake2b(body, digest_size=16, key=blake2b(f"{tenant}/{table}".encode()).digest()).digest())


def all_done(parts: Sequence[Future[None]]) -> Future[None]:
    """A future that ends when all of `parts` have, with the error of the first one that failed."""
    whole = Future[None]()
    waiting = len(parts)
    lock = threading.Lock()

    def ended(_: Future[None]) -> None:
        nonlocal waiting
        with lock:
            waiting -= 1
            last = not waiting
        if last:
            failed = next((part.exception() for part in parts if part.exception() is not None), None)
            whole.set_exception(failed) if failed else whole.set_result(None)

    if not parts:
        whole.set_result(None)
    for part in parts:
        part.add_done_callback(ended)
    return whole
