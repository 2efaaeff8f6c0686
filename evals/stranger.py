"""Jobs of a user in each of which one thing is slowed, stopped or killed; with the product as he gets it.

    python -m evals.stranger [--cases 24] [--seed 1] [--only TEXT] [--port N] [--keep DIR] [--json]

    named_right   share of cases in which `leadline diagnose JOB` names in the end, first, what befell: entity and rule
    told_s_p95    from the first effect to the API telling that cause, 95th percentile; never told: how long we watched

What can befall and what is right for it: `stranger_cases`. The truth is in DIR/truth.ndjson before each job starts. See
docs/analyses/own-jobs.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.figures import Figure, conditions, tell

from evals.jobs.options import parser
from evals.jobs.place import MARKED, UNMARKED, Job, Place, wait_for_first_step
from evals.jobs.stranger_cases import Befall, befalls
from evals.jobs.stranger_scores import Score, false_before, named_first, named_share, slower, told_after_s, told_p95_s
from evals.jobs.watching import Watching
from leadline.lab.realise.cgroups import Cgroup
from leadline.model.errors import LeadlineError, WorldError

S = 10**9
WATCHED_S = 60.0  # what is not told then counts as not told
SETTLES_S = 6.0  # what was told must still stand so long after
EFFECT_S_MAX = 60.0  # a slow checkpoint waits for the next one
BURNERS = 3  # beside the rank on its core: it gets a quarter of it
LIMITED_CORES = 0.05
NICE = 5  # beside one burner: a quarter of its core, too
STEPS = 100_000  # no job ends by itself before it is watched to the end


def run(place: Place, cases: Sequence[Befall]) -> list[Score]:
    """Run them one after the other. A case that fails counts as not named."""
    host, scores = socket.gethostname(), []
    place.start_agent()
    with Watching(place) as watching, (place.directory / "truth.ndjson").open("a", buffering=1) as truth:
        for number, case in enumerate(cases):
            what = f"{case.ranks} ranks of {case.step_s:g} s, {'two lines' if case.marked else 'one line'}"
            print(f"{number + 1} of {len(cases)}: {case.kind.name}, {what}", file=sys.stderr, flush=True)
            truth.write(json.dumps(case.truth(host)) + "\n")
            try:
                scores.append(_one(place, case, watching, host))
            except WorldError as error:  # a job or an answer that did not come: the others are still worth their time
                print(f"  {error}", file=sys.stderr, flush=True)
                scores.append(Score(case.job, case.kind.name, False, None, WATCHED_S, ("", ""), 0))
            print(f"  {scores[-1]}", file=sys.stderr, flush=True)
    return scores


def _one(place: Place, case: Befall, watching: Watching, host: str) -> Score:
    when = place.directory / f"{case.job}.when"
    options = ["--step-s", str(case.step_s), "--steps", str(STEPS), "--busy", str(case.kind.busy), *case.kind.options]
    if case.program:
        options += ["--befalls", case.program, "--when", str(when)]
    job = place.torchrun(case.job, case.ranks, MARKED if case.marked else UNMARKED, options)
    try:
        time.sleep(max(0.0, wait_for_first_step(job) + case.at_s - time.monotonic()))
        with _befallen(case, job, when) as effect_ns:
            right = case.right(host)

            def told() -> float | None:
                return told_after_s(watching.of_job(case.job), right, effect_ns)

            _watch(told, effect_ns)
            watched_s = (time.time_ns() - effect_ns) / S
            first = named_first(place.diagnose(case.job), case.job)
            slow = slower([end_ns for _, end_ns in job.steps((case.rank + 1) % case.ranks)], effect_ns)
            before = false_before(watching.of_job(case.job), effect_ns)
            return Score(case.job, case.kind.name, first in right, told(), watched_s, first, before, slow)
    finally:
        job.end()


def _watch(told: Callable[[], float | None], effect_ns: int) -> None:
    """Until it was told and that has settled, or for WATCHED_S."""
    settled_ns = 0
    while time.time_ns() < effect_ns + WATCHED_S * S:
        if told() is not None:
            settled_ns = settled_ns or time.time_ns() + round(SETTLES_S * S)
            if time.time_ns() > settled_ns:
                return
        time.sleep(0.5)


# --- levers -------------------------------------------------------------------------------------------------------


@contextmanager
def _befallen(case: Befall, job: Job, when: Path) -> Iterator[int]:
    """It befalls the job for the time of a `with`; when its first effect was, ns."""
    pid = job.pids()[case.rank]
    if case.program:
        when.touch()
        yield _began(when)
    elif case.kind.name in ("stopped", "killed"):
        at_ns = time.time_ns()
        os.kill(pid, signal.SIGSTOP if case.kind.name == "stopped" else signal.SIGKILL)
        yield at_ns
    else:
        with {"burner": _burnt, "niced": _niced, "limited": _limited}[case.kind.name](case, pid):
            yield time.time_ns()


def _began(when: Path) -> int:
    """When the program says that it began. Errors: WorldError if it does not."""
    began = Path(f"{when}.began")
    end = time.monotonic() + EFFECT_S_MAX
    while not (began.exists() and began.read_text()):
        if time.monotonic() > end:
            raise WorldError(f"{when.name}: the program did not begin it within {EFFECT_S_MAX:.0f} s")
        time.sleep(0.02)
    return int(began.read_text())


@contextmanager
def _burnt(case: Befall, pid: int, burners: int = BURNERS) -> Iterator[None]:
    """Others compute on the core of the rank."""
    core = case.rank % (os.cpu_count() or 1)
    burn = (sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass")
    # In sessions of their own: the kernel shares cores between sessions first, if sched_autogroup is on.
    started = [subprocess.Popen(burn, start_new_session=True) for _ in range(burners)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


@contextmanager
def _niced(case: Befall, pid: int) -> Iterator[None]:
    """Somebody reniced the rank, and something else computes on its core."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), NICE)
    with contextlib.suppress(OSError):  # without sched_autogroup there is no such file
        Path(f"/proc/{pid}/autogroup").write_text(str(NICE))
    with _burnt(case, pid, burners=1):
        yield


