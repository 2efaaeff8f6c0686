"""Collectives of real gloo processes, as their rings tell them."""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from tests.unit.torch.job import rows_of, run_job
from torch.nn.parallel import DistributedDataParallel

import leadline.torch as leadline_torch
from leadline.torch.collectives import Comm, comm_name
from leadline.torch.identity import identity_from

pytestmark = pytest.mark.slow  # left out of make check

EVERYTHING = """
watch = leadline_torch.watch()
join()
t = torch.ones(1000)
dist.all_reduce(t)
assert t[0] == world_size
dist.all_gather([torch.empty(10), torch.empty(10)], torch.ones(10))
dist.all_gather_into_tensor(torch.empty(20), torch.ones(10))
dist.broadcast(t, 0)
dist.reduce(t, 0)
dist.reduce_scatter_tensor(torch.empty(5), torch.ones(10))
dist.all_to_all_single(torch.empty(10, dtype=torch.float64), torch.ones(10, dtype=torch.float64))
dist.barrier()
dist.scatter(torch.empty(3), [torch.ones(3), torch.ones(3)] if rank == 0 else None, 0)
dist.gather(torch.ones(3), [torch.ones(3), torch.ones(3)] if rank == 0 else None, 0)
if rank == 0:
    dist.send(torch.ones(7), 1)
else:
    dist.recv(torch.empty(7), 0)
second = dist.new_group([0, 1])
work = dist.all_reduce(torch.ones(2), group=second, async_op=True)
work.wait()
dist.destroy_process_group()
watch.close()
assert not watch.errors, watch.errors
"""


def by_key(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], list[str]]:
    found: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        found.setdefault((row["rank"], row["comm"], row["op"], row["seq"]), []).append(row["state"])
    return found


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    rings = tmp_path_factory.mktemp("rings")
    run_job(EVERYTHING, rings)
    return rows_of(rings)


def test_every_collective_begins_and_ends_once(everything: dict[str, list[dict[str, Any]]]) -> None:
    states = by_key(everything["collective"])
    assert {tuple(sorted(each)) for each in states.values()} == {("enqueued", "finished")}
    ops = Counter(op for rank, _, op, _ in states if rank == 0)
    assert ops == {
        "all_reduce": 2, "all_gather": 2, "broadcast": 1, "reduce": 1, "reduce_scatter": 1, "all_to_all": 1,
        "barrier": 1, "scatter": 1, "gather": 1, "send": 1,
    }  # fmt: skip


def test_ranks_agree_on_communicator_and_number(everything: dict[str, list[dict[str, Any]]]) -> None:
    own = [
        {(row["comm"], row["op"], row["seq"]) for row in everything["collective"] if row["rank"] == rank}
        for rank in (0, 1)
    ]
    differ = {op for _, op, _ in own[0] ^ own[1]}
    assert differ == {"send", "recv"}
    world, second = sorted(
        {comm for comm, _, _ in own[0]}, key=lambda comm: -len([c for c, _, _ in own[0] if c == comm])
    )
    assert world.startswith("test-1/0x")
    assert second != world
    numbers = sorted(seq for comm, op, seq in own[0] if comm == world and op != "send")
    assert numbers == list(range(10))  # of all but the pairwise ones, in the order of the calls


def test_payloads_types_and_times(everything: dict[str, list[dict[str, Any]]]) -> None:
    ended = {
        row["op"]: row
        for row in everything["collective"]
        if row["rank"] == 0 and row["state"] == "finished" and row["ranks"] == 2
    }
    assert (ended["broadcast"]["bytes"], ended["broadcast"]["dtype"]) == (4000, "float32")
    assert (ended["all_to_all"]["bytes"], ended["all_to_all"]["dtype"]) == (80, "float64")
    assert (ended["barrier"]["bytes"], ended["barrier"]["dtype"]) == (0, "")
    assert ended["scatter"]["bytes"] == 12
    for row in ended.values():
        assert row["enqueued_ns"] <= row["finished_ns"] < row["enqueued_ns"] + 60_000_000_000
        assert row["source"] == "torch-hook"


