"""What a step of a training job takes on every rank, many steps at once. Pure numpy.

    data ─ forward ─ backward ──────────── optimizer       a rank
                        | bucket 0 | bucket 1 | ...        all-reduces of buckets begin when the last rank has arrived
                                                           and the one before is over; the step waits for the last

Axes: T = step, C = collective of a step, R = rank. Times are int64 ns; what a phase takes includes its waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leadline.simulator.fabric import Floats, Ints
from leadline.simulator.network import LinkState, shaped_ns

Slow = Floats | Callable[[int], Floats]

PEERS_MAX = 32  # of an all-to-all that are looked at one by one; more are taken to be like these
ALGORITHMS = ("ring", "halving_doubling", "all_to_all", "pipeline", "")
OVERLAPPED = ("ring", "halving_doubling")


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step of a job does. Times of one rank that has a processor for itself, ns."""

    ranks: int
    compute_ns: float  # forward and backward
    compute_cv: float  # standard deviation over mean, of each rank and step by itself
    data_ns: float
    optimizer_ns: float
    payload_bytes: float  # of one rank: what is reduced, exchanged, or handed on to the next stage
    collectives: int
    algorithm: str = "ring"
    forward_share: float = 1 / 3  # of the compute time; backward costs twice the forward
    overlap: bool = True  # collectives run beside the backward pass, as DDP's buckets do
    channels: int = 2  # rings side by side; odd ones go round the other way
    micro_batches: int = 8  # of a pipeline
    network_cv: float = 0.02  # of a collective's time
    cores: float = 0.0  # that all ranks of the job share; 0: each has its own
    cpu_byte_ns: float = 0.0  # processor time that a byte sent costs these cores

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS or self.ranks < 1 or self.collectives < 0:
            raise ValueError(f"expected ranks >= 1, collectives >= 0, algorithm one of {ALGORITHMS}, got {self}")


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Steps of all ranks: begin and end, what each phase took, and each collective's arrival and end."""

    start_TR: Ints
    data_TR: Ints
    forward_TR: Ints
    backward_TR: Ints
    optimizer_TR: Ints
    end_TR: Ints
    arrive_TCR: Ints
    finish_TCR: Ints

    @property
    def seconds_T(self) -> Floats:
        """Length of each step, by its slowest rank."""
        found: Floats = (self.end_TR - self.start_TR).max(axis=1, initial=0) / 1e9
        return found


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one collective sends: its flows (ranks and bytes of each), and its messages one after the other."""

    src_E: Ints
    dst_E: Ints
    bytes_E: Floats
    rounds: int


def traffic_of(plan: StepPlan) -> Traffic:
    """The flows of one collective of a plan: every edge once.

    ring: 2(n - 1) rounds, each edge carries 2(n - 1)/n of the payload over the channels (Patarasuk and Yuan 2009).
    halving_doubling: 2 log2 n rounds with partners 1, 2, 4, ... away (Thakur et al. 2005); n that is no power of two is
    treated as the next lower one and two rounds more. all_to_all: 1/n of the payload to each peer. pipeline: the
    payload of a micro-batch to the next stage and as much back.
    """
    ranks = plan.ranks
    payload = plan.payload_bytes / max(1, plan.collectives)
    me = np.arange(ranks)
    if ranks < 2 or not plan.algorithm or not payload:
        return Traffic(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), 0)
    if plan.algorithm == "ring":
        ways = [1 if channel % 2 == 0 else -1 for channel in range(plan.channels)]
        size = 2 * (ranks - 1) / ranks * payload / plan.channels
        return _traffic(me, [(me + way) % ranks for way in ways], [size] * len(ways), 2 * (ranks - 1))
    if plan.algorithm == "halving_doubling":
        exponents = range(int(np.log2(ranks)))
        partners = [np.where((me ^ 1 << k) < ranks, me ^ 1 << k, me) for k in exponents]
        extra = 0 if ranks & ranks - 1 == 0 else 2
        return _traffic(me, partners, [payload / 2**k for k in exponents], 2 * len(exponents) + extra)
    if plan.algorithm == "all_to_all":
        away = np.unique(np.linspace(1, ranks - 1, min(ranks - 1, PEERS_MAX)).astype(np.int64))
        size = payload * (ranks - 1) / ranks / len(away)
        return _traffic(me, [(me + each) % ranks for each in away], [size] * len(away), ranks - 1)
    ahead, back = np.minimum(me + 1, ranks - 1), np.maximum(me - 1, 0)
    return _traffic(me, [ahead, back], [payload / plan.micro_batches] * 2, 1)


def _traffic(me: Ints, partners: list[Ints], sizes: list[float], rounds: int) -> Traffic:
    src, dst = np.tile(me, len(partners)), np.concatenate(partners)
    size = np.repeat(np.array(sizes), len(me))
    real = src != dst
    return Traffic(src[real], dst[real], size[real], rounds)


def edge_paths(traffic: Traffic, hosts_R: Ints, links: LinkState) -> Ints:
    """Directions that each flow of a collective crosses, (E, 6). The hash of a flow is that of its two ranks."""
    rail_R = links.fabric.rails_of(hosts_R)
    seed = hosts_R[traffic.src_E] << 32 ^ hosts_R[traffic.dst_E] << 8 ^ rail_R[traffic.src_E] ^ traffic.src_E << 20
    return links.fabric.paths(
        hosts_R[traffic.src_E], rail_R[traffic.src_E], hosts_R[traffic.dst_E], rail_R[traffic.dst_E], seed, links.up_D
    )


def collective_ns(plan: StepPlan, hosts_R: Ints, links: LinkState, idle_ns: float = 0.0) -> float:
    """Time of one collective of a plan when nobody is late, ns; inf where a link that it needs is down.

    All its flows go at once and share links max-min fairly; it is over with the slowest. A round of messages costs
    its overhead; shaped ports forgive as much as their bucket holds after `idle_ns`.
    """
    traffic = traffic_of(plan)
    if not len(traffic.src_E):
        return 0.0
    path_EX = edge_paths(traffic, hosts_R, links)
    rate_E = links.collective_rates(path_EX, traffic.src_E)
    crosses = (path_EX >= 0).any(axis=1)
    # Ranks that share processors serve their messages in turn.
    message_ns = links.transport.message_ns * (max(1.0, plan.ranks / plan.cores) if plan.cores else 1.0)
    if not crosses.any():
        return float(message_ns * traffic.rounds)
    if (rate_E[crosses] <= 0).any():
        return float("inf")
    sent_R = np.bincount(traffic.src_E, weights=traffic.bytes_E, minlength=plan.ranks)
    least_ns = traffic.rounds * message_ns + links.transport.byte_ns * float(sent_R.max())
    # Acknowledgements of what comes go out by the same port.
    wire_E = np.asarray(links.transport.wire_bytes(traffic.bytes_E)) * (1.0 + links.transport.ack_share)
    return float(shaped_ns(wire_E, rate_E, idle_ns, least_ns, links.transport).max())


def steps(
    plan: StepPlan, hosts_R: Ints, links: LinkState, count_T: int, first_ns: int, slow_R: Slow,
    rng: np.random.Generator, took_ns: tuple[float, float] | None = None,
) -> StepTimes:  # fmt: skip
    """`count_T` steps from `first_ns` on, back to back; all ranks begin a step together.

    Inputs: host of each rank (R,); how much longer each rank computes, (R,), or a function of the time (ns) that says
    it step by step. Returns: int64 ns, (T, R) and (T, C, R). A rank behind a dead link finishes never: then the times
    from there on are those of `NEVER_NS` later.
    """
    whole_ns, busy_ns = took_ns or collective_times(plan, hosts_R, links)
    if not callable(slow_R):
        return _laid(plan, count_T, first_ns, np.broadcast_to(slow_R, (count_T, plan.ranks)), whole_ns, busy_ns, rng)
    parts, at_ns = [], first_ns
    for _ in range(count_T):
        part = _laid(plan, 1, at_ns, np.asarray(slow_R(at_ns), np.float64)[None, :], whole_ns, busy_ns, rng)
        parts.append(part)
        at_ns = int(part.end_TR.max())
    return StepTimes(*(np.concatenate([getattr(part, name) for part in parts]) for name in StepTimes.__slots__))


def collective_times(plan: StepPlan, hosts_R: Ints, links: LinkState) -> tuple[float, float]:
    """Times of a collective after a pause and right after another: `took_ns` of `steps`, as long as links stay."""
    return tuple(collective_ns(plan, hosts_R, links, idle_ns=idle_ns) for idle_ns in (1e18, 0.0))  # type: ignore[return-value]


NEVER_NS = 10**15  # eleven days: no collective waits so long


def _laid(
    plan: StepPlan, count_T: int, first_ns: int, slow_TR: Floats, whole_ns: float, busy_ns: float,
    rng: np.random.Generator,
) -> StepTimes:  # fmt: skip
    shape = (count_T, plan.ranks)
    noise_TR = rng.lognormal(-0.5 * np.log1p(plan.compute_cv**2), np.sqrt(np.log1p(plan.compute_cv**2)), shape)
    compute_TR = plan.compute_ns * slow_TR * noise_TR
    data_TR = np.full(shape, plan.data_ns)
    took_TC = np.full((count_T, plan.collectives), busy_ns)
    took_TC[:, :1] = whole_ns
    took_TC = np.minimum(took_TC * np.maximum(0.2, rng.normal(1.0, plan.network_cv, took_TC.shape)), NEVER_NS)
    before_TR = shared(data_TR + compute_TR * plan.forward_share, plan.cores)
    arrive_TCR, finish_TCR, done_TR = _BODY[_body_of(plan)](plan, before_TR, compute_TR, took_TC)
    optimizer_TR = shared(np.full(shape, plan.optimizer_ns), plan.cores)
    length_T = (done_TR + optimizer_TR).max(axis=1)
    start_T = first_ns + np.r_[0, np.cumsum(np.rint(length_T[:-1]))].astype(np.int64) if count_T else np.zeros(0)
    start_TR = np.repeat(start_T[:, None], plan.ranks, axis=1).astype(np.int64)
    data_share_TR = np.minimum(before_TR, shared(data_TR, plan.cores))
    whole = start_TR[:, None, :]
    return StepTimes(
        start_TR, _whole(data_share_TR), _whole(before_TR - data_share_TR), _whole(done_TR - before_TR),
        _whole(optimizer_TR), start_TR + _whole(done_TR + optimizer_TR), whole + _whole(arrive_TCR),
        whole + _whole(finish_TCR),
    )  # fmt: skip


def _body_of(plan: StepPlan) -> str:
    if plan.algorithm == "pipeline":
        return "pipeline"
    return "overlapped" if plan.overlap and plan.algorithm in OVERLAPPED else "blocking"


def _overlapped(plan: StepPlan, before_TR: Floats, compute_TR: Floats, took_TC: Floats) -> tuple[Floats, ...]:
    """Buckets become ready one after the other in the backward pass; the processor also carries their bytes."""
    backward_TR = compute_TR * (1.0 - plan.forward_share)
    count = took_TC.shape[1]
    carried_TR = backward_TR + plan.cpu_byte_ns * sent_bytes(plan)
    after_TR = shared(carried_TR, plan.cores)
    alone_TR = shared(backward_TR, plan.cores)
    arrive = [before_TR + alone_TR * ((c + 1) / count) for c in range(count)]
    finish_T = before_TR.min(axis=1)
    finishes = []
    for c, arrive_TR in enumerate(arrive):
        finish_T = np.maximum(arrive_TR.max(axis=1), finish_T) + took_TC[:, c]
        finishes.append(finish_T)
    done_TR = before_TR + after_TR
    if finishes:
        done_TR = np.maximum(done_TR, finishes[-1][:, None])
    return _stacked(arrive, finishes, done_TR)


def _blocking(plan: StepPlan, before_TR: Floats, compute_TR: Floats, took_TC: Floats) -> tuple[Floats, ...]:
    """Compute and collectives in turn, as between the layers of a mixture of experts, or in a benchmark."""
    count = took_TC.shape[1]
    backward_TR = shared(compute_TR * (1.0 - plan.forward_share) + plan.cpu_byte_ns * sent_bytes(plan), plan.cores)
    at_TR = before_TR
    arrive, finishes = [], []
    for c in range(count):
        at_TR = at_TR + backward_TR / count
        arrive.append(at_TR)
        finishes.append(at_TR.max(axis=1) + took_TC[:, c])
        at_TR = np.repeat(finishes[-1][:, None], plan.ranks, axis=1)
    return _stacked(arrive, finishes, at_TR if count else before_TR + backward_TR)


def _pipeline(plan: StepPlan, before_TR: Floats, compute_TR: Floats, took_TC: Floats) -> tuple[Floats, ...]:
    """1F1B: the slowest stage sets the pace, the others fill and drain the pipe (Narayanan et al., SC 2021, 2.2).

    Length: one micro-batch through all stages and back, then the slowest stage m - 1 times; each hand-over costs.
    """
    micro_TR = shared(compute_TR, plan.cores) / plan.micro_batches
    hop_T = took_TC[:, 0] if took_TC.shape[1] else np.zeros(len(micro_TR))
    fill_T = micro_TR.sum(axis=1) + 2 * (plan.ranks - 1) * hop_T
    pace_T = micro_TR.max(axis=1) + (hop_T if plan.ranks > 1 else 0.0)
    length_T = fill_T + (plan.micro_batches - 1) * pace_T
    done_TR = np.repeat((shared(np.full(micro_TR.shape, plan.data_ns), plan.cores).max(axis=1) + length_T)[:, None],
                        plan.ranks, axis=1)  # fmt: skip
    count = took_TC.shape[1]
    # Hand-overs are spread over the step; a stage is in the pipe after those before it.
    reach_TR = np.cumsum(micro_TR, axis=1) * plan.forward_share
    arrive = [np.minimum(reach_TR + pace_T[:, None] * plan.micro_batches * c / count, done_TR) for c in range(count)]
    finishes_TR = [np.minimum(each + took_TC[:, c, None], done_TR) for c, each in enumerate(arrive)]
    done_TR = np.maximum(done_TR, before_TR)
    if not count:
        return _stacked(arrive, [], done_TR)
    return np.stack(arrive, axis=1), np.stack(finishes_TR, axis=1), done_TR


_BODY: dict[str, Callable[..., tuple[Floats, ...]]] = {
    "overlapped": _overlapped,
    "blocking": _blocking,
    "pipeline": _pipeline,
}


def _stacked(arrive: list[Floats], finishes: list[Floats], done_TR: Floats) -> tuple[Floats, ...]:
    if not arrive:
        none = np.zeros((len(done_TR), 0, done_TR.shape[1]))
        return none, none, done_TR
    arrive_TCR = np.stack(arrive, axis=1)
    return arrive_TCR, np.broadcast_to(np.stack(finishes, axis=1)[:, :, None], arrive_TCR.shape), done_TR


def sent_bytes(plan: StepPlan) -> float:
    """Bytes that one rank sends in a step."""
    traffic = traffic_of(plan)
    return float(traffic.bytes_E.sum()) * max(1, plan.collectives) / plan.ranks


def shared(work_TR: Floats, cores: float) -> Floats:
    """When each rank is through with its work where all of them share `cores`; 0: each has its own.

    Processor sharing: while k ranks work, each gets min(1, cores / k) of a processor.
    """
    ranks = work_TR.shape[1]
    if not cores or ranks <= cores:
        return work_TR
    order_TR = np.argsort(work_TR, axis=1)
    sorted_TR = np.take_along_axis(work_TR, order_TR, axis=1)
    working = ranks - np.arange(ranks)
    slice_TR = np.diff(sorted_TR, axis=1, prepend=0.0) / np.minimum(1.0, cores / working)
    done_TR = np.empty_like(work_TR)
    np.put_along_axis(done_TR, order_TR, np.cumsum(slice_TR, axis=1), axis=1)
    return done_TR


def _whole(value: Floats) -> Ints:
    return np.rint(value).astype(np.int64)
