"""How a fault comes back: persistent, gray or transient, from what was seen of the component before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.model.incidents import FaultClass
from leadline.model.units import S

# What lasts longer than this without a break will not go by itself: job schedulers' own retries are over by then.
# Source: judgement.
LASTS_NS = 600 * S
# Episodes of one component by one rule, within the history, from which on it is no accident: by chance alone a part
# with one fault in a month has three with less than 1 in 10 (Poisson: 0.08). Source: definition.
AGAIN = 3
# Jobs that used a component meanwhile and did not suffer, from which on it fails only some: one or two may not have
# used it at that moment. Source: judgement.
SPARED = 3


@dataclass(frozen=True, slots=True)
class Episode:
    """One time that a rule named a component."""

    start_ns: int
    end_ns: int | None  # None: it lasts
    jobs: frozenset[str] = frozenset()  # who suffered


def class_of(
    episodes: Sequence[Episode],
    now_ns: int,
    *,
    works: bool,
    spared: frozenset[str] = frozenset(),
) -> FaultClass:
    """The class of the newest of these episodes, all of one component and one rule, in any order.

    `works`: the component still did its work during the fault, slower or with errors (a slow GPU, a lossy link).
    `spared`: jobs that used it during the fault and did not suffer.

    - gray: it works and it lasted or came back; or it stops some jobs and spares at least `SPARED` others
    - persistent: it does not work, and lasts longer than `LASTS_NS` or came back `AGAIN` times
    - transient: it is over, and did not come back for `LASTS_NS`; or it came and went before, not often enough for more
    - unknown: it lasts, or was over just now, for the first time: what becomes of it nobody can say yet

    Source: the classes of Huang et al., "Gray Failure: The Achilles' Heel of Cloud-Scale Systems" (HotOS 2017), and of
    repeat offenders ("lemons") in Kokolis et al., "Revisiting Reliability" (2024, section 5); thresholds are ours.
    """
    if not episodes:
        return FaultClass.UNKNOWN
    newest = max(episodes, key=lambda each: each.start_ns)
    lasted_ns = (now_ns if newest.end_ns is None else newest.end_ns) - newest.start_ns
    again = len(episodes) >= AGAIN
    some_only = len(spared - newest.jobs) >= SPARED and bool(newest.jobs)
    if again or lasted_ns >= LASTS_NS:
        return FaultClass.GRAY if works or some_only else FaultClass.PERSISTENT
    if some_only:
        return FaultClass.GRAY
    if newest.end_ns is None:
        return FaultClass.UNKNOWN
    went_before = any(_quiet_ns(each, newest.start_ns) >= LASTS_NS for each in episodes if each is not newest)
    return FaultClass.TRANSIENT if went_before or _quiet_ns(newest, now_ns) >= LASTS_NS else FaultClass.UNKNOWN


def _quiet_ns(episode: Episode, until_ns: int) -> int:
    """For how long it was over."""
    return 0 if episode.end_ns is None else until_ns - episode.end_ns
