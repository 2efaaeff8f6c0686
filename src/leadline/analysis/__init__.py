"""Every analysis, in the order in which they read each other. Add one here; the runner does the rest."""

from __future__ import annotations

from leadline.analysis.anomaly.anomaly import anomalies
from leadline.analysis.cause.cause import cause
from leadline.analysis.clock.clock import clock
from leadline.analysis.colocation.machines import colocation
from leadline.analysis.failures.failures import failures
from leadline.analysis.graph.conflicts import conflicts
from leadline.analysis.ledger.baseline import baseline
from leadline.analysis.ledger.ledger import ledger
from leadline.analysis.localise.localise import localise
from leadline.analysis.messages.messages import messages
from leadline.analysis.path.paths import paths
from leadline.analysis.sle.hours import sle_hours
from leadline.analysis.sle.sle import sles
from leadline.analysis.spec import Analysis
from leadline.analysis.symptoms.burning import burning
from leadline.analysis.symptoms.slowdowns import slowdowns
from leadline.analysis.symptoms.stalls import stalls
from leadline.analysis.symptoms.telemetry import telemetry

ANALYSES: tuple[Analysis, ...] = (
    conflicts, clock, colocation, paths, messages, baseline, ledger, anomalies, failures, sles, sle_hours, localise,
    stalls, slowdowns, burning, telemetry, cause,
)  # fmt: skip

BY_NAME: dict[str, Analysis] = {each.name: each for each in ANALYSES}

__all__ = ["ANALYSES", "BY_NAME", "Analysis"]
