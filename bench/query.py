"""Queries: Leadline, Prometheus and VictoriaMetrics with the same data, asked the same in turn.

    python -m bench.query [--json] [--rounds 15] [--quick] [--hosts 250] [--only queries|written]

All three run at once and hold the same (`query_parts.data`): an hour of a fleet at 15 s, 20,000 streams, and a day of
one GPU at a minute. In each round every question (`query_parts.questions`) goes to one system after the other, whoever
begins changing; an answer counts when all of its body is here, as JSON. Answers of each round are compared: one
that differs from the others', a refusal or a failure ends the bench with exit code 1.

    ratio_QUERY_PEER     median of the peer's times over the median of ours: above 1 we are faster
    ms_QUERY             our median
    api_written_p95_ms   95th percentile of all openings of all views while a fleet sends (`query_parts.written`)
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.figures import Figure, conditions, tell
from bench.ingest_parts.measure import wait_for_rest
from bench.peers import NotInstalledError, leadline, prometheus, victoriametrics
from bench.query_parts.data import Data, load, make_data
from bench.query_parts.questions import Asker, Question, differences, questions
from bench.query_parts.written import Fleet, p95, views_written
from bench.remote_write_bodies import HOST_STREAMS

PEERS = ("prometheus", "victoriametrics")
SINGLE, SINGLE_MS, WRITTEN_MS = "single_series", 50.0, 100.0
WARM = 2  # rounds before those that count: caches of files and of plans fill, connections open
REST_S_MAX = 120.0  # ours judges the hour that came at once; idle, it is seldom below REST_SHARE for REST_S
Times = dict[str, dict[str, list[float]]]  # question -> system -> seconds of each round


def main() -> int:
    """Run the benchmark and print its figures; 1 if a round failed."""
    options = _options()
    parts = (options.only,) if options.only else ("queries", "written")
    fleet = Fleet(options.fleet_hosts, options.fleet_warm, options.fleet_seconds)
    if options.quick:
        fleet = replace(fleet, late_ms_max=None)  # it is to run, on a busy machine too
    taken_under = conditions(
        options.seed, hosts=options.hosts, series=options.hosts * HOST_STREAMS, rounds=options.rounds,
        fleet_hosts=fleet.hosts, fleet_seconds=fleet.seconds, seen="lab",
    )  # fmt: skip
    found: list[Figure] = []
    try:
        if "queries" in parts:
            data = make_data(options.hosts, time.time_ns(), options.seed)
            found += figures(asked(data, options.rounds, settle=not options.quick))
        if "written" in parts:
            views = views_written(fleet, options.seed)
            print(json.dumps({"ms_p95_by_view": {view: round(p95({view: each})) for view, each in views.items()}}),
                  file=sys.stderr, flush=True)  # fmt: skip
            found.append(Figure("api_written_p95_ms", p95(views), "ms", WRITTEN_MS, "lower"))
    except (RuntimeError, ValueError, OSError) as error:
        print(f"a round failed: {error}", file=sys.stderr)
        return 1
    tell("query", taken_under, found, as_json=options.json)
    return 0


def figures(times: Times) -> list[Figure]:
    """Ratios of medians, one that lacks its peer without a value; the single series has a target in ms instead."""
    found = []
    for name, by_system in times.items():
        ours = median(by_system["leadline"])
        single = name == SINGLE
        for peer in PEERS:
            ratio, target = f"ratio_{name}_{peer}", None if single else 1.0
            if peer not in by_system:
                found.append(Figure(ratio, None, "ratio", target, reason=f"{peer} is not installed"))
                continue
            theirs = median(by_system[peer])
            beside = {"of": f"{peer}, ms", "value": round(theirs * 1e3, 2)}
            found.append(Figure(ratio, theirs / ours, "ratio", target, anchor=beside))
        found.append(Figure(f"ms_{name}", ours * 1e3, "ms", SINGLE_MS if single else None, "lower"))
    return found


def asked(data: Data, rounds: int, *, settle: bool) -> Times:
    """Load all systems, then ask; `settle`: when they have come to rest, REST_S_MAX later at most.

    Errors: RuntimeError for a refusal or answers that differ.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leadline-bench-")))
        peers = [leadline(folder)]
        for make in (prometheus, victoriametrics):
            try:
                peers.append(make(folder))
            except NotInstalledError as error:
                print(error, file=sys.stderr, flush=True)
        for peer in peers:
            peer.start()
            stack.callback(peer.stop)
        for peer in peers:
            began = time.monotonic()
            load(peer, data)
            loaded_s = time.monotonic() - began
            if settle:
                wait_for_rest(peer, REST_S_MAX)
            if peer.name != "leadline":
                peer.settle()  # VictoriaMetrics shows what came in last only then; nobody's disk is looked at
            rested_s = time.monotonic() - began - loaded_s
            print(f"{peer.name}: {data.samples:,} samples in {loaded_s:.1f} s, at rest {rested_s:.1f} s later",
                  file=sys.stderr, flush=True)  # fmt: skip
        askers = [stack.enter_context(Asker(peer)) for peer in peers]
        return _rounds(askers, questions(data), rounds)


def _rounds(askers: list[Asker], asks: list[Question], rounds: int) -> Times:
    times: Times = {ask.name: {asker.peer.name: [] for asker in askers} for ask in asks}
    for place in range(WARM + rounds):
        turn = place % len(askers)
        for ask in asks:
            took = _round(askers[turn:] + askers[:turn], ask)
            if place >= WARM:
                for name, seconds in took.items():
                    times[ask.name][name].append(seconds)
    for name, by_system in times.items():
        told = {system: f"{median(each) * 1e3:.1f}" for system, each in by_system.items()}
        print(json.dumps({"question": name, "ms": told}), file=sys.stderr, flush=True)
    return times


def _round(askers: list[Asker], ask: Question) -> Mapping[str, float]:
    """One question to each; seconds of each. Errors: RuntimeError if the answers differ."""
    took, answers = {}, {}
    for asker in askers:
        took[asker.peer.name], body = asker.ask(ask)
        answers[asker.peer.name] = ask.answer(asker.peer, body)
    if why := differences(ask, answers):
        raise RuntimeError(why)
    return took


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="2 hosts, 1 round, no wait for rest, a fleet of 2 hosts")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--hosts", type=int, default=250, help=f"of {HOST_STREAMS} streams each")
    parser.add_argument("--fleet-hosts", type=int, default=32, help="of the fleet that writes while views are opened")
    parser.add_argument("--fleet-warm", type=int, default=60, help="seconds before views are opened")
    parser.add_argument("--fleet-seconds", type=int, default=60, help="seconds for which they are opened")
    parser.add_argument("--only", choices=("queries", "written"))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.hosts, options.rounds = 2, 1
        options.fleet_hosts, options.fleet_warm, options.fleet_seconds = 2, 2, 1
    return options


if __name__ == "__main__":
    sys.exit(main())
