"""Who does the same: entities of one kind that hold the same place in the same job, or none in any.

A GPU's, a process's or a host's jobs are those of the ranks that run on it; a port's are its host's. Ports of hosts are
peers by name (`eth0` with `eth0`: rails carry different things), ports of switches by what their switch is called
without its number (`leaf#`) and by what is at the other end of their cable.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import pyarrow as pa

from leadline.analysis.anomaly.streams import Names, Streams
from leadline.analysis.columns import Ints, codes

_HELD = ("in", "runs-on", "member")


class Places:
    """What entities are part of, by the relations that held in the window."""

    def __init__(self, relation: pa.Table) -> None:
        self._jobs: dict[str, set[str]] = defaultdict(set)
        self._far: dict[str, str] = {}
        rank_on: dict[str, set[str]] = defaultdict(set)
        for child, kind, parent in _rows(relation):
            if kind == "linked":
                self._far[child], self._far[parent] = _kind(parent), _kind(child)
            elif child.startswith("rank:") and kind in _HELD:
                rank_on[parent].add(child)
            elif parent.startswith("rank:") and kind in _HELD:
                rank_on[child].add(parent)
        for entity, ranks in rank_on.items():
            if _kind(entity) in ("gpu", "host", "process"):
                self._jobs[entity] = {_job(rank) for rank in ranks}

    def role(self, entity: str) -> str:
        """What an entity's peers have in common with it; a text to compare."""
        kind, _, name = entity.partition(":")
        if kind in ("rank", "comm"):
            return f"{kind} {_job(entity)}"
        holder, _, part = name.rpartition("/")
        if kind == "swport":
            return f"{kind} {_numberless(holder)} {self._far.get(entity, '')}"
        if kind in ("port", "xcvr"):
            far = self._far.get(entity, "")
            return f"{kind} {part} {far} {self._jobs_of(f'host:{holder}')}"
        if kind == "nvlink":
            return f"{kind} {self._jobs_of(f'gpu:{holder}')}"
        if kind in ("switch", "link"):
            return f"{kind} {_numberless(name)}"
        return f"{kind} {self._jobs_of(entity)}"

    def _jobs_of(self, entity: str) -> str:
        return " ".join(sorted(self._jobs.get(entity, ())))


def _rows(relation: pa.Table) -> list[tuple[str, str, str]]:
    child, parent, kind = (codes(relation, name) for name in ("child", "parent", "kind"))
    wanted = [place for place, name in enumerate(kind.names) if name in (*_HELD, "linked")]
    plain = np.array([not name.startswith(("flow:", "address:", "qp:")) for name in child.names] + [False], bool)
    keep = np.isin(kind.code_N, wanted) & plain[child.code_N] & (parent.code_N >= 0)
    width, kinds = len(parent.names) + 1, len(kind.names) + 1
    told = np.unique(((child.code_N * width + parent.code_N) * kinds + kind.code_N)[keep])
    return [
        (child.names[each // kinds // width], kind.names[each % kinds], parent.names[each // kinds % width])
        for each in told.tolist()
    ]


def _kind(entity: str) -> str:
    return entity.partition(":")[0]


def _job(entity: str) -> str:
    return entity.partition(":")[2].rpartition("/")[0]


def _numberless(text: str) -> str:
    return re.sub(r"[0-9]+", "#", text)


def groups_of(streams: Streams, relation: pa.Table) -> Ints:
    """The peer group of each stream, (R,): same metric, same labels but for numbers, entities of one role."""
    places, roles = Places(relation), Names()
    role_E = np.array([_role(places, roles, *key) for key in streams.entities.keys], np.int64)
    role_R = role_E[streams.entity_R] if len(role_E) else np.zeros(0, np.int64)
    key_R = (role_R * max(len(streams.metrics), 1) + streams.metric_R) * (int(streams.role_R.max(initial=0)) + 1)
    _, group_R = np.unique(key_R + streams.role_R, return_inverse=True)
    return group_R.reshape(-1).astype(np.int64)


def _role(places: Places, roles: Names, tenant: str, entity: str) -> int:
    """Ranks of two tenants' jobs of one name are no peers; hardware is shared, so of it tenants do not matter."""
    return roles.number(tenant if entity.startswith(("rank:", "comm:")) else "", places.role(entity))
