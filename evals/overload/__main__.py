"""More than the machine can take, and a store that does not answer: what is told, counted and lost, and how soon it is
over.

    python -m evals.overload [--case load stall merges] [--hosts 16] [--times 10] [--minutes 10] [--quick]

The fleet of `bench.live` is sent to a `leadline up` with default settings at its real pace, beside senders of rows that
count what was acknowledged to them. After a minute, in which the server's CPU is measured:

    load     the server gets one part in `--times` of that CPU, for `--minutes`; then the fleet ends
    stall    nothing that the engine asks of its disk returns, for `--stall` seconds; the fleet goes on for a minute
    merges   the same of its merges alone, for `--merges` seconds: rows are stored, and parts pile up

    acknowledged_lost      rows that senders were told are stored, and that a user does not find afterwards
    causes_lag_s           how late verdicts of causes were at the end of it, beyond window and grace
    refinements_lag_s      the same of all other analyses: they may be later, causes come first
    untold                 1 if it was behind by more than 30 s and `leadline doctor` did not say so, or did not answer
    doctor_s               seconds until `leadline doctor` was answered, asked a minute (10 s) before the end
    past_windows           windows of the past that were left to judge at its end: now goes before them
    uncounted              requests refused, and datagrams of sFlow not taken, beyond those that counters tell of
    rest_s                 seconds from its end until no rows wait and verdicts are at most 5 s late: those of
                           causes (stall, merges: the fleet goes on), or all (load)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import Figure, conditions, tell
from bench.live import ENCODE_HOST_S, ENCODE_S, configured, encoded, sending
from bench.peers import Peer

from evals.disk_faults.control import Control, Fault, Stage, built
from evals.disk_faults.sending import Senders
from evals.overload.seeing import Seeing, findings, select
from evals.overload.slowed import slowed
from leadline.model.errors import LeadlineError, WorldError

S = 10**9
CASES = ("load", "stall", "merges")
WARM_S, AFTER_S = 60, 60
QUICK_WARM_S, QUICK_S = 20, 20  # long enough for windows of all analyses of causes
LATE_S = 30.0  # told where it is more
REST_LATE_S, REST_LOOK_S, REST_S_MAX = 5.0, 5.0, 300.0
# Before its end `doctor` is asked, and waited for that long: the command itself waits for minutes.
ASK_S = {"load": 60.0, "stall": 10.0, "merges": 10.0}
LAST_S = 30.0  # of the fault, in which the lag at its end is seen
WORDS = (
    "behind",
    "late",
    "slow",
    "does not answer",
    "full",
    "waits",
    "has not answered",
)  # of findings that say it; no answer says nothing


@dataclass
class Seen:
    """What was seen of one case."""

    case: str
    cores: float = 0.0  # before
    lost: int = 0
    doubled: int = 0
    acknowledged: int = 0
    refused: int = 0  # requests of the senders that count
    datagrams: float = 0.0  # of sFlow, that were decoded
    causes_lag_s: float | None = None  # None: the server told none in the last of it
    refinements_lag_s: float | None = None
    doctor_s: float = 0.0
    rest_s: float = 0.0
    past: float = 0.0  # windows
    unanswered: int = 0
    said: list[str] = field(default_factory=list)
    counted: dict[str, float] = field(default_factory=dict)
    sent: dict[str, Any] = field(default_factory=dict)

    @property
    def untold(self) -> bool:
        """Whether it was behind and nobody was told."""
        lags_s = [each for each in (self.causes_lag_s, self.refinements_lag_s) if each is not None]
        late_s = max(lags_s, default=math.inf)
        return late_s > LATE_S and not any(word in text for text in self.said for word in WORDS)

    @property
    def uncounted(self) -> int:
        """Refusals and lost datagrams that no counter tells of. A request that nobody answered may have been taken."""
        refused: float = self.refused + sum(
            times for told, times in self.sent["status"].items() if int(told.split()[-1]) >= 300
        )
        told = sum(self.told_of(name) for name in ("ingest_refused ", "connection_closed "))
        told -= self.told_of("connection_closed idle")
        datagrams: float = (
            self.sent["datagrams"] - self.datagrams - self.told_of("sflow_lost kernel", "sflow_lost queue")
        )
        return round(max(0.0, refused - told) + max(0.0, datagrams))

    def told_of(self, *begins: str) -> float:
        """What counters grew whose name and reason begin so."""
        return sum(amount for name, amount in self.counted.items() if name.startswith(begins))


class _Asked:
    """A server as `Senders` asks it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def sql(self, query: str) -> list[dict[str, Any]] | None:
        return select(self._url, query)


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--times", type=float, default=10.0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--stall", type=float, default=30.0, help="seconds")
    parser.add_argument("--merges", type=float, default=180.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="twenty seconds of each, of two hosts")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.quick:
        asked.hosts, asked.minutes, asked.stall, asked.merges = 2, QUICK_S / 60, QUICK_S, QUICK_S
    taken_under = conditions(asked.seed, hosts=asked.hosts, times=asked.times, minutes=asked.minutes, stall=asked.stall,
                             merges=asked.merges, seen="simulated")  # fmt: skip
    found: list[Figure] = []
    try:
        for case in asked.case:
            seen = run(case, asked)
            print(json.dumps(vars(seen)), file=sys.stderr, flush=True)
            found += figures(seen)
    except LeadlineError as error:
        print(f"evals.overload: {error}", file=sys.stderr)
        return 1
    tell("overload", taken_under, found, asked.json)
    return 0


