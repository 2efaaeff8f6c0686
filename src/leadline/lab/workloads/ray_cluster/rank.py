"""One node of the `ray` job: waits for the head of the cluster, then becomes `ray start`.

    RANK=1 MASTER_ADDR=10.1.1.1 python -m leadline.lab.workloads.ray_cluster.rank --port 29700 --address 10.2.2.1 ...

Rank 0 is the head. Collectives are done by an actor that this node's raylet starts, see `ray_cluster.actor`.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time

from leadline.model.programs import OWN_PYTHON

HEAD_S_MAX = 90.0  # the head imports Python packages for some seconds; on a busy machine for many
OBJECT_STORE_BYTES = 80_000_000  # the least that Ray takes, about: collectives do not use it


def command(port: int, address: str, name: str, head: str, rank: int, directory: str) -> list[str]:
    """The command line of `ray start` for one node."""
    common = [
        f"--node-ip-address={address}",
        "--num-cpus=1",
        "--num-gpus=0",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        f'--resources={{"{name}": 1}}',
        "--disable-usage-stats",
        "--block",
    ]
    if rank == 0:
        where = ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={directory}"]
    else:
        where = [f"--address={head}:{port}"]
    return [*OWN_PYTHON, "-m", "ray.scripts.scripts", "start", *where, *common]


def wait_for(address: str, port: int, timeout_s: float) -> None:
    """Wait until something listens there. Exits with 1 if nothing does in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((address, port), 1.0):
                return
        except OSError:
            time.sleep(0.2)
    sys.exit(f"no head of a Ray cluster at {address}:{port} within {timeout_s:.0f} s")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="One node of the lab's Ray cluster.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--directory", required=True)
    given = parser.parse_args()
    rank, head = int(os.environ["RANK"]), os.environ["MASTER_ADDR"]
    if rank:
        wait_for(head, given.port, HEAD_S_MAX)
    argv = command(given.port, given.address, given.name, head, rank, given.directory)
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
