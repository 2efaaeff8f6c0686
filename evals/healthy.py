"""Healthy jobs of a user, with the product as he gets it: real torchrun, agent and server with their defaults, HTTP.

    python -m evals.healthy [--minutes 30] [--seed 1] [--only TEXT] [--port N] [--keep DIR] [--json]

    incidents_of_jobs      incidents told of a job at any time of the run, also those that were withdrawn: all are false
    data_age_p99_s         of how old the data is, each second (`healthy_scores` says what that is), the 99th percentile
    telemetry_lost_named   of the agent's silences of 20 s and more that we made, those told as lost telemetry of it;
                           what is told without a silence counts against it

Jobs run one after the other; what runs and what is done to it is in `healthy_cases`. See docs/analyses/own-jobs.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from bench.figures import Figure, conditions, tell

from evals.jobs.healthy_cases import LINGER_S, Act, Case, programme
from evals.jobs.healthy_scores import LOST, Age, Silence, age_p99_s, ages, lost_named, lost_share, of_jobs, oldest_s
from evals.jobs.options import parser
from evals.jobs.place import MARKED, UNMARKED, Job, Place, wait_for_first_step
from evals.jobs.watching import Rank, Seen, Watching, first_cause
from leadline.model.errors import LeadlineError

S = 10**9
END_S_MAX = 180.0  # beyond what a job should take
ENDS = "SELECT job, rank, end_ns FROM step WHERE job = '{job}' ORDER BY end_ns"


@dataclass(slots=True)
class Run:
    """What happened."""

    cases: list[tuple[str, Case, int | None, float]] = field(default_factory=list)  # job, case, exit code, seconds
    silences: list[Silence] = field(default_factory=list)
    ends: dict[Rank, list[int]] = field(default_factory=dict)  # of steps as they are stored at the end, ns
    done: dict[Rank, int] = field(default_factory=dict)  # steps that each rank made, by its own word
    seen: list[Seen] = field(default_factory=list)
    ages: list[Age] = field(default_factory=list)
    symptoms: list[str] = field(default_factory=list)  # of jobs, in words; not every one becomes an incident


def run(place: Place, cases: Sequence[Case]) -> Run:
    """Run them all. Errors: LeadlineError if server or launcher fails."""
    found = Run()
    place.start_agent()
    with Watching(place) as watching:
        for number, case in enumerate(cases):
            print(f"{number + 1} of {len(cases)}: {case.name}", file=sys.stderr, flush=True)
            _one(place, f"own-{number + 1}-{case.name}", case, found)
        time.sleep(LINGER_S)
        found.ends = _ends(place, found)
    found.ages = ages(watching.newest, found.ends, found.silences)
    found.seen = _all_seen(place, watching)
    found.symptoms = _symptoms(place)
    return found


def _one(place: Place, name: str, case: Case, found: Run) -> None:
    began = time.monotonic()
    launched_ns = time.time_ns()
    if any(act.what == "agent-late" for act in case.acts):
        place.stop_agent()
    job = place.torchrun(name, case.ranks, MARKED if case.marked else UNMARKED, case.options)
    try:
        first = wait_for_first_step(job)
        for act in case.acts:
            time.sleep(max(0.0, first + act.at_s - time.monotonic()))
            silence = _do(act, place, job)
            if silence and act.what == "agent-late":
                silence = replace(silence, from_ns=launched_ns)
            if silence:
                found.silences.append(silence)
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.process.wait(case.takes_s + END_S_MAX)
    finally:
        code = job.process.poll()
        job.end()
    time.sleep(LINGER_S)
    found.cases.append((name, case, code, time.monotonic() - began))
    found.done.update({(name, rank): len(job.steps(rank)) for rank in range(case.ranks)})
    if code != 0:
        print(f"{name} ended with {code}: {job.said()[-800:]}", file=sys.stderr)


def _do(act: Act, place: Place, job: Job) -> Silence | None:
    """Do it, to its end; the silence that it made."""
    from_ns = time.time_ns()
    match act.what:
        case "agent-term" | "agent-kill" | "agent-late":
            place.stop_agent(signal.SIGKILL if act.what == "agent-kill" else signal.SIGTERM)
            time.sleep(act.seconds)
            place.start_agent()
        case "server-term":
            place.stop_server()
            time.sleep(act.seconds)
            place.start_server()
        case "cut":
            place.relay.cut()
            time.sleep(act.seconds)
            place.relay.mend()
        case "debugger":
            double = (sys.executable, "-m", "evals.jobs.debugger_double", str(job.pids()[1]), str(act.seconds))
            subprocess.run(double, check=True)
            return None
        case "breakpoint":
            time.sleep(act.seconds)
            assert job.process.stdin is not None
            job.process.stdin.write(b"c\n")
            job.process.stdin.flush()
            return None
        case _:
            raise AssertionError(act.what)
    sender = "" if act.what == "server-term" else socket.gethostname()
    return Silence(act.what, from_ns, time.time_ns(), sender, asked=act.what != "agent-late")


def _ends(place: Place, found: Run) -> dict[Rank, list[int]]:
    out: dict[Rank, list[int]] = {}
    for job, *_ in found.cases:
        for row in place.sql(ENDS.format(job=job)):
            out.setdefault((row["job"], int(row["rank"])), []).append(int(row["end_ns"]))
    return out


def _symptoms(place: Place) -> list[str]:
    rows = place.sql("SELECT job, symptom, blamed, evidence FROM symptom WHERE job != '' ORDER BY start_ns")
    out = []
    for row in rows:
        if row["symptom"] != LOST:
            texts = [each.get("text", "") for each in json.loads(row["evidence"] or "[]")[:1]]
            owners = [each["owner"] for each in json.loads(row["blamed"] or "[]")[:2]]
            out.append(f"{row['job']} {row['symptom']}: {'; '.join(texts)}, blames {owners}")
    return out


def _all_seen(place: Place, watching: Watching) -> list[Seen]:
    """Incidents that were seen, and those of the table that nobody saw because they were withdrawn within a second."""
    known = dict(watching.seen)
    rows: list[dict[str, Any]] = []
    with contextlib.suppress(httpx.HTTPError):
        rows = place.sql("SELECT DISTINCT incident, entity, job, jobs, symptom, verdict FROM incident")
    for row in rows:
        now_ns = time.time_ns()
        known.setdefault(row["incident"], Seen(row["incident"], now_ns, now_ns, row))
    return list(known.values())


# --- told ---------------------------------------------------------------------------------------------------------


def figures(found: Run) -> list[Figure]:
    """Of a run."""
    named, unnamed, unasked = lost_named(found.silences, found.seen)
    stored = sum(min(len(found.ends.get(rank, ())), count) for rank, count in found.done.items())
    done = sum(found.done.values())
    return [
        Figure("incidents_of_jobs", float(len(of_jobs(found.seen))), "1", 0.0, "lower"),
        Figure("data_age_p99_s", age_p99_s(found.ages), "s", 3.0, "lower",
               reason=None if found.ages else "no step was stored while a job ran"),
        Figure("telemetry_lost_named", lost_share(named, unnamed, unasked), "ratio", 1.0,
               reason=None if named or unnamed or unasked else "nothing was kept from the server for 20 s"),
        Figure("data_age_max_s", max((each.age_s for each in found.ages), default=None), "s", None, "lower"),
        Figure("symptoms_of_jobs", float(len(found.symptoms)), "1", None, "lower"),
        Figure("steps_stored", stored / done if done else None, "ratio"),
        Figure("jobs", float(len(found.cases)), "1"),
        Figure("jobs_failed", float(sum(code != 0 for _, _, code, _ in found.cases)), "1", 0.0, "lower"),
        Figure("minutes", sum(seconds for *_, seconds in found.cases) / 60, "min"),
    ]  # fmt: skip


def details(found: Run) -> dict[str, Any]:
    """What stands behind the figures."""
    false = [
        {"incident": each.incident, "jobs": each.jobs, "symptom": each.row.get("symptom"),
         "causes": [cause[1:] for cause in each.causes] or [first_cause(each.row)]}
        for each in of_jobs(found.seen)
    ]  # fmt: skip
    _, unnamed, unasked = lost_named(found.silences, found.seen)
    return {
        "ran": [{"job": job, "exit": code, "seconds": round(seconds)} for job, _, code, seconds in found.cases],
        "oldest_s": oldest_s(found.ages),
        "false": false,
        "symptoms": found.symptoms,
        "not_named": [each.what for each in unnamed],
        "named_without": [each.incident for each in unasked],
        "steps_missing": {
            f"{job}/{rank}": count - len(found.ends.get((job, rank), ()))
            for (job, rank), count in found.done.items()
            if count > len(found.ends.get((job, rank), ())) + 1  # the hook's last step ends with the next
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and tell. Exit code 2 if nothing could be run, 0 whatever the figures are."""
    given = _parser().parse_args(arguments)
    try:
        cases = programme(1.0 if given.quick else given.minutes, given.seed, given.only)
        if not cases:
            raise LeadlineError(f"--only: no case has {given.only!r} in its name")
        with contextlib.ExitStack() as stack:
            kept = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leadline-healthy-")))
            found = run(stack.enter_context(Place(kept, given.port)), cases)
    except (LeadlineError, OSError) as error:
        print(f"evals.healthy: {error}", file=sys.stderr)
        return 2
    more = details(found)
    if not given.json:
        for name, rows in more.items():
            print(f"{name}: {rows}")
    tell("evals.healthy", conditions(given.seed, **(more if given.json else {})), figures(found), given.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    found = parser(
        "evals.healthy",
        "Healthy jobs of a user; all told is false.",
        "which jobs, in which order",
        "cases with this in their name, once each",
    )
    found.add_argument("--minutes", type=float, default=30.0, help="how long all jobs together run, about")
    return found


if __name__ == "__main__":
    sys.exit(main())