def test_both_ends_of_a_message_are_told_under_one_number(everything: dict[str, list[dict[str, Any]]]) -> None:
    told = {row["side"]: row for row in everything["message_end"]}
    assert len(everything["message_end"]) == 2
    sent, received = told["send"], told["recv"]
    for row in (sent, received):
        assert (row["channel"], row["seq"], row["bytes"]) == (0, 0, 28)
        assert row["begin_ns"] <= row["end_ns"]
    assert (sent["rank"], sent["peer"]) == (0, 1)
    assert (received["rank"], received["peer"]) == (1, 0)
    assert sent["comm"] == received["comm"]


def test_messages_are_numbered_by_peer_and_tag() -> None:
    comm = Comm("test-1/0x0", 3, members=[4, 6, 8])
    asked = [("send", 1, 0), ("send", 1, 1), ("recv", 1, 0), ("send", 2, 0), ("send", 1, 0)]
    assert [comm.message(*each) for each in asked] == [(0, 0, 6), (1, 0, 6), (0, 0, 6), (0, 0, 8), (0, 1, 6)]


def test_ranks_announce_themselves(everything: dict[str, list[dict[str, Any]]]) -> None:
    edges = {(row["child"], row["kind"], row["parent"]) for row in everything["relation"]}
    assert ("rank:test-1/1", "in", "job:test-1") in edges
    assert ("rank:test-1/1", "runs-on", "gpu:GPU-1") in edges
    comms = {row["comm"] for row in everything["collective"]}
    assert {("rank:test-1/0", "member", f"comm:{comm}") for comm in comms} <= edges
    closed = [row for row in everything["relation"] if row["kind"] == "runs-on" and row["to_ns"] is not None]
    assert len(closed) == 6  # job, process, host and GPU of two ranks ended with them; `in` is counted apart


DDP = """
from torch.nn.parallel import DistributedDataParallel
watch = leadline_torch.watch()
join()
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
model = DistributedDataParallel(model, bucket_cap_mb=0.5, {arguments})
{before}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
for number in range(4):
    with watch.step(number) as step:
        optimizer.zero_grad()
        with step.forward():
            out = model(torch.randn(4, 256)).square().mean()
        with step.backward():
            out.backward()
        optimizer.step()
        step.loss = out
        step.samples = 4
del optimizer
print("sum", sum(p.double().sum().item() for p in model.parameters()))
dist.destroy_process_group()
assert not watch.errors, watch.errors
"""
BY_HAND = """
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
model.register_comm_hook(None, fp16_compress_hook)
"""


def test_reductions_of_ddp_are_seen_and_change_nothing(tmp_path: Path) -> None:
    watched = run_job(DDP.format(arguments="", before=""), tmp_path)
    plain = run_job(DDP.format(arguments="", before=""), tmp_path / "missing")
    for output in plain:
        assert output.count("training is not watched") == 1  # and it went on
    assert not (tmp_path / "missing").exists()
    rows = rows_of(tmp_path)
    assert len(rows["step"]) == 8
    buckets = [row for row in rows["collective"] if row["op"] == "all_reduce" and row["rank"] == 0]
    assert {row["state"] for row in buckets} == {"enqueued", "finished"}
    assert sum(row["bytes"] for row in buckets if row["state"] == "finished") == 4 * 6 * (256 * 256 + 256) * 4
    step = rows["step"][0]
    assert step["forward_ns"] > 0
    assert step["backward_ns"] > 0
    assert step["optimizer_ns"] > 0  # from the optimiser's own hook
    assert step["end_ns"] - step["start_ns"] >= step["forward_ns"] + step["backward_ns"] + step["optimizer_ns"]
    sums = {line for text in (*watched, *plain) for line in text.splitlines() if line.startswith("sum")}
    assert len(sums) == 1, sums  # the same weights on both ranks, watched or not


