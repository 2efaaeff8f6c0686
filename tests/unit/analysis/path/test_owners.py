"""Owners of flows: by five-tuple and queue pair, at their time; which end is which rank; two owners are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.fabrics import BERT, MOE, T0, TCP, TINY, UDP, Claim, S, relation_table

from leadline.analysis.columns import Codes, codes
from leadline.analysis.conflict import ROWS_MAX
from leadline.analysis.path.owners import Owners, SeenFlows, owners
from leadline.model.ids import flow_id

HOSTS = {TINY.address(host): f"host:h{host}" for host in TINY.hosts}
RUNNING = [*BERT.claims(TINY), *MOE.claims(TINY)]
Tuple = tuple[int, str, str, int, int, int]  # protocol, addresses, ports, queue pair or -1
ROCE: Tuple = (UDP, "10.1.1.1", "10.2.1.1", 50000, 4791, 300)  # h1 to h3: ranks 0 and 2 of bert-1
SOCKET: Tuple = (TCP, "10.1.2.1", "10.2.2.1", 40100, 5001, -1)  # h2 to h4: ranks 0 and 1 of moe-2
SOCKET_BACK: Tuple = (TCP, "10.2.2.1", "10.1.2.1", 5001, 40100, -1)


def seen(*tuples: Tuple, at_ns: int = T0 + 5 * S) -> SeenFlows:
    """These flows."""
    numbers = [flow_id(*each[:5], each[5] if each[5] >= 0 else None) if each[1] else 0 for each in tuples]
    ids_F2 = np.array([(each & 2**64 - 1, each >> 64) for each in numbers], np.uint64).reshape(-1, 2)
    address = pa.table({str(place): pa.array([each[place] for each in tuples], pa.string()) for place in (1, 2)})
    number = {place: np.array([each[place] for each in tuples], np.int64) for place in (0, 3, 4, 5)}
    at_ns_F = np.full(len(tuples), at_ns)
    return SeenFlows(
        ids_F2, codes(address, "1"), codes(address, "2"), number[3], number[4], number[0], number[5], at_ns_F
    )  # fmt: skip


def owns(what: Tuple | str, rank: str, tenant: str = "ana", from_ns: int = T0 - S, to_ns: int | None = None) -> Claim:
    """A rank owns a flow, or what is named."""
    child = what if isinstance(what, str) else f"flow:{flow_id(*what[:5], what[5] if what[5] >= 0 else None):032x}"
    return Claim(child, "owns", rank, "nccl-plugin", from_ns, to_ns, tenant=tenant)


def owned(
    claims: Iterable[Claim], *tuples: Tuple, hosts: Mapping[str, str] = HOSTS, at_ns: int = T0 + 5 * S
) -> list[tuple[str | None, ...]]:
    """(job, tenant, sender, receiver) of each flow."""
    found = owners(relation_table([*RUNNING, *claims]), seen(*tuples, at_ns=at_ns), hosts)
    return list(zip(*map(texts, (found.job_F, found.tenant_F, found.src_rank_F, found.dst_rank_F)), strict=True))


def texts(given: Codes) -> Sequence[str | None]:
    """Text of each row."""
    return [given.names[code] if code >= 0 else None for code in given.code_N.tolist()]


def judged(claims: Iterable[Claim], *tuples: Tuple) -> Owners:
    """Everything that is found."""
    return owners(relation_table([*RUNNING, *claims]), seen(*tuples), HOSTS)


def test_the_sender_owns_the_tuple_and_the_receiver_the_queue_pair() -> None:
    claims = [owns(ROCE, "rank:bert-1/0"), owns("qp:10.2.1.1/300", "rank:bert-1/2")]
    assert owned(claims, ROCE) == [("bert-1", "ana", "rank:bert-1/0", "rank:bert-1/2")]
    assert owned(claims, ROCE, hosts={}) == [("bert-1", "ana", "rank:bert-1/0", "rank:bert-1/2")]


def test_the_queue_pair_alone_names_the_job_and_the_only_rank_on_the_senders_host() -> None:
    claims = [owns("qp:10.2.1.1/300", "rank:bert-1/2")]
    assert owned(claims, ROCE) == [("bert-1", "ana", "rank:bert-1/0", "rank:bert-1/2")]
    assert owned(claims, ROCE, hosts={}) == [("bert-1", "ana", None, "rank:bert-1/2")]


def test_two_ranks_on_the_senders_host_are_told_apart_by_the_communicator_or_not_at_all() -> None:
    second = Claim("rank:bert-1/9", "runs-on", "host:h1", "torch-hook", tenant="ana")
    pair = owns("qp:10.2.1.1/300", "rank:bert-1/2")
    assert owned([second, pair], ROCE) == [("bert-1", "ana", None, "rank:bert-1/2")]
    comm = Claim("qp:10.2.1.1/300", "member", "comm:bert-1/0x1", "nccl-plugin", tenant="ana")
    assert owned([second, pair, comm], ROCE) == [("bert-1", "ana", "rank:bert-1/0", "rank:bert-1/2")]


def test_both_ends_of_a_socket_may_own_both_directions() -> None:
    claims = [owns(each, rank, "bo") for each in (SOCKET, SOCKET_BACK) for rank in ("rank:moe-2/0", "rank:moe-2/1")]
    assert owned(claims, SOCKET, SOCKET_BACK) == [
        ("moe-2", "bo", "rank:moe-2/0", "rank:moe-2/1"),
        ("moe-2", "bo", "rank:moe-2/1", "rank:moe-2/0"),
    ]


def test_the_answer_to_a_socket_is_of_its_job_with_the_ranks_swapped() -> None:
    claims = [owns(SOCKET, "rank:moe-2/0", "bo")]
    assert owned(claims, SOCKET_BACK) == [("moe-2", "bo", "rank:moe-2/1", "rank:moe-2/0")]


def test_an_acknowledgement_over_roce_goes_back_by_the_same_source_port() -> None:
    claims = [owns(ROCE, "rank:bert-1/0"), owns("qp:10.2.1.1/300", "rank:bert-1/2")]
    ack = (UDP, "10.2.1.1", "10.1.1.1", 50000, 4791, 77)
    other = (UDP, "10.2.1.1", "10.1.1.1", 50001, 4791, 78)
    assert owned(claims, ROCE, ack, other)[1:] == [
        ("bert-1", "ana", "rank:bert-1/2", "rank:bert-1/0"),
        (None, None, None, None),
    ]


def test_both_spellings_of_an_address_are_one() -> None:
    mapped = (UDP, "::ffff:10.1.1.1", "::ffff:10.2.1.1", 50000, 4791, 300)
    claims = [owns("qp:::ffff:10.2.1.1/300", "rank:bert-1/2")]
    assert owned(claims, ROCE, mapped) == [("bert-1", "ana", "rank:bert-1/0", "rank:bert-1/2")] * 2
    six = (UDP, "fd00::1", "fd00:0:0::2", 50000, 4791, 300)
    assert owned([owns("qp:fd00::2/300", "rank:bert-1/2")], six) == [("bert-1", "ana", None, "rank:bert-1/2")]


def test_a_number_that_is_used_again_belongs_to_who_had_it_then() -> None:
    claims = [
        owns("qp:10.2.1.1/300", "rank:bert-1/2", "ana", T0 - 100 * S, T0 - 4 * S),
        owns("qp:10.2.1.1/300", "rank:moe-2/7", "bo", T0 - 3 * S),
    ]
    assert [owned(claims, ROCE, at_ns=T0 + at * S)[0][0] for at in (-50, -5, -2, 5)] == [
        "bert-1", "bert-1", "moe-2", "moe-2",
    ]  # fmt: skip


def test_a_flow_sampled_before_it_was_announced_is_owned_and_one_long_before_is_not() -> None:
    claims = [owns(SOCKET, "rank:moe-2/0", "bo", T0)]
    assert [owned(claims, SOCKET, at_ns=T0 - at * S)[0][0] for at in (9, 16)] == ["moe-2", None]


def test_a_process_stands_for_the_rank_that_it_is() -> None:
    claims = [Claim("process:h2/70", "member", "rank:moe-2/0", "agent", tenant="bo")]
    claims.append(owns(SOCKET, "process:h2/70", "bo"))
    assert owned(claims, SOCKET) == [("moe-2", "bo", "rank:moe-2/0", "rank:moe-2/1")]
    assert owned([owns(SOCKET, "process:h2/71", "bo")], SOCKET) == [(None, None, None, None)]


def test_nobodys_flow_stays_nobodys() -> None:
    assert owned([], ROCE, SOCKET, (0, "", "", 0, 0, -1)) == [(None, None, None, None)] * 3


def test_two_jobs_that_claim_a_flow_get_none_of_it_and_both_are_told() -> None:
    claims = [owns(SOCKET, "rank:bert-1/1"), owns(SOCKET, "rank:moe-2/0", "bo", T0, T0 + 9 * S)]
    found = judged(claims, SOCKET)
    assert texts(found.job_F) == [None]
    (row,) = found.conflicts
    assert (row.kind, row.used, row.count) == ("two-owners", None, 2)
    assert row.claims == ("rank:bert-1/1", "rank:moe-2/0")
    assert (row.start_ns, row.end_ns) == (T0, T0 + 9 * S)
    assert "job bert-1 of tenant ana and job moe-2 of tenant bo" in row.text
    assert row.entity == claims[0].child


def test_jobs_of_one_name_of_two_tenants_are_two() -> None:
    found = judged([owns(SOCKET, "rank:moe-2/0", "bo"), owns(SOCKET, "rank:moe-2/0", "eve")], SOCKET)
    assert texts(found.job_F) == [None]
    assert [row.kind for row in found.conflicts] == ["two-owners"]
    assert owned([owns(SOCKET, "rank:moe-2/0", "eve")], SOCKET) == [("moe-2", "eve", None, None)]


def test_contradictions_without_end_become_one_row_with_their_number() -> None:
    tuples = [(TCP, "10.1.2.1", "10.2.2.1", port, 5001, -1) for port in range(ROWS_MAX + 5)]
    claims = [owns(each, rank) for each in tuples for rank in ("rank:bert-1/1", "rank:moe-2/0")]
    found = judged(claims, *tuples)
    assert len(found.conflicts) == ROWS_MAX + 1
    assert found.conflicts[-1].count == 5


UNREADABLE = (
    "flow:12", "flow:" + "g" * 32, "qp:10.2.1.1", "qp:10.2.1.1/x", "qp:10.2.1.1/99999999999", "qp:10.2.1.1/-1",
    "qp:a/b/1",
)  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_name_that_cannot_be_read_is_told_and_owns_nothing(name: str) -> None:
    found = judged([owns(name, "rank:bert-1/2")], ROCE)
    assert texts(found.job_F) == [None]
    (row,) = found.conflicts
    assert (row.entity, row.kind, row.count) == (name, "unreadable-owner", 1)
    assert repr(name) in row.text


def test_a_rank_without_a_job_in_its_name_is_in_the_job_it_is_told_to_be_in() -> None:
    claims = [owns(SOCKET, "rank:7", "bo"), Claim("rank:7", "in", "job:solo", "agent", tenant="bo")]
    assert owned(claims, SOCKET)[0][:2] == ("solo", "bo")


def test_no_flows_and_no_relations_give_nothing() -> None:
    assert owned([]) == []
    empty = owners(relation_table([]), seen(ROCE), {})
    assert texts(empty.job_F) == [None]
    assert empty.conflicts == []


def test_the_order_of_relations_does_not_matter() -> None:
    claims = [*RUNNING, owns(SOCKET, "rank:bert-1/1"), owns(SOCKET, "rank:moe-2/0", "bo"), owns(ROCE, "rank:bert-1/0")]
    flows = seen(ROCE, SOCKET)
    one, other = (owners(relation_table(each), flows, HOSTS) for each in (claims, claims[::-1]))
    assert texts(one.job_F) == texts(other.job_F)
    assert texts(one.src_rank_F) == texts(other.src_rank_F)
    assert one.conflicts == other.conflicts
