"""What one bulk flow is to do, as data: from where to where, when, how fast, how much. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from leadline.model.errors import DataError

SECONDS_MAX = 3600.0
BYTES_MAX = 1 << 40
FLOWS_MAX = 256  # of one host


@dataclass(frozen=True, slots=True)
class BulkFlow:
    """One TCP connection of one host. Ends at whichever bound comes first.

    `source_port` 0: any; a given one chooses the path where switches hash ports. `rate_bps` 0: greedy.
    """

    source: str  # IPv4 address of ours
    target: str
    target_port: int
    source_port: int = 0
    rate_bps: int = 0
    start_s: float = 0.0  # after the process began
    seconds: float = 10.0
    bytes_most: int = BYTES_MAX


def dumped(flows: Sequence[BulkFlow]) -> str:
    """The flows as one JSON argument of `bulk.rank`."""
    return json.dumps([asdict(flow) for flow in flows])


def loaded(text: str) -> list[BulkFlow]:
    """Read that argument. Errors: DataError naming the flow and what was expected."""
    try:
        rows = json.loads(text)
        flows = [BulkFlow(**row) for row in rows]
    except (TypeError, ValueError) as error:
        raise DataError("--flows", "a JSON list of flows", str(error)) from error
    if len(flows) > FLOWS_MAX:
        raise DataError("--flows", f"at most {FLOWS_MAX} flows", f"{len(flows)}")
    for number, flow in enumerate(flows):
        _check(f"--flows, flow {number}", flow)
    return flows


def _check(where: str, flow: BulkFlow) -> None:
    ports = (flow.target_port, flow.source_port or 1)
    if not all(isinstance(port, int) and 0 < port < 65_536 for port in ports):
        raise DataError(where, "ports from 1 to 65535, a source port of 0 for any", f"{ports}")
    if not 0 < flow.seconds <= SECONDS_MAX or flow.start_s < 0:
        raise DataError(where, f"seconds above 0 and up to {SECONDS_MAX:g}, start_s from 0", f"{flow}")
    if not 0 < flow.bytes_most <= BYTES_MAX or flow.rate_bps < 0:
        raise DataError(where, f"bytes_most from 1 to {BYTES_MAX}, rate_bps from 0", f"{flow}")
