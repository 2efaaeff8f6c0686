"""Whose a flow is: the job, the sending and the receiving rank, from who owns its five-tuple and its queue pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from leadline.analysis.columns import Codes, Ids, Ints
from leadline.analysis.path.marks import ConflictRow


@dataclass(frozen=True, slots=True)
class SeenFlows:
    """Flows that were seen, arrays over F, in any order."""

    flow_F2: Ids
    src_ip_F: Codes
    dst_ip_F: Codes
    src_port_F: Ints
    dst_port_F: Ints
    protocol_F: Ints
    dst_qp_F: Ints  # -1: none
    at_ns_F: Ints  # mean time of its samples


@dataclass(frozen=True, slots=True)
class Owners:
    """Who owns each flow, -1 for nobody. `tenant_F` is the job's tenant."""

    job_F: Codes  # names as in the tables: `bert-1`, without the kind
    tenant_F: Codes
    src_rank_F: Codes  # entities: `rank:bert-1/0`
    dst_rank_F: Codes
    conflicts: list[ConflictRow]


def owners(relation: pa.Table, flows: SeenFlows, host_of_address: Mapping[str, str]) -> Owners:
    """Job and ranks of each flow at its time."""
    raise AssertionError("not yet")
