"""Faults of the disk: which are drawn, that the library makes them, what counts as silent; and runs of the whole."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from evals.disk_faults.control import EVERY, Call, Control, Fault, Kind, Site, Stage, built
from evals.disk_faults.drawing import REFUSALS, SITES, drawn
from evals.disk_faults.judging import GRACE_S, Look, Outcome, about_rows, missing_and_doubled, unreadable_s

ROOT = Path(__file__).parents[3]
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or platform.machine() != "x86_64", reason="needs a C compiler, on x86-64"
)
GOOD, LACKING = Look(0.0, 0), Look(0.0, 7)


def outcome(*looks: Look, restarted: Look | None = GOOD, acknowledged: int = 10) -> Outcome:
    return Outcome(0, "full", acknowledged=acknowledged, looks=list(looks), restarted=restarted)


# --- drawn ---


def test_the_same_seed_draws_the_same_faults_and_a_hundred_meet_every_site() -> None:
    faults = [drawn(1, number) for number in range(100)]
    assert faults == [drawn(1, number) for number in range(100)]
    assert faults != [drawn(2, number) for number in range(100)]
    assert {each.site for each in faults} == {*SITES, None}
    assert {each.fault for each in faults} == set(REFUSALS)
    assert drawn(1, 0, again=1) != faults[0]


def test_only_writes_are_short_and_what_strikes_everything_lasts() -> None:
    for number in range(300):
        each = drawn(3, number)
        if each.fault in (Fault.SHORT, Fault.SHORT_THEN_FULL):
            assert each.site is not None
            assert each.site.call is Call.WRITE
        if each.site is None:
            assert each.lasts
        assert (each.skip == 0) if each.lasts else (each.strikes == 1)


# --- judged ---


def test_rows_that_are_missing_or_read_twice() -> None:
    found = {"a": (10, 10), "b": (12, 10), "c": (3, 3), "never acknowledged": (5, 5)}
    assert missing_and_doubled({"a": 10, "b": 10, "c": 10, "d": 10}, found) == (17, 2)


def test_all_is_lost_where_nothing_answers_after_the_restart() -> None:
    assert outcome(GOOD).lost == 0
    assert outcome(GOOD, restarted=LACKING).lost == 7
    assert outcome(GOOD, restarted=Look(0.0, None)).lost == 10
    assert outcome(GOOD, restarted=None).lost == 10


def test_silent_is_what_is_lost_or_broken_or_long_unreadable_and_not_said() -> None:
    late = Look(GRACE_S + 1.0, None)
    broken = Look(0.0, 0, spoilt=("metric_sample/all_1_2_1",))
    said = Look(0.0, 7, said=("/ready 503",))
    assert not outcome(GOOD).silent
    assert not outcome(LACKING, Look(GRACE_S - 1.0, None), GOOD).silent
    assert outcome(LACKING, late).silent
    assert outcome(GOOD, restarted=LACKING).silent
    assert outcome(broken).silent
    assert outcome(GOOD, restarted=broken).silent
    assert not outcome(said, late).silent
    assert not outcome(GOOD, restarted=said).silent
    assert not outcome(GOOD, restarted=None).silent


def test_the_longest_time_without_all_rows() -> None:
    looks = [Look(1.0, 5), Look(2.0, None), Look(4.0, 0), Look(5.0, 3), Look(6.0, 3)]
    assert unreadable_s(looks) == 1.0
    assert unreadable_s([Look(1.0, 5), Look(9.0, 1)]) == 8.0
    assert unreadable_s([]) == 0.0


def test_findings_about_senders_say_nothing_of_rows() -> None:
    texts = ("nothing is connected", "rows n1: append failed", "part p of event was spoilt and the table loaded anew")
    assert about_rows([{"text": text} for text in texts]) == [texts[2]]


# --- the library ---

TRIES = """
import errno, os, sys
os.chdir(sys.argv[1])
def tried(make):
    try:
        return make()
    except OSError as error:
        return errno.errorcode[error.errno]
os.makedirs("t/tmp_merge_all_1_2_1", exist_ok=True)
file = os.open("t/tmp_merge_all_1_2_1/data.bin", os.O_WRONLY | os.O_CREAT)
print("go", flush=True)
for line in sys.stdin:
    print(repr(tried(lambda: eval(line))), flush=True)
