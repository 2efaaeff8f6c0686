"""`leadline run -- COMMAND`: watch a job that knows nothing of Leadline, and say at its end what was wrong with it.

    server: the one that is there, or ours     agent: this host's, or ours     job: with the hook in its environment
                └──────────── neither is waited for: the job starts at once ──────────┘
    job ends ──> agent delivers ──> analyses catch up ──> one screen of `diagnose` ──> the job's exit code

Of a launcher's tasks (srun, mpirun) the first of each host does all this; the others only run their command.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote

from leadline.cli.help.examples import EXAMPLES
from leadline.cli.running.job import Task, job_environ, job_name, task_of
from leadline.cli.running.parts import (
    Agent,
    Asked,
    Found,
    Program,
    agent_here,
    rings_folder,
    server_for,
    start_agent,
    version_note,
)
from leadline.model.errors import LeadlineError, UsageError, WorldError

EXIT_USAGE, EXIT_WORLD = 2, 3
LOOK_S = 0.1
SERVER_LOOK_S = 0.5
LOOK_FOR_SYMPTOMS = ("slowdowns", "stalls")  # the others look at hosts and at minutes, which nobody waits for here
JUDGED_S_MAX = 60.0  # after the job's end: windows close some 10 s after their last row
START_S_MAX = 30.0  # for a server to answer at last, before our agent delivers: it takes 4 s on a quiet machine
ENDING = (signal.SIGTERM, signal.SIGHUP)
ENDING_S_MAX = 10.0  # where whoever started us wants us to end: Slurm kills 30 s after its SIGTERM
TELL_AFTER_S = 5.0  # who waits for longer is told for what; most verdicts come sooner
OTHERS_S = 3.0  # an agent that was here already looks each half second, and removes rings whose ranks are gone
STEPS_LATE_S = 10.0  # a job of which no step was seen may have told some late: an agent sends each second, and again
READY_S_MAX = 120.0  # of a server that was just started: 4 s on a quiet machine, a minute more where it compiles
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)  # Slurm warns a step of its end with these


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        prog="leadline run",
        usage="leadline run [OPTIONS] -- COMMAND ...",
        description="Runs a training job and watches it: steps, collectives and input of every PyTorch process in it, "
        "without a change to the script. Uses the server and the agent that are there, or starts its own for the time "
        "of the run. At the end it prints what `leadline diagnose` says, and exits as the job did.",
        epilog="\n".join(["Examples", *(f"   {line}" for line in EXAMPLES["run"])]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    flags.add_argument("--job", metavar="NAME", default="", help="name of the job; default: the script and the time")
    flags.add_argument("--server", metavar="URL", default="", help="server to use (LEADLINE_SERVER)")
    flags.add_argument("--token-file", metavar="FILE", help="file with the token, if the server needs one")
    flags.add_argument("--ca-file", metavar="FILE", help="certificates (PEM) that an https server is known by")
    flags.add_argument("--data-dir", metavar="DIR", type=Path, help="where a server that is started keeps its data")
    flags.add_argument("--stay", action="store_true", help="keep a server that was started until Ctrl-C")
    flags.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER, help="the job")
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job. Returns its exit code; 2 or 3 where it was not started."""
    asked = parser().parse_args(sys.argv[1:] if arguments is None else arguments)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # while modules were loaded, see `leadline.cli`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _run(asked)
    except LeadlineError as error:
        print(f"leadline run: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_WORLD


def _run(asked: argparse.Namespace) -> int:
    command = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    if not command:
        raise UsageError("expected the job's command after --, for example: leadline run -- python train.py")
    if shutil.which(command[0]) is None:
        raise UsageError(f"there is no program {command[0]!r} here; is its environment active?")
    for variable, given in (("LEADLINE_TOKEN_FILE", asked.token_file), ("LEADLINE_CA_FILE", asked.ca_file)):
        if given:
            os.environ[variable] = str(Path(given).resolve())
    task, server = task_of(os.environ), asked.server or os.environ.get("LEADLINE_SERVER", "")
    if task.hosts > 1 and not server:
        raise UsageError(
            f"this step runs on {task.hosts} hosts, which need one server: start `leadline up --host 0.0.0.0 "
            "--token-file tokens` on one and give each --server http://HOST:8440 --token-file FILE"
        )
    name = asked.job or job_name(command, os.environ, time.time())
    agent = agent_here(server)
    rings = agent.rings if agent else rings_folder(task.step)
    with _held(rings, task):
        if not task.leads:
            os.execvpe(command[0], command, job_environ(os.environ, name, rings))
        return _Run(name, command, rings, task).run(agent, server, asked.data_dir, stay=asked.stay)


@contextlib.contextmanager
def _held(rings: Path, task: Task) -> Iterator[None]:
    """Hold the folder of a step for as long as this task runs, also where it becomes its command."""
    if not task.step:
        yield
        return
    handle = os.open(rings, os.O_RDONLY | os.O_DIRECTORY)
    os.set_inheritable(handle, not task.leads)
    try:
        if not task.leads:
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


@dataclass
class _Run:
    """One job with what is beside it."""

    name: str
    command: Sequence[str]
    rings: Path
    task: Task
    said: bool = False
    told_to_end: bool = False  # by a signal, as Slurm does before it kills
    before: frozenset[str] = frozenset()  # rings that were there before the job: other jobs use the agent, too
    wrote: bool = False  # a rank of it: there is something to wait for

    def run(self, agent: Agent | None, server: str, data_dir: Path | None, *, stay: bool) -> int:
        """Start everything, wait for the job, tell how it went, take everything down."""
        folder = Path(tempfile.mkdtemp(prefix="leadline-run-"))
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            if agent is None:
                stack.callback(shutil.rmtree, self.rings, ignore_errors=True)
            found = server_for(server, agent.server if agent else "", data_dir, folder)
            if found.program:
                stack.callback(found.program.stop)
                self._say(f"starts a server at {found.asked.url} for this run")
            elif note := version_note(found.asked):
                self._say(note)
            own = start_agent(found.asked.url, self.rings, folder) if agent is None else None
            if own:
                stack.callback(own.stop)
            code = self._job(found, own)
            self._others_end()
            if own:
                self._await_server(found)
                own.stop()  # it delivers first
            if self.task.rank == 0 and self._conclude(found, code, own is not None):
                self._stay(found, stay)
        return code

    def _job(self, found: Found, agent: Program | None) -> int:
        """Run the job; say where it is seen as soon as the server answers."""
        environ, self.before = job_environ(os.environ, self.name, self.rings), rings_in(self.rings)
        with _forwarding(self._signalled) as job:
            try:
                job.append(subprocess.Popen(list(self.command), env=environ))
            except OSError as error:
                raise UsageError(f"{self.command[0]}: {error.strerror}") from error
            looked_s = 0.0
            while job[0].poll() is None:
                if not (self.said and self.wrote) and time.monotonic() - looked_s > SERVER_LOOK_S:
                    looked_s = time.monotonic()
                    self._look(found, agent)
                time.sleep(LOOK_S)
            self._look_for_rings()
            code = job[0].returncode
        return 128 - code if code < 0 else code

    def _signalled(self, number: int) -> None:
        self.told_to_end |= number in ENDING

    def _look(self, found: Found, agent: Program | None) -> None:
        """Say once that it is seen, or why not. The job runs on whatever is wrong with us."""
        self._look_for_rings()
        if not self.said and found.asked.is_there():
            self.said = True
            self._say(f"{self.name} is shown at {page_of(found.asked.url, self.name)}")
        for each in (found.program, agent):
            if each is not None and each.ended and not self.said:
                self.said = True
                self._say(f"the {each.name} ended, the job goes on unwatched:\n{each.said()}")

    def _look_for_rings(self) -> None:
        self.wrote = self.wrote or bool(rings_in(self.rings) - self.before)

    def _await_server(self, found: Found) -> None:
        """A job may end before the server that was started for it answers, and what its agent holds would be lost."""
        end = time.monotonic() + (ENDING_S_MAX if self.told_to_end else START_S_MAX)
        with contextlib.suppress(KeyboardInterrupt):
            while found.program and not (self.said or found.program.ended) and time.monotonic() < end:
                self.said = found.asked.is_there()
                time.sleep(LOOK_S)

    def _others_end(self) -> None:
        """Wait for the tasks of this host that share the folder: their records are still to be read."""
        if self.task.step:
            handle = os.open(self.rings, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.close(handle)

    def _conclude(self, found: Found, code: int, ours: bool) -> bool:
        """One screen of what was found; False: the job told nothing. Never fails: its exit code matters more."""
        try:
            answer = self._judged(found, 0.0 if ours else OTHERS_S)
        except (WorldError, KeyboardInterrupt) as error:
            self._say(f"cannot say how it went: {error or 'interrupted'}")
            return True
        print(file=sys.stderr)
        if not answer["watched"]["jobs"] and not answer["incidents"]:
            how = f"{self.command[0]} ended with code {code}, and" if code else "the job ended, and"
            self._say(
                f"{how} no training step of {self.name} was seen. Steps are those of a torch.optim optimizer in Python "
                "3.11 or newer; for other loops see `leadline.torch` in docs/how-to/watch-a-pytorch-job.md"
            )
            return False
        tell(answer)
        return True

    def _judged(self, found: Found, unseen_s: float) -> dict[str, Any]:
        """The diagnosis, once it covers all of the job; what there is after a while, and after `unseen_s` where nobody
        wrote anything."""
        ended_ns, began = time.time_ns(), time.monotonic()
        starting = found.program is not None and (not self.said or compiling(found.asked) is not None)
        wait_s = READY_S_MAX if starting else JUDGED_S_MAX
        due = began + (ENDING_S_MAX if self.told_to_end else wait_s)
        is_told = self.told_to_end
        while True:
            if not is_told and time.monotonic() - began > TELL_AFTER_S:
                is_told = True
                self._say(waiting_words(found.asked, due - began))
            with contextlib.suppress(WorldError):
                answer = found.asked.get("/api/v1/diagnosis", job=self.name)
                told_nothing = not (answer["watched"]["jobs"] or answer["incidents"] or self.wrote)
                unseen = told_nothing and time.monotonic() - began >= unseen_s
                if unseen or covers(answer, ended_ns) or time.monotonic() > due:
                    return answer
            if time.monotonic() > due or (found.program and found.program.ended):
                return found.asked.get("/api/v1/diagnosis", job=self.name)
            time.sleep(SERVER_LOOK_S)

    def _stay(self, found: Found, stay: bool) -> None:
        if found.program is None:
            self._say(f"see {page_of(found.asked.url, self.name)}")
        elif stay:
            self._say(f"{page_of(found.asked.url, self.name)} stays until Ctrl-C")
            with contextlib.suppress(KeyboardInterrupt):
                while not found.program.ended:
                    time.sleep(SERVER_LOOK_S)
        elif os.access(Path.cwd(), os.W_OK):
            self._say("`leadline up` in this directory shows the job again; with --stay the page stays")
        else:
            self._say("what was measured is gone, as nothing can be written here; with --stay the page stays")

    def _say(self, words: str) -> None:
        print(f"leadline: {words}", file=sys.stderr, flush=True)


def page_of(url: str, job: str) -> str:
    """The address of a job's page."""
    return f"{url}/jobs/{quote(job, safe='')}"


def rings_in(folder: Path) -> frozenset[str]:
    """Names of the rings in a folder; none where it may not be listed: an agent's is for all to write to."""
    with contextlib.suppress(OSError):
        return frozenset(each.name for each in folder.iterdir() if each.suffix == ".ring")
    return frozenset()


def compiling(asked: Asked) -> list[int] | None:
    """How far compiling is, which the first start on a machine does: steps done, and all of them; None: it is over."""
    with contextlib.suppress(WorldError):
        return asked.get("/ready").get("compiling") or None
    return None


def waiting_words(asked: Asked, seconds: float) -> str:
    """What is waited for after the job's end, and for how long at most."""
    if progress := compiling(asked):
        return (
            f"the analyses are being compiled, once on this machine: {progress[0]} of {progress[1]}; waits for "
            f"their verdict for up to {seconds:.0f} s, Ctrl-C ends without it"
        )
    return f"waits for the verdict of the analyses for up to {seconds:.0f} s; Ctrl-C ends without it"


def covers(answer: Mapping[str, Any], ended_ns: int) -> bool:
    """Whether what looks for symptoms of jobs has seen this one end: a crash is told a second or two after it."""
    watched = answer["watched"]
    judged: list[int] = [watched["judged_ns"].get(name, 0) for name in LOOK_FOR_SYMPTOMS]
    return min(judged) >= ended_ns + (0 if watched["jobs"] else int(STEPS_LATE_S * 1e9))


def tell(answer: Mapping[str, Any]) -> None:
    """Print a diagnosis on standard error: a screen, or lines where the command line is not installed."""
    try:
        from leadline.cli.diagnosis.words import tell as screen
        from leadline.cli.output import console
    except ModuleNotFoundError:
        state = answer["state"].upper()
        causes = [cause["text"] for one in answer["incidents"] for cause in one["causes"][:1]]
        print(f"{state}: {'; '.join(causes) or answer['why'] or 'no problem found'}", file=sys.stderr)
        return
    screen(console(stderr=True), answer)


@contextlib.contextmanager
def _forwarding(heard: Callable[[int], None]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Pass signals on to the job, and say which. Ctrl-C it gets from the terminal itself; a job that dies of it is
    concluded, too."""
    job: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _: FrameType | None) -> None:
        heard(number)
        if job and number != signal.SIGINT:
            job[0].send_signal(number)

    before = {number: signal.signal(number, forward) for number in (*FORWARDED, signal.SIGINT)}
    try:
        yield job
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
