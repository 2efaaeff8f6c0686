"""Jobs of 4, 8 and 16 ranks that come to a stop, by a small simulation of what ranks call: for tables of cases.

Two layouts. `ring`: one communicator, three collectives in a step. `3d`: tensor pairs, a pipeline of sends and
receives, data parallel groups whose reductions run beside what comes next, and one collective of all.

A rank goes through its program: `Call`s wait for their members, receives for their send, unless told to go on; what is
begun and never over has no end, as the hook tells it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from tests.builders.fabrics import T0, S
from tests.builders.slow_jobs import Row, told, window
from tests.builders.small_job import JOB, MS, collective, event, relations, step, table

from leadline.analysis.symptoms.stalls import stalls

STEPS = 16  # before it stops; each about a second
TOOK = 30 * MS  # a collective, from its last entry
Members = tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One thing that a rank does: a collective of a communicator, a send, a receive, work of its own, or a mark."""

    what: str  # all_reduce, ..., send, recv, work, wait, begin, end
    comm: str = ""
    bytes: int = 4096
    peer: int = -1
    ns: int = 0
    waits: bool = True


@dataclass
class Cluster:
    """A job and what befalls it. Times in ns; `None`: it does not."""

    ranks: int
    layout: str
    stops_ns: dict[int, int] = field(default_factory=dict)  # rank -> since when it does nothing more
    hangs_ns: dict[int, int] = field(default_factory=dict)  # rank -> since when its own work does not end
    cut_ns: dict[int, int] = field(default_factory=dict)  # rank -> since when nothing comes through its link
    slow: dict[int, float] = field(default_factory=dict)  # rank -> its work takes so many times as long, from T0 on
    changes: Callable[[int, int, list[Call]], list[Call]] = lambda rank, number, calls: calls
    gives_up_ns: int | None = None  # after so long in one call
    patient_until_ns: int = 0  # calls made before are waited for however long
    until_ns: int = T0 + 16 * S
    rows: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)

    def comms(self) -> dict[str, Members]:
        """Members of each communicator."""
        everyone = tuple(range(self.ranks))
        if self.layout == "ring":
            return {"world": everyone}
        pipes = self.stages
        found: dict[str, Members] = {"world": everyone, "pp": everyone}
        for rank in everyone:
            found[f"tp{rank // 2}"] = (rank // 2 * 2, rank // 2 * 2 + 1)
            found[f"dp{rank % (2 * pipes)}"] = tuple(r for r in everyone if r % (2 * pipes) == rank % (2 * pipes))
        return {name: members for name, members in found.items() if len(members) > 1}

    @property
    def stages(self) -> int:
        """Stages of the pipeline."""
        return 4 if self.ranks == 16 else 2

    def program(self, rank: int, number: int) -> list[Call]:
        """What a rank does in one step of about a second."""
        if self.layout == "ring":
            calls = [self._work(rank, 500), Call("all_reduce", "world"), Call("all_reduce", "world", 8192, waits=False),
                     self._work(rank, 300), Call("wait"), Call("reduce_scatter", "world", 65536)]  # fmt: skip
        else:
            calls = self._in_pipeline(rank)
        return [Call("begin"), *self.changes(rank, number, calls), Call("end"), self._work(rank, 5)]

    def _in_pipeline(self, rank: int) -> list[Call]:
        stage, pair = rank // 2 % self.stages, f"tp{rank // 2}"
        before, after = (rank - 2 if stage else -1), (rank + 2 if stage < self.stages - 1 else -1)
        calls: list[Call] = []
        for source, target in ((before, after), (before, after), (after, before), (after, before)):
            calls += [Call("recv", "pp", 1024, source)] if source >= 0 else []
            calls += [self._work(rank, 60), Call("all_reduce", pair)]
            calls += [Call("send", "pp", 1024, target)] if target >= 0 else []
        own = f"dp{rank % (2 * self.stages)}"
        if own in self.comms():
            calls += [Call("reduce_scatter", own, 65536, waits=False), self._work(rank, 40), Call("wait"),
                      Call("all_gather", own, 32768)]  # fmt: skip
        return [*calls, Call("all_reduce", "world", 4)]

    def _work(self, rank: int, ms: int) -> Call:
        return Call("work", ns=(ms + rank) * MS)

    # --- the run ----------------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, pa.Table]:
        """What its ranks told."""
        _Run(self).go()
        given = {"step": self.steps, "collective": self.rows, "event": self.events, "symptom": []}
        given["relation"] = relations(T0 - 600 * S, ranks=self.ranks)
        return {name: table(name, rows) for name, rows in given.items()}

    def comm_name(self, comm: str) -> str:
        """As rows tell it."""
        return f"{JOB}/0x{comm}"


class _Run:
    def __init__(self, job: Cluster) -> None:
        self.job = job
        self.comms = job.comms()
        self.now = dict.fromkeys(range(job.ranks), T0 - STEPS * S)
        self.todo = {rank: self._calls(rank) for rank in self.now}
        self.next: dict[int, Call | None] = {rank: next(self.todo[rank]) for rank in self.now}
        self.seq: dict[tuple[int, str, str], int] = defaultdict(int)
        self.came: dict[tuple[str, int], dict[int, tuple[int, Call]]] = defaultdict(dict)
        self.sent: dict[tuple[int, int, int], int] = {}
        self.open: dict[int, tuple[Any, int]] = {}  # rank -> what it is in, since when
        self.async_: dict[int, list[tuple[Any, int]]] = defaultdict(list)
        self.began = dict.fromkeys(self.now, 0)
        self.made: list[tuple[int, Call, int, int, Any]] = []  # rank, call, number, entry, key
        self.pairs: dict[tuple[str, int, int], int] = defaultdict(int)

    def _calls(self, rank: int) -> Iterator[Call]:
        number = 0
        while True:
            yield from self.job.program(rank, number)
            number += 1

    def go(self) -> None:
        moved = True
        while moved:
            moved = False
            for rank in self.now:
                while self._advance(rank):
                    moved = True
        for rank, call, seq, entered, key in self.made:
            self._tell(rank, call, seq, entered, self._end(key, rank))

    def _end(self, key: Any, rank: int) -> int | None:
        """When something ends on a rank; None: never, or not yet known."""
        if key[0] == "coll":
            _, comm, seq = key
            came = self.came[comm, seq]
            if len(came) < len(self.comms[comm]) or len({(c.what, c.bytes) for _, c in came.values()}) > 1:
                return None
            end, across = max(at for at, _ in came.values()) + TOOK + rank * 10_000, self.comms[comm]
        else:
            _, src, dst, number = key
            if (src, dst, number) not in self.sent:
                return None
            end, across = self.sent[src, dst, number] + 3 * MS, (src, dst)
        if any(end >= self.job.cut_ns.get(each, end + 1) for each in across):
            return None
        return end

    def _advance(self, rank: int) -> bool:
        stop = min(self.job.stops_ns.get(rank, self.job.until_ns), self.job.until_ns)
        if self.now[rank] >= stop:
            return False
        call = self.next[rank]
        assert call is not None
        if rank in self.open:
            key, since = self.open[rank]
            end = self._end(key, rank)
            if end is None or end >= stop:
                return False
            self.now[rank] = max(end, since + MS)
            del self.open[rank]
        elif call.what == "work":
            times = self.job.slow.get(rank, 1.0) if self.now[rank] >= T0 else 1.0
            self.now[rank] += round(call.ns * times)
            if self.now[rank] >= min(stop, self.job.hangs_ns.get(rank, stop)):
                self.now[rank] = stop
                return False
        elif call.what == "begin":
            self.began[rank] = self.now[rank]
        elif call.what == "end":
            length = self.now[rank] - self.began[rank]
            self.job.steps.append(step(rank, 0, self.began[rank], length))
        elif call.what == "wait":
            ends = [self._end(key, rank) for key, _ in self.async_[rank]]
            known = [end for end in ends if end is not None]
            if len(known) < len(ends) or max(known, default=0) >= stop:
                return False
            self.now[rank] = max([self.now[rank], *known])
            self.async_[rank] = []
        else:
            key, seq = self._enter(rank, call)
            self.made.append((rank, call, seq, self.now[rank], key))
            if call.what == "send":
                pass  # its bytes are taken
            elif call.waits:
                self.open[rank] = (key, self.now[rank])
                return True
            else:
                self.async_[rank].append((key, self.now[rank]))
        self.next[rank] = next(self.todo[rank])
        return True

    def _enter(self, rank: int, call: Call) -> tuple[Any, int]:
        at = self.now[rank]
        pairwise = call.what in ("send", "recv")
        place = (rank, call.comm, call.what if pairwise else "")
        seq = self.seq[place]
        self.seq[place] += 1
        if not pairwise:
            self.came[call.comm, seq][rank] = (at, call)
            return ("coll", call.comm, seq), seq
        src, dst = (rank, call.peer) if call.what == "send" else (call.peer, rank)
        number = self.pairs[call.what, src, dst]
        self.pairs[call.what, src, dst] += 1
        if call.what == "send":
            self.sent[src, dst, number] = at
        return ("pair", src, dst, number), seq

    def _tell(self, rank: int, call: Call, seq: int, entered: int, end: int | None) -> None:
        job = self.job
        if entered >= job.until_ns:
            return
        more = {"comm": job.comm_name(call.comm), "ranks": len(self.comms[call.comm]), "op": call.what,
                "bytes": call.bytes}  # fmt: skip
        job.rows.append({**collective(rank, seq, entered, entered, **more), "finished_ns": None, "state": "enqueued"})
        stop = job.stops_ns.get(rank, job.until_ns)
        end = None if end is None else max(end, entered + MS)  # what was sent before is there at once
        failed = None if job.gives_up_ns is None or rank in job.stops_ns else entered + job.gives_up_ns
        failed = failed if entered >= job.patient_until_ns else None
        if failed is not None and (end is None or end > failed) and failed < job.until_ns:
            job.rows.append(collective(rank, seq, entered, failed, **more, state="failed"))
            job.events.append(event(failed + (200 + rank) * MS, rank, "process-exit", "error", "exit/1"))
        elif end is not None and end < stop:
            job.rows.append(collective(rank, seq, entered, end, **more))


def judged(given: dict[str, pa.Table], from_s: float, to_s: float) -> list[Row]:
    """All symptoms that windows of 2 s tell one after the other, each as its newest window has it."""
    rows: dict[tuple[str, int], Row] = {}
    at = from_s
    while at < to_s:
        at += 2
        known = table("symptom", [_kept(row) for row in rows.values()])
        for row in told(stalls, {**given, "symptom": known}, window(at, 2)):
            rows[row["symptom"], row["start_ns"]] = row
    return list(rows.values())


def _kept(row: Row) -> Row:
    return {**row, "blamed": json.dumps(row["blamed"]), "evidence": json.dumps(row["evidence"]), "analysis": "stalls"}
