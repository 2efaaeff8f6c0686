"""A server that has replayed the shipped recording and analysed it whole."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from bench.peers import free_port
from leadline.lab.incidents import SHOWN, incident

JUDGED_S_MAX = 480.0  # a recording of three minutes at full speed; 33 s on a quiet machine, 187 on a busy and slow one
FAULTS = 2  # of the shipped recording: a flapping link, then a slow worker


@contextmanager
def replayed(directory: Path) -> Iterator[str]:
    """The address of the server, for the time of a `with`. Errors: AssertionError if it ends or takes too long."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable, "-m", "leadline.cli.main", "replay", str(incident(SHOWN)), "--speed", "max",
        "--data-dir", str(directory / "store"), "--port", str(port),
    ]  # fmt: skip
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=directory)
    try:
        end = time.monotonic() + JUDGED_S_MAX
        while not _judged(process, url):
            assert time.monotonic() < end, f"the recording was not analysed within {JUDGED_S_MAX:.0f} s"
            time.sleep(1.0)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _judged(process: subprocess.Popen[bytes], url: str) -> bool:
    """Whether each fault of the recording has its incident, and nothing is left to analyse."""
    assert process.poll() is None, f"leadline replay ended with {process.returncode}"
    try:
        if httpx.get(f"{url}/api/v1/replay", timeout=30.0).json()["state"] != "done":
            return False
        incidents = httpx.get(f"{url}/api/v1/incidents", timeout=30.0).json()["incidents"]
    except (httpx.HTTPError, KeyError):
        return False
    return sum(bool(one["causes"]) for one in incidents) >= FAULTS
