"""Every table of Leadline, declared once. Add a table here; the rest derives from it."""

from __future__ import annotations

from leadline.model.tables.accounts import BASELINE, EXPECTATION, FAILURE, LEDGER, PROFILE, SLE, SLE_LOSS
from leadline.model.tables.fabric import (
    CLOCK_FIT,
    COLOCATION,
    CONFLICT,
    DELAY,
    EDGE_FIT,
    FLOW_SAMPLE,
    FLOW_SENT,
    PROBE,
    PROBE_HOP,
    RELATION,
    SUSPECT,
    WATERMARK,
)
from leadline.model.tables.metrics import METRIC_ROLLUP, METRIC_SAMPLE, SERIES
from leadline.model.tables.paths import ECMP_GROUP, FLOW_PATH, FLOW_VOLUME, PATH_HOP
from leadline.model.tables.spec import Column, Identity, Partition, Table, Type
from leadline.model.tables.training import COLLECTIVE, EDGE, MESSAGE, MESSAGE_END, OPERATION, STEP
from leadline.model.tables.verdicts import (
    ACTION,
    ANALYSIS_RUN,
    ANOMALY,
    CAUSE,
    EVENT,
    INCIDENT,
    MARK,
    SYMPTOM,
)

TABLES: tuple[Table, ...] = (
    SERIES,
    METRIC_SAMPLE,
    METRIC_ROLLUP,
    EVENT,
    STEP,
    COLLECTIVE,
    MESSAGE_END,
    MESSAGE,
    EDGE,
    OPERATION,
    FLOW_SAMPLE,
    FLOW_SENT,
    PROBE,
    RELATION,
    CONFLICT,
    WATERMARK,
    EDGE_FIT,
    PROBE_HOP,
    CLOCK_FIT,
    DELAY,
    FLOW_PATH,
    PATH_HOP,
    FLOW_VOLUME,
    ECMP_GROUP,
    LEDGER,
    BASELINE,
    PROFILE,
    FAILURE,
    EXPECTATION,
    SLE,
    SLE_LOSS,
    ANOMALY,
    SUSPECT,
    COLOCATION,
    SYMPTOM,
    INCIDENT,
    CAUSE,
    MARK,
    ACTION,
    ANALYSIS_RUN,
)

BY_NAME: dict[str, Table] = {table.name: table for table in TABLES}
BY_FORMER_NAME: dict[str, Table] = {table.former.name: table for table in TABLES if table.former.name}


def renamed(name: str) -> str:
    """What to say of a name of a table that is none: its name of today, where it was called so before; else empty."""
    table = BY_FORMER_NAME.get(name)
    return f"it is called {table.name} now" if table else ""


def renamed_column(name: str) -> str:
    """The same of a name of a column, whichever table it was in."""
    now = {table.today(name) for table in TABLES} - {name}
    return f"it is called {' or '.join(sorted(now))} now" if now else ""


__all__ = [
    "BY_FORMER_NAME",
    "BY_NAME",
    "TABLES",
    "Column",
    "Identity",
    "Partition",
    "Table",
    "Type",
    "renamed",
    "renamed_column",
]
