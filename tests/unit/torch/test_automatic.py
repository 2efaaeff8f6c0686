"""A script that knows nothing of Leadline, with the environment that `leadline run` gives it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.torch.job import rows_of

from leadline.cli.running.job import job_environ

pytestmark = pytest.mark.slow  # left out of make check: it loads torch

TRAIN = """
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(4, 4)
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
for epoch in range(2):
    for batch in DataLoader(torch.ones(16, 4), batch_size=4):
        model(batch).sum().backward()
        for each in optimizers:
            each.step()
"""
# Two ranks in one: what a launcher's ranks do, without waiting for each other's processes.
GROUP = """
import os, torch.distributed as dist
from torch.distributed import init_process_group  # by name, as libraries do
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
store = dist.HashStore()
init_process_group("gloo", store=store, rank=0, world_size=1)
import torch
dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
"""


def run(program: str, rings: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    given = job_environ({**os.environ, "GLOO_SOCKET_IFNAME": "lo", **environ}, "untouched-1", rings)
    ran = subprocess.run(
        [sys.executable, "-c", program], env=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran


def steps(rings: Path) -> list[dict[str, Any]]:
    return rows_of(rings).get("step", [])


def test_steps_and_the_wait_for_input_of_an_untouched_script_are_seen(tmp_path: Path) -> None:
    ran = run(TRAIN, tmp_path)
    found = steps(tmp_path)
    assert [row["step"] for row in found] == list(range(7))  # of eight: when the first began nobody knows
    assert all(row["optimizer_ns"] > 0 and row["job"] == "untouched-1" for row in found)
    assert sum(row["data_ns"] > 0 for row in found if row["data_ns"] is not None) >= 4
    assert ran.stderr == ""


def test_collectives_are_seen_from_the_process_group_on(tmp_path: Path) -> None:
    run(GROUP, tmp_path)
    assert {row["op"] for row in rows_of(tmp_path)["collective"]} == {"all_reduce"}


def test_a_process_that_only_imports_torch_is_no_rank(tmp_path: Path) -> None:
    run("import torch, torch.distributed, torch.distributed.run", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_script_that_watches_itself_counts_each_step_once(tmp_path: Path) -> None:
    watched = TRAIN.replace("model = ", "import leadline.torch; leadline.torch.watch(); model = ", 1)
    run(watched, tmp_path)
    assert [row["step"] for row in steps(tmp_path)] == list(range(7))


def test_the_sitecustomize_of_the_environment_runs_too_and_children_are_watched(tmp_path: Path) -> None:
    own, rings = tmp_path / "own", tmp_path / "rings"
    own.mkdir(), rings.mkdir()
    (own / "sitecustomize.py").write_text("print('of the environment')")
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TRAIN!r}], check=True)"
    ran = run(child, rings, PYTHONPATH=str(own))
    assert ran.stdout.splitlines() == ["of the environment"] * 2
    assert len(steps(rings)) == 7


def test_a_hook_that_cannot_be_loaded_is_one_line_and_the_job_goes_on(tmp_path: Path) -> None:
    given = job_environ(dict(os.environ), "untouched-1", tmp_path) | {"LEADLINE_RUN_PACKAGE": str(tmp_path / "gone")}
    program = "import sys; sys.modules.pop('leadline', None); import torch; print('trained')"
    ran = subprocess.run(
        [sys.executable, "-c", program], env=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "trained\n")
    assert ran.stderr.startswith("leadline: this process is not watched: ")
    assert ran.stderr.count("\n") == 1
