"""Which ranks stopped a job, and how: the decision table, first match wins.

    1  it is gone: ended with an error, or alone                      died
    2  it is there and never came to the collective                   frozen (its process stands still), never-entered
    3  all came, and not to the same operation, size or element type  diverged
    4  all came to the same, and it does not end                      stuck
    5  it did not come, and came late to those before                 slow
    6  none of these                                                  nobody, with the input that is missing

Of several groups that wait the earliest decides: who is missing in a later one because it waits in an earlier one is a
victim. Groups that begin to wait together decide together: ranks that compute one replica wait for each other in
collectives that nobody tells, and are missing each in a group of its own.

Source: Dong et al., "Holmes" (NSDI 2025); PyTorch Flight Recorder's analysis; Mycroft (2025) for the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from leadline.analysis.spec import S
from leadline.analysis.symptoms.calls import Group
from leadline.analysis.symptoms.happened import Happened
from leadline.analysis.symptoms.programs import Kind, compared

DIED, FROZEN, NEVER_ENTERED, DIVERGED, STUCK = "died", "frozen", "never-entered", "diverged", "stuck"
SLOW = "slow"
# Rows of the decision table (docs/analyses/stalls.md), as numbers; the first that fits counts. Source: definition.
DECISION = {DIED: 1, FROZEN: 2, NEVER_ENTERED: 2, DIVERGED: 3, STUCK: 4, SLOW: 5}
NAMED_MAX = 8  # ranks that a text names, so that a sentence stays readable. Source: bound.
# Ranks of which one may not have returned to be told by that: a ring that is cut lets some of its ranks go, wherever it
# is cut, so only one in so many or more says something. Source: judgement.
FEW = 4
# How long before the first rank came a port may have lost its carrier, since transport tries again for some seconds
# before a collective stands. Source: recordings (dead-nic; docs/analyses/stalls.md).
CUT_NS = 10 * S
# How long after the earliest group another one may have begun to wait to be of the same moment: ranks of one replica
# reach their collectives within a step's jitter, steps take seconds. Source: judgement.
TOGETHER_NS = S
RIGHT_ORDER = "which of the calls the program makes there: nothing like it was called before"


class Order(Protocol):
    """What ranks called before, as `programs.Programs` knows it."""

    def strange_in(self, group: Group) -> frozenset[int]: ...
    def astray(self, ranks: Iterable[int]) -> frozenset[int]: ...
    def late_before(self, group: Group) -> frozenset[int]: ...


@dataclass(frozen=True, slots=True)
class Decision:
    """Whom a wait is for. No ranks: the communicator (stuck), the job (diverged), or nobody for want of `missing`."""

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

    Who is missing and waits in another group is that one's victim. Whom a receive waits for is not told: if at most
    half of its communicator waits in nothing, these are missing. Where nobody is missing of its own fault in any group,
    nor one is complete, everybody waits for somebody who waits: then the first send or receive is taken, as it may be
    one that its link has lost, or the first group of a circle.
    """
    waiting = frozenset[int]().union(*(each.waiting for each in groups))
    for group in groups:
        own = group.members - group.entered.keys() - waiting
        if own and (not group.pairwise or 2 * len(own) <= len(group.members)):
            return group, own
        if not group.absent and not group.pairwise:
            return group, frozenset()
    pairs = [each for each in groups if each.pairwise]
    return ((pairs or groups)[0], frozenset()) if groups else None


def decide(
    groups: Sequence[Group], *, gone: Mapping[int, str], frozen: Collection[int], order: Order
) -> Decision | None:
    """Who is waited for. `gone`: ranks that have ended, and how; `order`: what ranks called before.

    Returns: None if nobody waits for anybody.
    """
    found = earliest(groups)
    if found is None:
        return None
    group, own = found
    own = own | _beside(groups, group) if own else own
    dead = tuple(sorted((own or group.members) & gone.keys()))
    if dead:
        return Decision(DIED, dead, group, f"{_ranks(dead)} {gone[dead[0]]}, and the others wait in {group.name}")
    still = tuple(sorted((own or group.members) & set(frozen)))
    if still:
        return Decision(FROZEN, still, group, f"{_stands(still)} still (stopped), and the others wait in {group.name}")
    apart = _diverged(group, order)
    if apart is not None:
        return apart
    if own:
        return _missing(groups, group, own, order)
    return _all_came(groups, group, order)


def _beside(groups: Sequence[Group], group: Group) -> frozenset[int]:
    """Who is missing of its own fault in groups that began to wait when that one did."""
    waiting = frozenset[int]().union(*(each.waiting for each in groups))
    same = [each for each in groups if not each.pairwise and abs(each.first_ns - group.first_ns) <= TOGETHER_NS]
    return frozenset[int]().union(*(each.members - each.entered.keys() - waiting for each in same))


def with_cut(decision: Decision, happened: Happened) -> Decision:
    """Of a collective that does not end though all came: the ranks whose port lost its carrier, if it is not all."""
    if decision.category != STUCK or decision.ranks or decision.group is None:
        return decision
    cut = happened.cut_since(decision.group.first_ns - CUT_NS)
    ranks = tuple(sorted(cut.keys() & decision.group.members))
    if not ranks or len(ranks) == len(decision.group.members):
        return decision
    return replace(decision, ranks=ranks, text=f"{decision.text}; {cut[ranks[0]]}", missing=None)


