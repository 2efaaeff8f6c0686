"""Operation traces with a known cause: a pipeline of data-parallel replicas, run by its rules, with something planted.

Written apart from `analysis/ledger/operations*`: what happens is found by letting time pass until nothing changes. All
values are arrays over the steps (T,), in seconds.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Times = NDArray[np.float64]
Key = tuple[int, int, str, int]  # replica, stage, kind, order in kind
S = 10**9
FORWARD_S, BACKWARD_S = 0.1, 0.2
PEERS = {"forward-send": "forward-recv", "backward-send": "backward-recv"}


@dataclass(frozen=True)
class Planted:
    """What runs, and what is wrong with it."""

    dp: int = 2
    pp: int = 4
    vpp: int = 1
    micro_batches: int = 8
    steps: int = 4
    seed: int = 1
    noise: float = 0.005  # relative, of every computation
    slow_worker: tuple[int, int, float] | None = None  # replica, stage, how many times as long
    long_stage: tuple[int, float] | None = None
    lengths: float = 0.0  # sigma of the logarithm of the work of a micro-batch
    slow_link: tuple[int, int, float] | None = None  # replica, stage that sends forward, s more for each transfer
    stalls: tuple[float, float] | None = None  # share of forwards that stall, s of a stall
    launch_s: float = 0.0  # mean launch delay of a computation
    no_ops: bool = False  # sends and receives beyond the model's ends are recorded too, as some profilers do


@dataclass
class _Run:
    of: Planted
    rng: np.random.Generator
    chunk: dict[Key, int] = field(default_factory=dict)
    micro_batch: dict[Key, int] = field(default_factory=dict)
    takes: dict[Key, Times] = field(default_factory=dict)
    waits: dict[Key, list[Key]] = field(default_factory=dict)
    meets: dict[Key, list[Key]] = field(default_factory=dict)
    delay: dict[Key, Times] = field(default_factory=dict)
    begin: dict[Key, Times] = field(default_factory=dict)
    end: dict[Key, Times] = field(default_factory=dict)


def schedule(pp: int, vpp: int, stage: int, micro_batches: int) -> list[tuple[str, int, int]]:
    """(kind, chunk, micro-batch) of a worker's computations in order: 1F1B, interleaved if vpp > 1 (Megatron-LM)."""
    total = micro_batches * vpp
    warm = pp - stage - 1 if vpp == 1 else (pp - stage - 1) * 2 + (vpp - 1) * pp
    warm = min(warm, total)

    def nth(kind: str, number: int) -> tuple[str, int, int]:
        chunk = number // pp % vpp if vpp > 1 else 0
        micro_batch = number // (pp * vpp) * pp + number % pp if vpp > 1 else number
        return kind, (chunk if kind == "forward-compute" else vpp - 1 - chunk), micro_batch

    order = [nth("forward-compute", number) for number in range(warm)]
    for number in range(total - warm):
        order += [nth("forward-compute", warm + number), nth("backward-compute", number)]
    return order + [nth("backward-compute", number) for number in range(total - warm, total)]


def trace(of: Planted, from_ns: int = 1_700_000_000 * S, job: str = "j") -> pa.Table:
    """Rows of table `operation`, steps one after the other; step n of the job is its n-th."""
    run = _Run(of, np.random.default_rng(of.seed))
    length = run.rng.lognormal(0.0, of.lengths, (of.dp, of.micro_batches, of.steps)) if of.lengths else None
    for replica in range(of.dp):
        for stage in range(of.pp):
            _worker(run, replica, stage, length)
    _collectives(run)
    _pass_time(run)
    return _table(run, from_ns, job)


