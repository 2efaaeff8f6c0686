"""What a run runs with, and who runs it: versions, back end, the part of the environment that changes how fast it is,
and what the scheduler says of it. No secrets.

A variable is told if its name begins with one of `PREFIXES` or is one of `NAMES`, and no word of it ends with one of
`SECRET_WORDS`, be it in the plural. A user name and password in an address are taken out of the value, and so is what
follows `token=` and the like.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping

import torch
import torch.distributed as dist

PREFIXES = ("NCCL_", "GLOO_", "TORCH_NCCL_", "TORCH_DISTRIBUTED_", "UCX_", "FI_", "RDMAV_")
NAMES = (
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
)
IMAGES = ("LEADLINE_IMAGE", "CONTAINER_IMAGE", "SLURM_CONTAINER_IMAGE", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
# Who runs it, for whom, and what the scheduler calls it: by Slurm, or as a pod's manifest hands it down (fieldRef).
SITE: Mapping[str, tuple[str, ...]] = {
    "user": ("LEADLINE_USER", "SLURM_JOB_USER"),
    "project": ("LEADLINE_PROJECT", "SLURM_JOB_ACCOUNT"),
    "slurm_job": ("SLURM_JOB_ID",),
    "partition": ("SLURM_JOB_PARTITION",),
    "nodes": ("SLURM_JOB_NODELIST",),
    "namespace": ("POD_NAMESPACE",),
    "pod": ("POD_NAME",),
    "node": ("NODE_NAME",),
}
COMMITS = ("LEADLINE_COMMIT", "GIT_COMMIT", "GIT_SHA", "CI_COMMIT_SHA", "GITHUB_SHA")
SECRET_WORDS = ("AUTH", "COOKIE", "CREDENTIAL", "KEY", "PASS", "PASSPHRASE", "PASSWD", "PASSWORD", "SECRET", "TOKEN")
HARMLESS_WORDS = frozenset({"BYPASS", "PKEY"})  # PKEY: a partition of the fabric
VALUE_MAX = 200  # characters
VARIABLES_MAX = 40  # with the rest they fit one group of the ring: 64 records

_USER = re.compile(r"//[^/\s]*@")  # to the last @: a password may have one
_GIVEN = re.compile(rf"((?:{'|'.join(SECRET_WORDS)}|SIG|SIGNATURE)S?=)[^&;,\s]*", re.I)


def run_info(environ: Mapping[str, str], world_size: int) -> dict[str, str]:
    """Everything that can be told now, by name. Never starts CUDA."""
    found = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda or "",
        "hip": torch.version.hip or "",
        "nccl": _nccl(),
        "backend": _backend(),
        "world_size": str(world_size),
        "gpu_model": _gpu_model(),
        "image": first(environ, IMAGES),
        "commit": first(environ, COMMITS),
        **{name: first(environ, variables) for name, variables in SITE.items()},
        **told_variables(environ),
    }
    return {name: value for name, value in found.items() if value}


def told_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that are told, in the order of their names."""
    names = [name for name in sorted(environ) if is_told(name)]
    return {name: cleaned(environ[name]) for name in names[:VARIABLES_MAX]}


def is_told(name: str) -> bool:
    """Whether a variable changes how a run behaves and cannot be a secret."""
    if name not in NAMES and not name.startswith(PREFIXES):
        return False
    words = set(name.upper().split("_")) - HARMLESS_WORDS
    return not any(word.removesuffix("S").endswith(SECRET_WORDS) or word.endswith(SECRET_WORDS) for word in words)


def cleaned(value: str) -> str:
    """A value in one line, without user, password and token, and not longer than `VALUE_MAX`."""
    return " ".join(_GIVEN.sub(r"\1", _USER.sub("//", value)).split())[:VALUE_MAX]


def first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The value of the first of these variables that is set."""
    return next((cleaned(environ[name]) for name in names if environ.get(name)), "")


def is_connected() -> bool:
    """Whether the process group is there, so that the back end is known."""
    return bool(dist.is_available() and dist.is_initialized())


def _nccl() -> str:
    """The version torch was built with; the library of a plug-in may be another."""
    if not (dist.is_available() and dist.is_nccl_available()):
        return ""
    try:
        return ".".join(str(part) for part in torch.cuda.nccl.version())  # type: ignore[no-untyped-call]
    except Exception:  # a build without it raises different things
        return ""


def _backend() -> str:
    return str(dist.get_backend()) if is_connected() else ""


def _gpu_model() -> str:
    """Only if CUDA runs already: to ask would start it."""
    return str(torch.cuda.get_device_name()) if _runs_cuda() else ""


def _runs_cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
