"""The analysis on one message: it compiles, or loads from the cache, all kernels."""

from __future__ import annotations

import pyarrow as pa

from leadline.analysis.messages.messages import COLLECTIVE_COLUMNS, END_COLUMNS, messages
from leadline.analysis.spec import S, Verdicts, Window
from leadline.model.tables.fabric import RELATION

_TEXTS = ("job", "comm", "side", "clock", "op", "source")


def warm_messages() -> Verdicts:
    """Verdicts on a message with both its ends."""
    sent: dict[str, object] = dict.fromkeys(END_COLUMNS, 1) | {
        "job": "j", "comm": "j/1", "side": "send", "clock": "h", "rank": 0, "begin_ns": 1, "end_ns": 2,
        "bound_ns": None,
    }  # fmt: skip
    received = {**sent, "side": "recv", "rank": 1, "peer": 0}
    ends = _table([sent, received], (*END_COLUMNS, "bound_ns"))
    collective = _table([], (*COLLECTIVE_COLUMNS, "bound_ns"))
    asked = next(read for read in messages.reads if read.table is RELATION)
    relation = pa.table({name: pa.array([], pa.string()) for name in asked.names})
    return messages(ends, collective, relation, window=Window(0, 10 * S, job="j"))


def _table(rows: list[dict[str, object]], names: tuple[str, ...]) -> pa.Table:
    columns = {}
    for name in names:
        kind = pa.binary(16) if name == "flow" else pa.string() if name in _TEXTS else pa.int64()
        columns[name] = pa.array([None if name == "flow" else row[name] for row in rows], kind)
    return pa.table(columns)
