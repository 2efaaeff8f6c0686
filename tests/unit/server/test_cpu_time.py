"""What the parts of the server cost, told by the names of their threads."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from leadline.server.metrics.cpu import CpuTime, part_of


def burn(seconds: float) -> None:
    """Take so much CPU time in this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_thread_counts_for_the_part_it_works_for_also_after_its_end() -> None:
    cpu = CpuTime()
    before = cpu.now().get("decode", 0.0)
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        burn(0.3)
        done.set()
        go.wait()

    thread = threading.Thread(target=work, name="decode_7")
    thread.start()
    assert done.wait(30)
    seen = cpu.now()["decode"] - before
    assert 0.25 <= seen < 3
    go.set()
    thread.join()
    assert cpu.now()["decode"] - before >= seen, "a counter never falls"


def test_processes_that_it_started_are_the_analyses() -> None:
    cpu = CpuTime()
    cpu.now()
    command = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        assert cpu.now()["analyses"] >= 0.25
        child.stdin.write(b"\n")


def test_threads_are_known_by_the_beginning_of_their_names() -> None:
    assert part_of("lane-metric_sample") == "store"
    assert part_of("MainThread") == "connections"
    assert part_of("runner-senders") == "runner"
    assert part_of("somebody") == "other"
