"""A Ray cluster of two nodes on loopback, of which nothing is left when it ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
SOURCES = os.pathsep.join([str(ROOT / "src"), str(ROOT)])  # where workers find what they judge with
STORE_BYTES = 80_000_000  # the least that Ray takes is 75 MiB

# Ray's own means to have several nodes on one machine; a line on its standard input has the second one leave.
NODES = f"""
import sys
from ray.cluster_utils import Cluster
node = dict(num_cpus=1, object_store_memory={STORE_BYTES})
cluster = Cluster(initialize_head=True, head_node_args=dict(node, include_dashboard=False))
second = cluster.add_node(**node)
print(cluster.address, flush=True)
sys.stdin.readline()
cluster.remove_node(second, allow_graceful=False)
print("left", flush=True)
sys.stdin.read()
"""
# So that Ray, on Linux too, uses the address 127.0.0.1 and listens nowhere else.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


class Cluster:
    """Two nodes of a core each, in processes that all end with this."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="ray")  # short: sockets lie deep in it
        Path(self.folder, "ray").mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", NODES, self.folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | LOOPBACK | {"RAY_TMPDIR": self.folder, "PYTHONPATH": SOURCES},
        )  # fmt: skip
        self.address = self._line()

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        """The second node leaves, without a word."""
        assert self.process.stdin
        self.process.stdin.write("leave\n")
        self.process.stdin.flush()
        assert self._line() == "left"

    def processes(self) -> list[psutil.Process]:
        """All that belong to it: they have its folder in their command, or were started by one that has."""
        found = {}
        for each in psutil.process_iter(["cmdline"]):
            if self.folder in " ".join(each.info["cmdline"] or []):
                with contextlib.suppress(psutil.NoSuchProcess):
                    found |= {one.pid: one for one in (each, *each.children(recursive=True))}
        return list(found.values())

    def workers(self) -> list[psutil.Process]:
        """Those that judge."""
        found = []
        for each in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                if "Judge" in " ".join(each.cmdline()):
                    found.append(each)
        return found

    def end(self) -> None:
        every = self.processes()
        for each in every:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(every, 10)
        self.process.communicate(timeout=10)
        shutil.rmtree(self.folder, ignore_errors=True)
