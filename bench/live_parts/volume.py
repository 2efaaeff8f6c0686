"""How much a fleet of `bench.live` sends: bodies as its agents, exporters and switches encode them, without a server.

    python -m bench.live_parts.volume [--hosts 256] [--seconds 60] [--seed 1]

Bytes and rows depend on the seed alone, not on the machine. They are the rates in `leadline.views.sizing`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.live_parts.fleet import AGENT_S, GPUS, write_fleet
from bench.live_parts.schedule import PAGE, PATHS, UDP, Writer
from leadline.model.tables import Table
from leadline.simulator.run import Simulation
from leadline.simulator.spec import SimulationSpec


class _Counted:
    """A sink that counts rows."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()

    def write(self, table: Table, rows: object) -> None:
        self.rows[table.name] += rows.num_rows  # type: ignore[attr-defined]

    def finish(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing to let go."""


def main() -> int:
    """Encode and tell, each as a rate of one host."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=256)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    start_ns = time.time_ns()
    counted = _Counted()
    spec = SimulationSpec(
        gpus=asked.hosts * GPUS, minutes=asked.seconds / 60, seed=asked.seed, quiet=True, hazards=False, detail="all",
        names="few", metrics_s=float(AGENT_S), start_ns=start_ns,
    )  # fmt: skip
    for _ in Simulation(spec).write(counted):
        pass
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as folder:
        writer = Writer(Path(folder))
        told = write_fleet(asked.hosts, asked.seconds, start_ns, asked.seed, writer)
        writer.close()
    sizes: Counter[str] = Counter()
    for _, _, size, _, path, how, _ in writer.entries:
        sizes["scrapes" if how == PAGE else "sflow" if how == UDP else list(PATHS)[path]] += size
    once = {"/api/v1/rows/relation"}  # told when a relation begins, so at the start and never again
    each = asked.hosts * asked.seconds
    print(
        json.dumps(
            {
                "hosts": asked.hosts,
                "series_per_host": told.series / asked.hosts,
                "rows_per_host_s": {name: round(count / each, 2) for name, count in writer.rows.items()},
                "stored_per_host_s": {
                    name: round(counted.rows[name] / each, 2) for name in ("step", "collective", "flow_sample")
                },
                "bytes_per_host_s": {name: round(size / each) for name, size in sizes.items() if name not in once},
                "bytes_per_host_once": {name: round(sizes[name] / asked.hosts) for name in once},
            },
            indent=1,
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
