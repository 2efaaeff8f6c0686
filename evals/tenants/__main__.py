"""What one tenant can read of another, and what he can make the server say of him; both must be nothing.

    python -m evals.tenants [--seed 1] [--questions 3000] [--rows 3000] [--only leaks] [--quick] [--json]

    a recorded run ──> acme, bob, provider ──> server `with`     all three
                                          └──> server `without`  bob and the provider only
    leaks    every route, table, bundle and random SQL, asked as bob and as nobody: an answer that holds a word or a
             number of acme's that was not in the question, or that is another on the other server, is a leak
    forged   bob sends rows about acme's jobs, ranks, hosts and flows by every way in, and marks; judged again, the
             verdicts of acme and the provider must be what they were

Real `leadline up` with a token file, on free ports and stores of their own, which are removed. Verdicts are those that
the runner concludes from what a server has stored, judged apart from it and brought in: twice the same, on any machine.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from bench.figures import Figure, conditions, tell

from evals.tenants.forged import WATCHED, Forged, forged
from evals.tenants.leaks import Leaks, leaks
from evals.tenants.place import Server, both, secrets_of
from evals.tenants.scene import ACME, BOB, PROVIDER, TENANTS, Scene, scene_of
from evals.tenants.verdicts import changed, verdicts
from leadline.lab import incidents
from leadline.model.errors import LeadlineError
from leadline.model.tables import BY_NAME
from leadline.store.bundle import read_bundle

RECORDING = Path(incidents.__file__).parent / "neighbour-congestion.leadline"
READ = ("series", "metric_sample", "event", "step", "collective", "flow_sample", "relation")
MINUTE_NS = 60 * 10**9
SKIPPED_NS = 18 * 10**9
QUICK = 120  # questions and rows
SHOWN = 20  # of each kind


def scene(ends_ns: int) -> Scene:
    """The recording as three tenants' rows that end at a time."""
    with read_bundle(RECORDING) as bundle:
        # The job runs from 20 s on; the neighbour's traffic is there from 53 s to 93 s.
        span = bundle.manifest.from_ns + SKIPPED_NS, bundle.manifest.to_ns
        return scene_of({name: bundle.rows(BY_NAME[name]) for name in READ}, span, ends_ns)


def run(directory: Path, given: argparse.Namespace) -> tuple[Leaks | None, Forged | None]:
    """Both servers, filled and judged, then what was asked for."""
    tokens = directory / "private" / "tokens.json"
    secrets = secrets_of(tokens)
    with Server(directory, "with", tokens, secrets) as one, Server(directory, "without", tokens, secrets) as other:
        one.spawn()
        other.spawn()
        # At the same place of its minute each time, so that windows cut it in the same places.
        played = scene(time.time_ns() // MINUTE_NS * MINUTE_NS - 5 * 10**9)
        span = played.from_ns, played.to_ns
        both(one.wait_ready, other.wait_ready)
        _told(f"rows and samples: {one.play(played, TENANTS)}, without acme: {other.play(played, (BOB, PROVIDER))}")
        judged = one.judged(span)
        before = verdicts(judged, WATCHED)
        _told(f"judged: { ({name: len(rows) for name, rows in before.items()}) } of acme and the provider")
        read = None
        if given.only in ("", "leaks"):
            one.bring(judged)
            other.bring({name: rows.filter(pc.not_equal(rows["tenant"], ACME)) for name, rows in judged.items()})
            read = leaks(one, other, span, given.seed, given.questions, _told)
            # What one shares with others (a link, a host) is judged with what others did there: told, not counted.
            read.influenced = changed(verdicts(judged, [BOB]), verdicts(other.judged(span), [BOB]))
            before = verdicts(one.judged(span), WATCHED)  # acme has sent more since
        other.stop()
        wrote = forged(one, played, before, given.seed, given.rows, _told) if given.only in ("", "forged") else None
    return read, wrote


def _told(text: str) -> None:
    print(f"evals.tenants: {text}", file=sys.stderr, flush=True)


def figures(read: Leaks | None, wrote: Forged | None) -> list[Figure]:
    """Of a run; what was not asked for has no figure."""
    out = []
    if read is not None:
        out += [
            Figure("leaks", float(len(read.found)), "1", 0.0, "lower"),
            Figure("questions", float(sum(read.asked.values())), "1"),
            Figure("answered_200", float(sum(read.reached.values())), "1"),
            Figure("routes", float(len(read.asked)), "1"),
            Figure("routes_not_reached", float(len(read.not_reached())), "1", None, "lower"),
            Figure("unsteady", float(len(read.unsteady)), "1", None, "lower"),
            Figure("verdicts_influenced", float(len(read.influenced)), "1", None, "lower"),
        ]
    if wrote is not None:
        out += [
            Figure("forged", float(len(wrote.changes)), "1", 0.0, "lower"),
            Figure("rows_sent", float(sum(wrote.sent.values())), "1"),
            Figure("rows_taken", float(sum(wrote.taken.values())), "1"),
            Figure("verdicts_watched", float(wrote.watched), "1"),
        ]
    return out


def details(read: Leaks | None, wrote: Forged | None) -> dict[str, Any]:
    """What stands behind the figures."""
    out: dict[str, Any] = {}
    if read is not None:
        out |= {
            "found": read.found[:SHOWN],
            "not_reached": read.not_reached(),
            "asked": dict(read.asked),
            "reached": dict(read.reached),
            "unsteady": read.unsteady[:SHOWN],
            "without_rows_of_acme": read.empty,
            "influenced": [
                f"{table} {how} {row.get('entity') or row.get('job')}" for table, how, row in read.influenced
            ],
        }
    if wrote is not None:
        out |= {
            "changes": wrote.shown(SHOWN),
            "by_table": wrote.by_table(),
            "sent": dict(wrote.sent),
            "taken": dict(wrote.taken),
            "refused": dict(wrote.refused),
        }
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and tell. Exit code 2 if nothing could be run, 0 whatever the figures are."""
    given = _parser().parse_args(arguments)
    if given.quick:
        given.questions, given.rows = QUICK, QUICK
    began = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up after itself then, too
    try:
        with contextlib.ExitStack() as stack:
            kept = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leadline-tenants-")))
            read, wrote = run(kept, given)
    except (LeadlineError, OSError) as error:
        print(f"evals.tenants: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    more = details(read, wrote)
    if not given.json:
        for name, rows in more.items():
            print(f"{name}: {rows}")
    taken = conditions(given.seed, minutes=round((time.monotonic() - began) / 60, 1), **(more if given.json else {}))
    tell("evals.tenants", taken, figures(read, wrote), given.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evals.tenants", description="Tenants beside each other; nothing may pass.")
    parser.add_argument("--seed", type=int, default=1, help="which questions and rows")
    parser.add_argument("--questions", type=int, default=3000, help="of bob and of nobody, to both servers")
    parser.add_argument("--rows", type=int, default=3000, help="that bob sends about others")
    parser.add_argument("--only", choices=("", "leaks", "forged"), default="", help="one of the two")
    parser.add_argument("--keep", type=Path, help="a new directory for everything, instead of one that is removed")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} questions, {QUICK} rows")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return parser


if __name__ == "__main__":
    sys.exit(main())
