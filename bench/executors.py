"""How many windows a second are judged by one and by two workers, in worker processes and on a Ray cluster.

    python -m bench.executors [--gpus N] [--minutes M] [--ray ADDRESS] [--quick] [--json]

Judged are the calls of `ledger`, `messages`, `anomaly` and `stalls` on all windows of a simulated fleet. They are
loaded before, and as many are in flight as there are workers, as the runner has it. Told is the best of the rounds;
what workers take to start is left out. A Ray cluster is somebody else's: without `--ray` its figures are left out.
Every call must give the verdicts that this process gives.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

import pyarrow as pa

from bench.figures import Figure, conditions, tell
from leadline.analysis import BY_NAME as ANALYSIS
from leadline.model.tables import BY_NAME, Table
from leadline.runner.calls.ray_executor import RayExecutor
from leadline.runner.execute import Executor, InProcess, Task, WorkerProcesses
from leadline.runner.held import HeldRows
from leadline.runner.judge import Calls
from leadline.runner.worker import Outcome
from leadline.simulator.run import Simulation
from leadline.simulator.spec import SimulationSpec
from leadline.store.schema import checked_rows

JUDGED = ("ledger", "messages", "anomaly", "stalls")
WORKERS = (1, 2)


class Held:
    """A sink that keeps the rows in memory."""

    def __init__(self) -> None:
        self.rows = HeldRows({})

    def write(self, table: Table, rows: pa.Table) -> None:
        """See `simulator.write.Sink`."""
        checked = checked_rows(table, rows)
        self.rows.add(BY_NAME[table.name], checked)

    def finish(self) -> int:
        """Nothing to finish."""
        return 0

    def close(self) -> None:
        """Nothing to close."""


def tasks(gpus: int, minutes: float, seed: int) -> list[Task]:
    """The calls of all windows, in the order in which they end."""
    spec = SimulationSpec(gpus=gpus, minutes=minutes, seed=seed)
    sink = Held()
    for _ in Simulation(spec).write(sink):
        pass
    found: list[tuple[int, Task]] = []
    for name in JUDGED:
        analysis = ANALYSIS[name]
        for end_ns in range(spec.start_ns + analysis.window_ns, spec.end_ns + 1, analysis.window_ns):
            calls = Calls(analysis, end_ns, sink.rows, spec.tenant)
            while calls.left:
                call = calls.load()
                if call is not None:
                    found.append((end_ns, call.task))
    return [task for _, task in sorted(found, key=lambda each: each[0])]


def judged_s(executor: Executor, given: Sequence[Task], workers: int, wanted: Sequence[bytes]) -> float:
    """Seconds that the calls take, so many in flight at a time."""
    began = time.perf_counter()
    flying: deque[Future[Outcome]] = deque()
    found = []
    for task in given:
        if len(flying) >= workers:
            found.append(flying.popleft().result())
        flying.append(executor.submit(task))
    found += [each.result() for each in flying]
    took_s = time.perf_counter() - began
    wrong = [each.error for each, digest in zip(found, wanted, strict=True) if each.digest != digest]
    assert not wrong, f"{len(wrong)} calls gave other verdicts: {wrong[0]}"
    return took_s


def windows_per_second(executor: Executor, given: Sequence[Task], workers: int, rounds: int) -> float:
    """The best of the rounds, of workers that have loaded what they need."""
    wanted = [InProcess().submit(task).result().digest for task in given]
    try:
        executor.start()
        judged_s(executor, given[: 4 * workers], workers, wanted[: 4 * workers])
        return len(given) / min(judged_s(executor, given, workers, wanted) for _ in range(rounds))
    finally:
        executor.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Take the figures and tell them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--gpus", type=int, default=512)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ray", default="", metavar="ADDRESS", help="a Ray cluster that runs, with two free cores")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="small: whether it runs, not how fast it is")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.quick:
        options.gpus, options.minutes, options.rounds = 16, 0.5, 1
    given = tasks(options.gpus, options.minutes, options.seed)
    found = []
    for workers in WORKERS:
        rate = windows_per_second(WorkerProcesses(workers=workers), given, workers, options.rounds)
        found.append(Figure(f"windows_per_second_{workers}", round(rate, 1), "1/s"))
    for workers in WORKERS:
        name = f"windows_per_second_ray_{workers}"
        if not options.ray:
            found.append(Figure(name, None, "1/s", reason="no cluster was named (--ray)"))
            continue
        rate = windows_per_second(RayExecutor(options.ray, workers=workers), given, workers, options.rounds)
        found.append(Figure(name, round(rate, 1), "1/s"))
    about = {"gpus": options.gpus, "minutes": options.minutes, "calls": len(given), "rounds": options.rounds}
    tell("executors", conditions(options.seed, **about), found, options.json)


if __name__ == "__main__":
    main()