def _worker(run: _Run, replica: int, stage: int, length: NDArray[np.float64] | None) -> None:
    of, counts = run.of, {"forward-compute": 0, "backward-compute": 0}
    computed: list[Key] = []
    for kind, chunk, micro_batch in schedule(of.pp, of.vpp, stage, of.micro_batches):
        key = (replica, stage, kind, counts[kind])
        counts[kind] += 1
        run.chunk[key], run.micro_batch[key] = chunk, micro_batch
        run.waits[key] = computed[-1:]
        takes = FORWARD_S if kind == "forward-compute" else BACKWARD_S
        factor: Times = 1.0 + of.noise * run.rng.standard_normal(of.steps)
        factor = factor * (1.0 if length is None else length[replica, micro_batch])
        if of.slow_worker and (replica, stage) == of.slow_worker[:2]:
            factor = factor * of.slow_worker[2]
        if of.long_stage and stage == of.long_stage[0]:
            factor = factor * of.long_stage[1]
        stalled = np.zeros(of.steps)
        if of.stalls and kind == "forward-compute":
            stalled = (run.rng.random(of.steps) < of.stalls[0]) * of.stalls[1]
        run.takes[key] = takes / of.vpp * np.maximum(factor, 0.1) + stalled
        run.delay[key] = run.rng.exponential(of.launch_s, of.steps) if of.launch_s else np.zeros(of.steps)
        computed.append(key)
    _transfers(run, replica, stage, computed)


def _transfers(run: _Run, replica: int, stage: int, computed: list[Key]) -> None:
    """Sends and receives of a worker, in the order of what they serve."""
    of = run.of
    first = next(at for at, key in enumerate(computed) if key[2] == "backward-compute")
    for direction in ("forward", "backward"):
        own = [key for key in computed if key[2].startswith(direction)]
        for side in ("send", "recv"):
            onward = 1 if (direction == "forward") == (side == "send") else -1
            kind, number, before = f"{direction}-{side}", 0, None
            for at, serves in enumerate(own):
                there = 0 <= run.chunk[serves] * of.pp + stage + onward < of.pp * of.vpp
                if not there and (not of.no_ops or of.vpp == 1):
                    continue
                key = (replica, stage, kind, number)
                waits = [serves] if side == "send" else own[at - 1 : at] if at else []
                if not number and direction == "backward" and first >= 2:
                    waits = [*waits, computed[first - 2]]
                run.waits[key] = [*waits, *([before] if before else [])]
                if side == "recv":
                    run.waits[serves].append(key)
                slow = of.slow_link
                extra = slow[2] if slow and kind == "forward-send" and (replica, stage) == slow[:2] else 0.0
                receiving = slow and kind == "forward-recv" and (replica, (stage - 1) % of.pp) == slow[:2]
                run.takes[key] = np.full(of.steps, 0.001 + (slow[2] if slow and receiving else extra)) * there
                run.micro_batch[key], run.chunk[key] = run.micro_batch[serves], run.chunk[serves]
                run.meets[key] = [key]
                if there:
                    peer = PEERS.get(kind) or next(one for one, other in PEERS.items() if other == kind)
                    run.meets[key] = [(replica, (stage + onward) % of.pp, peer, run.micro_batch[serves])]
                before, number = key, number + 1


def _match(run: _Run) -> None:
    """The other end of each transfer: the same micro-batch at the neighbouring chunk of the model."""
    place = {
        (key[0], key[2], run.micro_batch[key], run.chunk[key] * run.of.pp + key[1]): key
        for key in run.meets
        if key[2].endswith(("send", "recv"))
    }
    for key, (peer, *_) in list(run.meets.items()):
        if peer == key or not key[2].endswith(("send", "recv")):
            continue
        onward = 1 if key[2] in ("forward-send", "backward-recv") else -1
        model_chunk = run.chunk[key] * run.of.pp + key[1] + onward
        run.meets[key] = [key, place[key[0], peer[2], run.micro_batch[key], model_chunk]]


