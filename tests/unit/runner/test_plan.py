"""What follows from the declarations of analyses: when windows close, and which rows call for a judgement."""

from __future__ import annotations

import pyarrow as pa
from tests.unit.runner.toy_rows import BEGIN_NS, flows, steps

from leadline.analysis.spec import Analysis, Read, S, Verdicts, Window, analysis
from leadline.model.tables.accounts import FAILURE, LEDGER
from leadline.model.tables.fabric import FLOW_SAMPLE
from leadline.model.tables.training import STEP
from leadline.runner.held import HeldRows
from leadline.runner.parts import calls, next_row_ns
from leadline.runner.plan import rhythms, upstream

NOTHING: Verdicts = {}


@analysis(name="slow", version=1, reads=(Read(FLOW_SAMPLE),), writes=(LEDGER,), window_s=10, grace_s=7)
def slow(flow_sample: pa.Table, *, window: Window) -> Verdicts:
    """Waits long."""
    return NOTHING


def fast(read: Read) -> Analysis:
    @analysis(name="fast", version=1, reads=(Read(STEP), read), writes=(FAILURE,), window_s=2, grace_s=1)
    def judge(step: pa.Table, other: pa.Table, *, window: Window) -> Verdicts:
        """Must be early."""
        return NOTHING

    return judge


def test_a_window_waits_for_whose_verdicts_it_reads_unless_it_says_not() -> None:
    assert [each.grace_ns for each in rhythms([slow, fast(Read(LEDGER))])] == [7 * S, 7 * S]
    assert [each.grace_ns for each in rhythms([slow, fast(Read(LEDGER, waits=False))])] == [7 * S, S]


def test_who_does_not_wait_still_passes_over_no_window_that_may_yet_have_verdicts() -> None:
    assert upstream([slow, fast(Read(LEDGER, waits=False))]) == [[], [0]]


def test_rows_that_only_help_are_no_reason_to_judge() -> None:
    rows = HeldRows({"flow_sample": flows(), "step": steps(range(40, 60))})
    early, late = (BEGIN_NS, BEGIN_NS + 2 * S), (BEGIN_NS + 50 * S, BEGIN_NS + 52 * S)
    both, helping = fast(Read(FLOW_SAMPLE)), fast(Read(FLOW_SAMPLE, calls=False))
    assert len(calls(both, *early, rows, "default")) == 1
    assert calls(helping, *early, rows, "default") == []
    assert len(calls(helping, *late, rows, "default")) == 1
    assert next_row_ns(both, BEGIN_NS, rows) == BEGIN_NS
    # Host clocks are off by seconds: no later than the first step, and not by more than that before.
    assert BEGIN_NS + 35 * S < next_row_ns(helping, BEGIN_NS, rows) <= BEGIN_NS + 40 * S
