"""Transfers of a job as rows of `message_end` and `collective`, in the manner of real senders.

    Transfer(0, 1, begin_ns, ...)    one message, by when each end was posted and ended
    ring(...)                        the messages of a collective around a ring, and its rows of `collective`

Nothing is drawn by chance: the same call gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from tests.builders.fabrics import T0, Claim, S, relation_table

from leadline.analysis.spec import Window
from leadline.model.tables import BY_NAME
from leadline.store.schema import arrow_table

JOB, COMM = "ring-1", "ring-1/0x9c"
MS = 10**6
WINDOW = Window(T0, T0 + 10 * S, job=JOB)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message."""

    src: int
    dst: int
    send_posted_ns: int
    sent_ns: int
    recv_posted_ns: int
    received_ns: int
    seq: int = 0
    step: int = 0
    channel: int = 0
    size: int = 1000
    comm: str = COMM
    flow: int | None = None

    def ends(self) -> tuple[Row, Row]:
        """The send and the receive."""
        send = self._end("send", self.src, self.dst, self.send_posted_ns, self.sent_ns)
        return send, self._end("recv", self.dst, self.src, self.recv_posted_ns, self.received_ns)

    def _end(self, side: str, rank: int, peer: int, begin_ns: int, end_ns: int) -> Row:
        return {
            "tenant": "default", "cluster": "default", "host": f"h{rank}", "clock": f"h{rank}/1", "job": JOB,
            "comm": self.comm, "channel": self.channel, "seq": self.seq, "step": self.step, "side": side, "rank": rank,
            "peer": peer, "bytes": self.size, "begin_ns": begin_ns, "end_ns": end_ns, "flow": self.flow,
        }  # fmt: skip


def ring(ranks: int, seq: int, arrival_ns: int, steps: int, slow: Sequence[int] = (), channel: int = 0,
         step_ns: int = MS, slow_ns: int = 5 * MS) -> list[Transfer]:  # fmt: skip
    """A collective around a ring: a rank posts a step when its last one is through; senders in `slow` take longer."""
    free_R = [arrival_ns] * ranks
    found = []
    for step in range(steps):
        posted_R = list(free_R)
        through_R = list(posted_R)
        for src in range(ranks):
            dst = (src + 1) % ranks
            both_ns = max(posted_R[src], posted_R[dst])
            received_ns = both_ns + (slow_ns if src in slow else step_ns)
            sent_ns = both_ns + step_ns // 2
            found.append(Transfer(src, dst, posted_R[src], sent_ns, posted_R[dst], received_ns, seq, step, channel))
            through_R[dst] = max(through_R[dst], received_ns)
            through_R[src] = max(through_R[src], sent_ns)
        free_R = through_R
    return found


def collective_rows(messages: Sequence[Transfer], arrival_ns: Sequence[int], source: str = "nccl-plugin") -> list[Row]:
    """Rows of `collective` for a collective of these messages: each rank is through with the last of its ends."""
    rows = []
    for rank, called_ns in enumerate(arrival_ns):
        ends = [each.received_ns for each in messages if each.dst == rank]
        ends += [each.sent_ns for each in messages if each.src == rank]
        for state, finished_ns in (("enqueued", None), ("finished", max(ends))):
            rows.append({
                "tenant": "default", "cluster": "default", "host": f"h{rank}", "clock": f"h{rank}/1", "job": JOB,
                "comm": COMM, "ranks": len(arrival_ns), "rank": rank, "seq": messages[0].seq, "op": "all_reduce",
                "bytes": 4000, "dtype": "float32", "algo": "ring", "enqueued_ns": called_ns, "started_ns": None,
                "finished_ns": finished_ns, "state": state, "source": source,
            })  # fmt: skip
    return rows


def rows_table(name: str, rows: Sequence[Row]) -> pa.Table:
    """Rows of a table of BATCH identity as an Arrow table."""
    columns = {}
    for column in BY_NAME[name].columns:
        columns[column.name] = [row.get(column.name, 0) for row in rows]
    if "batch_row" in columns:
        columns["batch_row"] = list(range(len(rows)))
    return arrow_table(BY_NAME[name], columns)


def ends_table(messages: Iterable[Transfer], without: Sequence[Row] = (), more: Sequence[Row] = ()) -> pa.Table:
    """Both ends of messages, without some, with some more."""
    rows = [end for each in messages for end in each.ends() if end not in without]
    return rows_table("message_end", [*rows, *more])


def with_bounds(ends: pa.Table, bounds: dict[int, int | None]) -> pa.Table:
    """Ends with how sure the clock of each rank is, ns; null for those not named."""
    column = pa.array([bounds.get(rank) for rank in ends["rank"].to_pylist()], pa.int64())
    return ends.append_column("bound_ns", column)


def owned(flows: dict[int, tuple[int, ...]]) -> pa.Table:
    """Rows of `relation`: flows by the ranks that own them."""
    return relation_table(_claims(flows))


def _claims(flows: dict[int, tuple[int, ...]]) -> Iterator[Claim]:
    for flow, ranks in flows.items():
        for rank in ranks:
            yield Claim(f"flow:{flow:032x}", "owns", f"rank:{JOB}/{rank}", "ring-benchmark")


def ring_job() -> dict[str, pa.Table]:
    """Two collectives on four ranks, 2 > 3 slow; a send whose receive is missing; ends that contradict each other."""
    first = ring(4, 0, T0 + S, 6, slow=(2,))
    second = ring(4, 1, T0 + 2 * S, 6)
    lost = Transfer(0, 1, T0 - 15 * S, T0 - 15 * S + MS, 0, 0, seq=7)
    odd = Transfer(1, 2, T0 + 3 * S, T0 + 3 * S + MS, T0 + 3 * S, T0 + 3 * S + 2 * MS, seq=2)
    ends = ends_table([*first, *second, odd], more=[lost.ends()[0], {**odd.ends()[1], "bytes": 999}])
    calls = [T0 + S - MS, T0 + S, T0 + S - 2 * MS, T0 + S - MS]
    return {
        "message_end": ends,
        "collective": rows_table("collective", [
            *collective_rows(first, calls), *collective_rows(second, [each + S for each in calls])
        ]),
        "relation": owned({0xA1: (0, 1), 0xA2: (0, 1), 0xB1: (1, 2)}),
    }  # fmt: skip
