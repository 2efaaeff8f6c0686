"""The driver of the `ray` job: one actor on each node of the Ray cluster, then it waits for them.

    python -m leadline.lab.workloads.ray_cluster.driver PLAN.json      written by `ray_cluster.job`

Exit codes: 0 all actors came to their end; 1 one of them died or failed.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import ray

from leadline.lab.workloads.ray_cluster.actor import RayRank
from leadline.lab.workloads.ray_cluster.rank import HEAD_S_MAX, wait_for


def main(plan: dict[str, Any]) -> int:
    """Run the plan. Returns the exit code."""
    address, _, port = str(plan["address"]).rpartition(":")
    wait_for(address, int(port), HEAD_S_MAX)
    ray.init(address=plan["address"], logging_level=logging.WARNING, log_to_driver=False)
    _wait_for_nodes(len(plan["ranks"]))
    kind: Any = ray.remote(num_cpus=0)(RayRank)
    actors = [
        kind.options(resources={one["host"]: 0.5}, runtime_env={"env_vars": one["environment"]}).remote(
            one["rank"], len(plan["ranks"]), plan["payload_bytes"], plan["pause_s"], one["steps_file"]
        )
        for one in plan["ranks"]
    ]
    try:
        steps = ray.get([actor.run.remote(plan["seconds"]) for actor in actors])
    except ray.exceptions.RayError as error:
        print(f"an actor failed: {error}", file=sys.stderr, flush=True)
        return 1
    print(json.dumps({"event": "end", "steps": steps}), flush=True)
    return 0


def _wait_for_nodes(wanted: int) -> None:
    deadline = time.monotonic() + HEAD_S_MAX
    nodes: Any = ray.nodes
    while sum(node["Alive"] for node in nodes()) < wanted:
        if time.monotonic() > deadline:
            sys.exit(f"{wanted} nodes expected, {len(nodes())} came within {HEAD_S_MAX:.0f} s")
        time.sleep(0.2)


if __name__ == "__main__":
    code = main(json.loads(Path(sys.argv[1]).read_text()))
    sys.stdout.flush()
    os._exit(code)  # Ray's own end waits for actors that may hang with their peer
