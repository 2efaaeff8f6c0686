"""What a relation means: which of its two ends stands on the other, and which of them may have only one parent.

    job ─> rank ─> gpu ─> host ─> port ─(link)─> switch
                    rank ──────┘  host, job ... ─> storage ─> port

A fault travels against the arrows: what stands on the broken thing suffers. Combinations that are not listed are
kept and shown as plain relations; nothing is concluded from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from leadline.model.ids import ENTITY_KINDS

KINDS: tuple[str, ...] = (*ENTITY_KINDS, "")  # the last stands for every kind that we do not know
UNKNOWN_KIND = len(KINDS) - 1
KIND: dict[str, int] = {kind: number for number, kind in enumerate(KINDS)}


class Way(IntEnum):
    """Which end stands on the other."""

    UNKNOWN = 0
    CHILD_ON_PARENT = 1
    PARENT_ON_CHILD = 2
    LINK = 3  # both ways: the ends of a link
    BESIDE = 4  # neither: both stand on one machine


@dataclass(frozen=True, slots=True)
class Rule:
    """A relation between two kinds. `only`: the conflict's name if the child may have just one such parent at a time.

    `per_source`: a child may have several such parents if one source says all of them (a rank with several GPUs).
    `through_job`: several parents are fine if they are ranks of one job (both ends of a flow own it).
    """

    child: str
    relation: str
    parent: str
    way: Way
    only: str = ""
    per_source: bool = False
    through_job: bool = False


_ON, _UNDER, _LINK = Way.CHILD_ON_PARENT, Way.PARENT_ON_CHILD, Way.LINK

RULES: tuple[Rule, ...] = (
    Rule("rank", "in", "job", _UNDER, "two-jobs"),
    Rule("comm", "in", "job", _UNDER, "two-jobs"),
    Rule("rank", "member", "comm", _UNDER),
    Rule("qp", "member", "comm", _UNDER),
    Rule("rank", "runs-on", "gpu", _ON, "two-gpus", per_source=True),
    Rule("rank", "runs-on", "host", _ON, "two-hosts"),
    Rule("rank", "runs-on", "process", _ON),
    Rule("rank", "runs-on", "pod", _ON),
    Rule("job", "runs-on", "host", _ON),  # a scheduler tells nodes of a job, not of its ranks
    Rule("process", "member", "rank", _UNDER),
    Rule("process", "in", "host", _ON, "two-hosts"),
    Rule("process", "runs-on", "host", _ON, "two-hosts"),
    Rule("process", "runs-on", "gpu", _ON),
    Rule("process", "in", "pod", _ON),
    Rule("pod", "runs-on", "host", _ON, "two-hosts"),
    Rule("pod", "in", "host", _ON, "two-hosts"),
    Rule("gpu", "in", "host", _ON, "two-hosts"),
    Rule("nvlink", "in", "gpu", _UNDER, "two-gpus"),
    Rule("port", "in", "host", _UNDER, "two-hosts"),
    Rule("port", "in", "storage", _UNDER, "two-hosts"),
    Rule("swport", "in", "switch", _ON, "two-switches"),
    Rule("xcvr", "in", "port", _UNDER, "two-ports"),
    Rule("xcvr", "in", "swport", _UNDER, "two-ports"),
    Rule("address", "in", "port", _ON, "two-ports"),
    Rule("host", "has", "gpu", _UNDER),
    Rule("host", "has", "port", _ON),
    Rule("switch", "has", "swport", _UNDER),
    Rule("flow", "owns", "rank", _UNDER, "two-jobs", through_job=True),
    Rule("qp", "owns", "rank", _UNDER, "two-jobs", through_job=True),
    Rule("port", "linked", "swport", _LINK, "two-links"),
    Rule("swport", "linked", "port", _LINK, "two-links"),
    Rule("swport", "linked", "swport", _LINK, "two-links"),
    Rule("port", "linked", "port", _LINK, "two-links"),
    Rule("job", "mounts", "storage", _ON),
    Rule("rank", "mounts", "storage", _ON),
    Rule("process", "mounts", "storage", _ON),
    Rule("pod", "mounts", "storage", _ON),
    Rule("host", "mounts", "storage", _ON),
    Rule("host", "shares-machine", "host", Way.BESIDE),
    Rule("host", "held-by", "tenant", _UNDER),
)

RELATIONS: tuple[str, ...] = (*sorted({rule.relation for rule in RULES}), "")
UNKNOWN_RELATION = len(RELATIONS) - 1
RELATION_NUMBER: dict[str, int] = {relation: number for number, relation in enumerate(RELATIONS)}


def _rule_table() -> NDArray[np.int16]:
    """Place in `RULES` by numbers of child kind, relation and parent kind; -1: none."""
    table = np.full((len(KINDS), len(RELATIONS), len(KINDS)), -1, np.int16)
    for place, rule in enumerate(RULES):
        table[KIND[rule.child], RELATION_NUMBER[rule.relation], KIND[rule.parent]] = place
    return table


RULE_OF: NDArray[np.int16] = _rule_table()
WAY_OF_RULE: NDArray[np.int8] = np.array([*(rule.way for rule in RULES), Way.UNKNOWN], np.int8)  # -1 is the last

# Layers of a drawing, from the surface down; switches go on below by their tier.
_LAYER = {
    "tenant": 0, "cluster": 0, "service": 0, "job": 0, "comm": 0,
    "rank": 1, "flow": 1, "qp": 1,
    "gpu": 2, "process": 2, "pod": 2,
    "host": 3, "nvlink": 3,
    "port": 4, "storage": 4, "link": 4, "address": 4,
    "swport": 5, "xcvr": 5, "switch": 5,
}  # fmt: skip
_BELOW = 8  # what we do not know


def layer_of(kind: str, tier: int = 1) -> int:
    """Layer of a kind of entity in a drawing, 0 on top. `tier` of a switch: 1 for a leaf, 2 above it, ..."""
    layer = _LAYER.get(kind, _BELOW)
    return layer + max(tier, 1) - 1 if kind == "switch" else layer
