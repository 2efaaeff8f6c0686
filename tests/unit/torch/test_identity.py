"""Who a process says it is, from what launchers set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.torch.identity import Identity, identity_from

GPU = "GPU-5c1e7a00-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ("local-n12-pid7", 0, 1, 0, "")),
        ({"WORLD_SIZE": "2", "RANK": "1"}, ("local-n12-pid3", 1, 2, 0, "")),  # several of one parent
        (
            {
                "TORCHELASTIC_RUN_ID": "none",
                "RANK": "1",
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "29500",
            },
            ("local-n12-29500", 1, 2, 0, ""),
        ),
        (
            {
                "TORCHELASTIC_RUN_ID": "none",
                "RANK": "1",
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "n4",
                "MASTER_PORT": "29501",
            },
            ("local-n4-29501", 1, 2, 0, ""),
        ),
        (
            {"LEADLINE_JOB": "bert-7", "RANK": "13", "WORLD_SIZE": "16", "LOCAL_RANK": "1"},
            ("bert-7", 13, 16, 1, ""),
        ),
        (
            {"TORCHELASTIC_RUN_ID": "run-a", "RANK": "2", "WORLD_SIZE": "4", "TORCHELASTIC_RESTART_COUNT": "1"},
            ("run-a", 2, 4, 0, ""),
        ),
        ({"TORCHELASTIC_RUN_ID": "none"}, ("local-n12-pid7", 0, 1, 0, "")),
        (
            {"SLURM_JOB_ID": "991", "SLURM_JOB_NAME": "gpt", "SLURM_PROCID": "5", "SLURM_NTASKS": "8"},
            ("gpt-991", 5, 8, 0, ""),
        ),
        ({"RANK": "first", "WORLD_SIZE": "", "MASTER_PORT": "x"}, ("local-n12-pid7", 0, 1, 0, "")),
        ({"CUDA_VISIBLE_DEVICES": GPU}, ("local-n12-pid7", 0, 1, 0, GPU)),
        ({"CUDA_VISIBLE_DEVICES": f"GPU-0,{GPU}", "LOCAL_RANK": "1"}, ("local-n12-pid7", 0, 1, 1, GPU)),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "LOCAL_RANK": "1"}, ("local-n12-pid7", 0, 1, 1, "")),
        ({"CUDA_VISIBLE_DEVICES": f"GPU-0,{GPU}", "LOCAL_RANK": "7"}, ("local-n12-pid7", 0, 1, 7, "")),
    ],
)
def test_launchers(environ: dict[str, str], expected: tuple[str, int, int, int, str]) -> None:
    found = identity_from(environ, "n12", pids=(7, 3))
    assert (found.job, found.rank, found.world_size, found.local_rank, found.gpu) == expected
    assert found.host == "n12"


def test_arguments_win() -> None:
    environ = {"LEADLINE_JOB": "a", "RANK": "1", "WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": GPU}
    assert identity_from(environ, "h", job="b", rank=0, world_size=9, gpu="") == Identity("b", 0, 9, 0, "h", "", 0)


@given(st.dictionaries(st.sampled_from(["RANK", "LOCAL_RANK", "SLURM_PROCID", "CUDA_VISIBLE_DEVICES"]), st.text()))
def test_no_variable_stops_a_job(environ: dict[str, str]) -> None:
    assert identity_from(environ, "h").rank >= 0
