"""The causes of a stop, on rings and in three dimensions, on 4, 8 and 16 ranks: who is blamed, how, and how soon.

Each case says what befell the job, as its rows show it, and whom the symptom must blame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.builders.fabrics import T0, S
from tests.builders.slow_jobs import Row, blamed
from tests.builders.small_job import JOB, MS, event
from tests.builders.stalls import Call, Cluster, judged

LAYOUTS = [("ring", 4), ("ring", 16), ("3d", 4), ("3d", 8), ("3d", 16)]
HANGS = 21  # number of the step in which it happens
AT = T0 + 4 * S  # when it happens
SOON_NS = 5 * S  # from the first lost second to the end of the window that tells it; the runner adds 1 s
Case = Callable[[str, int], tuple[Cluster, list[tuple[str, str]]]]


def rank_of(ranks: int) -> int:
    """The one that something befalls: in the middle of everything."""
    return ranks // 2 + 1


def owner(rank: int) -> str:
    return f"rank:{JOB}/{rank}"


def out_of_memory(layout: str, ranks: int) -> tuple[Cluster, list[tuple[str, str]]]:
    """The kernel kills one; its peers give up seconds later."""
    rank = rank_of(ranks)
    job = Cluster(ranks, layout, stops_ns={rank: AT}, gives_up_ns=3 * S)
    job.events.append(event(AT + 20 * MS, rank, "process-exit", "error", "signal/SIGKILL", reason="oom-kill"))
    return job, [(owner(rank), "died")]


def segmentation_fault(layout: str, ranks: int) -> tuple[Cluster, list[tuple[str, str]]]:
    """One dies of its own signal; its peers' connections break at once."""
    rank = rank_of(ranks)
    job = Cluster(ranks, layout, stops_ns={rank: AT}, gives_up_ns=2 * S)
    job.events.append(event(AT + 10 * MS, rank, "process-exit", "error", "signal/SIGSEGV"))
    return job, [(owner(rank), "died")]


def stopped(layout: str, ranks: int) -> tuple[Cluster, list[tuple[str, str]]]:
    """SIGHANGS: a process stands still, and the agent sees it."""
    rank = rank_of(ranks)
    job = Cluster(ranks, layout, stops_ns={rank: AT})
    job.events.append(event(AT + 500 * MS, rank, "process-stopped", "error"))
    return job, [(owner(rank), "frozen")]


def hung(layout: str, ranks: int) -> tuple[Cluster, list[tuple[str, str]]]:
    """One does nothing more, and nothing tells why."""
    rank = rank_of(ranks)
    return Cluster(ranks, layout, hangs_ns={rank: AT}), [(owner(rank), "never-entered")]


def link_cut(layout: str, ranks: int) -> tuple[Cluster, list[tuple[str, str]]]:
    """Nothing comes through the link of one host: a dead link, and a blackhole as ranks see it."""
    return Cluster(ranks, layout, cut_ns={rank_of(ranks): AT}), [("comm", "stuck")]


def storage_hangs(layout: str, ranks: int) -> tuple[Cluster, list[tuple[str, str]]]:
    """Rank 0 writes a checkpoint every six steps, of 0.4 s; one of them never ends."""

    def with_checkpoint(rank: int, number: int, calls: list[Call]) -> list[Call]:
        long = 10**6 * MS if number >= HANGS else 400 * MS
        return [*calls, Call("work", ns=long)] if rank == 0 and number % 6 == 5 else calls

    job = Cluster(ranks, layout, changes=with_checkpoint)
    job.events += [
        event(T0 - 15 * S, 0, "checkpoint", seconds="0.4"),
        event(T0 - 9 * S, 0, "checkpoint", seconds="0.4"),
    ]
    return job, [(owner(0), "never-entered")]


def _diverging(rank: int, of: int) -> Callable[[int, int, list[Call]], list[Call]]:
    def change(each: int, number: int, calls: list[Call]) -> list[Call]:
        if each % of != rank % of or number < 20:
            return calls
        place = max(at for at, call in enumerate(calls) if call.comm == "world")
        return [*calls[:place], replace(calls[place], bytes=calls[place].bytes // 2), *calls[place + 1 :]]

    return change


def one_diverges(layout: str, ranks: int) -> tuple[Cluster, list[tuple[str, str]]]:
    """One calls another size."""
    rank = rank_of(ranks)
    return Cluster(ranks, layout, changes=_diverging(rank, ranks)), [(owner(rank), "diverged")]


def half_diverge(layout: str, ranks: int) -> tuple[Cluster, list[tuple[str, str]]]:
    """Every other one calls another size: who left the program is told by what they called before."""
    odd = [owner(rank) for rank in range(ranks) if rank % 2][:8]
    return Cluster(ranks, layout, changes=_diverging(1, 2)), [(each, "diverged") for each in odd]


def skips(layout: str, ranks: int) -> tuple[Cluster, list[tuple[str, str]]]:
    """One leaves a collective out: what it calls next has its number."""
    rank = rank_of(ranks)

    def change(each: int, number: int, calls: list[Call]) -> list[Call]:
        if each != rank or number < 20:
            return calls
        place = next(at for at, call in enumerate(calls) if call.what == "all_reduce" and call.waits)
        return [*calls[:place], *calls[place + 1 :]]

    return Cluster(ranks, layout, changes=change), [(owner(rank), "diverged")]


def slow_until_timeout(layout: str, ranks: int) -> tuple[Cluster, list[tuple[str, str]]]:
    """One works several times as long from T0 on; its peers give up on it at last."""
    rank = rank_of(ranks)
    times, patience_ns = (4.0, 1200 * MS) if layout == "ring" else (30.0, 1500 * MS)
    job = Cluster(ranks, layout, slow={rank: times}, gives_up_ns=patience_ns, patient_until_ns=T0 + 8 * S)
    return job, [(owner(rank), "slow")]


CASES: tuple[Case, ...] = (
    out_of_memory, segmentation_fault, stopped, hung, link_cut, storage_hangs, one_diverges, half_diverge, skips,
    slow_until_timeout,
)  # fmt: skip


@pytest.mark.parametrize(("layout", "ranks"), LAYOUTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_who_stopped_a_job(case: Case, layout: str, ranks: int) -> None:
    job, wanted = case(layout, ranks)
    given = job.tables()
    rows = sorted(judged(given, -8, 16), key=lambda row: row["start_ns"])
    assert rows, "nothing was told"
    for row in rows:  # that a rank is slow is known by and by
        assert {who for who, _ in _short(row)} == {who for who, _ in wanted}, row["evidence"][0]["text"]
        assert row["reported_ns"] - row["start_ns"] <= SOON_NS
    assert _short(rows[-1]) == sorted(wanted), rows[-1]["evidence"][0]["text"]


def _short(row: Row) -> list[tuple[str, str]]:
    return sorted((who if who.startswith("rank:") else who.partition(":")[0], how) for who, how, _ in blamed(row))
