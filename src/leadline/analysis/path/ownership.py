"""Who says what is theirs: claims of ranks on flows and queue pairs, and where ranks run. `claims` knows the rows.

A rank is a tenant's: two tenants may each have a job `bert-1`. Axes: C = claim, R = rank, O = owner (a tenant's job),
H = row that tells a rank's host, M = row that tells a rank's communicator, Q = row that tells a queue pair's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Ids, Ints
from leadline.analysis.conflict import Conflict
from leadline.analysis.path.claims import (
    OPEN,
    Edges,
    edges_of,
    flow_numbers,
    job_of_rank,
    matched,
    numbered,
    queue_pairs,
)
from leadline.model.ids import name_of

_BETWEEN = "\0"  # of tenant and rank: in neither


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks that claim something or run somewhere."""

    names: list[str]  # over R: `rank:bert-1/0`
    owner_R: Ints
    owners: list[tuple[str, str]]  # over O: tenant, job
    hosts: list[str]
    rank_H: Ints
    host_H: Ints
    from_ns_H: Ints
    to_ns_H: Ints
    rank_M: Ints
    comm_M: Ints


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims on flows, then on queue pairs: the first `len(flow_C2)` are on flows."""

    rank_C: Ints
    from_ns_C: Ints
    to_ns_C: Ints
    source_C: Ints
    sources: list[str]
    flow_C2: Ids  # of those on flows
    address_C: pa.Array  # of those on queue pairs: texts
    number_C: Ints
    address_Q: pa.Array
    number_Q: Ints
    comm_Q: Ints

    @property
    def on_flows(self) -> int:
        """How many claims are on flows."""
        return len(self.flow_C2)


def read(relation: pa.Table) -> tuple[Claims, Ranks, list[Conflict]]:
    """Claims and ranks of relation rows, and what could not be read among them."""
    told = edges_of(relation, ("owns", "runs-on", "member"))
    on_flow, on_pair = (_of_ranks(told, told["owns"].between(kind)) for kind in ("flow", "qp"))
    id_C2, is_flow_C = flow_numbers(on_flow.child_C)
    address_C, number_C, is_pair_C = queue_pairs(on_pair.child_C)
    unread = _unread([on_flow.where(~is_flow_C), on_pair.where(~is_pair_C)])
    on_flow, on_pair = on_flow.where(is_flow_C), on_pair.where(is_pair_C)
    runs = told["runs-on"].between("rank", "host")
    members = told["member"].between("rank", "comm")
    pair_comms = told["member"].between("qp", "comm")
    address_Q, number_Q, fits_Q = queue_pairs(pair_comms.child_C)
    pair_comms = pair_comms.where(fits_Q)
    whole = [on_flow, on_pair]
    keys = [*(_rank_key(each.tenant_C, each.parent_C) for each in whole)]
    keys += [_rank_key(each.tenant_C, each.child_C) for each in (runs, members)]
    names, (flow_R, pair_R, rank_H, rank_M) = numbered(*keys)
    comms = numbered(members.parent_C, pair_comms.parent_C)[1]
    sources, (source_F, source_P) = numbered(*(each.source_C for each in whole))
    hosts, (host_H,) = numbered(runs.parent_C)
    owners, owner_R = _owners(names, relation)
    claims = Claims(
        rank_C=np.concatenate((flow_R, pair_R)),
        from_ns_C=np.concatenate([each.from_ns_C for each in whole]),
        to_ns_C=np.concatenate([each.to_ns_C for each in whole]),
        source_C=np.concatenate((source_F, source_P)),
        sources=sources,
        flow_C2=id_C2[is_flow_C],
        address_C=address_C,
        number_C=number_C,
        address_Q=address_Q,
        number_Q=number_Q,
        comm_Q=comms[1],
    )
    plain = [name.partition(_BETWEEN)[2] for name in names]
    ranks = Ranks(
        plain, owner_R, owners, hosts, rank_H, host_H, runs.from_ns_C, runs.to_ns_C, rank_M, comms[0]
    )  # fmt: skip
    return claims, ranks, unread


def _of_ranks(told: Mapping[str, Edges], owned: Edges) -> Edges:
    """The same with ranks as parents: a process stands for the rank that it is, as long as it is one."""
    of_ranks, by_process = owned.between("", "rank"), owned.between("", "process")
    if not len(by_process):
        return of_ranks
    member = told["member"].between("process", "rank")
    runs = told["runs-on"].between("rank", "process")
    process = pa.concat_arrays([member.child_C, runs.parent_C])
    rank = pa.concat_arrays([member.parent_C, runs.child_C])
    begin = np.concatenate((member.from_ns_C, runs.from_ns_C))
    end = np.concatenate((member.to_ns_C, runs.to_ns_C))
    _, (wanted_P, process_N) = numbered(by_process.parent_C, process)
    place_P, row_P = matched(wanted_P, process_N)
    from_ns_P = np.maximum(by_process.from_ns_C[place_P], begin[row_P])
    to_ns_P = np.minimum(by_process.to_ns_C[place_P], end[row_P])
    meets = np.flatnonzero(from_ns_P <= to_ns_P)
    stood_for = by_process.where(place_P[meets])
    return _joined(
        of_ranks,
        Edges(
            stood_for.child_C, rank.take(pa.array(row_P[meets])), from_ns_P[meets], to_ns_P[meets],
            stood_for.source_C, stood_for.tenant_C,
        ),
    )  # fmt: skip


def _joined(one: Edges, other: Edges) -> Edges:
    return Edges(
        pa.concat_arrays([one.child_C, other.child_C]),
        pa.concat_arrays([one.parent_C, other.parent_C]),
        np.concatenate((one.from_ns_C, other.from_ns_C)),
        np.concatenate((one.to_ns_C, other.to_ns_C)),
        pa.concat_arrays([one.source_C, other.source_C]),
        pa.concat_arrays([one.tenant_C, other.tenant_C]),
    )


def _rank_key(tenant_C: pa.Array, rank_C: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(tenant_C, rank_C, _BETWEEN)


def _owners(names: Sequence[str], relation: pa.Table) -> tuple[list[tuple[str, str]], Ints]:
    """(tenant, job) of each rank, distinct ones numbered. A rank's name tells its job; where it does not, `in` does."""
    nameless = [name for name in names if not job_of_rank(name.partition(_BETWEEN)[2])]
    job_of: dict[str, str] = {}
    if nameless:
        rows = edges_of(relation, ("in",))["in"].between("rank", "job")
        keys = _rank_key(rows.tenant_C, rows.child_C).to_pylist()
        for key, job in sorted(zip(keys, rows.parent_C.to_pylist(), strict=True), reverse=True):
            job_of[key] = name_of(job)
    of_rank = [
        (name.partition(_BETWEEN)[0], job_of_rank(name.partition(_BETWEEN)[2]) or job_of.get(name, ""))
        for name in names
    ]
    owners = sorted(set(of_rank))
    place = {owner: number for number, owner in enumerate(owners)}
    return owners, np.array([place[owner] for owner in of_rank], np.int64)


def _unread(parts: Sequence[Edges]) -> list[Conflict]:
    """One row for what is owned but has no name that could be read."""
    count = sum(map(len, parts))
    if not count:
        return []
    names = sorted({name for part in parts for name in part.child_C.to_pylist()})
    sources = sorted({name for part in parts for name in part.source_C.to_pylist()})
    start_ns = min(int(part.from_ns_C.min()) for part in parts if len(part))
    ends = [int(part.to_ns_C.max()) for part in parts if len(part)]
    text = (
        f"{count} rows say who owns a flow or queue pair whose name cannot be read; expected flow:<32 hex digits> or "
        f"qp:<address>/<number>, got {names[0]!r}: look at what {', '.join(sources)} sends"
    )
    end_ns = None if max(ends) == OPEN else max(ends)
    return [Conflict(names[0], "unreadable-owner", start_ns, end_ns, (), tuple(sources), None, count, text)]