"""


class Tried:
    """A process under the library that does one thing after the other, below its directory."""

    def __init__(self, control: Control, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", TRIES, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **control.environ},
        )  # fmt: skip
        self.answer()

    def __call__(self, what: str) -> str:
        assert self.process.stdin
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    """Of processes whose directory is `tmp_path`/store."""
    (tmp_path / "store").mkdir()
    with Control(built(tmp_path), tmp_path / "store", tmp_path / "control") as made:
        yield made


@needs_compiler
def test_the_library_strikes_what_it_is_armed_for_and_counts_everything(tmp_path: Path, control: Control) -> None:
    directory = tmp_path / "store"
    write = Site(Call.WRITE, Stage.MERGE, Kind.DATA)
    tried = Tried(control, directory)
    assert tried("os.write(file, b'12345678')") == "8"
    control.arm(write, Fault.FULL, skip=1, strikes=1, seconds=60)
    assert [tried("os.write(file, b'12345678')") for _ in range(3)] == ["8", "'ENOSPC'", "8"]
    control.arm(write, Fault.SHORT, strikes=1, seconds=60)
    assert [tried("os.pwrite(file, b'12345678', 0)") for _ in range(2)] == ["4", "8"]
    control.arm(write, Fault.SHORT_THEN_FULL, strikes=1, seconds=60)
    assert [tried("os.writev(file, [b'12', b'345678'])") for _ in range(3)] == ["2", "'ENOSPC'", "8"]
    assert (control.made, control.strikes()) == (1, [(write, "/t/tmp_merge_all_1_2_1/data.bin")])
    control.arm(None, Fault.IO_ERROR, seconds=60)
    for call in ("os.open('t/x', os.O_CREAT | os.O_WRONLY)", "os.mkdir('y')", "os.rename('t', 'u')",
                 "os.link('t', 'u')", "os.fsync(file)", "os.ftruncate(file, 3)",
                 "os.posix_fallocate(file, 0, 9)"):  # fmt: skip
        assert tried(call) == "'EIO'", call
    assert tried(f"os.mkdir({str(tmp_path / 'beside')!r})") == "None", "it is not below the directory"
    control.lift()
    assert tried("os.rename('t', 'u')") == "None"
    tried.end()
    assert control.struck()[write] == 3
    assert control.seen()[write] == 8, "the one after a short write belongs to that"
    assert control.seen()[Site(Call.CREATE, Stage.MERGE, Kind.DATA)] == 1


@needs_compiler
def test_a_disk_that_hangs_holds_a_call_until_it_is_lifted_and_then_does_it(tmp_path: Path, control: Control) -> None:
    directory = tmp_path / "store"
    tried = Tried(control, directory)
    control.arm(None, Fault.STALL, seconds=60)
    assert tried.process.stdin
    tried.process.stdin.write("os.mkdir('y')\n")
    tried.process.stdin.flush()
    end = time.monotonic() + 30
    while not control.made:
        assert time.monotonic() < end, "it was not held"
        time.sleep(0.01)
    assert not (directory / "y").exists()
    control.lift()
    assert tried.answer() == "None"
    assert (directory / "y").is_dir()
    tried.end()


@needs_compiler
def test_a_fault_is_over_after_its_time(tmp_path: Path, control: Control) -> None:
    directory = tmp_path / "store"
    tried = Tried(control, directory)
    control.arm(None, Fault.FULL, strikes=EVERY, seconds=0.0)
    assert tried("os.mkdir('y')") == "None"
    tried.end()
    assert errno.ENOSPC  # what FULL stands for


@needs_compiler
@pytest.mark.timeout(240)  # 15 s on an idle machine
def test_a_fault_that_strikes_the_store_loses_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """One run of a real server: the first index of an append is not written, and the engine says that it is."""
    command = [sys.executable, "-m", "evals.faults_on_disk", "--only", "5", "--lanes", "1", "--json"]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    figures = {each["figure"]: each["value"] for each in told["figures"]}
    assert figures["runs"] == 1, ran.stderr
    assert figures["struck"] >= 1
    assert figures["acknowledged"] > 100, "nothing was sent: this proves nothing"
    assert (figures["acknowledged_lost"], figures["silent"], figures["duplicated"]) == (0, 0, 0), told
    assert list(tmp_path.iterdir()) == []
