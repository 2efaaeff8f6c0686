"""Order in time, as far as clocks allow: evidence counts only if it did not begin after what it explains."""

from __future__ import annotations

import math

from leadline.analysis.cause.evidence import ENDS, Piece
from leadline.analysis.cause.symptoms import SymptomRow
from leadline.model.units import S

# How much later than its effect evidence may seem, by table, because of how it is sampled. Source: definition (of the
# sampling; 3 s and 15 s leave a half more).
SLACK_NS = {
    "anomaly": 3 * S,  # beyond its own `earliest_ns`: rates are smoothed over a few samples
    "sle_loss": 60 * S,  # told by the minute
    "traffic": 15 * S,  # windows of flows are 10 s long
}
# events have their own time, and the first lost second is known to a step: a step or two. Source: judgement.
EVENT_SLACK_NS = 2 * S
# Clocks without a fit: what seems to come later than the slack counts e times less for each of these seconds. Hosts of
# a cluster run NTP to well below a second, but an unknown bound proves nothing. Source: judgement.
UNKNOWN_S = 10.0
# Share that counts of what had been so for long before the symptom: why only now? Not 0, since load may have grown.
# Source: judgement.
STANDING = 0.4
# how long before the symptom is not long: causes with a queue or a cache take up to a minute to show. Source:
# judgement.
BEGAN_S = 60.0
# What was over so long before the symptom explains little of it: an effect outlives its cause by a few time-outs.
# Source: recordings (a link that was up again 66 s before; docs/log.md, 2026-11-23).
OVER_NS = 30 * S
# Share that counts of such evidence, and of an old event: a tenth, so that it never decides alone. Source: recordings
# (with OVER_NS).
OVER = 0.1
# Share below which evidence that seems late counts nothing: after three times UNKNOWN_S, as e ** -3 is 0.05. Source:
# definition.
NEAR_MIN = 0.05
# Seconds over which the weight of older evidence sinks, after BEGAN_S: ten minutes, as far as evidence is looked for.
# Source: definition.
SINKS_S = 600.0
FIRST = "the first lost second"


def nearness_in_time(piece: Piece, symptom: SymptomRow) -> float:
    """How well a piece of evidence fits in time, 0 (it began later: none) to 1.

    Bounds of both known: later than both bounds and the slack is too late. One of them unknown: the order is not known,
    so it counts less the later it seems. Before: whole for a minute, then sinking to `STANDING` within ten.
    """
    slack_ns = SLACK_NS.get(piece.face.table, EVENT_SLACK_NS)
    began_ns = piece.time_ns if piece.earliest_ns is None else min(piece.earliest_ns, piece.time_ns)
    late_ns = began_ns - symptom.start_ns - slack_ns
    if piece.bound_ns is not None and symptom.bound_ns is not None:
        return 0.0 if late_ns > piece.bound_ns + symptom.bound_ns else _before(piece, symptom)
    if late_ns > 0:
        near = math.exp(-late_ns / S / UNKNOWN_S)
        return near if near > NEAR_MIN else 0.0
    return _before(piece, symptom)


def _before(piece: Piece, symptom: SymptomRow) -> float:
    lasted = piece.face.table != "event" or piece.face.what in ENDS  # other events have a time only
    if lasted and piece.end_ns is not None and piece.end_ns < symptom.start_ns - OVER_NS:
        return OVER
    early_s = (symptom.start_ns - piece.time_ns) / S
    if early_s <= BEGAN_S:
        return 1.0
    sunk = min(1.0, (early_s - BEGAN_S) / SINKS_S)
    least = OVER if piece.face.table == "event" else STANDING
    return 1.0 - sunk * (1.0 - least)


def when(piece: Piece, start_ns: int, what: str = FIRST) -> str:
    """When it began, in words, relative to the first lost second, or to `what` else was at `start_ns`.

    Where the last good sample is known the onset lies between the two; where clocks are not, an order within a second
    is none.
    """
    after_s = (piece.time_ns - start_ns) / S
    if piece.earliest_ns is not None and piece.earliest_ns <= start_ns < piece.time_ns:
        return f"began within {after_s:.1f} s of {what}"
    order = ", order unknown" if piece.bound_ns is None and abs(after_s) < 1 else ""
    if abs(after_s) < 0.05:
        return f"at {what}{order}"
    return f"{abs(after_s):.1f} s {'after' if after_s > 0 else 'before'} {what}{order}"
