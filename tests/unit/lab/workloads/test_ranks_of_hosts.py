"""Which hosts and GPUs the ranks of a job get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from leadline.lab.topology import Topology, load
from leadline.lab.workloads.base import Lab, RankJob, rank_environment
from leadline.model.errors import UsageError

TWO_GPUS = "name: x\nhosts: 3\ngpus: 2\n"


@dataclass(frozen=True)
class OnlyTopology:
    """A double of a lab that has nothing but a topology."""

    topology: Topology


def lab(text: str = TWO_GPUS) -> Lab:
    return cast("Lab", OnlyTopology(load(text)))


def test_by_default_a_rank_on_each_host_on_its_first_gpu() -> None:
    hosts = load(TWO_GPUS).hosts
    assert RankJob(name="a").members(lab()) == [(host.name, host.gpus[0]) for host in hosts]


def test_ranks_of_one_host_follow_each_other_each_with_its_own_gpu() -> None:
    h3, h1 = load(TWO_GPUS).host("h3"), load(TWO_GPUS).host("h1")
    members = RankJob(name="a", hosts=("h3", "h1"), gpus_per_host=2).members(lab())
    assert members == [("h3", h3.gpus[0]), ("h3", h3.gpus[1]), ("h1", h1.gpus[0]), ("h1", h1.gpus[1])]
    three = RankJob(name="a", hosts=("h3", "h1"), gpus_per_host=2, world_size=3).members(lab())
    assert three == members[:3]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (RankJob(name="a", hosts=("h9",)), "no host 'h9' in topology x; it has h1, h2, h3"),
        (RankJob(name="a", gpus_per_host=3), "host h1 of topology x has 2 GPU; 3 ranks on a host need one each"),
        (RankJob(name="a", world_size=4), "a wants 4 ranks; its hosts hold 3, with 1 on each"),
        (RankJob(name="a", placement="random"), "hosts are not drawn yet"),
    ],
)
def test_what_the_hosts_do_not_hold_is_refused(job: RankJob, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        job.members(lab())


def test_a_rank_is_told_its_number_on_the_host(tmp_path: Any) -> None:
    told = rank_environment(
        job="a", rank=3, world_size=4, host="h1", master="10.1.1.1", interface="eth0", gpu="GPU-x",
        ring=tmp_path, control=tmp_path, local_rank=1, local_size=2,
    )  # fmt: skip
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES")
    assert [told[name] for name in names] == ["3", "1", "2", "GPU-x"]
