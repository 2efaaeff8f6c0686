"""A job that `leadline run` starts: its name, its place among the launcher's tasks, and what its environment gets."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import leadline

PYTHONS = re.compile(r"(python|pypy|torchrun|accelerate|deepspeed|mpirun|srun|env|uv|exec)[0-9.]*$")


@dataclass(frozen=True, slots=True)
class Task:
    """Which of a launcher's tasks this `leadline run` is. Alone: the first and only one of one host."""

    here: int = 0  # among those of this host
    rank: int = 0  # among all
    hosts: int = 1
    step: str = ""  # what the tasks of one launch share; empty: nobody launched it

    @property
    def leads(self) -> bool:
        """Whether this task starts what its host needs."""
        return self.here == 0


def task_of(environ: Mapping[str, str]) -> Task:
    """From Slurm's or Open MPI's variables; a process that neither started is alone."""
    if environ.get("SLURM_PROCID") and environ.get("SLURM_STEP_ID"):
        step = f"slurm-{environ.get('SLURM_JOB_ID', '0')}.{environ['SLURM_STEP_ID']}"
        return Task(
            _number(environ, "SLURM_LOCALID", 0), _number(environ, "SLURM_PROCID", 0),
            _number(environ, "SLURM_STEP_NUM_NODES", _number(environ, "SLURM_NNODES", 1)), step,
        )  # fmt: skip
    if environ.get("OMPI_COMM_WORLD_RANK"):
        here, size = _number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE", 1), _number(environ, "OMPI_COMM_WORLD_SIZE", 1)
        step = f"mpi-{environ.get('OMPI_MCA_ess_base_jobid') or environ.get('PMIX_NAMESPACE', 'job')}"
        return Task(
            _number(environ, "OMPI_COMM_WORLD_LOCAL_RANK", 0), _number(environ, "OMPI_COMM_WORLD_RANK", 0),
            -(-size // here), re.sub(r"[^\w.-]", "-", step),
        )  # fmt: skip
    return Task()


def job_name(command: Sequence[str], environ: Mapping[str, str], now_s: float) -> str:
    """`train-1127-081530`: the script and when it was started, so that two runs differ. A launcher's name wins."""
    if given := environ.get("LEADLINE_JOB"):
        return given
    if number := environ.get("SLURM_JOB_ID"):
        return f"{environ.get('SLURM_JOB_NAME', 'slurm')}-{number}"
    return f"{_script(command)}-{time.strftime('%m%d-%H%M%S', time.localtime(now_s))}"


def _script(command: Sequence[str]) -> str:
    """The name of the script: the first file of Python, the module after -m, else the program."""
    for place, word in enumerate(command):
        if word.endswith(".py"):
            return _plain(Path(word).stem)
        if word == "-m" and place and PYTHONS.search(command[place - 1]) and place + 1 < len(command):
            return _plain(command[place + 1].rpartition(".")[2])
    programs = [word for word in command if not PYTHONS.search(word) and not word.startswith("-")]
    return _plain(Path((programs or list(command))[0]).name)


def _plain(text: str) -> str:
    return re.sub(r"[^\w.-]", "-", text)[:60] or "job"


def job_environ(environ: Mapping[str, str], name: str, rings: Path) -> dict[str, str]:
    """The environment of the job: its name, where its rings are, and the hook for every Python in it."""
    package = Path(leadline.__file__).parent
    hook = str(package / "torch" / "inject")
    before = [each for each in environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    return {
        **environ,
        "LEADLINE_JOB": name,
        "LEADLINE_RING_DIR": str(rings),
        "LEADLINE_RUN_PACKAGE": str(package),
        "PYTHONPATH": os.pathsep.join([hook, *(each for each in before if each != hook)]),
    }


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else default
