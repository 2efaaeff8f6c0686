"""The `rings` program over loopback, both transports: real sockets, real data, what it writes to the event ring."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leadline.lab.workloads.control import write_control
from leadline.lab.workloads.transport.hw_counters import COUNTERS, HwCounters
from leadline.wire.ring.format import read_segment
from leadline.wire.ring.segments import decode_ring

PROGRAM = [sys.executable, "-m", "leadline.lab.workloads.rings.rank"]
EVERY_OP = "all_reduce,all_gather,reduce_scatter,broadcast,all_to_all"


def free_port() -> int:
    with socket.create_server(("127.0.62.1", 0)) as probe:
        return int(probe.getsockname()[1])


def run_ranks(
    tmp_path: Path, ranks: int, net: int, *options: str, control: dict[str, Any] | None = None
) -> list[subprocess.CompletedProcess[str]]:
    """Run all ranks to their end, each on a loopback address 127.0.<net>.<rank + 1>."""
    environ = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": f"127.0.{net}.1", "MASTER_PORT": str(free_port()),
               "LEADLINE_JOB": "rings-t", "LEADLINE_RING_DIR": str(tmp_path)}  # fmt: skip
    write_control(tmp_path / "control.json", control or {})
    running = []
    for rank in range(ranks):
        mine = {"RANK": str(rank), "LEADLINE_HOST": f"h{rank + 1}", "LEADLINE_HW_COUNTERS": str(tmp_path / f"hw{rank}")}
        if rank == ranks - 1:
            mine["LEADLINE_CONTROL"] = str(tmp_path / "control.json")
        address = ["--address", f"127.0.{net}.{rank + 1}"]
        running.append(
            subprocess.Popen(
                [*PROGRAM, *options, *address, "--json", str(tmp_path / "result.json")],
                env={**environ, **mine}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    done = []
    for process in running:
        out, err = process.communicate(timeout=60)
        done.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return done


def rows_of(tmp_path: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table from the rings of all ranks."""
    rows: list[dict[str, Any]] = []
    for path in sorted(tmp_path.glob("*.ring")):
        last = 0
        while (reading := read_segment(path.read_bytes(), last)).segment:
            last = reading.last
            decoded = decode_ring(reading.segment)
            rows += decoded.tables[table].to_pylist() if table in decoded.tables else []
    return rows


@pytest.mark.parametrize(("transport", "net"), [("tcp", 62), ("rocev2", 63)])
def test_every_collective_is_right_and_told(tmp_path: Path, transport: str, net: int) -> None:
    options = ["--transport", transport, "--ops", EVERY_OP, "-b", "4K", "-e", "64K", "-f", "16", "-n", "2"]
    done = run_ranks(tmp_path, 3, net, *options)
    assert [each.returncode for each in done] == [0, 0, 0], [each.stderr for each in done]
    told = json.loads((tmp_path / "result.json").read_text())
    assert [each["op"] for each in told["results"]] == [op for op in EVERY_OP.split(",") for _ in range(2)]
    assert all(each["wrong"] == 0 and each["busbw_bytes_per_s"] > 0 for each in told["results"])
    assert "#wrong" in done[0].stdout
    assert "# Avg bus bandwidth" in done[0].stdout

    collectives = rows_of(tmp_path, "collective")
    assert {row["state"] for row in collectives} == {"enqueued", "finished"}
    finished = [row for row in collectives if row["state"] == "finished"]
    assert len(finished) == 3 * 5 * 2 * 3  # ranks x collectives x sizes x iterations and warm-up
    assert all(row["finished_ns"] >= row["enqueued_ns"] for row in finished)

    ends = [row for row in rows_of(tmp_path, "message_end") if row["end_ns"]]
    key = ("comm", "channel", "seq", "step", "bytes", "flow")
    by_side: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {"send": {}, "recv": {}}
    for row in ends:
        pair = (row["rank"], row["peer"]) if row["side"] == "send" else (row["peer"], row["rank"])
        by_side[row["side"]][*(row[name] for name in key), *pair] = row
    assert by_side["send"].keys() == by_side["recv"].keys()  # the same message at both ends, on the same flow
    assert len(by_side["send"]) > 300
    for name, sent in by_side["send"].items():
        assert sent["begin_ns"] <= by_side["recv"][name]["end_ns"]  # one clock: nothing comes before it was posted
    assert all(row["flow"] is not None for row in ends)


