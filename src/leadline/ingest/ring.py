"""`POST /api/v1/ring`: segments of event rings, as rows of several tables.

One body becomes up to five appends. It is acknowledged when all of them are in the store; a part that was stored
when another failed is not stored twice by the retry, because each table's batch id is made from the same body.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from hashlib import blake2b

import numpy as np

from leadline.ingest.decode import Request
from leadline.ingest.intake import Bodies, Intake, Receipt
from leadline.ingest.lanes import all_done
from leadline.model.errors import DataError, RefusedError
from leadline.model.tables import BY_NAME
from leadline.wire.ring.segments import decode_ring, decode_rings


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
    refused = {} if repeated else _count(intake, request, rows.lost, rows.unknown)
    return Receipt(all_done(offered), sum(tables.values()), refused, (), tables)


def take_rings(intake: Intake, requests: Sequence[Request], bodies: Sequence[bytes]) -> list[Receipt] | None:
    """The same of several requests of one principal, decoded as one. None where one of them is out of the ordinary:
    nothing was taken then. Errors: BusyError, as above."""
    try:
        rows = decode_rings(bodies)
    except (DataError, RefusedError):
        return None
    principal = requests[0].principal
    parts = [
        Bodies(BY_NAME[name], columns, rows.bodies[name], [_batch(principal.tenant, name, each) for each in bodies])
        for name, columns in rows.tables.items()
    ]
    done = intake.rows_together(parts, principal, [each.sender for each in requests])
    if done is None:
        return None
    count_B = {part.table.name: np.bincount(part.of, minlength=len(bodies)).tolist() for part in parts}
    receipts = []
    for number, request in enumerate(requests):
        tables = {name: counts[number] for name, counts in count_B.items() if counts[number]}
        refused = _count(intake, request, rows.lost_B[number], rows.unknown_B[number])
        receipts.append(Receipt(done, sum(tables.values()), refused, (), tables))
    return receipts


def _count(intake: Intake, request: Request, lost: int, unknown: int) -> dict[str, int]:
    """Count what the body says is missing; returns it by reason."""
    found = {"ring_lost": lost, "ring_unknown": unknown}
    texts = {
        "ring_lost": f"{lost} records were overwritten before the agent read them",
        "ring_unknown": f"{unknown} records are of kinds that this version does not know",
    }
    for reason, amount in found.items():
        if amount:
            intake.refuse(request.sender, reason, texts[reason], amount)
    return {reason: amount for reason, amount in found.items() if amount}


def _batch(tenant: str, table: str, body: bytes) -> int:
    """The batch id of one table's rows: its retry has the same. A library hash, because bodies reach megabytes."""
    return int.from_bytes(blake2b(body, digest_size=16, key=blake2b(f"{tenant}/{table}".encode()).digest()).digest())