@contextmanager
def _limited(case: Befall, pid: int) -> Iterator[None]:
    """The rank is put in a control group with little processor time."""
    group = Cgroup(f"leadline-own/{case.job}")
    if why := group.make():
        raise WorldError(f"no control group can be made: {why}")
    try:
        _join(group, pid)
        group.set_cpu_quota(LIMITED_CORES)
        yield
    finally:
        group.set_cpu_quota(None)
        with contextlib.suppress(ProcessLookupError):
            _join(Cgroup(""), pid)  # the topmost, or the group could not be removed; the job ends soon
        group.remove()
        Cgroup("leadline-own").remove()


def _join(group: Cgroup, pid: int) -> None:
    for entrance in group.entrances():
        Path(entrance).write_text(str(pid))


# --- told ---------------------------------------------------------------------------------------------------------


def figures(scores: Sequence[Score]) -> list[Figure]:
    """Of all cases, and of each kind."""
    return [
        Figure("named_right", named_share(scores), "ratio", 0.9),
        Figure("told_s_p95", told_p95_s(scores), "s", 15.0, "lower"),
        Figure("never_told", float(sum(each.told_s is None for each in scores)), "1", 0.0, "lower"),
        Figure("false_before", float(sum(each.before for each in scores)), "1", 0.0, "lower"),
        Figure("cases", float(len(scores)), "1"),
        *(
            Figure(f"named_{kind}", named_share([each for each in scores if each.kind == kind]), "ratio")
            for kind in sorted({each.kind for each in scores})
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and tell. Exit code 2 if nothing could be run, 0 whatever the figures are."""
    given = _parser().parse_args(arguments)
    try:
        cases = befalls(1 if given.quick else given.cases, given.seed, given.only)
        if not cases:
            raise LeadlineError(f"expected cases, got none: --cases {given.cases} --only {given.only!r}")
        with contextlib.ExitStack() as stack:
            kept = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leadline-stranger-")))
            scores = run(stack.enter_context(Place(kept, given.port)), cases)
    except (LeadlineError, OSError) as error:
        print(f"evals.stranger: {error}", file=sys.stderr)
        return 2
    rows = [asdict(each) for each in scores]
    if not given.json:
        for row in rows:
            print(row)
    tell("evals.stranger", conditions(given.seed, **({"ran": rows} if given.json else {})), figures(scores), given.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    found = parser(
        "evals.stranger",
        "Jobs of a user that something befalls.",
        "what befalls which rank of which job, and when",
        "kinds with this in their name",
    )
    found.add_argument("--cases", type=int, default=24, help="jobs, each some 100 s")
    return found


if __name__ == "__main__":
    sys.exit(main())
