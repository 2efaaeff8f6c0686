"""How long the ledger takes on ten minutes of collectives of a job of 10,240 ranks.

    python -m bench.ledger [--ranks N] [--steps N] [--collectives N] [--rounds N] [--json]

Made are the rows that the torch hook writes: each collective of each rank twice (asked for, finished) and a step with
its phases, in the order of the store and also shuffled. One rank is late in every step, and must come out as the one.
The whole analysis judges one window of ten minutes, as the runner hands it over: Arrow tables, texts by number.
Beside it, in the same process, stands what a plain aggregation of the same rows takes: last arrival and last end of
each collective (`pyarrow.Table.group_by`), without any path. Both may use two threads.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.figures import Figure, conditions, tell
from bench.path import clear_peak, peak_mb
from leadline.analysis.ledger.collectives.collectives import from_collectives
from leadline.analysis.ledger.ledger import ledger
from leadline.analysis.spec import Window
from leadline.model.accounts import Category
from leadline.model.tables import BY_NAME
from leadline.store.schema import ARROW_TYPES

S = 10**9
MS = 10**6
START_NS = 1_767_225_600 * S
STEP_NS = 5 * S
JOB = "large-1"
SECONDS_TARGET = 1.0
FULL_ROWS = 9_800_000  # 10,240 ranks, 120 steps of 5 s, 4 collectives a step, two rows each
THREADS = 2


@dataclass(frozen=True, slots=True)
class Input:
    """Tables in the order in which `from_collectives` takes them, and who was late in them."""

    collective: pa.Table
    step: pa.Table
    edge: pa.Table
    baseline: pa.Table
    late_rank: int


def made(ranks: int, steps: int, collectives: int, seed: int) -> Input:
    """Rows of a job of data-parallel ranks: each step some buckets in its backward pass, one of its ranks late."""
    rng = np.random.default_rng(seed)
    return collectives_and_steps(ranks, steps, collectives, rng, ranks // 3, np.full(steps, 400 * MS))


def collectives_and_steps(
    ranks: int, steps: int, collectives: int, rng: np.random.Generator, late_rank: int, late_T: np.ndarray
) -> Input:
    """The same with a rank that is late by so many ns in each of the steps."""
    shape = steps, collectives, ranks
    begin_T = START_NS + np.arange(steps) * STEP_NS  # T = step
    work_TKR = np.cumsum(rng.normal(600 * MS, 5 * MS, shape), axis=1)  # K = collective of the step
    work_TKR[:, :, late_rank] += late_T[:, None]
    arrival_TKR = (begin_T[:, None, None] + work_TKR).astype(np.int64)
    last_TK = arrival_TKR.max(axis=2)
    end_TK = np.maximum.accumulate(last_TK, axis=1) + 30 * MS
    end_TKR = (end_TK[:, :, None] + rng.integers(0, MS, shape)).astype(np.int64)
    seq_TKR = np.broadcast_to((np.arange(steps)[:, None] * collectives + np.arange(collectives))[:, :, None], shape)
    rank_TKR = np.broadcast_to(np.arange(ranks), shape)
    collective = _rows(seq_TKR, rank_TKR, arrival_TKR, end_TKR, ranks)
    step = _steps(begin_T, arrival_TKR, end_TKR)
    return Input(collective, step, _empty("edge"), _empty("baseline"), late_rank)


def _rows(seq: np.ndarray, rank: np.ndarray, arrival: np.ndarray, end: np.ndarray, ranks: int) -> pa.Table:
    """Two rows of each collective and rank: enqueued, finished; by seq, rank, state, as the store has them."""
    count = 2 * seq.size
    is_finished = np.tile([False, True], seq.size)
    return pa.table(
        {
            "job": _same(JOB, count),
            "comm": _same(f"{JOB}/0x9c", count),
            "ranks": np.full(count, ranks),
            "rank": _twice(rank),
            "seq": _twice(seq).astype(np.uint64),
            "op": _same("all_reduce", count),
            "bytes": np.full(count, 25 << 20, np.uint64),
            "enqueued_ns": _twice(arrival),
            "started_ns": pa.nulls(count, pa.int64()),
            "finished_ns": pa.array(_twice(end), mask=~is_finished),
            "state": _names(is_finished.astype(np.int32), ["enqueued", "finished"]),
            "source": _same("torch-hook", count),
            "bound_ns": np.full(count, 20_000),
        }
    )


def _steps(begin_T: np.ndarray, arrival_TKR: np.ndarray, end_TKR: np.ndarray) -> pa.Table:
    steps, _, ranks = arrival_TKR.shape
    start_TR = np.broadcast_to(begin_T[:, None], (steps, ranks))
    backward_TR = arrival_TKR[:, 0] - 100 * MS
    over_TR = end_TKR[:, -1]
    count = steps * ranks
    return pa.table(
        {
            "job": _same(JOB, count),
            "rank": np.tile(np.arange(ranks), steps),
            "step": np.repeat(np.arange(steps), ranks),
            "start_ns": start_TR.ravel(),
            "end_ns": (over_TR + 50 * MS).ravel(),
            "data_ns": np.full(count, 5 * MS),
            "forward_ns": (backward_TR - start_TR - 5 * MS).ravel(),
            "backward_ns": (over_TR - backward_TR).ravel(),
            "optimizer_ns": np.full(count, 50 * MS),
            "checkpoint_ns": pa.nulls(count, pa.int64()),
            "bound_ns": np.full(count, 20_000),
        }
    )


def _twice(values: np.ndarray) -> np.ndarray:
    return np.repeat(values.ravel(), 2)


def _same(text: str, count: int) -> pa.DictionaryArray:
    return _names(np.zeros(count, np.int32), [text])


def _names(codes: np.ndarray, names: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names))


def _empty(name: str) -> pa.Table:
    table = BY_NAME[name]
    columns = {each.name: pa.array([], ARROW_TYPES[each.type]) for each in table.columns}
    return pa.table(columns | {"bound_ns": pa.array([], pa.int64())})


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    """The same rows in another order."""
    return table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))


def plain(collective: pa.Table) -> pa.Table:
    """Last arrival and last end of each collective: what an aggregation makes of the same rows."""
    keys = collective.select(["comm", "seq", "enqueued_ns", "finished_ns"])
    return keys.group_by(["comm", "seq"]).aggregate([("enqueued_ns", "max"), ("finished_ns", "max")])


def _least(rounds: int, *calls: Callable[[], object]) -> list[float]:
    """The least seconds of each; they take turns, so that all see the same machine."""
    took: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for place, call in enumerate(calls):
            began = time.perf_counter()
            call()
            took[place].append(time.perf_counter() - began)
    return [min(each) for each in took]


def figures(given: argparse.Namespace) -> tuple[list[Figure], dict[str, object]]:
    """The least of `rounds` of each."""
    pa.set_cpu_count(THREADS)
    small = made(8, 3, given.collectives, given.seed)
    judged(small, 3)  # so that all is compiled
    began = time.perf_counter()
    data = made(given.ranks, given.steps, given.collectives, given.seed)
    rows = data.collective.num_rows
    mixed = Input(
        shuffled(data.collective, given.seed), shuffled(data.step, given.seed), data.edge, data.baseline, data.late_rank
    )
    print(f"{rows:,} rows made in {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    since_kb = clear_peak()
    late_s, told = judged(data, given.steps)
    peak = peak_mb(since_kb)
    assert judged(mixed, given.steps) == (late_s, told), "rows in another order gave other verdicts"
    ours, theirs, other, depth = _least(
        given.rounds,
        lambda: judged(data, given.steps),
        lambda: plain(data.collective),
        lambda: judged(mixed, given.steps),
        lambda: alone(data, given.steps),
    )
    began = time.process_time()
    judged(data, given.steps)
    cpu_s = time.process_time() - began  # of all threads: less than the wall clock says on a busy machine
    anchor = {"of": "pyarrow group_by of the same rows, s", "value": round(theirs, 3)}
    target = SECONDS_TARGET if rows >= FULL_ROWS else None  # a small run proves nothing of it
    found = [
        Figure("seconds_per_window_10240", round(ours, 3), "s", target, "lower", anchor),
        Figure("seconds_per_window_shuffled", round(other, 3), "s", None, "lower"),
        Figure("seconds_of_collectives", round(depth, 3), "s", None, "lower"),
        Figure("cpu_seconds", round(cpu_s, 3), "s", None, "lower"),
        Figure("rows_per_second", round(rows / ours), "rows/s"),
        Figure("times_a_plain_aggregation", round(ours / theirs, 2), "ratio", None, "lower"),
        Figure("peak_memory_mb", round(peak), "MB", None, "lower"),
    ]
    about = {"ranks": given.ranks, "rows": rows, "steps": data.step.num_rows, "late_s": round(late_s, 3), "told": told}
    return found, about


def judged(data: Input, steps: int) -> tuple[float, int]:
    """Judge the window with the whole analysis. Returns: seconds told to be the late rank's, and how many rows."""
    given = {"collective": data.collective, "step": data.step, "edge": data.edge, "baseline": data.baseline}
    tables = [given.get(read.table.name, _empty(read.table.name)).select(list(read.names)) for read in ledger.reads]
    found = ledger(*tables, window=_window(steps))["ledger"]
    told = zip(found["category"].to_pylist(), found["owner"].to_pylist(), found["seconds"].tolist(), strict=True)
    late = {(category, owner): seconds for category, owner, seconds in told}
    late_s = late.get((str(Category.STRAGGLER), f"rank:{JOB}/{data.late_rank}"), 0.0)
    assert abs(late_s - 0.4 * steps) < 0.02 * steps, f"the late rank lost 0.4 s a step, told is {late_s / steps} s"
    return late_s, len(late)


def alone(data: Input, steps: int) -> object:
    """What collectives tell of the window, without the rest of the ledger."""
    return from_collectives(data.collective, data.step, data.edge, data.baseline, window=_window(steps))


def _window(steps: int) -> Window:
    return Window(START_NS, START_NS + steps * STEP_NS, job=JOB)


def main(arguments: Sequence[str] | None = None) -> None:
    """Take the figures and tell them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, default=10_240)
    parser.add_argument("--steps", type=int, default=120, help="of five seconds")
    parser.add_argument("--collectives", type=int, default=4, help="of a step")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    found, about = figures(given)
    tell("ledger", conditions(given.seed, rounds=given.rounds, **about), found, given.json)


if __name__ == "__main__":
    main()
