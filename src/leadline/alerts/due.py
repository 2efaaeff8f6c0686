"""Which notices a receiver is to hear now. Pure: what is wanted, what it was told, and the time, are arguments.

What is to be told is not a queue of events but the difference between how incidents are and what the receiver knows: a
receiver that was away hears once how things stand, nothing grows while it is away, and a restart changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from leadline.alerts.config import AlertsConfig
from leadline.alerts.notice import STALE, SUPPRESSED, Notice
from leadline.alerts.sent import Told
from leadline.model.units import S


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When news is due; ns."""

    settle_ns: int
    change_ns: int
    resend_ns: int  # 0: what lasts is not told again
    stale_ns: int
    late_ns: int

    @staticmethod
    def of(config: AlertsConfig, *, resends: bool) -> Rhythm:
        """By the settings; `resends`: the receiver forgets what it does not hear again (an Alertmanager)."""
        seconds = (
            config.settle_s,
            config.change_s_min,
            config.resend_s if resends else 0,
            config.stale_s,
            config.late_s,
        )
        return Rhythm(*(round(each * S) for each in seconds))


def current(each: Notice, rhythm: Rhythm, now_ns: int, began_ns: int) -> Notice:
    """The notice as it stands now: stale, where no window has spoken of it for long.

    `began_ns`: when we began to look; what was not judged while we were away is not stale for that, nor what waits for
    data that is late.
    """
    if each.waits:
        return each
    return each.as_stale() if now_ns - max(each.seen_ns, began_ns) > rhythm.stale_ns else each


def late(each: Notice, told: Told | None, rhythm: Rhythm, now_ns: int) -> bool:
    """Whether this is no news any more: over (or lost sight of) long ago, and nobody was told that it began."""
    if told is not None or each.lasts:
        return False
    return now_ns - (each.seen_ns if each.end_ns is None else each.end_ns) > rhythm.late_ns


def due(each: Notice, told: Told | None, rhythm: Rhythm, now_ns: int) -> bool:
    """Whether the receiver is to hear of this now. A notice that is late or suppressed from the start is never due; one
    that waits for data is due when it has come."""
    if each.waits:
        return False
    if told is None:
        if each.lasts:
            return now_ns - each.reported_ns >= rhythm.settle_ns
        return each.state not in (STALE, SUPPRESSED) and not late(each, told, rhythm, now_ns)
    if told.state != each.state:
        return True
    if not each.lasts:
        return False  # it was told that it is over; how it was in the end is in the API
    if told.version != each.version:
        return now_ns - told.at_ns >= rhythm.change_ns
    return 0 < rhythm.resend_ns <= now_ns - told.at_ns
