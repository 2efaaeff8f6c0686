"""Where sources contradict each other about one thing: the claims on it, and which of them is used.

A child that may have one parent only (`depends.RULES`) and is told to have two at the same time; a port that is linked
to two others. The two ends of a link are looked at each for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.graph.depends import RULES, Way
from leadline.analysis.graph.rows import Rows
from leadline.analysis.graph.trust import Claim, chosen

_CONFLICTS = tuple(sorted({rule.only for rule in RULES if rule.only}))
_CONFLICT_OF_RULE = np.array([*(_CONFLICTS.index(rule.only) if rule.only else -1 for rule in RULES), -1], np.int64)
_PER_SOURCE = np.array([*(rule.per_source for rule in RULES), False])
_THROUGH_JOB = np.array([*(rule.through_job for rule in RULES), False])
RANK_IN_JOB = next(place for place, rule in enumerate(RULES) if (rule.child, rule.parent) == ("rank", "job"))
_IS_LINK = np.array([*(rule.way is Way.LINK for rule in RULES), False])


Texts = Sequence[str] | Mapping[int, str]  # names by number


@dataclass(frozen=True, slots=True)
class Claims:
    """K claims: `subject` is told to have `other`, by row `row`; in groups of one subject and one kind of conflict.

    `begin_G` is where each of G groups begins, and K behind them. Only groups that name several others are here.
    """

    subject_K: Ints
    other_K: Ints
    conflict_K: Ints  # into `conflict_name`
    row_K: Ints
    begin_G: Ints
    per_source_G: Bools

    def __len__(self) -> int:
        return len(self.begin_G) - 1

    def groups(self) -> Iterator[slice]:
        """Where each group lies."""
        for low, high in zip(self.begin_G[:-1].tolist(), self.begin_G[1:].tolist(), strict=True):
            yield slice(low, high)


def conflict_name(number: int) -> str:
    """Name of a kind of conflict: two-hosts, two-links, ..."""
    return _CONFLICTS[number]


def claims(rows: Rows, rule_N: Ints) -> Claims:
    """Of rows, the groups of claims that could contradict each other: one subject, several others.

    Inputs: rows, and the place of each one's rule in `RULES` (-1: none). Rows that end before they begin claim nothing.
    """
    sound_N = rows.to_ns > rows.from_ns
    one_N = np.flatnonzero((_CONFLICT_OF_RULE[rule_N] >= 0) & sound_N & (rows.child != rows.parent))
    back_N = one_N[_IS_LINK[rule_N[one_N]]]
    row = np.concatenate([one_N, back_N])
    subject = np.concatenate([rows.child[one_N], rows.parent[back_N]]).astype(np.int64)
    other = np.concatenate([rows.parent[one_N], rows.child[back_N]]).astype(np.int64)
    through = _THROUGH_JOB[rule_N[row]]
    other[through] = _jobs_of(rows, rule_N, other[through])
    known = other >= 0
    row, subject, other = row[known], subject[known], other[known]
    conflict = _CONFLICT_OF_RULE[rule_N[row]]
    group = subject * len(_CONFLICTS) + conflict
    order = np.lexsort((other, group))
    group, other = group[order], other[order]
    first_K = np.r_[True, group[1:] != group[:-1]] if len(group) else np.zeros(0, bool)
    number_K = np.cumsum(first_K) - 1
    differs_K = np.r_[False, (other[1:] != other[:-1]) & ~first_K[1:]] if len(group) else first_K
    several_G = np.bincount(number_K[differs_K], minlength=int(first_K.sum())) > 0
    keep_K = several_G[number_K]
    order, first_K = order[keep_K], first_K[keep_K]
    begin_G = np.r_[np.flatnonzero(first_K), len(order)]
    per_source_G = _PER_SOURCE[rule_N[row[order][begin_G[:-1]]]]
    return Claims(subject[order], other[keep_K], conflict[order], row[order], begin_G, per_source_G)


def _jobs_of(rows: Rows, rule_N: Ints, rank_K: Ints) -> Ints:
    """The job of each rank, by the rows that say so; -1: none does."""
    own = np.flatnonzero(rule_N == RANK_IN_JOB)
    rank_R, place_R = np.unique(rows.child[own], return_index=True)
    if not len(rank_R):
        return np.full(len(rank_K), -1, np.int64)
    place_K = np.minimum(np.searchsorted(rank_R, rank_K), len(rank_R) - 1)
    return np.where(rank_R[place_K] == rank_K, rows.parent[own][place_R][place_K], -1).astype(np.int64)


def as_claims(rows: Rows, row_K: Ints, other_K: Ints, sources: list[str], texts: Texts) -> list[Claim]:
    """One claim for each other thing that is named, in the order of their names."""
    order = np.argsort(other_K, kind="stable")
    sorted_K, rows_K = other_K[order], row_K[order]
    columns = zip(
        sorted_K.tolist(), rows.source[rows_K].tolist(), rows.from_ns[rows_K].tolist(),
        rows.confidence[rows_K].tolist(), strict=True,
    )  # fmt: skip
    out = []
    for other, told in groupby(columns, key=lambda each: each[0]):
        _, source, since, sure = zip(*told, strict=True)
        said = tuple(sorted({sources[number] for number in source}))
        out.append(Claim(texts[other], said, min(since), max(sure)))
    return sorted(out, key=lambda claim: claim.says)


def agree(rows: Rows, row_K: Ints, other_K: Ints) -> bool:
    """Whether one source says all that any source says, so that having several is what it means."""
    everything = set(other_K.tolist())
    source_K = rows.source[row_K]
    return any(set(other_K[source_K == source].tolist()) == everything for source in set(source_K.tolist()))


def unused(rows: Rows, found: Claims, sources: list[str], texts: Texts) -> Bools:
    """Of rows that all hold at one time, which are not followed, bool (N,). They are still shown: nothing is hidden."""
    unused_N = np.zeros(len(rows), bool)
    for place, group in enumerate(found.groups()):
        row_K, other_K = found.row_K[group], found.other_K[group]
        if found.per_source_G[place] and agree(rows, row_K, other_K):
            continue
        told = as_claims(rows, row_K, other_K, sources, texts)
        used = told[chosen(told)].says
        unused_N[row_K[[texts[other] != used for other in other_K.tolist()]]] = True
    return unused_N


def alive(rows: Rows, at_ns: int) -> Bools:
    """Which rows hold at a time: from it began, up to but not at its end."""
    return (rows.from_ns <= at_ns) & (rows.to_ns > at_ns)
