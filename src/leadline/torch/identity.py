"""Who this process is: job, rank, world size, host, GPU; read from the environment that launchers set.

    leadline   torchrun            Slurm                       Open MPI
    LEADLINE_JOB  TORCHELASTIC_RUN_ID  SLURM_JOB_NAME, _JOB_ID
    RANK          RANK                 SLURM_PROCID            OMPI_COMM_WORLD_RANK
    WORLD_SIZE    WORLD_SIZE           SLURM_NTASKS            OMPI_COMM_WORLD_SIZE
    LOCAL_RANK    LOCAL_RANK           SLURM_LOCALID           OMPI_COMM_WORLD_LOCAL_RANK
    LEADLINE_ATTEMPT  TORCHELASTIC_RESTART_COUNT  SLURM_RESTART_COUNT

The first that is set wins, from left to right; explicit arguments of `watch()` win over all. A job that nobody named is
called by where its ranks meet, `local-h3-29500`, or by its process, `local-h3-pid811`: two that run at once differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
_WORLD_SIZE = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
_LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
_ATTEMPT = ("LEADLINE_ATTEMPT", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a rank says about itself. `gpu` is "" where it is not known."""

    job: str
    rank: int
    world_size: int
    local_rank: int
    host: str
    gpu: str  # GPU-<uuid>
    attempt: int  # how often the launcher restarted the job: tells the communicators of two attempts apart

    @property
    def rank_entity(self) -> str:
        """`rank:bert-7/13`"""
        return f"rank:{self.job}/{self.rank}"


def identity_from(
    environ: Mapping[str, str],
    hostname: str,
    *,
    job: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    gpu: str | None = None,
    pids: tuple[int, int] | None = None,
) -> Identity:
    """The identity that the environment tells; arguments win.

    A process that no launcher started is rank 0 of 1. A number that is none counts as not set: a hook must not stop a
    job over a variable. `pids`: of this process and of its parent.
    """
    host = environ.get("LEADLINE_HOST") or hostname
    local_rank = _number(environ, _LOCAL_RANK, 0)
    size = _number(environ, _WORLD_SIZE, 1) if world_size is None else world_size
    return Identity(
        job=job or _job(environ, host, size, pids or (os.getpid(), os.getppid())),
        rank=_number(environ, _RANK, 0) if rank is None else rank,
        world_size=size,
        local_rank=local_rank,
        host=host,
        gpu=_gpu(environ, local_rank) if gpu is None else gpu,
        attempt=_number(environ, _ATTEMPT, 0),
    )


def _job(environ: Mapping[str, str], host: str, world_size: int, pids: tuple[int, int]) -> str:
    if given := environ.get("LEADLINE_JOB"):
        return given
    run = environ.get("TORCHELASTIC_RUN_ID", "")
    if run and run != "none":  # what torchrun sets when nobody gave --rdzv-id
        return run
    if number := environ.get("SLURM_JOB_ID"):
        return f"{environ.get('SLURM_JOB_NAME', 'slurm')}-{number}"
    return _nobodys_name(environ, host, world_size, pids)


def _nobodys_name(environ: Mapping[str, str], host: str, world_size: int, pids: tuple[int, int]) -> str:
    """What all ranks of a job know and no other job that runs at the same time: where its ranks meet, or who started
    them."""
    port = environ.get("MASTER_PORT", "")
    if not port.isascii() or not port.isdigit():
        own, parent = pids
        return f"local-{host}-pid{parent if world_size > 1 else own}"
    meet = environ.get("MASTER_ADDR", "")
    is_here = not meet or meet == "localhost" or meet.startswith(("127.", "::1"))
    return f"local-{host if is_here else meet}-{port}"


def _number(environ: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    for name in names:
        text = environ.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return default


def _gpu(environ: Mapping[str, str], local_rank: int) -> str:
    """The UUID in CUDA_VISIBLE_DEVICES that this local rank uses; "" if the variable holds plain numbers."""
    visible = [part.strip() for part in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    if not visible:
        return ""
    # One visible device: the launcher gave each rank its own. Several: by local rank, as every launcher's users do.
    chosen = visible[0] if len(visible) == 1 else visible[local_rank] if local_rank < len(visible) else ""
    return chosen if chosen.startswith(("GPU-", "MIG-")) else ""
