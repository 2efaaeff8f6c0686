"""What leadline.torch costs a training process: per collective, per step, and as a share of a real step.

Two gloo processes on loopback; in each, watched and unwatched blocks alternate, and a cost is the median of the
differences of neighbouring blocks. Watched: ProcessGroup's methods wrapped, records in event rings, DDP with our
communication hook. Unwatched: none of it. On a busy machine the figures of the processor (cpu) say more than those of
the clock: a collective of two processes waits for both of them to be scheduled.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import Figure, conditions, tell


def main() -> None:
    """Run both ranks and tell the figures of rank 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="pairs of blocks (default 30)")
    parser.add_argument("--calls", type=int, default=200, help="collectives of one block (default 200)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        rank(given.rounds, given.calls)
        return
    taken_under = conditions(rounds=given.rounds, calls=given.calls)
    seen = both_ranks(given.rounds, given.calls)
    figures = [
        Figure("collective_cost_us", seen["collective_us"], "us", better="lower"),
        Figure("collective_cost_cpu_us", seen["collective_cpu_us"], "us", better="lower"),
        Figure("collective_us", seen["collective_alone_us"], "us", better="lower"),
        Figure("step_cost_us", seen["step_us"], "us", better="lower"),
        Figure("ddp_step_cost_us", seen["ddp_us"], "us", better="lower"),
        Figure("ddp_step_cost_cpu_us", seen["ddp_cpu_us"], "us", better="lower"),
        Figure("ddp_step_cost_ratio", seen["ddp_ratio"], "ratio", 1.05, better="lower"),
    ]
    tell("torch_hook", taken_under, figures, given.json)


def both_ranks(rounds: int, calls: int) -> dict[str, float]:
    """Start two ranks of this program; what rank 0 measured."""
    with socket.socket() as probe, tempfile.TemporaryDirectory() as rings:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        started = []
        for number in (0, 1):
            environ = os.environ | {
                "RANK": str(number), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                "GLOO_SOCKET_IFNAME": "lo", "LEADLINE_RING_DIR": rings, "LEADLINE_JOB": "bench", "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            argv = [sys.executable, __file__, "--rank", str(number), "--rounds", str(rounds), "--calls", str(calls)]
            started.append(subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True))
        out = [one.communicate(timeout=300)[0] for one in started]
        if any(one.returncode for one in started):
            raise SystemExit(f"a rank failed: {[one.returncode for one in started]}")
        found: dict[str, float] = json.loads(out[0].splitlines()[-1])
        return found


def rank(rounds: int, calls: int) -> None:
    """One rank: measure, print one JSON object, leave."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import leadline.torch as leadline_torch

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    small = torch.ones(256)

    def collectives() -> None:
        for _ in range(calls):
            dist.all_reduce(small)

    def model() -> Any:
        return DistributedDataParallel(
            torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]), bucket_cap_mb=0.5
        )

    def training(ddp: Any, watch: Any) -> Callable[[], None]:
        inputs = torch.ones(256, 256)

        def steps() -> None:
            for _ in range(10):
                if watch is None:
                    ddp(inputs).sum().backward()
                    continue
                with watch.step() as step:
                    with step.forward():
                        loss = ddp(inputs).sum()
                    with step.backward():
                        loss.backward()
                    step.loss, step.samples = loss, 32

        return steps

    unwatched_model = model()
    watch = leadline_torch.watch()
    watched_model = model()
    hooks = watch._collectives
    plain, watched = training(unwatched_model, None), training(watched_model, watch)

    def on(work: Callable[[], None]) -> Spent:
        hooks.attach()
        return spent(work)

    def off(work: Callable[[], None]) -> Spent:
        hooks.detach()
        return spent(work)

    for _ in range(2):  # buckets are rebuilt after the first step
        on(watched), off(plain), on(collectives), off(collectives)
    calls_pairs = [(off(collectives), on(collectives)) for _ in range(rounds)]
    ddp_pairs = [(off(plain), on(watched)) for _ in range(rounds)]

    def empty_steps() -> None:
        for _ in range(calls):
            with watch.step() as step, step.forward():
                pass

    found = {
        "collective_us": median_difference(calls_pairs).wall_s / calls * 1e6,
        "collective_cpu_us": median_difference(calls_pairs).cpu_s / calls * 1e6,
        "collective_alone_us": statistics.median(before.wall_s for before, _ in calls_pairs) / calls * 1e6,
        "step_us": min(spent(empty_steps).wall_s for _ in range(5)) / calls * 1e6,
        "ddp_us": median_difference(ddp_pairs).wall_s / 10 * 1e6,
        "ddp_cpu_us": median_difference(ddp_pairs).cpu_s / 10 * 1e6,
        "ddp_ratio": statistics.median(after.wall_s / before.wall_s for before, after in ddp_pairs),
    }
    assert not watch.errors, watch.errors
    watch.close()
    dist.barrier()
    print(json.dumps(found), flush=True)
    os._exit(0)  # gloo's threads abort at the interpreter's end


class Spent(NamedTuple):
    """What one call took: on the clock, and of the processor, by all threads. The second stands under load."""

    wall_s: float
    cpu_s: float


def spent(work: Callable[[], None]) -> Spent:
    """What one call takes."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    work()
    return Spent(time.perf_counter() - wall_s, time.process_time() - cpu_s)


def median_difference(pairs: list[tuple[Spent, Spent]]) -> Spent:
    """The medians of second minus first."""
    wall = statistics.median(after.wall_s - before.wall_s for before, after in pairs)
    return Spent(wall, statistics.median(after.cpu_s - before.cpu_s for before, after in pairs))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
