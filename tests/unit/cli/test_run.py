"""`leadline run` without a job: names, tasks, environment, what it finds on a host, and its errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leadline.cli.running import parts
from leadline.cli.running.job import Task, job_environ, job_name, task_of
from leadline.cli.running.parts import Asked, agent_here, rings_folder, server_for
from leadline.cli.running.run import STEPS_LATE_S, covers, main, page_of, rings_in, tell, waiting_words
from leadline.cli.start import missing
from leadline.model.errors import UsageError, WorldError

NOW_S = 1_795_760_130.0


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        ("python train.py --lr 0.1", "train-"),
        ("torchrun --nproc-per-node 8 /home/kim/pre_train.py", "pre_train-"),
        ("python3.11 -m my.trainer.main", "main-"),
        ("./run_all", "run_all-"),
    ],
)
def test_a_job_is_named_after_its_script_and_the_time(command: str, begins: str) -> None:
    name = job_name(command.split(), {}, NOW_S)
    assert name.startswith(begins)
    assert name != job_name(command.split(), {}, NOW_S + 1)


def test_a_name_that_somebody_gave_wins() -> None:
    assert job_name(["a.py"], {"LEADLINE_JOB": "bert-7", "SLURM_JOB_ID": "4"}, NOW_S) == "bert-7"
    assert job_name(["a.py"], {"SLURM_JOB_ID": "4", "SLURM_JOB_NAME": "llm"}, NOW_S) == "llm-4"


def test_which_task_of_a_step_it_is() -> None:
    slurm = {
        "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_LOCALID": "1",
        "SLURM_STEP_NUM_NODES": "2",
    }  # fmt: skip
    assert task_of(slurm) == Task(here=1, rank=5, hosts=2, step="slurm-7.0")
    assert not task_of(slurm).leads
    mpi = {"OMPI_COMM_WORLD_RANK": "4", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    assert task_of(mpi | {"OMPI_COMM_WORLD_LOCAL_RANK": "0"}) == Task(here=0, rank=4, hosts=2, step="mpi-job")
    assert task_of({"SLURM_JOB_ID": "7"}) == Task(), "a batch script is no step of its own"


def test_the_environment_keeps_what_was_there(tmp_path: Path) -> None:
    made = job_environ({"PYTHONPATH": "/mine", "A": "b"}, "bert-7", tmp_path)
    hook, mine = made["PYTHONPATH"].split(os.pathsep)
    assert (Path(hook) / "sitecustomize.py").is_file()
    assert (mine, made["A"], made["LEADLINE_JOB"]) == ("/mine", "b", "bert-7")
    assert job_environ(made, "bert-7", tmp_path) == made


def test_a_diagnosis_covers_a_job_once_its_end_was_looked_at() -> None:
    answer: dict[str, Any] = {"watched": {"jobs": [{"until_ns": 100}], "judged_ns": {"slowdowns": 220, "stalls": 190}}}
    assert not covers(answer, ended_ns=200)
    answer["watched"]["judged_ns"] |= {"stalls": 200, "sle": 5}
    assert covers(answer, ended_ns=200)


def test_steps_that_are_not_there_yet_are_waited_for() -> None:
    def unseen(judged_ns: int) -> bool:
        return covers({"watched": {"jobs": [], "judged_ns": {"slowdowns": judged_ns, "stalls": judged_ns}}}, 200)

    assert not unseen(200)
    assert unseen(200 + int(STEPS_LATE_S * 1e9))


def test_a_page_is_named_whatever_the_job_is_called() -> None:
    assert page_of("http://h:1", "a/b c") == "http://h:1/jobs/a%2Fb%20c"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected the job's command after --"),
        (["--"], "expected the job's command after --"),
        (["--", "no-such-program-here"], "there is no program 'no-such-program-here'"),
        (["--server", "http://127.0.0.1:1", "--", "true"], "no Leadline answers at http://127.0.0.1:1"),
        (["--server", "ftp://x", "--", "true"], "expected http://HOST:PORT"),
    ],
)
def test_what_is_missing_is_said_before_the_job_starts(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEADLINE_SERVER", raising=False)
    assert main(arguments) in (2, 3)
    said = capsys.readouterr().err
    assert said.startswith("leadline run: ")
    assert words in said
    assert said.count("\n") == 1


def test_several_hosts_need_a_server_that_was_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEADLINE_SERVER", raising=False)
    for name, value in (("STEP_ID", "0"), ("PROCID", "0"), ("LOCALID", "0"), ("STEP_NUM_NODES", "4")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert main(["--", "true"]) == 2
    assert "runs on 4 hosts, which need one server" in capsys.readouterr().err


def test_without_the_server_installed_the_one_thing_to_do_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(parts, "DEFAULT_URL", "http://127.0.0.1:1")
    with pytest.raises(UsageError, match=r"pip install 'leadline\[server\]'"):
        server_for("", "", None, tmp_path)


def test_a_server_that_was_named_and_does_not_answer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="no Leadline answers at"):
        server_for("http://127.0.0.1:1", "", None, tmp_path)


def _process(proc: Path, number: int, words: list[str], environ: dict[str, str]) -> None:
    folder = proc / str(number)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
    (folder / "environ").write_bytes("\0".join(f"{name}={value}" for name, value in environ.items()).encode())


def test_the_agent_of_a_host_is_found_with_its_rings_and_its_server(tmp_path: Path) -> None:
    rings, proc = tmp_path / "rings", tmp_path / "proc"
    rings.mkdir()
    agent = ["python", "-m", "leadline.host.main"]
    _process(proc, 7, ["python", "train.py"], {})
    other = tmp_path / "leadline-run-0-7"
    other.mkdir()
    _process(proc, 8, [*agent, "--ring-dir", str(other)], {})
    assert agent_here("", proc) is None, "that is another run's"
    _process(proc, 9, [*agent, "--server", "http://head:8440", "--ring-dir", str(rings)], {})
    assert agent_here("", proc) == (rings, "http://head:8440")
    assert agent_here("head:8440", proc) == (rings, "http://head:8440")
    assert agent_here("http://other:8440", proc) is None, "it sends elsewhere: this run needs one of its own"


def test_folders_of_runs_that_were_killed_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(parts.os, "access", lambda path, mode: path != "/dev/shm")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    gone = tmp_path / f"leadline-run-{os.getuid()}-99999999"
    gone.mkdir()
    (gone / "a.ring").touch()
    made = rings_folder("")
    assert [each.name for each in tmp_path.iterdir()] == [made.name]
    assert rings_folder("") == made, "its own is in use"


def test_where_only_the_agent_is_installed_a_line_says_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {
        "state": "critical", "why": "", "incidents": [{"causes": [{"text": "link h3/eth0 lost its carrier"}]}],
    }  # fmt: skip
    blocked = "import sys; sys.modules['rich'] = None; sys.modules['typer'] = None; "
    program = f"{blocked}from leadline.cli.running.run import tell; tell({answer!r})"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stderr == "CRITICAL: link h3/eth0 lost its carrier\n"
    assert callable(tell)


def test_a_package_that_is_not_installed_is_named_with_what_brings_it() -> None:
    assert missing("up", "uvicorn") == (
        "`leadline up` needs uvicorn, which is not installed: pip install 'leadline[server]'. With the agent alone "
        "there are `leadline agent` and `leadline run`."
    )
    assert missing("lab run", "torch.nn") == (
        "`leadline lab run` needs torch, which is not installed: pip install 'leadline[lab]'."
    )


def test_the_agents_installation_has_help_of_its_own() -> None:
    program = (
        "import sys, importlib.util as u; real = u.find_spec; "
        "u.find_spec = lambda name, *a: None if name == 'typer' else real(name, *a); "
        "sys.argv[1:] = []; from leadline.cli.start import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "leadline run --help" in ran.stdout
    assert "pip install 'leadline[server]'" in ran.stdout


class Answers(Asked):
    """A double of a server: what it answers is given."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.ready = ready

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """See `Asked`."""
        return self.ready


def test_what_is_waited_for_is_told() -> None:
    words = waiting_words(Answers({"state": "ready", "compiling": [3, 15]}), 60)
    assert words.startswith("the analyses are being compiled, once on this machine: 3 of 15")
    assert waiting_words(Answers({"state": "ready"}), 59.6).startswith(
        "waits for the verdict of the analyses for up to 60"
    )


def test_rings_in_a_folder_that_may_not_be_listed_are_none(tmp_path: Path) -> None:
    """The folder of an agent is for all to write to; listing it may be the agent's alone."""
    (tmp_path / "bert-1.0.ring").touch()
    (tmp_path / "lock").touch()
    assert rings_in(tmp_path) == {"bert-1.0.ring"}
    assert rings_in(tmp_path / "lock") == set()
    assert rings_in(tmp_path / "none") == set()