def _collectives(run: _Run) -> None:
    of = run.of
    _match(run)
    for replica in range(of.dp):
        for stage in range(of.pp):
            last = max(
                (key for key in run.takes if key[:2] == (replica, stage) and key[2] == "backward-compute"),
                key=lambda key: key[3],
            )
            for chunk in range(of.vpp):
                gathered = _meeting(run, (replica, stage, "params-all-gather", chunk), 0.01, chunk)
                run.waits[gathered] = [(replica, stage, "params-all-gather", chunk - 1)] if chunk else []
                forwards = (key for key in run.takes if key[:3] == (replica, stage, "forward-compute"))
                run.waits[next(key for key in forwards if run.chunk[key] == chunk)].append(gathered)
            chain = [last, (replica, stage, "gc", 0), (replica, stage, "layernorm-grads-all-reduce", 0)]
            if stage in (0, of.pp - 1):
                chain.append((replica, stage, "embedding-grads-all-reduce", 0))
            chain += [(replica, stage, "grads-reduce-scatter", chunk) for chunk in range(of.vpp)]
            chain += [(replica, stage, "optimizer-clip-main-grad", 0), (replica, stage, "optimizer", 0)]
            for before, key in itertools.pairwise(chain):
                _meeting(run, key, 0.02 if key[2] == "grads-reduce-scatter" else 0.005, max(key[3], 0))
                run.waits[key] = [before]


def _meeting(run: _Run, key: Key, takes_s: float, chunk: int) -> Key:
    of, (replica, stage, kind, number) = run.of, key
    run.takes[key], run.chunk[key] = np.full(of.steps, takes_s), chunk
    if kind in ("params-all-gather", "grads-reduce-scatter"):
        run.meets[key] = [(other, stage, kind, number) for other in range(of.dp)]
    elif kind == "optimizer-clip-main-grad":
        run.meets[key] = [(other, every, kind, 0) for other in range(of.dp) for every in range(of.pp)]
    elif kind == "embedding-grads-all-reduce":
        run.meets[key] = [(replica, every, kind, 0) for every in sorted({0, of.pp - 1})]
    return key


def _pass_time(run: _Run) -> None:
    open_keys = list(run.takes)
    while open_keys:
        still = []
        for key in open_keys:
            if key not in run.begin and all(before in run.end for before in run.waits[key]):
                ends = [run.end[before] for before in run.waits[key]]
                run.begin[key] = np.max(ends, axis=0) if ends else np.zeros(run.of.steps)
                run.begin[key] = run.begin[key] + run.delay.get(key, 0.0)
            members = run.meets.get(key, [key])
            if all(member in run.begin for member in members):
                run.end[key] = np.max([run.begin[member] for member in members], axis=0) + run.takes[key]
            else:
                still.append(key)
        assert len(still) < len(open_keys), f"nothing can go on: {still[:3]}"
        open_keys = still


def _table(run: _Run, from_ns: int, job: str) -> pa.Table:
    of, keys = run.of, list(run.takes)
    length_T = np.max([run.end[key] for key in keys], axis=0)
    from_T = from_ns + np.concatenate([[0], np.cumsum(np.ceil(length_T[:-1] * S) + 1000)]).astype(np.int64)
    begin_KT = np.array([np.rint(run.begin[key] * S).astype(np.int64) for key in keys])
    end_KT = np.array([np.rint(run.end[key] * S).astype(np.int64) for key in keys])

    def each(values: list[int]) -> pa.Array:
        return pa.array(np.repeat(np.array(values, np.int64), of.steps))

    rows = {
        "job": pa.array([job] * len(keys) * of.steps),
        "rank": each([key[1] * of.dp + key[0] for key in keys]),
        "stage": each([key[1] for key in keys]),
        "dp_rank": each([key[0] for key in keys]),
        "step": pa.array(np.tile(np.arange(of.steps), len(keys))),
        "kind": pa.array(np.repeat(np.array([key[2] for key in keys]), of.steps)),
        "start_ns": pa.array((begin_KT + from_T).ravel()),
        "duration_ns": pa.array((end_KT - begin_KT).ravel()),
        "seq": each([key[3] for key in keys]),
        "micro_batch": each([run.micro_batch.get(key, -1) if "compute" in key[2] else -1 for key in keys]),
        "chunk": each([run.chunk[key] if not key[2].endswith(("send", "recv")) else -1 for key in keys]),
    }
    return pa.table(rows)