def test_a_hook_of_the_users_own_stays_and_is_seen(tmp_path: Path) -> None:
    run_job(DDP.format(arguments="", before=BY_HAND), tmp_path)
    rows = rows_of(tmp_path)
    assert {row["dtype"] for row in rows["collective"] if row["op"] == "all_reduce"} == {"float16"}


def test_a_dead_peer_is_a_failed_collective_and_an_honest_exit(tmp_path: Path) -> None:
    program = """
watch = leadline_torch.watch()
join(timeout_s=5)
dist.all_reduce(torch.ones(10))
if rank == 1:
    os._exit(3)
try:
    dist.all_reduce(torch.ones(10))
except RuntimeError as error:
    print("failed:", str(error)[:80])
    watch.close()
    os._exit(7)
"""
    outputs = run_job(program, tmp_path, codes=[7, 3])
    assert "failed:" in outputs[0]
    states = by_key(rows_of(tmp_path)["collective"])
    assert sorted(states[next(key for key in states if key[0] == 0 and key[3] == 1)]) == ["enqueued", "failed"]


def test_everything_is_put_back(tmp_path: Path) -> None:
    def hooked() -> tuple[object, ...]:
        # What lies in the classes: getattr would make the same of a method that does not bind any more.
        places = ((dist.ProcessGroup, "allreduce"), (dist.Work, "wait"), (DistributedDataParallel, "__init__"))
        return tuple(inspect.getattr_static(owner, name) for owner, name in places)

    before = hooked()
    watch = leadline_torch.watch(directory=str(tmp_path))
    try:
        assert leadline_torch.watch() is watch
        assert all(now is not then for now, then in zip(hooked(), before, strict=True))
    finally:
        watch.close()
    assert hooked() == before
    assert leadline_torch.watch(directory=str(tmp_path / "missing")) is not watch


def test_collectives_work_before_while_and_after(tmp_path: Path) -> None:
    program = """
join()
t = torch.ones(4)
for _ in range(3):
    dist.all_reduce(t)
    watch = leadline_torch.watch()
    dist.all_reduce(t)
    watch.close()
dist.all_reduce(t)
assert t[0] == 2 ** 7, t
assert not watch.errors, watch.errors
os._exit(0)
"""
    run_job(program, tmp_path)
    states = by_key(rows_of(tmp_path)["collective"])
    assert sorted(key[3] for key in states if key[0] == 0) == [1, 3, 5]  # the group's own numbers
    assert {len(each) for each in states.values()} == {2}


def test_a_group_made_anew_under_an_old_name_is_another_communicator() -> None:
    identity = identity_from({"LEADLINE_JOB": "a"}, "h")
    names = {comm_name(identity, "0", [0, 1], generation) for generation in range(3)}
    assert len(names) == 3
    assert comm_name(identity, "0", [0, 1], 0) != comm_name(identity, "0", [0, 2], 0)


def test_numbers_follow_the_group_and_go_on_where_it_stands_still() -> None:
    comm = Comm("c", 2)
    assert [comm.number(value) for value in (0, 1, 5, 5, 5)] == [0, 1, 5, 6, 7]
    assert [comm.number(-1) for _ in range(2)] == [8, 9]


COPIED = """
import copy, io
from torch.nn.parallel import DistributedDataParallel
watch = leadline_torch.watch()
join()
model = DistributedDataParallel(torch.nn.Linear(4, 4))
for _ in range(2):
    torch.save(model, saved := io.BytesIO())
    assert b"leadline" not in saved.getvalue()
    copied = copy.deepcopy(model)
    copied(torch.ones(2, 4)).sum().backward()
    model(torch.ones(2, 4)).sum().backward()
watch.close()
assert not watch.errors, watch.errors
"""


def test_a_watched_model_is_copied_and_saved_as_one_that_is_not(tmp_path: Path) -> None:
    run_job(COPIED, tmp_path, ranks=1)
    assert {row["op"] for row in rows_of(tmp_path)["collective"]} == {"all_reduce"}
