"""The incast workload's programs on loopback: every burst is answered whole, and ends are told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from leadline.lab.workloads.incast.job import Incast
from leadline.model.errors import UsageError


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _rank(rank: int, world: int, port: int, *options: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ, "RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "LEADLINE_JOB": "incast-1", "LEADLINE_HOST": f"h{rank + 1}",
    }  # fmt: skip
    environment.pop("LEADLINE_RING_DIR", None)
    argv = [sys.executable, "-m", "leadline.lab.workloads.incast.rank", *options]
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_three_hosts_answer_one_until_its_time_is_over() -> None:
    port = _free_port()
    options = ("--bytes", "70000", "--period", "0.05", "--seconds", "0.6")
    ranks = [_rank(rank, 4, port, *options) for rank in range(4)]
    said = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0, 0], said
    told = json.loads(said[0][0].splitlines()[-1])
    assert told["bursts"] >= 1
    assert told["received_bytes"] == told["bursts"] * 3 * 70000
    assert 0 < told["burst_s_median"] <= told["burst_s_max"]


def test_an_asked_host_that_dies_is_told() -> None:
    port = _free_port()
    asker, other = (_rank(rank, 2, port, "--period", "0.02", "--seconds", "30") for rank in range(2))
    with asker, other:
        assert asker.stdout is not None
        first = asker.stdout.readline()
        other.kill()
        other.communicate()
        _, err = asker.communicate(timeout=60)
    assert '"bursts"' in first
    assert asker.returncode == 1
    assert "a host that should answer" in err


@pytest.mark.parametrize("wrong", [{"burst_bytes": 0}, {"burst_bytes": 1 << 40}, {"period_s": 0.0}, {"seconds": -1.0}])
def test_nonsense_is_refused_before_it_starts(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="workload incast-1 needs burst_bytes"):
        Incast(**wrong)  # type: ignore[arg-type]
