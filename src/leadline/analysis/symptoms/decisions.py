"""Which ranks stopped a job, and how: the decision table, first match wins.

    1  it is gone: ended with an error, or alone                      died
    2  it is there and never came to the collective                   frozen (its process stands still), never-entered
    3  all came, and not to the same operation, size or element type  diverged
    4  all came to the same, and it does not end                      stuck
    5  its own work before it takes longer than that of its peers     slow (`slowdowns` tells)
    6  none of these                                                  nobody, with the input that is missing

Of several groups that wait the earliest decides: who is missing in a later one because it waits in an earlier one is a
victim. Source: Dong et al., "Holmes" (NSDI 2025); PyTorch Flight Recorder's analysis; Mycroft (2025) for the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.symptoms.calls import Group

DIED, FROZEN, NEVER_ENTERED, DIVERGED, STUCK = "died", "frozen", "never-entered", "diverged", "stuck"
DECISION = {DIED: 1, FROZEN: 2, NEVER_ENTERED: 2, DIVERGED: 3, STUCK: 4}
OF_ALL = ("all_reduce", "broadcast", "reduce", "reduce_scatter", "barrier")  # ranks put in as much as each other
NAMED_MAX = 8
FEW = 4  # a ring that is cut lets some of its ranks go, wherever it is cut: only one in four or fewer say something


@dataclass(frozen=True, slots=True)
class Decision:
    """Whom a wait is for. `category` None: nobody can be told, for want of `missing`."""

    category: str | None
    ranks: tuple[int, ...]
    group: Group | None
    text: str
    missing: str | None = None

    @property
    def how(self) -> str:
        """Row of the table."""
        return f"decision:{DECISION.get(self.category or '', 6)}"


def earliest(groups: Sequence[Group]) -> tuple[Group, frozenset[int]] | None:
    """The group that others wait because of, and who is missing in it of its own fault; None: nobody waits.

    Absent ranks that wait in another group are that one's victims. Where all absent ones are, and so in a circle, the
    group that was entered first is taken, with nobody missing.
    """
    waiting: dict[int, Group] = {}
    for group in groups:
        for rank in group.waiting:
            waiting.setdefault(rank, group)
    for group in groups:
        own = frozenset(rank for rank in group.absent if rank not in waiting)
        if own or not group.absent or group.pairwise:
            return group, own
    return (groups[0], frozenset()) if groups else None


def decide(
    groups: Sequence[Group],
    *,
    gone: Mapping[int, str],
    frozen: Collection[int],
    known_kinds: Collection[tuple[str, int, str]],
) -> Decision | None:
    """Who is waited for. `gone`: ranks that have ended, and how; `known_kinds`: what the job called before.

    Returns: None if nobody waits for anybody.
    """
    found = earliest(groups)
    if found is None:
        return None
    group, own = found
    dead = tuple(sorted((own or group.members) & gone.keys()))
    if dead:
        return Decision(DIED, dead, group, f"{_ranks(dead)} {gone[dead[0]]}, and the others wait in {group.name}")
    still = tuple(sorted((own or group.members) & set(frozen)))
    if still:
        return Decision(FROZEN, still, group, f"{_stands(still)} still (stopped), and the others wait in {group.name}")
    odd = diverging(group, known_kinds)
    if odd:
        told = ", ".join(f"rank {rank}: {_kind(group.kinds[rank])}" for rank in odd[:NAMED_MAX])
        usual = Counter(kind for rank, kind in group.kinds.items() if rank not in odd).most_common(1)
        others = f"the others: {_kind(usual[0][0])}" if usual else "each something else"
        return Decision(DIVERGED, odd, group, f"not all called the same as number {group.seq}: {told}; {others}")
    if own:
        ranks = tuple(sorted(own))
        return Decision(NEVER_ENTERED, ranks, group, f"{_ranks(ranks)} did not come to {group.name}")
    return _all_came(groups, group)


def _all_came(groups: Sequence[Group], group: Group) -> Decision:
    if group.pairwise:
        return Decision(
            None, (), group, f"ranks {sorted(group.waiting)} wait in {group.name}", "peers of sends and receives"
        )
    if group.absent:  # each waits elsewhere
        ranks = tuple(sorted(group.absent | group.waiting))
        text = f"ranks wait for each other in {len(groups)} groups, first in {group.name}"
        return Decision(DIVERGED, ranks, group, text)
    unheard = group.size - len(group.members)
    if unheard > 0:
        text = f"{len(group.entered)} of {group.size} ranks came to {group.name}; of the others nothing is heard"
        return Decision(None, (), group, text, f"collectives of {unheard} of {group.size} ranks")
    if len(group.waiting) * FEW <= len(group.members):  # nearly all were let go: those that were not
        ranks = tuple(sorted(group.waiting))
        return Decision(STUCK, ranks, group, f"all came to {group.name}, and {_ranks(ranks)} was not let go")
    return Decision(STUCK, (), group, f"all {group.size} ranks came to {group.name}, and it does not end")


def diverging(group: Group, known_kinds: Collection[tuple[str, int, str]]) -> tuple[int, ...]:
    """Ranks that called something else than the others under one number: first who called what nobody did before, else
    the fewer; all of them where it is even."""
    compared = {rank: _compared(kind) for rank, kind in group.kinds.items()}
    if group.pairwise or len(set(compared.values())) < 2:
        return ()
    fresh = tuple(sorted(rank for rank, kind in group.kinds.items() if kind not in known_kinds))
    if 0 < len(fresh) < len(compared):
        return fresh
    most, count = Counter(compared.values()).most_common(1)[0]
    if 2 * count == len(compared):
        return tuple(sorted(compared))
    return tuple(sorted(rank for rank, kind in compared.items() if kind != most))


def _compared(kind: tuple[str, int, str]) -> tuple[str, int, str]:
    """What must be the same on all ranks; of a gather, for one, sizes may differ."""
    op, size, dtype = kind
    return (op, size, dtype) if op in OF_ALL else (op, 0, "")


def _kind(kind: tuple[str, int, str]) -> str:
    return f"{kind[0]} of {kind[1]} B {kind[2]}".strip()


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(str(rank) for rank in ranks[:NAMED_MAX])
    more = f" and {len(ranks) - NAMED_MAX} more" if len(ranks) > NAMED_MAX else ""
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {named}{more}"


def _stands(ranks: Sequence[int]) -> str:
    return f"{_ranks(ranks)} {'stand' if len(ranks) > 1 else 'stands'}"
