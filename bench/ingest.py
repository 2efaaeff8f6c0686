"""Remote-write over HTTP into Leadline, Prometheus and VictoriaMetrics: throughput, CPU, disk, memory.

The same bodies go to each system, which runs alone on the machine with an empty data directory; the systems take turns.
A round counts only if every sample can be read back, and one that fails fails the bench (exit code 1). Ratios are of
runs of the same round. Beside the others Leadline does what they do: it takes samples in and judges nothing
(`runner.enabled` is false). What judging adds is told apart, as `judged_cpu_us_per_sample`.

  main     2 M samples of 20,000 streams as fast as they are taken, as Prometheus' queue sends them when it catches up
           after an outage: 50 shards (it starts up to 200 then), each with its own streams as they were scraped
  churn    the same, and 5 % of the streams end each minute (of their own time: four scrapes), new ones in their place
  million  1,000,000 streams at 15 s for three minutes at that pace (`--pace fast`: as fast as they are taken)

CPU is that of all processes of a system, from the first body until it has come to rest; what it does minutes later (our
last merge of a partition at rest) is not in it, only in the disk, which is read when it has settled, in the last round.
Disk is what the samples take: the space that Leadline holds back for a full disk (a file of 128 MiB) is no part of it.

    python -m bench.ingest [--json] [--part main churn million] [--rounds 3] [--quick] [--only leadline]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.figures import Figure, conditions, tell
from bench.ingest_parts.measure import Run, Sending, measure
from bench.peers import NotInstalledError, Peer, leadline, prometheus, victoriametrics
from bench.remote_write_bodies import Load

GOALS = {
    "samples_per_second": 1_000_000.0,
    "cpu_ratio_victoriametrics": 2.0,
    "cpu_ratio_prometheus": 5.0,
    "disk_ratio_victoriametrics": 1.0,
    "churn_ratio_victoriametrics": 1.5,
    "million_series_mb_ratio_victoriametrics": 1.0,
    "peak_anonymous_mb": 1_500.0,
}
CHURN = 0.05  # of the streams, a minute
MILLION_STEPS = 12  # three minutes of 15 s
PARTS = ("main", "churn", "million")
MB = 1e6

Make = Callable[[Path], Peer]
JUDGED = "leadline_judged"
SYSTEMS: Mapping[str, Make] = {
    "leadline": partial(leadline, judging=False),
    "victoriametrics": victoriametrics,
    "prometheus": prometheus,
    JUDGED: leadline,
}
_OF_PART = {
    "main": tuple(SYSTEMS),
    "churn": ("leadline", "victoriametrics"),
    "million": ("leadline", "victoriametrics"),
}


@dataclass
class Outcome:
    """What became of one part: the runs of each system by round, why one was not measured, which rounds failed."""

    runs: dict[str, dict[int, Run]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def of(self, system: str) -> list[Run]:
        """Runs of a system, in the order of their rounds."""
        return list(self.runs.get(system, {}).values())

    def pairs(self, theirs: str) -> list[tuple[Run, Run]]:
        """(ours, theirs) of the rounds in which both were measured."""
        ours, other = self.runs.get("leadline", {}), self.runs.get(theirs, {})
        return [(run, other[number]) for number, run in ours.items() if number in other]

    def why_not(self, *systems: str) -> str:
        """Why a figure of these systems has no value."""
        known = [self.missing[system] for system in systems if system in self.missing]
        return known[0] if known else "no round in which it was measured"


def main() -> int:
    """Run the parts asked for and print their figures; 1 if a round failed."""
    options = _options()
    if not options.only or "leadline" in options.only:
        _compile()
    outcomes: dict[str, Outcome] = {}
    sent: dict[str, Load] = {}
    for part in options.part:
        sending = _sending(part, options)
        sent[part] = sending.load
        wanted = {
            name: SYSTEMS[name]
            for name in _OF_PART[part]
            if not options.only or name.removesuffix("_judged") in options.only
        }
        settle = part == "main" and not options.no_settle
        outcome = rounds(part, wanted, sending, options.rounds, rest=not options.no_settle, settle=settle)
        outcome.missing |= {name: "left out by --only" for name in _OF_PART[part] if name not in wanted}
        outcomes[part] = outcome
    taken_under = conditions(
        seed=options.seed,
        parts={
            part: {"series": load.series, "series_ever": load.series_ever, "samples": load.samples}
            for part, load in sent.items()
        },
        body_samples=options.body_samples,
        connections=options.connections,
        rounds=options.rounds,
        pace_million=options.pace,
        judging="off, but for judged_cpu_us_per_sample",
        bench_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB),
        seen="lab",
    )
    tell("ingest", taken_under, figures(outcomes), as_json=options.json)
    failed = [line for outcome in outcomes.values() for line in outcome.failed]
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def _compile() -> None:
    """Have our scanners compiled: while a first start does that, it sends senders away. Errors: CalledProcessError."""
    subprocess.run([sys.executable, "-m", "leadline.server.background.kernels"], stdout=sys.stderr, check=True)


def rounds(
    part: str, systems: Mapping[str, Make], sending: Sending, count: int, *, rest: bool = True, settle: bool = True
) -> Outcome:
    """`count` rounds, in each every system in turn; the disk settles in the last one only (12 minutes of ours).

    A system that is not installed is missing; whatever else goes wrong is a round that failed.
    """
    outcome = Outcome()
    for number in range(1, count + 1):
        for name, make in systems.items():
            with tempfile.TemporaryDirectory(prefix="leadline-bench-", ignore_cleanup_errors=True) as folder:
                try:
                    peer = make(Path(folder))
                except NotInstalledError as error:
                    outcome.missing[name] = str(error)
                    continue
                try:
                    last = settle and number == count and name != JUDGED
                    run = measure(peer, sending, rest=rest, settle=last)
                except Exception as error:
                    outcome.failed.append(f"{part}, round {number}, {name}: {type(error).__name__}: {error}")
                    print(outcome.failed[-1], file=sys.stderr, flush=True)
                    continue
            outcome.runs.setdefault(name, {})[number] = run
            print(f"{part}, round {number}, {run.told(name)}", file=sys.stderr, flush=True)
    return outcome


def figures(outcomes: Mapping[str, Outcome]) -> list[Figure]:
    """The named figures of the parts that ran; one that could not be taken has no value and says why."""
    found: list[Figure] = []
    if main_part := outcomes.get("main"):
        found += _main_figures(main_part)
    if churn := outcomes.get("churn"):
        found += [
            _ratio(churn, "churn_ratio_victoriametrics", "victoriametrics", lambda our, their: their.cpu_s / our.cpu_s),
            _own(churn, "churn_cpu_us_per_sample", "us", [run.cpu_us for run in churn.of("leadline")]),
        ]
    if million := outcomes.get("million"):
        memory = "million_series_mb_ratio_victoriametrics"
        cpu = "million_series_cpu_ratio_victoriametrics"
        found += [
            _ratio(
                million,
                memory,
                "victoriametrics",
                lambda our, their: our.anonymous_bytes / their.anonymous_bytes,
                better="lower",
            ),
            _own(million, "million_series_peak_mb", "MB", _peak_mb(million)),
            _ratio(million, cpu, "victoriametrics", lambda our, their: their.cpu_s / our.cpu_s),
        ]
    return found


def _main_figures(part: Outcome) -> list[Figure]:
    speeds = [run.samples / run.seconds for run in part.of("leadline")]
    found = [
        _own(part, "samples_per_second", "samples/s", speeds, better="higher"),
        _own(part, "peak_anonymous_mb", "MB", _peak_mb(part)),
        _own(part, "judged_cpu_us_per_sample", "us", [run.cpu_us for run in part.of(JUDGED)], system=JUDGED),
    ]
    for peer in ("victoriametrics", "prometheus"):
        found += [
            _ratio(part, f"cpu_ratio_{peer}", peer, lambda our, their: their.cpu_s / our.cpu_s),
            _ratio(part, f"speed_ratio_{peer}", peer, lambda our, their: their.seconds / our.seconds),
        ]
    settled = [
        our.settled_bytes / their.settled_bytes
        for our, their in part.pairs("victoriametrics")
        if our.settled_bytes is not None and their.settled_bytes is not None
    ]
    name = "disk_ratio_victoriametrics"
    reason = (
        "not settled (--no-settle)" if part.pairs("victoriametrics") else part.why_not("leadline", "victoriametrics")
    )
    return [*found, _figure(name, "ratio", settled, better="lower", reason=reason)]


def _peak_mb(part: Outcome) -> list[float]:
    """The largest of all rounds."""
    return [max(run.anonymous_bytes for run in runs) / MB] if (runs := part.of("leadline")) else []


def _own(
    part: Outcome, name: str, unit: str, values: Sequence[float], *, better: str = "lower", system: str = "leadline"
) -> Figure:
    return _figure(name, unit, values, better=better, reason=part.why_not(system))


def _ratio(part: Outcome, name: str, theirs: str, of: Callable[[Run, Run], float], *, better: str = "higher") -> Figure:
    values = [of(our, their) for our, their in part.pairs(theirs)]
    return _figure(name, "ratio", values, better=better, reason=part.why_not("leadline", theirs))


def _figure(name: str, unit: str, values: Sequence[float], *, better: str, reason: str) -> Figure:
    """The median of what was found; without any, the reason."""
    value = statistics.median(values) if values else None
    return Figure(name, value, unit, GOALS.get(name), better, reason=None if values else reason)


def _sending(part: str, options: argparse.Namespace) -> Sending:
    series = options.million_series if part == "million" else options.series
    steps = MILLION_STEPS if part == "million" else max(options.samples // series, 1)
    churn = CHURN if part == "churn" else 0.0
    load = Load(series, steps, options.body_samples, options.connections, options.seed, churn)
    began = time.monotonic()
    sending = Sending(load, streamed=part == "million", paced=part == "million" and options.pace == "real")
    print(f"{part}: bodies made in {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return sending


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), help="all of them if not given")
    parser.add_argument(
        "--quick", action="store_true", help="a twentieth of the samples and of the million, one round, pace fast"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--series", type=int, default=20_000, help="streams of main and churn")
    parser.add_argument("--samples", type=int, default=2_000_000, help="samples of main and churn")
    parser.add_argument("--million-series", type=int, default=1_000_000, help="streams of million")
    parser.add_argument("--pace", choices=("real", "fast"), default="real", help="of million")
    parser.add_argument("--body-samples", type=int, default=2_000, help="samples in one body")
    parser.add_argument("--connections", type=int, default=50, help="senders at once; Prometheus grows to 200")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--no-settle",
        action="store_true",
        help="wait for neither rest (1.5 minutes at most; CPU is that of sending then) nor disk (12 minutes)",
    )
    parser.add_argument("--only", nargs="*", help="leadline, victoriametrics, prometheus")
    options = parser.parse_args()
    if options.quick:
        options.samples, options.rounds, options.pace = max(options.samples // 20, 1), 1, "fast"
        options.million_series = max(options.million_series // 20, 1)
    return options


if __name__ == "__main__":
    sys.exit(main())