def figures(seen: Seen) -> list[Figure]:
    """The figures of one case."""
    return [
        Figure(f"acknowledged_lost_{seen.case}", seen.lost, "rows", 0.0, "lower"),
        Figure(f"causes_lag_s_{seen.case}", seen.causes_lag_s, "s", better="lower", reason=_why(seen.causes_lag_s)),
        Figure(
            f"refinements_lag_s_{seen.case}",
            seen.refinements_lag_s,
            "s",
            better="lower",
            reason=_why(seen.refinements_lag_s),
        ),
        Figure(f"untold_{seen.case}", float(seen.untold), "cases", 0.0, "lower"),
        Figure(f"doctor_s_{seen.case}", seen.doctor_s, "s", 10.0, "lower"),
        Figure(f"past_windows_{seen.case}", seen.past, "windows", better="lower"),
        Figure(f"uncounted_{seen.case}", seen.uncounted, "requests", 0.0, "lower"),
        Figure(f"rest_s_{seen.case}", seen.rest_s, "s", 60.0, "lower"),
    ]


def _why(lag_s: float | None) -> str | None:
    return "the server did not answer in time" if lag_s is None else None


def run(case: str, asked: argparse.Namespace) -> Seen:
    """One case. Errors: WorldError if the fleet's bodies were not made in time, or the library has no compiler."""
    warm_s = QUICK_WARM_S if asked.quick else WARM_S
    fault_s = {"load": asked.minutes * 60, "stall": asked.stall, "merges": asked.merges}[case]
    after_s = 0 if case == "load" else warm_s
    with tempfile.TemporaryDirectory(prefix="leadline-overload-") as name:
        folder = Path(name)
        start_ns = time.time_ns() + round((ENCODE_S + ENCODE_HOST_S * asked.hosts * (1 + fault_s / 180)) * S)
        told = encoded(folder, asked.hosts, round(warm_s + fault_s + after_s), start_ns, asked.seed)
        if told is None:
            raise WorldError("what the fleet sends was not encoded in time: is the machine busy?")
        server, ports = configured(folder, told)
        control = Control(built(folder), server.data, folder / "control") if case != "load" else None
        if control is not None:
            server.data.mkdir(parents=True, exist_ok=True)
            server.environ |= control.environ
        server.start()
        try:
            sender = sending(folder, server, ports)
            try:
                seen = Seen(case)
                time.sleep(max(0.0, (start_ns - time.time_ns()) / 1e9))
                _watched(seen, server, control, warm_s, fault_s, asked.times)
                out, _ = sender.communicate(timeout=REST_S_MAX)
                seen.sent = json.loads(out)
            finally:
                sender.kill()
                sender.wait()
        finally:
            server.stop()
            if control is not None:
                control.close()
    return seen


def _watched(
    seen: Seen, server: Peer, control: Control | None, warm_s: float, fault_s: float, times: float
) -> None:  # fmt: skip
    counting, seeing = Senders(server.port, f"overload-{seen.case}"), Seeing(server.url)
    counting.start()
    try:
        time.sleep(warm_s / 2)  # what starts it is not what it takes
        before_s, began = server.cpu_s(), time.monotonic()
        time.sleep(warm_s / 2)
        seen.cores = (server.cpu_s() - before_s) / (time.monotonic() - began)
        seeing.start()
        with _fault(seen.case, server, control, fault_s, seen.cores / times):
            over = time.monotonic() + fault_s
            wait_s = min(ASK_S[seen.case], fault_s / 2)
            time.sleep(fault_s - wait_s)
            asked = time.monotonic()
            seen.said = [str(each["text"]) for each in findings(server.url, wait_s)]
            seen.doctor_s = time.monotonic() - asked
            time.sleep(max(0.0, over - time.monotonic()))
            seen.causes_lag_s = seeing.worst_lag_s(True, over - LAST_S, over)
            seen.refinements_lag_s = seeing.worst_lag_s(False, over - LAST_S, over)
            seen.past = seeing.past_windows()
        counting.stop()
        seen.rest_s = _late_until(seeing, over, all_of_them=control is None)
        seeing.stop()
        seeing.look()
        seen.unanswered, seen.counted = seeing.unanswered, seeing.counted()
        seen.datagrams = seeing.counts.get(("leadline_ingest_accepted_total", "datagrams"), 0.0)
        seen.acknowledged = counting.rows
        seen.refused = sum(times for status, times in counting.statuses.items() if status >= 300)
        seen.lost, seen.doubled = counting.missing_and_doubled(_Asked(server.url)) or (seen.acknowledged, 0)
    finally:
        counting.stop()
        seeing.stop()


@contextlib.contextmanager
def _fault(case: str, server: Peer, control: Control | None, seconds: float, cores: float) -> Iterator[None]:
    if control is None:
        with slowed(server.pids, cores):
            yield
        return
    control.arm(Stage.MERGE if case == "merges" else None, Fault.STALL, seconds=seconds)
    yield
    control.lift()
    if not control.made:
        raise WorldError("nothing was asked of the disk while it hung: this was no fault")


def _late_until(seeing: Seeing, over: float, *, all_of_them: bool) -> float:
    """Seconds from then on until no rows wait and verdicts of causes, or all, are not late; at most REST_S_MAX."""
    while (waited := time.monotonic() - over) < REST_S_MAX:
        now = time.monotonic()
        late_s = [
            seeing.worst_lag_s(causes, now - REST_LOOK_S, now) for causes in (True, False) if causes or all_of_them
        ]
        if all(each is not None and each < REST_LATE_S for each in late_s) and not seeing.waiting_rows():
            return waited
        time.sleep(1.0)
    return REST_S_MAX


if __name__ == "__main__":
    sys.exit(main())
