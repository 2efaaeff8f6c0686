"""Sources that contradict each other, and hand-overs that are none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders.fabrics import T0, Claim, S, relation_table

from leadline.analysis.graph.conflicts import conflicts
from leadline.analysis.graph.contradictions import overlaps
from leadline.analysis.graph.rows import OPEN
from leadline.analysis.spec import Window

NOW = Window(T0, T0 + 10 * S, tenant="provider")


def judged(*claims: Claim, window: Window = NOW) -> list[dict[str, Any]]:
    columns = conflicts(relation_table(claims), window=window)["conflict"]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def kinds(*claims: Claim) -> list[tuple[str, str]]:
    return [(row["entity"], row["kind"]) for row in judged(*claims)]


def claim(child: str, kind: str, parent: str, source: str = "agent/graph", since: int = -100, end: int | None = None,
          **more: Any) -> Claim:  # fmt: skip
    """Times in seconds of the window."""
    return Claim(child, kind, parent, source, T0 + since * S, None if end is None else T0 + end * S, **more)


def test_a_gpu_in_two_hosts() -> None:
    (row,) = judged(claim("gpu:g", "in", "host:a"), claim("gpu:g", "in", "host:b", "inventory", since=-50))
    assert (row["entity"], row["kind"], row["claims"], row["sources"], row["used"], row["count"]) == (
        "gpu:g", "two-hosts", ["host:a", "host:b"], ["agent/graph", "inventory"], "host:a", 2,
    )  # fmt: skip
    assert (row["start_ns"], row["end_ns"]) == (T0 - 50 * S, None)
    assert "host:a (agent/graph) and host:b (inventory)" in row["text"]
    assert "used is host:a" in row["text"]


def test_an_inventory_against_lldp_whichever_end_each_names_first() -> None:
    told = judged(claim("port:a/0", "linked", "swport:s/1", "agent/lldp"),
                  claim("swport:s/2", "linked", "port:a/0", "inventory"))  # fmt: skip
    assert [(row["entity"], row["kind"], row["used"]) for row in told] == [("port:a/0", "two-links", "swport:s/1")]


def test_two_exchanged_cables_are_told_at_every_port() -> None:
    told = kinds(claim("port:a/0", "linked", "swport:s/1", "agent/lldp"),
                 claim("port:b/0", "linked", "swport:s/2", "agent/lldp"),
                 claim("swport:s/2", "linked", "port:a/0", "inventory"),
                 claim("swport:s/1", "linked", "port:b/0", "inventory"))  # fmt: skip
    assert told == [(port, "two-links") for port in ("port:a/0", "port:b/0", "swport:s/1", "swport:s/2")]


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (("rank:j/0", "runs-on", "host:a"), ("rank:j/0", "runs-on", "host:b"), "two-hosts"),
        (("rank:j/0", "in", "job:j"), ("rank:j/0", "in", "job:k"), "two-jobs"),
        (("address:10.0.0.1", "in", "port:a/0"), ("address:10.0.0.1", "in", "port:b/0"), "two-ports"),
        (("swport:s/1", "in", "switch:s"), ("swport:s/1", "in", "switch:t"), "two-switches"),
        (("port:a/0", "in", "host:a"), ("port:a/0", "in", "storage:n"), "two-hosts"),
    ],
)
def test_what_has_one_parent_has_not_two(one: tuple[str, str, str], other: tuple[str, str, str], kind: str) -> None:
    assert [each for _, each in kinds(claim(*one), claim(*other))] == [kind]


def test_several_gpus_of_a_rank_told_by_one_source_are_its_gpus() -> None:
    both = [claim("rank:j/0", "runs-on", f"gpu:{name}", "torch-hook") for name in "ab"]
    assert kinds(*both) == []
    assert kinds(*both, claim("rank:j/0", "runs-on", "gpu:a", "agent/graph")) == []
    assert kinds(*both, claim("rank:j/0", "runs-on", "gpu:c", "agent/graph")) == [("rank:j/0", "two-gpus")]


def test_both_ends_own_a_flow_but_two_jobs_do_not() -> None:
    flow = "flow:" + "1" * 32
    ends = [claim(flow, "owns", f"rank:j/{number}", "torch-hook") for number in range(2)]
    ranks = [claim(f"rank:j/{number}", "in", "job:j") for number in range(2)]
    assert kinds(*ends, *ranks) == []
    stranger = [claim(flow, "owns", "rank:k/0"), claim("rank:k/0", "in", "job:k")]
    assert kinds(*ends, *ranks, *stranger) == [(flow, "two-jobs")]


def test_the_same_said_by_many_is_no_contradiction() -> None:
    assert kinds(*(claim("gpu:g", "in", "host:a", source) for source in ("agent/graph", "inventory", "x"))) == []


def test_a_second_uuid_spelled_otherwise_is_the_same_gpu() -> None:
    told = judged(claim("gpu:GPU-1A", "in", "host:a"), claim("gpu:gpu-1a", "in", "host:b"))
    assert [row["entity"] for row in told] == ["gpu:GPU-1A"]


def test_a_short_hand_over_is_no_contradiction_and_a_long_one_is() -> None:
    assert kinds(claim("rank:j/0", "runs-on", "host:a", end=4), claim("rank:j/0", "runs-on", "host:b", since=1)) == []
    (row,) = judged(claim("rank:j/0", "runs-on", "host:a", end=7), claim("rank:j/0", "runs-on", "host:b", since=1))
    assert (row["start_ns"], row["end_ns"]) == (T0 + S, T0 + 7 * S)


def test_lldp_may_take_longer_to_see_an_end() -> None:
    def moved(source: str) -> list[tuple[str, str]]:
        return kinds(claim("port:a/0", "linked", "swport:s/1", source, end=2),
                     claim("port:a/0", "linked", "swport:s/2", source, since=-20))  # fmt: skip

    assert moved("agent/lldp") == []
    assert moved("inventory") == [("port:a/0", "two-links")]


def test_a_claim_that_comes_and_goes_beside_another_is_told_however_short() -> None:
    (row,) = judged(claim("gpu:g", "in", "host:a"), claim("gpu:g", "in", "host:b", since=2, end=3))
    assert (row["start_ns"], row["end_ns"]) == (T0 + 2 * S, T0 + 3 * S)


def test_an_overlap_that_still_lasts_is_told_once_it_is_no_hand_over() -> None:
    young = (claim("gpu:g", "in", "host:a"), claim("gpu:g", "in", "host:b", since=7))
    assert judged(*young) == []
    later = Window(T0 + 10 * S, T0 + 20 * S)
    assert [row["end_ns"] for row in judged(*young, window=later)] == [None]


def test_what_is_over_before_the_window_is_not_told_again() -> None:
    assert judged(claim("gpu:g", "in", "host:a", end=-10), claim("gpu:g", "in", "host:b", since=-90)) == []


def test_an_end_after_the_window_is_not_known_yet() -> None:
    (row,) = judged(claim("gpu:g", "in", "host:a"), claim("gpu:g", "in", "host:b", end=60))
    assert row["end_ns"] is None


def test_an_edge_that_ends_before_it_begins_is_told_and_claims_nothing() -> None:
    (row,) = judged(claim("gpu:g", "in", "host:a"), claim("gpu:g", "in", "host:b", since=5, end=2))
    assert (row["kind"], row["start_ns"], row["end_ns"]) == ("ends-before-it-begins", T0 + 2 * S, T0 + 5 * S)


def test_a_thing_on_itself_is_told() -> None:
    assert kinds(claim("host:a", "in", "host:a")) == [("host:a", "on-itself"), ("host:a", "unknown-relation")]


def test_a_short_name_that_fits_two_hosts_is_told_with_both() -> None:
    (row,) = judged(*(claim(f"gpu:g{place}", "in", host) for place, host in enumerate(
        ("host:n", "host:n.a.org", "host:n.b.org"))))  # fmt: skip
    assert (row["entity"], row["kind"], row["claims"], row["used"]) == (
        "host:n", "ambiguous-name", ["host:n.a.org", "host:n.b.org"], None,
    )  # fmt: skip


def test_relations_that_are_not_known_are_one_row_for_each_combination() -> None:
    told = judged(*(claim(f"host:h{number}", "in", "rack:r1", "site") for number in range(40)),
                  claim("rank:j/0", "eats", "host:h1"))  # fmt: skip
    assert [(row["entity"], row["kind"], row["count"]) for row in told] == [
        ("host:h0", "unknown-relation", 40), ("rank:j/0", "unknown-relation", 1),
    ]  # fmt: skip


def test_many_claims_on_one_thing_are_named_up_to_a_bound() -> None:
    (row,) = judged(*(claim("address:172.17.0.1", "in", f"port:h{number:03}/docker0") for number in range(300)))
    assert (len(row["claims"]), row["count"]) == (16, 300)
    assert "and 284 more" in row["text"]


def test_a_contradiction_within_one_tenant_is_that_tenants() -> None:
    both = [claim("rank:j/0", "runs-on", f"host:{name}", tenant="ana") for name in "ab"]
    assert [row["tenant"] for row in judged(*both)] == ["ana"]
    mixed = [both[0], claim("rank:j/0", "runs-on", "host:c", "inventory", tenant="bo")]
    assert [row["tenant"] for row in judged(*mixed)] == ["provider"]


def test_a_job_of_two_tenants_at_a_time_is_told_to_neither_of_them() -> None:
    ranks = [claim(f"rank:j/{number}", "in", "job:j", "torch-hook", tenant=tenant)
             for number, tenant in ((0, "ana"), (1, "ana"), (0, "bo"))]  # fmt: skip
    (row,) = judged(*ranks)
    assert (row["entity"], row["kind"], row["claims"], row["tenant"]) == (
        "job:j", "two-tenants", ["tenant:ana", "tenant:bo"], "provider",
    )  # fmt: skip
    gone = claim("rank:j/0", "in", "job:j", "torch-hook", end=-50, tenant="bo")
    assert judged(*ranks[:2], claim("rank:j/9", "in", "job:j", since=-40, tenant="ana"), gone) == []


def test_overlaps_are_the_times_at_which_two_different_things_are_claimed() -> None:
    #         0 ... 10 says 1;  4 ... 6 and 8 ... say 2;  5 ... 9 says 1 again
    spans = overlaps([0, 4, 8, 5], [10, 6, OPEN, 9], [1, 2, 2, 1])
    assert [(span.start_ns, span.end_ns, span.hand_over) for span in spans] == [(4, 6, False), (8, 10, True)]
    assert overlaps([0, 10], [10, 20], [1, 2]) == []
    assert [span.end_ns for span in overlaps([0, 5], [OPEN, OPEN], [1, 2])] == [OPEN]
