"""Laws of the queue pair: over a network that loses, doubles and reorders, messages arrive whole, once, in order."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.lab.workloads.transport.go_back_n import RETRIES, TIMEOUT_NS, Requester, Responder, unfold
from leadline.lab.workloads.transport.queue_pair import RECEIVES_POSTED, QueuePair
from leadline.lab.workloads.transport.rocev2 import ACK, NAK_SEQUENCE, RNR_NAK, RNR_TIMER, SEQUENCES, read_packet
from leadline.testing.clock import FakeClock

MTU = 1024


@dataclass(frozen=True)
class Weather:
    """What a network does to a packet, as probabilities."""

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0  # held back by up to 3 ms, so others overtake it


class FakePath:
    """Stands for the network between two queue pairs: 50 us each way, and weather."""

    def __init__(self, seed: int, weather: Weather, mtu: int = MTU) -> None:
        self.clock = FakeClock(10**9)
        self.counts = (Counter[str](), Counter[str]())
        self.ends = (QueuePair(11, 22, mtu, self.counts[0]), QueuePair(22, 11, mtu, self.counts[1]))
        self.lost = Counter[int]()  # by the end that sent
        self._rng, self._weather = random.Random(seed), weather
        self._flying: list[tuple[int, int, int, bytes]] = []  # arrives ns, tie, to which end, bytes
        self._sent = 0

    def turn(self) -> bool:
        """Send what may go, then move on to the next thing that happens; False if nothing ever will."""
        now_ns = self.clock()
        for number, end in enumerate(self.ends):
            end.expire(now_ns)
            for parts in end.packets(now_ns):
                self._fly(1 - number, b"".join(parts), now_ns)
        times = [flight[0] for flight in self._flying[:1]]
        times += [wake for end in self.ends if (wake := end.wakes_ns()) is not None]
        if not times:
            return any(end.failed for end in self.ends)
        self.clock.advance(max(0, min(times) - now_ns) / 1e9)
        while self._flying and self._flying[0][0] <= self.clock():
            _, _, to, data = self._flying.pop(0)
            self.ends[to].receive(read_packet(memoryview(data)), self.clock())
        return True

    def _fly(self, to: int, data: bytes, now_ns: int) -> None:
        if self._rng.random() < self._weather.lost:
            self.lost[1 - to] += 1
            return
        for _ in range(2 if self._rng.random() < self._weather.doubled else 1):
            late_ns = self._rng.randrange(3_000_000) if self._rng.random() < self._weather.late else 0
            self._sent += 1
            self._flying.append((now_ns + 50_000 + late_ns, self._sent, to, data))
        self._flying.sort()


def talk(path: FakePath, messages: tuple[list[bytes], list[bytes]]) -> tuple[list[bytes], list[bytes]]:
    """Send all, both ways; returns what each end got."""
    got: tuple[list[bytes], list[bytes]] = ([], [])
    marks = [[end.send(memoryview(each)) for each in mine] for end, mine in zip(path.ends, messages, strict=True)]
    for _ in range(200_000):
        for number, end in enumerate(path.ends):
            while end.messages:
                got[number].append(bytes(end.messages.popleft()))
        done = all(end.completed(mark) for end, mine in zip(path.ends, marks, strict=True) for mark in mine)
        if done or any(end.failed for end in path.ends):
            break
        assert path.turn(), "nothing more will happen, but not all is acknowledged"
    return got


messages = st.lists(st.integers(0, 6 * MTU), max_size=6).map(
    lambda sizes: [bytes([place % 256]) * size for place, size in enumerate(sizes)]
)
weathers = st.builds(
    Weather, st.sampled_from([0.0, 0.01, 0.2]), st.sampled_from([0.0, 0.2]), st.sampled_from([0.0, 0.3])
)


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32), weather=weathers, there=messages, back=messages, mtu=st.sampled_from([256, 4096]))
def test_messages_arrive_whole_once_and_in_order(
    seed: int, weather: Weather, there: list[bytes], back: list[bytes], mtu: int
) -> None:
    path = FakePath(seed, weather, mtu)
    assert talk(path, (there, back)) == (back, there)
    total = path.counts[0] + path.counts[1]
    if weather == Weather():
        assert total == Counter()  # a healthy path counts nothing
    assert total["packet_seq_err"] <= total["out_of_sequence"] * (2 if weather.doubled else 1)


@pytest.mark.parametrize("seed", range(5))
def test_losses_are_counted_on_both_sides(seed: int) -> None:
    path = FakePath(seed, Weather(lost=0.02))
    sent = [bytes(20 * MTU)] * 20
    _, got = talk(path, (sent, []))
    assert got == sent
    assert path.lost[0] > 0
    assert path.counts[0]["packet_seq_err"] > 0
    assert path.counts[1]["out_of_sequence"] >= path.counts[0]["packet_seq_err"]
    assert path.counts[1]["packet_seq_err"] == 0  # that end sent no data


def test_a_dead_path_ends_in_an_error() -> None:
    path = FakePath(1, Weather(lost=1.0))
    assert talk(path, ([b"x"], [])) == ([], [])
    assert path.ends[0].failed
    assert path.counts[0]["local_ack_timeout_err"] == RETRIES + 1
    assert path.counts[0]["req_transport_retries_exceeded"] == 1
    assert 20e9 < path.clock() < 40e9  # a flap of some seconds is survived
    assert path.ends[0].wakes_ns() is None
    assert list(path.ends[0].packets(path.clock())) == []


def test_a_receiver_that_is_not_ready_is_asked_again() -> None:
    path = FakePath(1, Weather())
    sender, receiver = path.ends
    for number in range(RECEIVES_POSTED + 3):
        sender.send(memoryview(bytes([number])))
    for _ in range(50):
        path.turn()
    assert len(receiver.messages) == RECEIVES_POSTED
    refused = path.counts[0]["rnr_nak_retry_err"]
    assert refused > 1
    assert path.counts[1]["out_of_buffer"] == refused
    assert path.counts[1]["out_of_sequence"] == 0  # nothing was lost
    receiver.messages.clear()
    for _ in range(50):
        path.turn()
    assert [message[0] for message in receiver.messages] == [16, 17, 18]


def test_the_sequence_number_comes_round() -> None:
    """The 24 bits overflow after 16 GiB on one queue pair: both ends go on."""
    path = FakePath(3, Weather(lost=0.05))
    for end in path.ends:
        near = 5 * SEQUENCES - 3
        end.requester.acknowledged = end.requester.handed = end.requester.posted = end.requester._next = near
        end.responder.expected = near
    sent = [bytes([number]) * 3000 for number in range(12)]
    assert talk(path, (sent, sent)) == (sent, sent)
    assert path.ends[0].requester.acknowledged > 5 * SEQUENCES


@given(near=st.integers(0, 2**40), off=st.integers(-(2**23), 2**23 - 1))
def test_unfold_finds_the_nearest(near: int, off: int) -> None:
    assert unfold((near + off) % SEQUENCES, near) == near + off


@settings(max_examples=200)
@given(answers=st.lists(st.tuples(st.integers(0, 255), st.integers(0, SEQUENCES - 1)), max_size=40))
def test_no_answer_can_break_a_requester(answers: list[tuple[int, int]]) -> None:
    """Answers from a stranger: what counts as acknowledged was sent, and never goes back."""
    one = Requester()
    one.post(100)
    now_ns = 0
    for syndrome, sequence in answers:
        while one.take(now_ns) is not None:
            pass
        before = one.acknowledged
        one.acknowledge(syndrome, sequence % 128, now_ns)
        assert before <= one.acknowledged <= one.handed <= one.posted
        now_ns += 10_000_000


@settings(max_examples=200)
@given(packets=st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.booleans()), max_size=60))
def test_a_responder_takes_each_packet_once(packets: list[tuple[int, bool, bool]]) -> None:
    one = Responder()
    taken = [sequence for sequence, asks, ready in packets if one.receive(sequence, asks, ready)[0]]
    assert taken == list(range(len(taken)))
    assert one.expected == len(taken)


def test_one_gap_one_nak() -> None:
    one = Responder()
    assert one.receive(0, False, True) == (True, None)
    assert one.receive(2, False, True) == (False, (NAK_SEQUENCE, 1))
    assert one.receive(3, True, True) == (False, None)
    assert one.receive(1, True, True) == (True, (ACK, 1))
    assert one.receive(3, False, True) == (False, (NAK_SEQUENCE, 2))
    assert one.counts == {"out_of_sequence": 3}


def test_nobody_ready_is_no_loss() -> None:
    one = Responder()
    assert one.receive(0, False, False) == (False, (RNR_NAK | RNR_TIMER, 0))
    assert one.receive(1, False, True) == (False, None)
    assert one.counts == {"out_of_buffer": 1}


def test_a_window_that_halves_and_grows() -> None:
    one = Requester(window=8)
    one.post(1000)
    assert [taken[0] for taken in iter(lambda: one.take(0), None)] == list(range(8))
    one.acknowledge(NAK_SEQUENCE, 2, 0)
    assert one.window == 4
    assert [taken[0] for taken in iter(lambda: one.take(0), None)] == [2, 3, 4, 5]
    one.acknowledge(ACK, 5, 0)
    assert one.window == 5
    assert one.wakes_ns() is None
    assert one.take(0) == (6, False)
    assert one.wakes_ns() == TIMEOUT_NS


def test_the_last_packet_of_a_run_asks() -> None:
    one = Requester(window=20)
    one.post(30)
    asks = [taken[1] for taken in iter(lambda: one.take(0), None)]
    assert [place for place, asked in enumerate(asks) if asked] == [7, 15, 19]
