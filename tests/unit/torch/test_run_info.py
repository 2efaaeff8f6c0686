"""What a run says it runs with, and what it keeps to itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.torch.job import rows_of

from leadline.torch.announce import Announcer
from leadline.torch.identity import Identity
from leadline.torch.rings import Rings
from leadline.torch.run_info import SECRET_WORDS, VALUE_MAX, VARIABLES_MAX, cleaned, is_told, run_info, told_variables

IDENTITY = Identity("bert-7", 3, 8, 0, "h3", "", 0)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("NCCL_IB_HCA", True),
        ("NCCL_IB_PKEY", True),  # a partition of the fabric, no secret
        ("OMP_NUM_THREADS", True),
        ("TORCH_NCCL_BLOCKING_WAIT", True),
        ("NCCL_AUTH_TOKEN", False),
        ("NCCL_KEY", False),
        ("GLOO_PASSWORD", False),
        ("fi_key", False),
        ("HOME", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("FI_ACCESSTOKEN", False),
        ("NCCL_NET_TOKENS", False),
        ("UCX_PRIVATE_KEYS", False),
        ("TORCH_NCCL_PASSPHRASE", False),
        ("UCX_TLS_BYPASS", True),
        ("WANDB_API_KEY", False),
    ],
)
def test_variables_that_are_told(name: str, told: bool) -> None:
    assert is_told(name) is told


@given(st.dictionaries(st.text("ABKEYTOKN_", min_size=1, max_size=12).map("NCCL_".__add__), st.text(), max_size=80))
def test_no_secret_is_told_and_bounds_hold(environ: dict[str, str]) -> None:
    told = told_variables(environ)
    assert len(told) <= VARIABLES_MAX
    assert not [name for name in told if set(SECRET_WORDS) & set(name.split("_"))]
    assert all(len(value) <= VALUE_MAX for value in told.values())


def test_user_and_password_are_taken_out_of_an_address() -> None:
    assert cleaned("tcp://me:pw@host:1  \n x") == "tcp://host:1 x"
    assert cleaned("https://me:p@ss@host/x") == "https://host/x"
    assert cleaned("https://host/x?Token=abc&v=3") == "https://host/x?Token=&v=3"
    assert cleaned("docker://registry/bert@sha256:abc") == "docker://registry/bert@sha256:abc"


def test_versions_and_what_the_launcher_set() -> None:
    environ = {"LEADLINE_IMAGE": "registry/bert:7", "GITHUB_SHA": "abc", "NCCL_ALGO": "Ring", "SECRET": "x"}
    found = run_info(environ, 8)
    assert (found["torch"], found["world_size"]) == (str(torch.__version__), "8")
    assert (found["image"], found["commit"], found["NCCL_ALGO"]) == ("registry/bert:7", "abc", "Ring")
    assert "SECRET" not in found
    assert "backend" not in found  # there is no process group


def test_what_the_scheduler_says_of_the_run() -> None:
    slurm = {"SLURM_JOB_USER": "ann", "SLURM_JOB_ACCOUNT": "nlp", "SLURM_JOB_ID": "811", "SLURM_JOB_PARTITION": "h100",
             "SLURM_JOB_NODELIST": "h[1-8]", "SLURM_JOB_COMMENT": "mine"}  # fmt: skip
    found = run_info(slurm, 8)
    assert [found[name] for name in ("user", "project", "slurm_job", "partition", "nodes")] == [
        "ann", "nlp", "811", "h100", "h[1-8]"
    ]  # fmt: skip
    assert "mine" not in found.values()
    pod = run_info({"POD_NAME": "bert-0", "POD_NAMESPACE": "train", "NODE_NAME": "h3", "LEADLINE_USER": "ann"}, 8)
    assert (pod["pod"], pod["namespace"], pod["node"], pod["user"]) == ("bert-0", "train", "h3", "ann")


def test_a_rank_says_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth1")
    rings = Rings(tmp_path, IDENTITY)
    announcer = Announcer(rings, IDENTITY, lambda _: None)
    announcer.tell_run()
    announcer.tell_run()
    rings.close()
    (row,) = rows_of(tmp_path)["event"]
    assert (row["kind"], row["entity"], row["severity"]) == ("run-info", "rank:bert-7/3", "info")
    told = dict(row["attributes"])
    assert told["NCCL_SOCKET_IFNAME"] == "eth1"
    assert told["torch"] == str(torch.__version__)
