"""`leadline lab run` as a person starts it: what a run leaves when it ends well, is interrupted, or is killed.

The job is `rings`, which needs no torch; the store and the Leadline are the run's own.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.lab_realise import traces
from tests.senders.running import wait_for

from leadline.cli.lab.server import LOCK, MADE_AS
from leadline.lab import state
from leadline.lab.flow_truth import read_flow_truth
from leadline.lab.truth import read_truth
from leadline.model.tables import BY_NAME
from leadline.store.bundle import read_bundle

SCENARIO = """
name: light
topology: tiny
duration_s: {duration_s}
flow_truth: true
workloads:
  - {{workload: rings, name: rings-1, max_bytes: 262144, pause_s: 0.05}}
faults:
  - {{fault: flapping-link, at_s: 1, for_s: {for_s}, link: h1~leaf1, down_s: 0.5, period_s: 2}}
"""


@pytest.mark.slow
def test_a_run_leaves_its_bundle_and_its_truth_and_nothing_else(lab_name: str, tmp_path: Path) -> None:
    with lab_run(lab_name, tmp_path, duration_s=5, for_s=3) as run:
        assert run.wait(90) == 0, said(tmp_path)
    assert left(lab_name, tmp_path) == []
    entries, seed, scenario = read_truth(tmp_path / "run.truth.json")
    assert (seed, scenario) == (1, "light")
    [entry] = entries
    assert entry.fault == "flapping-link"
    assert "port:h1/eth0" in entry.component
    assert entry.end_ns is not None
    assert entry.seen is not None
    # Down and up again at least once: a machine that is slow sets it twice in three seconds, others six times.
    before, after = (entry.seen[when]["h1/eth0"]["carrier_changes"] for when in ("before", "after"))  # type: ignore[index]
    assert after >= before + 2
    with read_bundle(tmp_path / "run.leadline") as bundle:
        rows = {name: bundle.rows(BY_NAME[name]) for name in ("event", "flow_sample", "collective", "relation")}
    downs = [
        each for each in rows["event"].to_pylist() if (each["kind"], each["entity"]) == ("link-down", "port:h1/eth0")
    ]
    assert downs
    assert all(entry.onset_ns <= each["time_ns"] <= entry.end_ns for each in downs), "as the truth says"
    assert {each["rate"] for each in rows["flow_sample"].to_pylist()} == {100}
    assert {each["rank"] for each in rows["collective"].to_pylist()} == {0, 1}
    told = {(each["child"], each["kind"], each["parent"]) for each in rows["relation"].to_pylist()}
    assert ("swport:leaf1/Ethernet1", "in", "switch:leaf1") in told, "the inventory is told"
    counted = set(read_flow_truth(tmp_path / "run.flows.parquet")["flow"].to_pylist())
    sampled = {each["flow"] for each in rows["flow_sample"].to_pylist() if each["protocol"] in (6, 17)}
    assert sampled
    assert counted >= sampled


@pytest.mark.parametrize(
    ("number", "moment", "code"),
    [
        (signal.SIGTERM, "an agent on each", 143),  # in the middle of setting up
        (signal.SIGINT, "flapping-link on", 130),
    ],
)
def test_an_interrupted_run_leaves_the_truth_and_nothing_else(
    lab_name: str, tmp_path: Path, number: signal.Signals, moment: str, code: int
) -> None:
    with lab_run(lab_name, tmp_path) as run:
        wait_for(moment, lambda: moment in said(tmp_path), 60.0)
        os.killpg(run.pid, number)  # as a terminal does
        assert run.wait(60) == code, said(tmp_path)
    assert left(lab_name, tmp_path) == []
    assert "interrupted: the cluster and all that ran on it are gone; nothing was recorded" in said(tmp_path)
    assert "Traceback" not in said(tmp_path)
    assert not (tmp_path / "run.leadline").exists()
    entries, _, _ = read_truth(tmp_path / "run.truth.json")
    assert len(entries) == ("flapping" in moment)
    for entry in entries:
        assert entry.end_ns is not None
        assert entry.end_ns - entry.onset_ns < 300e9, "it was mended now, not when it was planned to be"


def test_what_a_killed_run_leaves_is_removed_by_the_next_who_comes(lab_name: str, tmp_path: Path) -> None:
    with lab_run(lab_name, tmp_path) as run:
        wait_for("a fault", lambda: "flapping-link on" in said(tmp_path), 60.0)
        wait_for("a reading of flows", lambda: (tmp_path / "run.flows.part").stat().st_size > 0, 10.0)
        record = state.read(state.state_root(), lab_name)
        assert record is not None
        os.kill(run.pid, signal.SIGKILL)
        run.wait(10)
    assert left(lab_name, tmp_path), "nobody could tidy up"
    [planned] = read_truth(tmp_path / "run.truth.json")[0]
    assert planned.fault == "flapping-link", "it was written before it happened"
    assert read_flow_truth(tmp_path / "run.flows.parquet").num_rows, "what was counted until then is not lost"
    # The server got a SIGTERM when we died; its store is in use until it has ended.
    wait_for("the server's end", lambda: not ours(tmp_path, "leadline.server"), 40.0)
    here = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        leadline("lab", "down", "--name", "none"), capture_output=True, text=True, timeout=60, env=here, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(rf"{lab_name}: \d+ network namespaces", done.stdout)
    assert "store of a run that was killed" in done.stdout
    assert left(lab_name, tmp_path) == []


def test_without_root_it_says_what_is_missing_and_what_works(tmp_path: Path) -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    if subprocess.run([*nobody, sys.executable, "-c", "import leadline"], capture_output=True, check=False).returncode:
        pytest.skip("the user nobody may not run this Python")
    path = {**os.environ, "PATH": "/usr/bin:/bin"}  # as of a user who is not root
    done = subprocess.run(
        [*nobody, *leadline("lab", "run", "demo")],
        capture_output=True,
        text=True,
        timeout=60,
        env=path,
        cwd="/",
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith(
        "leadline: the lab needs root, CAP_NET_ADMIN, CAP_SYS_ADMIN: it makes network namespaces"
    )
    assert "`leadline replay` plays a recorded incident" in done.stderr
    assert "Debian" not in done.stderr, "the programs are there, only not in a user's PATH"
    assert done.stdout == ""


@contextmanager
def lab_run(
    name: str, directory: Path, *, duration_s: float = 600, for_s: float = 500
) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process group of its own, with its temporary files in `directory`."""
    scenario = directory / "light.yaml"
    scenario.write_text(SCENARIO.format(duration_s=duration_s, for_s=for_s))
    words = leadline("lab", "run", str(scenario), "--name", name, "--record", str(directory / "run.leadline"))
    with (directory / "out").open("wb") as out:
        run = subprocess.Popen(
            words,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(directory)},
        )
    try:
        yield run
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def leadline(*words: str) -> list[str]:
    return [sys.executable, "-m", "leadline.cli.main", *words]


def said(directory: Path) -> str:
    return (directory / "out").read_text(errors="replace")


def left(name: str, directory: Path) -> list[str]:
    """All that is still there of a lab: namespaces, groups, processes, sockets, stores."""
    found = traces(name, state.state_root())
    found += [f"store {lock}" for lock in directory.glob(f"{MADE_AS}*/{LOCK}")]
    return found + ours(directory)


def ours(directory: Path, word: str = "") -> list[str]:
    """Processes that a run in `directory` started, whatever became of their parents; `word`: in the command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
            if f"TMPDIR={directory}\0".encode() in environment and word.encode() in command:
                found.append(f"process {entry.name}: {command!r:.120}")
    return found
