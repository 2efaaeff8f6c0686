"""Whose a flow is: the job, the sending and the receiving rank, from who owns its five-tuple and its queue pair.

    flow owns rank --five-tuple, or that of the flow it answers--.
    qp owns rank   --destination and queue pair------------------+--> claims on a flow --nearest in time--> one job
                                                                       `-- host of rank = host of address --> which end

A flow that nobody claims stays nobody's, and one that two jobs claim at the same time as well: both claims are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Codes, Ints, id_texts
from leadline.analysis.conflict import ROWS_MAX, Conflict
from leadline.analysis.path.claimed import Pairs, SeenFlows, claimed, ends_of, nearest
from leadline.analysis.path.claims import OPEN
from leadline.analysis.path.flow_ends import answers, by_address, comms_of, only, placed
from leadline.analysis.path.ownership import Claims, Ranks, read

CLAIMS_MAX = 8  # told of one contradiction


@dataclass(frozen=True, slots=True)
class Owners:
    """Who owns each flow, -1 for nobody. `tenant_F` is the tenant of who said so."""

    job_F: Codes  # names as in the tables: `bert-1`, without the kind
    tenant_F: Codes
    src_rank_F: Codes  # entities: `rank:bert-1/0`
    dst_rank_F: Codes
    conflicts: list[Conflict]


def owners(relation: pa.Table, flows: SeenFlows, host_of_address: Mapping[str, str]) -> Owners:
    """Job and ranks of each flow at its time.

    Inputs: relation rows (`child`, `parent`, `kind`, `from_ns`, `to_ns`, `source`, `tenant`) that hold in the window;
    the flows; the host entity of addresses, as far as known.
    A claim holds for a flow if its span is within 15 s of the flow's samples; of several jobs' claims the nearest in
    time counts, so that a queue pair or port number that was given away again belongs to who had it then. Claims of
    two jobs (or of two tenants' jobs of one name) that are as near: the flow is nobody's, and a `two-owners` row tells.
    Ranks: the owner of the queue pair receives. A rank that claims the five-tuple is at the end whose address is its
    host's. Else, where exactly one rank of the job is on that host (and in the queue pair's communicator), that one.
    An answer (reversed five-tuple; over RoCEv2 the same UDP source port the other way) is of the job that it answers.
    """
    claims, ranks, conflicts = read(relation)
    ends = ends_of(flows, host_of_address, ranks.hosts)
    pairs = claimed(claims, ranks, flows, ends)
    owner_F, disputed = nearest(pairs, len(flows))
    conflicts += _two_owners(flows, claims, ranks, disputed)
    pairs = pairs.where(owner_F[pairs.flow_P] == pairs.owner_P)
    dst_F = only(pairs.where(pairs.receives_P), len(flows))
    src_F, dst_F = placed(pairs, ranks, flows, ends, dst_F)
    comm_pairs = comms_of(claims, flows, ends)
    src_F = by_address(ranks, owner_F, ends.src_host_F, flows.at_ns_F, comm_pairs, src_F)
    dst_F = by_address(ranks, owner_F, ends.dst_host_F, flows.at_ns_F, comm_pairs, dst_F)
    owner_F, src_F, dst_F = answers(flows, ends, owner_F, src_F, dst_F)
    return _told(ranks, owner_F, src_F, dst_F, conflicts)


def _told(ranks: Ranks, owner_F: Ints, src_F: Ints, dst_F: Ints, conflicts: list[Conflict]) -> Owners:
    tenant_O, job_O = [tenant for tenant, _ in ranks.owners], [job for _, job in ranks.owners]
    return Owners(
        job_F=_codes(job_O, owner_F),
        tenant_F=_codes(tenant_O, owner_F),
        src_rank_F=_codes(ranks.names, src_F),
        dst_rank_F=_codes(ranks.names, dst_F),
        conflicts=conflicts,
    )


def _codes(name_T: list[str], place_F: Ints) -> Codes:
    """Texts of places as codes; below 0 is null."""
    used = np.unique(place_F[place_F >= 0])
    names = sorted({name_T[place] for place in used.tolist()})
    number = {name: code for code, name in enumerate(names)}
    code_T = np.full(len(name_T) + 1, -1, np.int64)
    code_T[used] = [number[name_T[place]] for place in used.tolist()]
    return Codes(names, code_T[np.maximum(place_F, -1)])


def _two_owners(flows: SeenFlows, claims: Claims, ranks: Ranks, disputed: Pairs) -> list[Conflict]:
    """A row for each flow that two jobs claim: the first ones by id, and one row more for all the others."""
    flow_D = np.unique(disputed.flow_P)
    flow_D = flow_D[np.lexsort(flows.flow_F2[flow_D].T)]
    by_flow = disputed.where(np.argsort(disputed.flow_P, kind="stable"))
    names = id_texts(flows.flow_F2[flow_D[: ROWS_MAX + 1]])
    rows = []
    for flow, name in zip(flow_D.tolist(), names, strict=False):
        first, last = np.searchsorted(by_flow.flow_P, (flow, flow + 1))
        rows.append(_dispute(f"flow:{name}", by_flow.where(np.arange(first, last)), claims, ranks))
    if len(rows) > ROWS_MAX:
        rest = len(flow_D) - ROWS_MAX
        text = f"{rest} more flows are claimed by two jobs each in this window; {rows[-1].text}"
        rows[-1] = replace(rows[-1], count=rest, text=text)
    return rows


def _dispute(flow: str, pairs: Pairs, claims: Claims, ranks: Ranks) -> Conflict:
    said = sorted({(*ranks.owners[ranks.owner_R[rank]], ranks.names[rank]) for rank in pairs.rank_P.tolist()})
    jobs = sorted({(tenant, job) for tenant, job, _ in said})
    sources = sorted({claims.sources[source] for source in claims.source_C[pairs.claim_P].tolist()})
    end_ns = int(claims.to_ns_C[pairs.claim_P].min())
    text = (
        f"{' and '.join(f'job {job} of tenant {tenant}' for tenant, job in jobs[:CLAIMS_MAX])} say at the same time "
        "that this flow is theirs, so it is counted to none of them; one of them may have ended without saying so: "
        "look whether its ranks still run"
    )
    return Conflict(
        entity=flow,
        kind="two-owners",
        start_ns=int(claims.from_ns_C[pairs.claim_P].max()),
        end_ns=None if end_ns == OPEN else end_ns,
        claims=tuple(rank for _, _, rank in said[:CLAIMS_MAX]),
        sources=tuple(sources),
        used=None,
        count=len(pairs.flow_P),
        text=text,
    )


__all__ = ["Owners", "SeenFlows", "owners"]
