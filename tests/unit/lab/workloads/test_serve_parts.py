"""Batched inference without a model: batching, percentiles, frames, and server and load in one loop over loopback."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import random
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.workloads.control import Control
from leadline.lab.workloads.serve.batching import Batcher, Policy, Window, arrivals, percentile
from leadline.lab.workloads.serve.client import Load
from leadline.lab.workloads.serve.job import Serve
from leadline.lab.workloads.serve.rank import arguments, bounded, endpoint, flow_edges
from leadline.lab.workloads.serve.server import Server
from leadline.lab.workloads.serve.wire import PAYLOAD_MAX, REPLY, REQUEST, Frame, Frames, encode
from leadline.model.errors import DataError, UsageError

POLICIES = st.builds(
    lambda batch, more, wait: Policy(batch, wait, batch + more),
    st.integers(1, 6),
    st.integers(0, 6),
    st.integers(0, 50),
)


@given(POLICIES, st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=60))
def test_batches_are_bounded_in_order_and_no_request_is_lost(policy: Policy, deeds: list[tuple[int, bool]]) -> None:
    batcher: Batcher[int] = Batcher(policy)
    now, number, taken, shed = 0, 0, list[int](), 0
    for passed, arrives in deeds:
        now += passed
        if arrives:
            if batcher.offer(number, now):
                number += 1
            else:
                shed += 1
                assert len(batcher) == policy.queue_max, "shed only when full"
        due = batcher.due_ns(now)
        assert (due is None) == (len(batcher) == 0)
        if due is not None and due <= now:
            batch = batcher.take()
            assert 0 < len(batch) <= policy.batch_max
            assert len(batch) == policy.batch_max or batch[0][0] + policy.wait_ns <= now
            taken += [each for _, each in batch]
        assert len(batcher) <= policy.queue_max
    while len(batcher):
        taken += [each for _, each in batcher.take()]
    assert taken == list(range(number))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.floats(0.001, 1.0))
def test_a_percentile_is_one_of_the_values_and_not_too_small(values: list[float], ratio: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, ratio)
    assert found in ordered
    assert sum(each <= found for each in ordered) >= ratio * len(ordered) * (1 - 1e-12)
    assert sum(each < found for each in ordered) < max(1.0, ratio * len(ordered))


def test_percentiles_of_few_and_of_none() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.99) == 4.0
    assert math.isnan(percentile([], 0.5))
    assert Window(0, 0).metrics() == {}


def test_arrivals_are_poisson_and_the_same_for_a_seed() -> None:
    times = list(itertools.islice(arrivals(random.Random(3), 50.0), 20_000))
    assert times == list(itertools.islice(arrivals(random.Random(3), 50.0), 20_000))
    gaps = [b - a for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1 / 50, rel=0.03)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert math.sqrt(variance) == pytest.approx(mean, rel=0.05)  # as an exponential distribution has it


FRAMES = st.lists(
    st.builds(Frame, st.just(REPLY), st.integers(0, 1), st.integers(0, 2**64 - 1), st.binary(max_size=40))
)


@given(FRAMES, st.integers(1, 60))
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames: list[Frame], size: int) -> None:
    stream = b"".join(map(encode, frames))
    reader = Frames(REPLY, "test")
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == frames


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_data_error(data: bytes) -> None:
    try:
        frames = Frames(REQUEST, "test").feed(data)
    except DataError:
        return
    assert b"".join(map(encode, frames)) == data[: sum(len(encode(each)) for each in frames)]


def test_a_payload_that_is_too_large_is_refused_before_it_comes() -> None:
    head = encode(Frame(REQUEST, 0, 1, b""))[:-4] + (PAYLOAD_MAX + 1).to_bytes(4, "big")
    with pytest.raises(DataError, match="payload of at most"):
        Frames(REQUEST, "test").feed(head)


# -- server and load over loopback; the model is a function ------------------------------------------------------------


def reversed_bytes(payloads: Sequence[bytes]) -> list[bytes]:
    """A double of a model: says its requests backwards."""
    return [each[::-1] for each in payloads]


def with_server(
    work: Callable[[Server, int], Awaitable[None]], policy: Policy, device_s: float, windows: list[Window]
) -> None:
    """Run a server on some port, `work` beside it, and stop."""

    async def whole() -> None:
        stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
        server = Server(policy, reversed_bytes, device_s, Control(None), lambda window, _: windows.append(window))
        running = asyncio.ensure_future(server.run("127.0.0.1", 0, stop, listening.set_result))
        try:
            await work(server, await listening)
        finally:
            stop.set()
            await running

    asyncio.run(asyncio.wait_for(whole(), 30))


def load_on(port: int, rate_per_s: float, windows: list[Window], timeout_s: float = 5.0) -> Load:
    tell = lambda window, _: windows.append(window)  # noqa: E731
    return Load([("127.0.0.1", port)], rate_per_s, 64, timeout_s, 1, Control(None), tell)


async def until(true: Callable[[], bool]) -> None:
    for _ in range(200):
        if true():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("not within 10 s")


def test_a_light_load_is_answered_in_full() -> None:
    served, asked = list[Window](), list[Window]()

    async def work(server: Server, port: int) -> None:
        load, stop = load_on(port, 80.0, asked), asyncio.Event()
        running = asyncio.ensure_future(load.run(stop))
        await until(lambda: len(load.latencies_ms) >= 60)
        stop.set()
        await running

    with_server(work, Policy(4, 2_000_000, 64), 0.004, served)
    answered = sum(len(each.latencies_ms) for each in asked)
    assert answered >= 60
    assert not any(each.counts() for each in (*served, *asked))
    assert all(latency >= 4.0 for each in asked for latency in each.latencies_ms), "no faster than the device"
    assert sum(len(each.latencies_ms) for each in served) >= answered


def test_an_overload_is_shed_and_counted_and_the_queue_stays_bounded() -> None:
    served, asked = list[Window](), list[Window]()

    async def work(server: Server, port: int) -> None:
        load, stop = load_on(port, 400.0, asked), asyncio.Event()  # it can do 2 / 0.05 s = 40 a second
        running = asyncio.ensure_future(load.run(stop))
        await until(lambda: sum(each.shed for each in (*asked, load.window)) >= 150)
        stop.set()
        await running

    with_server(work, Policy(2, 0, 6), 0.05, served)
    assert sum(each.shed for each in served) >= sum(each.shed for each in asked) >= 150
    assert max(each.queue_max for each in served) == 6
    assert sum(len(each.latencies_ms) for each in asked) > 0, "what is taken is answered"
    assert max(len(each.latencies_ms) / each.batches for each in served if each.batches) <= 2


def test_garbage_is_refused_and_the_others_go_on() -> None:
    served = list[Window]()

    async def work(server: Server, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.read() == b"", "closed without an answer"
        writer.close()
        await writer.wait_closed()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode(Frame(REQUEST, 0, 7, b"abc")))
        expected = encode(Frame(REPLY, 0, 7, b"cba"))
        assert await reader.readexactly(len(expected)) == expected
        writer.close()
        await writer.wait_closed()

    with_server(work, Policy(4, 0, 8), 0.0, served)
    assert sum(each.refused for each in served) == 1
    assert sum(len(each.latencies_ms) for each in served) == 1


def test_requests_to_a_server_that_dies_fail_and_are_counted() -> None:
    asked = list[Window]()

    async def work(server: Server, port: int) -> None:
        load, stop = load_on(port, 100.0, asked), asyncio.Event()
        running = asyncio.ensure_future(load.run(stop))
        await until(lambda: len(load.latencies_ms) > 5)
        for one in list(server.connections):
            one.abort()
        await until(lambda: load.window.failed + sum(each.failed for each in asked) > 5)
        before = len(load.latencies_ms)
        await until(lambda: len(load.latencies_ms) > before)  # it connects again
        stop.set()
        await running

    with_server(work, Policy(4, 0, 64), 0.01, [])
    assert sum(each.failed for each in asked) > 5


# -- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "10.0.0.1", ":80", "h:x", "h:70000"])
def test_an_endpoint_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="ADDRESS:PORT"):
        endpoint(text)


@pytest.mark.parametrize(
    "words",
    [
        ["server", "--listen", "127.0.0.1:1", "--batch-max", "9", "--queue-max", "8"],
        ["server", "--listen", "127.0.0.1:1", "--request-bytes", "0"],
        ["client", "--servers", "127.0.0.1:1", "--rate", "1e9"],
        ["client", "--servers", "127.0.0.1"],
    ],
)
def test_what_cannot_be_is_refused_at_the_start(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(words)
    assert "serve.rank" in capsys.readouterr().err


def test_numbers_are_bounded() -> None:
    assert bounded(0, 5)("2.5") == 2.5
    for text in ("6", "-1", "nan", "x"):
        with pytest.raises(argparse.ArgumentTypeError, match="from 0 to 5"):
            bounded(0, 5)(text)


@pytest.mark.parametrize(
    "wrong", [{"batch_max": 0}, {"queue_max": 7}, {"request_bytes": 0}, {"response_bytes": 1 << 21}]
)
def test_an_impossible_job_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="workload serve-1"):
        Serve(**wrong)  # type: ignore[arg-type]


def test_both_flows_of_a_connection_are_announced() -> None:
    here = flow_edges("rank:s-1/0", ("10.1.1.1", 29600), ("10.1.2.1", 40000))
    there = flow_edges("rank:s-1/1", ("10.1.2.1", 40000), ("10.1.1.1", 29600))
    assert {child for child, _, _ in here} == {child for child, _, _ in there}
    assert len({child for child, _, _ in here}) == 2