def _missing(groups: Sequence[Group], group: Group, own: frozenset[int], order: Order) -> Decision:
    waited = [each for each in groups if own & each.absent]
    late = tuple(sorted(own & frozenset[int]().union(*(order.late_before(each) for each in waited[:NAMED_MAX]))))
    if late:
        words = f"{_ranks(late)} came late to the collectives before, and not yet to this one"
        return Decision(SLOW, late, group, f"{words}, and others wait in {group.name}")
    ranks = tuple(sorted(own))
    if group.pairwise:
        words = f"{_ranks(ranks)} waits in nothing while others wait, first rank {min(group.waiting)} in {group.name}"
        return Decision(NEVER_ENTERED, ranks, group, words)
    more = "" if own <= group.members else " and what others wait in since then"
    return Decision(NEVER_ENTERED, ranks, group, f"{_ranks(ranks)} did not come to {group.name}{more}")


def _diverged(group: Group, order: Order) -> Decision | None:
    """Ranks that called something else than the others under one number."""
    kinds = {rank: compared(kind) for rank, kind in group.kinds.items()}
    if group.pairwise or len(set(kinds.values())) < 2:
        return None
    odd = odd_ones(kinds, order.strange_in(group))
    text = f"not all called the same as number {group.seq}"
    if odd:
        told = ", ".join(f"rank {rank}: {_kind(group.kinds[rank])}" for rank in odd[:NAMED_MAX])
        baseline = Counter(kind for rank, kind in group.kinds.items() if rank not in odd).most_common(1)[0][0]
        return Decision(DIVERGED, odd, group, f"{text}: {told}; the others: {_kind(baseline)}")
    by_kind = {kind: [rank for rank in sorted(kinds) if kinds[rank] == kind] for kind in sorted(set(kinds.values()))}
    told = "; ".join(f"{_ranks(ranks)}: {_kind(group.kinds[ranks[0]])}" for ranks in by_kind.values())
    return Decision(DIVERGED, (), group, f"{text}: {told}", RIGHT_ORDER)


def odd_ones(kinds: Mapping[int, Kind], strange: Collection[int]) -> tuple[int, ...]:
    """Of ranks that called different things those who left the program: by what was called before, else the fewer.

    Nobody where that does not tell them apart.
    """
    left = tuple(sorted(kinds.keys() & set(strange)))
    if 0 < len(left) < len(kinds):
        return left
    most, count = Counter(kinds[rank] for rank in sorted(kinds)).most_common(1)[0]
    return tuple(sorted(rank for rank, kind in kinds.items() if kind != most)) if 2 * count > len(kinds) else ()


def _all_came(groups: Sequence[Group], group: Group, order: Order) -> Decision:
    if group.absent or group.pairwise:  # each waits elsewhere
        return _circle(groups, group, order)
    unheard = group.size - len(group.members)
    if unheard > 0:
        text = f"{len(group.entered)} of {group.size} ranks came to {group.name}; no data from the others"
        return Decision(None, (), group, text, f"collectives of {unheard} of {group.size} ranks")
    common = _in_all(groups)
    if common:
        return Decision(STUCK, common, group, f"no collective with {_ranks(common)} ends, first {group.name}")
    still = tuple(sorted(group.waiting))
    few = FEW if len(group.members) > 2 else 2
    if few * len(still) <= len(group.members):  # nearly all were let go: those that were not
        return Decision(STUCK, still, group, f"all came to {group.name}, and {_ranks(still)} was not let go")
    return Decision(STUCK, (), group, f"all {group.size} ranks came to {group.name}, and it does not end")


def _in_all(groups: Sequence[Group]) -> tuple[int, ...]:
    """Ranks that are in each of several groups in which all came and that do not end, if these are few."""
    whole = {group.members for group in groups if not group.pairwise and not group.absent and len(group.members) > 1}
    if len(whole) < 2:
        return ()
    common = frozenset[int].intersection(*whole)
    return tuple(sorted(common)) if 2 * len(common) <= min(map(len, whole)) else ()


def _circle(groups: Sequence[Group], group: Group, order: Order) -> Decision:
    """Ranks wait for each other in different groups: some have left the program, or a message between them is lost."""
    waiting = frozenset[int]().union(*(each.waiting for each in groups))
    astray = tuple(sorted(order.astray(waiting)))
    text = f"ranks wait for each other in {len({(each.comm, each.seq, each.op) for each in groups})} places"
    if 0 < 2 * len(astray) <= len(waiting):
        return Decision(
            DIVERGED, astray, group, f"{text}, first in {group.name}; {_ranks(astray)} left the usual order"
        )
    if not group.pairwise:
        return Decision(DIVERGED, (), group, f"{text}, first in {group.name}", RIGHT_ORDER)
    if not group.members <= waiting:
        text = f"{_ranks(sorted(group.waiting))} waits in {group.name}, others in nothing"
        return Decision(None, (), group, text, "peers of sends and receives")
    return Decision(STUCK, (), group, f"{text}, first in {group.name}", "peers of sends and receives")


def _kind(kind: Kind) -> str:
    return f"{kind[0]} of {kind[1]} B {kind[2]}".strip()


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(str(rank) for rank in ranks[:NAMED_MAX])
    more = f" and {len(ranks) - NAMED_MAX} more" if len(ranks) > NAMED_MAX else ""
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {named}{more}"


def _stands(ranks: Sequence[int]) -> str:
    return f"{_ranks(ranks)} {'stand' if len(ranks) > 1 else 'stands'}"
