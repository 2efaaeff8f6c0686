"""Since when each of those who are blamed takes the time of a slowdown: not all of them began it.

lost   .  .  .  .  .  . |2.1  1.9  2.2  2.0        of one owner, in order of time: what a second cost before
                        ^ since then               the split and after it differ most here
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.spec import S
from leadline.analysis.symptoms.lateness import Lateness
from leadline.analysis.symptoms.spans import Blame
from leadline.model.ids import kind_of

# Times as much lost in a second as before, at least, for somebody to have begun later: what was there from the
# beginning varies by two or three. Source: recordings (docs/log.md, 2026-11-23: onsets of each who is blamed).
TIMES = 4
# How long it must have gone on without him: two steps of most jobs, so one good step is not the time before. Source:
# recordings (the same).
BEFORE_NS = 5 * S


def dated(
    blamed: Sequence[Blame], late: Lateness, ledger: Sequence[Mapping[str, Any]], start_ns: int, until_ns: int
) -> tuple[Blame, ...]:
    """The same blame, each since it began: ranks by the collectives they were late to, others by the ledger's windows.

    Inputs: lateness and ledger of all that was lost since `start_ns`.
    Accuracy: a collective, or a window of the ledger.
    """
    end_W, by_owner = _windows(ledger, start_ns)

    def since(owner: str) -> int:
        rank = _rank(owner)
        if rank is not None:
            return began(late.end_K, np.where(late.last_K == rank, late.wait_s_K, 0.0), start_ns, until_ns)
        lost = by_owner.get(owner, {})
        return began(end_W, np.array([lost.get(int(end), 0.0) for end in end_W]), start_ns, until_ns)

    return tuple(replace(each, since_ns=since(each.owner)) for each in blamed)


def _windows(ledger: Sequence[Mapping[str, Any]], start_ns: int) -> tuple[Ints, dict[str, dict[int, float]]]:
    """Ends of the ledger's windows in order, and what each owner lost in each of them."""
    lost: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    ends: set[int] = set()
    for row in ledger:
        if row["end_ns"] > start_ns and 0 <= row["lost_gpu_seconds"] < 1e300:
            ends.add(row["end_ns"])
            lost[row["owner"] or ""][row["end_ns"]] += row["lost_gpu_seconds"]
    return np.array(sorted(ends), np.int64), lost


def _rank(owner: str) -> int | None:
    """The number of `rank:JOB/3`; None of what is no single rank."""
    number = owner.rpartition("/")[2]
    return int(number) if kind_of(owner) == "rank" and ">" not in owner and number.isdigit() else None


def began(end_K: Ints, lost_K: Floats, start_ns: int, until_ns: int) -> int:
    """When somebody began to take time; `start_ns` if that was from the beginning.

    Inputs: ends of K units in order of time, and what he took of each.
    The split of the span in two whose losses in a second differ most, each weighed by its length: least squares of one
    step. It counts if little was lost before it.
    """
    begin_K = np.concatenate([[start_ns], np.clip(end_K[:-1], start_ns, until_ns)])
    sooner_s, later_s = (begin_K - start_ns) / S, (until_ns - begin_K) / S
    may_K = (sooner_s * S >= BEFORE_NS) & (later_s > 0)
    if not len(end_K) or not may_K.any():
        return start_ns
    before_K = np.concatenate([[0.0], np.cumsum(lost_K)[:-1]])
    sooner_s, later_s, before_K, begin_K = sooner_s[may_K], later_s[may_K], before_K[may_K], begin_K[may_K]
    rate_K, now_K = np.maximum(before_K, 0.0) / sooner_s, (float(lost_K.sum()) - before_K) / later_s
    gain_K = np.where(now_K > rate_K, (now_K - rate_K) ** 2 * sooner_s * later_s, 0.0)
    best = int(gain_K.argmax())
    return int(begin_K[best]) if now_K[best] >= TIMES * rate_K[best] and gain_K[best] > 0 else start_ns
