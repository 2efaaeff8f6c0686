"""Kill the store with SIGKILL while four writers append, many times, and look for what is missing.

    python -m bench.durability [--kills 300] [--seed 1] [--path DIR] [--json]

A child process opens the store and appends from four threads: metric samples, events and relations. A batch is
written to the pipe before it is appended ("begin") and after it returned ("done"). After a random time the child
gets SIGKILL. The next child first appends again, with the same batch ids, what was begun and not done, and goes
on with new batches. At the end (and every `CHECK_EVERY` kills) every row of every done batch must be read exactly
once.

A pipe's bytes survive their writer, so a "done" that the child wrote is seen; what was done but not yet written
counts as not acknowledged, as it would for a sender whose answer was lost.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import Figure, conditions, tell
from leadline.host.bound import bound_to_parent
from leadline.model.tables import BY_NAME
from leadline.store import Store, StoreConfig, arrow_table

ROOT = Path(__file__).parents[1]
WRITERS = 4
ROWS = 200  # of one batch: small, so that a kill meets an append and not the preparation of the next
CHECK_EVERY = 50
# A process that is killed within a second never gets to merge or to clear away: after some hundred kills opening takes
# seconds, which tests nothing more.
KILLS_PER_STORE = 50
KINDS = ("metric_sample", "event", "relation")
BASE_NS = 1_900_000_000 * 10**9  # far from any age limit


@dataclass
class Progress:
    """What is known of all batches, over all children."""

    kills: int = 0
    repeated: int = 0
    next_batch: int = 0
    done: set[int] = field(default_factory=set)
    begun: set[int] = field(default_factory=set)  # and not done: to be appended again


# --- the child: appends until it is killed -------------------------------------------------------------------


def rows_of(batch: int) -> tuple[str, Any]:
    """The rows of a batch, the same ones each time it is made."""
    kind = KINDS[batch % len(KINDS)]
    table = BY_NAME[kind]
    place = range(ROWS)
    times = [BASE_NS + batch * ROWS + n for n in place]
    columns: dict[str, Any] = {"tenant": ["t"] * ROWS, "cluster": ["c"] * ROWS}
    if kind == "metric_sample":
        columns |= {"series": [batch] * ROWS, "time_ns": times, "value": [float(n) for n in place]}
    elif kind == "event":
        texts = ("host", "clock", "entity_kind", "entity", "kind", "severity", "message", "source")
        columns |= {name: [name] * ROWS for name in texts}
        # All rows of a batch are alike but for their place in it: only batch and place make them rows of their own.
        columns |= {"time_ns": [BASE_NS] * ROWS, "code": [None] * ROWS, "attributes": [{}] * ROWS}
        columns |= {"batch": [batch] * ROWS, "batch_row": list(place)}
    else:
        columns |= {"child": [f"rank:j/{batch}"] * ROWS, "parent": [f"gpu:{n}" for n in place]}
        columns |= {"kind": ["runs-on"] * ROWS, "from_ns": times, "to_ns": [None] * ROWS}
        columns |= {"source": ["bench"] * ROWS, "confidence": [1.0] * ROWS}
    return kind, arrow_table(table, columns)


def child(path: str, first: int, again: list[int]) -> None:
    """Append `again`, then batches from `first` on, from four threads, until killed."""
    store = Store(StoreConfig(path=path, writers=WRITERS))
    store.start()
    print("ready", flush=True)
    lock = threading.Lock()
    waiting = list(again)
    fresh = iter(range(first, 1 << 60))

    def tell_parent(line: str) -> None:
        with lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def write() -> None:
        while True:
            with lock:
                batch = waiting.pop() if waiting else next(fresh)
            kind, rows = rows_of(batch)
            tell_parent(f"begin {batch}")
            store.append(BY_NAME[kind], rows)
            tell_parent(f"done {batch}")

    for _ in range(WRITERS):
        threading.Thread(target=write, daemon=True).start()
    threading.Event().wait()


# --- the parent: kills, remembers, checks --------------------------------------------------------------------


def one_life(path: str, progress: Progress, live_s: float) -> None:
    """Start a child, let it append for `live_s` seconds, kill it, read what it acknowledged."""
    again = sorted(progress.begun)
    command = [sys.executable, "-m", "bench.durability", "--child", "--path", path, "--first", str(progress.next_batch)]
    command += ["--again", ",".join(map(str, again))]
    process = subprocess.Popen(bound_to_parent(command), stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout
    lines: list[str] = []
    ready = threading.Event()

    def read() -> None:
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            ready.set()
        ready.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        if not ready.wait(60):
            raise RuntimeError("the child did not open the store within 60 s")
        time.sleep(live_s)
    finally:
        process.kill()
        reader.join()
        status = process.wait()
        process.stdout.close()
    if status != -9 or not lines:
        raise RuntimeError(f"the child ended by itself with status {status} before it was killed")
    progress.kills += 1
    progress.repeated += len(again)
    _remember(lines, progress)


def _remember(lines: list[str], progress: Progress) -> None:
    for line in lines:
        if not line.endswith("\n"):
            continue  # cut by the kill: never acknowledged
        word, _, number = line.strip().partition(" ")
        if word == "begin":
            progress.begun.add(int(number))
            progress.next_batch = max(progress.next_batch, int(number) + 1)
        elif word == "done":
            progress.done.add(int(number))
    progress.begun -= progress.done


def missing_and_duplicated(path: str, progress: Progress) -> tuple[int, int]:
    """Rows of done batches that are not read, and rows that are read more than once (or never were appended)."""
    id_of = {
        "metric_sample": "toUInt64(series)",
        "event": "toUInt64(batch)",
        "relation": "toUInt64(splitByChar('/', child)[2])",
    }
    inside = {"metric_sample": "time_ns", "event": "batch_row", "relation": "parent"}
    missing = duplicated = 0
    store = Store(StoreConfig(path=path))
    store.start()
    try:
        for kind in KINDS:
            sql = (
                f"SELECT {id_of[kind]} AS id, count() AS n, uniqExact({inside[kind]}) AS different "
                f"FROM leadline.{kind} GROUP BY id"
            )
            found = {row["id"]: (row["n"], row["different"]) for row in store.query(sql).to_pylist()}
            for batch, (count, different) in found.items():
                duplicated += count - different
                assert batch < progress.next_batch, f"a batch {batch} that was never begun"
            for batch in progress.done:
                if KINDS[batch % len(KINDS)] == kind:
                    missing += ROWS - found.get(batch, (0, 0))[1]
    finally:
        store.stop()
    return missing, duplicated


def run(path: str, kills: int, seed: int, live_s_max: float = 0.6) -> tuple[Progress, int, int]:
    """Kill `kills` times. Returns: what happened, acknowledged rows lost, rows duplicated."""
    rng = random.Random(seed)
    progress = Progress()
    for kill in range(1, kills + 1):
        one_life(path, progress, rng.uniform(0.0, live_s_max))
        if kill % CHECK_EVERY == 0 and kill < kills:
            missing, duplicated = missing_and_duplicated(path, progress)
            if missing or duplicated:
                return progress, missing, duplicated
    # A batch that was cut off is appended once more, as its sender would; then it counts as done.
    store = Store(StoreConfig(path=path))
    store.start()
    for batch in sorted(progress.begun):
        kind, rows = rows_of(batch)
        store.append(BY_NAME[kind], rows)
    store.stop()
    progress.repeated += len(progress.begun)
    progress.done |= progress.begun
    progress.begun.clear()
    return progress, *missing_and_duplicated(path, progress)


def run_on_stores(path: str, kills: int, seed: int) -> tuple[Progress, int, int]:
    """The same over several stores, KILLS_PER_STORE kills on each; the sums of all."""
    total, missing, duplicated = Progress(), 0, 0
    for number, first in enumerate(range(0, kills, KILLS_PER_STORE)):
        part = min(KILLS_PER_STORE, kills - first)
        progress, part_missing, part_duplicated = run(os.path.join(path, str(number)), part, seed + number)
        missing, duplicated = missing + part_missing, duplicated + part_duplicated
        total.kills += progress.kills
        total.repeated += progress.repeated
        total.done |= {number * 10**9 + batch for batch in progress.done}
        print(f"{total.kills} kills: {missing} lost, {duplicated} duplicated", file=sys.stderr, flush=True)
    return total, missing, duplicated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--path", default="", help="directory of the store; a temporary one by default")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--again", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.path, given.first, [int(batch) for batch in given.again.split(",") if batch])
        return
    path = os.path.abspath(given.path) if given.path else tempfile.mkdtemp(prefix="leadline-durability-")
    under = conditions(given.seed, kills=given.kills, writers=WRITERS, rows_per_batch=ROWS)
    begin_s = time.monotonic()
    try:
        progress, missing, duplicated = run_on_stores(path, given.kills, given.seed)
    finally:
        if not given.path:
            shutil.rmtree(path, ignore_errors=True)
    tell(
        "durability",
        under | {"seconds": round(time.monotonic() - begin_s, 1)},
        [
            Figure("acknowledged_lost", missing, "rows", target=0, better="lower"),
            Figure("duplicated", duplicated, "rows", target=0, better="lower"),
            Figure("acknowledged", len(progress.done) * ROWS, "rows"),
            Figure("batches_repeated", progress.repeated, "batches"),
            Figure("kills", progress.kills, "kills"),
        ],
        given.json,
    )
    sys.exit(1 if missing or duplicated else 0)


if __name__ == "__main__":
    main()