def test_queue_pairs_have_an_owner_and_a_nic_counts(tmp_path: Path) -> None:
    done = run_ranks(tmp_path, 2, 64, "--transport", "rocev2", "-b", "256K", "-e", "256K", "-n", "2")
    assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]
    relations = rows_of(tmp_path, "relation")
    pairs = {row["child"]: row for row in relations if row["child"].startswith("qp:") and row["kind"] == "owns"}
    assert {row["parent"] for row in pairs.values()} == {"rank:rings-t/0", "rank:rings-t/1"}
    assert {row["child"].partition("/")[0] for row in pairs.values()} == {"qp:127.0.64.1", "qp:127.0.64.2"}
    assert all(row["to_ns"] for row in pairs.values())  # ended when the job did: the last row of each
    members = {row["child"] for row in relations if row["kind"] == "member"}
    assert {"rank:rings-t/0", "rank:rings-t/1"} | set(pairs) == members
    counters = {path.name: int(path.read_text()) for path in (tmp_path / "hw0").iterdir()}
    assert set(counters) == set(COUNTERS)
    assert counters["rdma_tx_packets"] > 200
    assert counters["rdma_tx_bytes"] > 3 * 256 * 1024  # 2(n-1)/n of the size, three times


def test_a_rank_that_diverges_fails_all(tmp_path: Path) -> None:
    """Another size on one rank: RoCE's message boundaries show it at once; the others are left waiting and say so."""
    done = run_ranks(
        tmp_path, 2, 65, "--transport", "rocev2", "-b", "64K", "-e", "64K", "--timeout", "3", control={"diverge": True}
    )
    assert [each.returncode for each in done] == [1, 1]
    assert "the ranks do not run the same collective" in done[0].stderr + done[1].stderr
    assert any(row["state"] == "failed" for row in rows_of(tmp_path, "collective"))


def test_over_tcp_a_rank_that_diverges_hangs_the_others(tmp_path: Path) -> None:
    done = run_ranks(tmp_path, 2, 65, "-b", "64K", "-e", "64K", "--timeout", "2", control={"diverge": True})
    assert [each.returncode for each in done] == [1, 1]
    said = done[0].stderr + done[1].stderr
    assert "not over after 2 s; waiting for channel" in said or "closed the connection" in said


def test_a_late_rank_delays_the_collective(tmp_path: Path) -> None:
    done = run_ranks(tmp_path, 2, 65, "-b", "1K", "-e", "1K", "-n", "2", "-w", "0", control={"data_delay_s": 0.3})
    assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]
    finished = [row for row in rows_of(tmp_path, "collective") if row["state"] == "finished"]
    early = [row["finished_ns"] - row["enqueued_ns"] for row in finished if row["rank"] == 0]
    assert min(early) > 200_000_000  # the rank that is on time waits for the other


def test_one_of_the_ranks_is_missing() -> None:
    environ = {**os.environ, "WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.65.1", "MASTER_PORT": "0"}
    done = subprocess.run(
        [*PROGRAM, "--timeout", "0.3"], env=environ, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "only ranks [0] of 2 came" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ops", "allreduce"], "is none of all_reduce"),
        (["--channels", "0"], "1 to 32"),
        (["-b", "2K", "-e", "1K"], "must give 1 to 64 sizes"),
        (["-b", "many"], "such as 64K"),
        (["-r", "3"], "must be a rank"),
        (["-n", "0"], "-n must be at least 1"),
    ],
)
def test_a_wrong_option_is_refused(options: list[str], said: str) -> None:
    done = subprocess.run([*PROGRAM, *options], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert said in done.stderr


def test_counters_of_two_jobs_add_up(tmp_path: Path) -> None:
    first, second = HwCounters(tmp_path), HwCounters(tmp_path)
    first.counts["out_of_sequence"] += 2
    second.counts["out_of_sequence"] += 3
    first.write()
    second.write()
    second.write()
    assert (tmp_path / "out_of_sequence").read_text() == "5\n"
    assert (tmp_path / "packet_seq_err").read_text() == "0\n"
