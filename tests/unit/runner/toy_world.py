"""A runner whose time is in our hand."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from tests.unit.runner.toy_rows import BEGIN_NS, S

from leadline.analysis.spec import Analysis
from leadline.model.counters import Counter
from leadline.model.tables import BY_NAME
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import InProcess
from leadline.runner.run import Runner
from leadline.store import Store
from leadline.testing import FakeClock
from leadline.testing.analyses import TOYS


class World:
    """A runner without its thread: rows are told and stored, time moves, windows are judged step by step."""

    def __init__(self, store: Store, analyses: Sequence[Analysis] = TOYS, at_s: float = 0, **more: Any) -> None:
        self.store, self.clock = store, FakeClock(BEGIN_NS)
        self.clock.advance(at_s)
        self.counted: Tally[str] = Tally()
        now_ns, config = more.pop("now_ns", self.clock), more.pop("config", RunnerConfig())
        self.runner = Runner(config, store, self.count, now_ns, analyses, more.pop("executor", InProcess()), **more)
        self.runner.prepare()

    def count(self, counter: Counter, amount: int) -> None:
        self.counted[counter.reason] += amount

    def come(self, name: str, rows: pa.Table) -> None:
        """Rows are accepted and stored."""
        self.store.append(BY_NAME[name], rows)
        self.runner.touched("acme", "lab", BY_NAME[name], {"rows": rows}, rows.num_rows)

    def passed_s(self) -> float:
        return (self.clock() - BEGIN_NS) / S

    def go(self, seconds: float) -> None:
        """Time passes; everything that is due is judged."""
        self.clock.advance(seconds)
        while self.runner.step():
            pass
