"""Compile, or load from the cache, the kernels of all analyses before the first window needs them.

As `leadline.wire.warm`, for worker processes: each warmer calls a public function with something tiny.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from leadline.analysis.anomaly.warm import warm_anomalies
from leadline.analysis.clock.warm import warm_clock
from leadline.analysis.graph.warm import warm_graph
from leadline.analysis.ledger.warm import warm_collectives, warm_operations, warm_presence
from leadline.analysis.messages.warm import warm_messages
from leadline.analysis.path.warm import warm_paths
from leadline.analysis.symptoms.warm import warm_symptoms

log = logging.getLogger("leadline.runner")

WARMERS: tuple[Callable[[], object], ...] = (
    warm_presence,
    warm_graph,
    warm_clock,
    warm_paths,
    warm_messages,
    warm_operations,
    warm_collectives,
    warm_anomalies,
    warm_symptoms,
)


def warm(warmers: Sequence[Callable[[], object]] = WARMERS) -> float:
    """Run every warmer once. Returns: how long that took, in seconds.

    One that fails costs its analysis time in the first window; it does not end the worker, which all analyses share.
    """
    began = time.perf_counter()
    for warmer in warmers:
        try:
            warmer()
        except Exception:
            log.exception("%s failed; kernels that it was to load are loaded by the first window", warmer.__name__)
    return time.perf_counter() - began
