"""Steps of running jobs: a plan and the links of a run, its faults over time, and what `step_model` makes of them.

Ranks are numbered host by host. Rings go from host to host on each rail, so for the step model they stand rail by rail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from leadline.simulator.fabric import Bools, Fabric, Floats, Ints
from leadline.simulator.fleet import FABRIC_BPS, HOST_BPS, Fleet
from leadline.simulator.network import ROCE, LinkState, still
from leadline.simulator.step_model import StepPlan, StepTimes, collective_times, sent_bytes, steps
from leadline.simulator.targets import Befallen, Run

CELLS_MAX = 1_000_000  # steps x ranks x collectives that are laid at once
TREE_RANKS = 512  # larger jobs reduce by halving and doubling: a ring's rounds would take longer than its bytes


FOREVER_NS = 2**62  # a time that none reaches


@dataclass(slots=True)
class Laid:
    """Some steps of a run, true time; `checkpoint_T` ns. `first` is the number of the first step.

    `ended`: so many of them were over when the run was; None: all. Of the others only those calls are told that were
    made until `until_ns`.
    """

    first: int
    times: StepTimes
    checkpoint_T: Ints
    odd_R: Bools | None = None  # ranks that enter another collective in the first step of these
    ended: int | None = None
    until_ns: int = FOREVER_NS

    @property
    def whole(self) -> Laid:
        """Those that were over."""
        if self.ended is None:
            return self
        return Laid(self.first, _first(self.times, self.ended), self.checkpoint_T[: self.ended])


class JobSteps:
    """Steps of one run, taken a span of time at a time; goes on where it was."""

    def __init__(self, run: Run, fleet: Fleet, start_ns: int, seed: int) -> None:
        self.run, self.fleet, self.start_ns = run, fleet, start_ns
        self.rng = np.random.default_rng([seed, 10, run.number])
        kind = run.archetype
        hosts, rails = len(run.hosts), fleet.rails
        self.ranks = hosts * rails
        algorithm = kind.algorithm
        if algorithm == "ring" and self.ranks > TREE_RANKS:
            algorithm = "halving_doubling"
        self.plan = StepPlan(
            self.ranks, kind.compute_s * 1e9, kind.compute_cv, kind.data_s * 1e9, kind.optimizer_s * 1e9,
            kind.payload_bytes if hosts > 1 else 0.0, kind.collectives, algorithm if kind.collectives else "",
            micro_batches=8, network_cv=0.02, channels=1,
        )  # fmt: skip
        place = np.arange(self.ranks)
        self.by_rail_R = place % hosts * rails + place // hosts  # rank at each place of the model's order
        self.gpu_R = (run.hosts[:, None] * rails + np.arange(rails)).ravel()  # by rank; also its host link
        self.at_ns = start_ns + round(max(run.start_s, 0.0) * 1e9)
        self.step = run.first_step
        self._lengths: dict[tuple[int, ...], float] = {}
        self._took: dict[tuple[int, ...], tuple[float, float]] = {}
        self._stalled: set[int] = set()  # faults whose stall has been laid
        self._paces = [(self.at_ns, self._length(()))]  # from when on a step takes how long

    # -- links ------------------------------------------------------------------------------------------------

    @cached_property
    def _fabric(self) -> Fabric:
        """Only the links that this run can use, renumbered."""
        fleet, hosts = self.fleet, self.run.hosts
        pods, pod_H = np.unique(hosts // fleet.pod_hosts, return_inverse=True)
        count, leaves = len(hosts) * fleet.rails, len(pods) * fleet.rails
        climb_FS = count + np.arange(leaves * fleet.uplinks).reshape(leaves, fleet.uplinks)
        slot_S = np.arange(fleet.uplinks)
        links = count + climb_FS.size
        rise_PV = None
        spine_FS = np.broadcast_to(slot_S, climb_FS.shape)
        if fleet.three_tiers:
            spine_FS = (np.arange(leaves) // fleet.rails)[:, None] * fleet.uplinks + slot_S
            spines = len(pods) * fleet.uplinks
            rise_PV = links + np.arange(spines * fleet.supers_of_spine).reshape(spines, -1)
            links += rise_PV.size
        return Fabric(
            links,
            np.arange(count).reshape(-1, fleet.rails),
            pod_H[:, None] * fleet.rails + np.arange(fleet.rails),
            climb_FS,
            np.ascontiguousarray(spine_FS),
            rise_PV,
        )

    def _links(self, faults: list[Befallen]) -> LinkState:
        fabric = self._fabric
        capacity_L = np.full(fabric.links, FABRIC_BPS)
        capacity_L[: self.ranks] = HOST_BPS
        state = still(fabric, capacity_L, ROCE)
        up_L, kept_L = state.up_L.copy(), np.ones(fabric.links)
        for fault in faults:
            place, effect = fault.level, fault.effect
            hit = self._hit_links(fault)
            left = effect.capacity[place]
            if effect.down_s[place] > 0:
                left *= max(0.05, 1 - 2 * effect.down_s[place] / effect.period_s)  # and it must find its pace again
            capacity_L[hit] *= left
            kept_L[hit] *= 1 - effect.loss[place]
            if effect.down_s[place] < 0:
                up_L[hit] = False
        return replace(state, capacity_bps_L=capacity_L, loss_L=1 - kept_L, up_L=up_L)

    def _hit_links(self, fault: Befallen) -> Ints:
        fleet, fabric = self.fleet, self._fabric
        links = list(fault.links)
        if fault.effect.scope == "machine":
            links += list(fault.gpus)
        hit = np.flatnonzero(np.isin(self.gpu_R, [each for each in links if each < fleet.host_links]))
        pods = np.unique(self.run.hosts // fleet.pod_hosts)
        for link in links:
            leaf, up = divmod(link - fleet.host_links, fleet.uplinks)
            if link >= fleet.host_links and leaf // fleet.rails in pods:
                near = int(np.searchsorted(pods, leaf // fleet.rails)) * fleet.rails + leaf % fleet.rails
                hit = np.append(hit, fabric.climb_FS[near, up])
        for switch in fault.switches:
            pod, slot = divmod(switch - fleet.leaves, fleet.uplinks)
            if fault.effect.scope == "spine" and (not fleet.three_tiers or pod in pods):
                near = int(np.searchsorted(pods, pod)) * fleet.rails if fleet.three_tiers else 0
                rows = slice(near, near + fleet.rails) if fleet.three_tiers else slice(None)
                hit = np.append(hit, fabric.climb_FS[rows, slot])
        return hit

    # -- time -------------------------------------------------------------------------------------------------

    def until(self, end_ns: int) -> list[Laid]:
        """Steps that begin before `end_ns` (and before the run's end)."""
        run_end_ns = self.start_ns + round(min(self.run.end_s, 1e9) * 1e9)
        end_ns = min(end_ns, run_end_ns)
        self._paces = self._paces[-1:]
        out = []
        while self.at_ns < end_ns:
            now_s = (self.at_ns - self.start_ns) / 1e9
            active = [each for each in self.run.faults if each.at_s <= now_s < each.end_s and not each.effect.dies]
            changes = [
                at_s
                for each in self.run.faults if not each.effect.dies
                for at_s in (each.at_s, each.end_s) if at_s > now_s
            ]  # fmt: skip
            stop_ns = min([end_ns, *(self.start_ns + round(at_s * 1e9) for at_s in changes)])
            out.append(self._lay(active, self._begun(now_s), stop_ns))
        return [_until(each, run_end_ns) for each in out] if self.run.end_s < 1e9 else out

    def _begun(self, now_s: float) -> list[Befallen]:
        """Faults that stall this step: those since the last one, however long that took, each once."""
        begun = [
            each
            for each in self.run.faults if not each.effect.dies
            and (each.effect.hangs or each.effect.pause_s[each.level] > 0)
            and self.run.start_s <= each.at_s <= now_s and id(each) not in self._stalled
        ]  # fmt: skip
        self._stalled |= {id(each) for each in begun}
        return begun

    def _lay(self, active: list[Befallen], begun: list[Befallen], stop_ns: int) -> Laid:
        length_ns = self._length(tuple(sorted({id(each) for each in active})), active)
        room = max(1, CELLS_MAX // (self.ranks * max(1, self.plan.collectives)))
        count = 1 if begun else int(min(room, (stop_ns - self.at_ns) / length_ns * 1.1 + 2))
        times = self._steps(active, count)
        kept = max(1, int(np.searchsorted(times.start_TR[:, 0], stop_ns)))
        delay_TR = self._delays(active, begun, kept)
        checkpoint_T = self._checkpoints(active, kept, length_ns)
        odd = [each for each in begun if each.effect.diverges]
        odd_R = np.isin(self.gpu_R, [gpu for each in odd for gpu in each.gpus]) if odd else None
        times = delayed(_first(times, kept), delay_TR, checkpoint_T, self._stuck(begun, odd, odd_R, kept))
        if self.run.archetype.tensor_parallel > 1:
            times = tied(times, self.fleet.rails)
        kept = max(1, int(np.searchsorted(times.start_TR[:, 0], stop_ns)))
        times, checkpoint_T = _first(times, kept), checkpoint_T[:kept]
        laid = Laid(self.step, times, checkpoint_T, odd_R)
        self._account([*active, *(each for each in begun if each not in active)], times, checkpoint_T)
        self.at_ns = int(times.end_TR[-1].max())
        self.step += kept
        self._paces.append((int(times.start_TR[0, 0]), float((times.end_TR[-1].max() - times.start_TR[0, 0]) / kept)))
        return laid

    def _steps(self, active: list[Befallen], count: int) -> StepTimes:
        slow_R = np.ones(self.ranks)
        for fault in active:
            factor = fault.effect.compute[fault.level]
            if factor != 1.0:
                whole = fault.effect.scope == "job"
                slow_R[slice(None) if whole else np.isin(self.gpu_R, fault.gpus)] *= factor
        order = self.by_rail_R
        hosts_R, links = order // self.fleet.rails, self._links(active)
        key = tuple(sorted(id(each) for each in active))
        if key not in self._took:
            self._took[key] = collective_times(self.plan, hosts_R, links)
        model = steps(
            self.plan, hosts_R, links, count, self.at_ns, slow_R[order], self.rng, took_ns=self._took[key]
        )  # fmt: skip
        back = np.argsort(order)
        return StepTimes(*(getattr(model, name)[..., back] for name in StepTimes.__slots__))

    def _delays(self, active: list[Befallen], begun: list[Befallen], count: int) -> Ints:
        delay_TR = np.zeros((count, self.ranks))
        for fault in active:
            wait_s = fault.effect.data_s[fault.level]
            if wait_s:
                hit = np.isin(self.gpu_R, fault.gpus) if fault.gpus else np.ones(self.ranks, bool)
                delay_TR[:, hit] += wait_s * 1e9 * self.rng.uniform(0.9, 1.1, (count, int(hit.sum())))
        for fault in begun:
            if fault.effect.diverges or fault.effect.layer == "network":
                continue  # nobody is late: all wait in a collective
            hit = np.isin(self.gpu_R, fault.gpus) if fault.gpus else np.ones(self.ranks, bool)
            pause_s = fault.end_s - fault.at_s if fault.effect.hangs else fault.effect.pause_s[fault.level]
            delay_TR[0, hit] += pause_s * 1e9
        return delay_TR.astype(np.int64)

    def _stuck(self, begun: list[Befallen], odd: list[Befallen], odd_R: Bools | None, count: int) -> Ints:
        """How long the first collective of the first step does not end, though all have entered it, (T, R): that of all
        while the network finds another way; that of the communicators in which a rank diverges. Ranks of others wait
        for those, but not in a collective of theirs."""
        stuck_TR = np.zeros((count, self.ranks), np.int64)
        ways = [each.effect.pause_s[each.level] for each in begun if each.effect.layer == "network"]
        stuck_TR[0] = round(max(ways, default=0.0) * 1e9)
        if odd_R is not None:
            groups = self.run.archetype.groups(len(self.run.hosts), self.ranks)
            group_R = np.arange(self.ranks) % groups
            lasts_ns = round(max(each.end_s - each.at_s for each in odd) * 1e9)
            diverged_R = np.isin(group_R, group_R[odd_R])
            stuck_TR[0, diverged_R] = np.maximum(stuck_TR[0, diverged_R], lasts_ns)
        return stuck_TR

    def _checkpoints(self, active: list[Befallen], count: int, length_ns: float) -> Ints:
        kind = self.run.archetype
        out_T = np.zeros(count)
        if kind.checkpoint_s:
            every = max(1, round(kind.checkpoint_s * 1e9 / self._lengths[()]))
            out_T[(self.step + 1 + np.arange(count)) % every == 0] = kind.checkpoint_write_s * 1e9
        return (out_T + sum(each.effect.write_s[each.level] for each in active) * 1e9).astype(np.int64)

    def _length(self, key: tuple[int, ...], active: list[Befallen] | None = None) -> float:
        if key not in self._lengths:
            # A stream of its own, so that looking ahead changes nothing of what happens.
            kept, self.rng = self.rng, np.random.default_rng(1)
            times = self._steps(active or [], 2)
            self.rng = kept
            self._lengths[key] = float(times.end_TR[-1].max() - times.start_TR[0, 0]) / 2
        return max(self._lengths[key], 1e6)

    def _account(self, active: list[Befallen], times: StepTimes, checkpoint_T: Ints) -> None:
        """GPU seconds that the faults of these steps cost: what they took longer than healthy ones."""
        guilty = [each for each in active if not each.effect.harmless and each.effect.slows(each.level)]
        if guilty and self.plan.compute_ns:
            took_T = (times.end_TR - times.start_TR).max(axis=1) - checkpoint_T
            lost = max(0.0, float((took_T - self._lengths[()]).sum())) / 1e9 * self.ranks
            lost += sum(each.effect.write_s[each.level] for each in guilty) * len(took_T) * self.ranks
            for each in guilty:
                each.lost_gpu_seconds += lost / len(guilty)

    # -- for the counters -------------------------------------------------------------------------------------

    def busy(self, at_ns_T: Ints) -> Floats:
        """Share of the time that its GPUs compute, at moments of the span that was laid last, (T,)."""
        return np.minimum(1.0, (self.plan.compute_ns + self.plan.optimizer_ns) / self._lengths_at(at_ns_T))

    def port_bytes_per_s(self, at_ns_T: Ints) -> Floats:
        """What each NIC sends then, and receives, headers included, (T,)."""
        return self.step_bytes * (1 + ROCE.header_share) * 1e9 / self._lengths_at(at_ns_T)

    @cached_property
    def step_bytes(self) -> float:
        """Payload that each NIC sends in a step."""
        return sent_bytes(self.plan) if self.plan.algorithm and len(self.run.hosts) > 1 else 0.0

    def _lengths_at(self, at_ns_T: Ints) -> Floats:
        begin_P, length_P = (np.array(each) for each in zip(*self._paces, strict=True))
        piece_T = np.maximum(np.searchsorted(begin_P, at_ns_T, side="right") - 1, 0)
        found: Floats = np.maximum(length_P[piece_T], 1e6)
        return found

    @property
    def across(self) -> float:
        """Share of that which leaves the leaf upwards."""
        pods = np.unique(self.run.hosts // self.fleet.pod_hosts, return_counts=True)[1]
        if len(pods) < 2:
            return 0.0
        if self.plan.algorithm == "all_to_all":
            return float(1 - ((pods / pods.sum()) ** 2).sum())
        return float(len(pods) / pods.sum())


def delayed(times: StepTimes, delay_TR: Ints, behind_T: Ints, stuck_TR: Ints) -> StepTimes:
    """The same steps when ranks wait so long for input first, some of them so long in the first collective, and all of
    them so long at the end.

    All wait for the one that is last: what others have not waited for input they wait in the backward pass.
    """
    if not delay_TR.any() and not behind_T.any() and not stuck_TR.any():
        return times
    most_T, stuck_T = delay_TR.max(axis=1), stuck_TR.max(axis=1)
    more_T = most_T + stuck_T + behind_T
    shift_T = (np.cumsum(more_T) - more_T)[:, None]
    # After the first collective everybody is later by what some have waited in it.
    later_TCR = np.broadcast_to(stuck_T[:, None, None], times.arrive_TCR.shape).copy()
    ended_TCR = later_TCR.copy()
    later_TCR[:, :1] = 0
    ended_TCR[:, :1] = stuck_TR[:, None, :]
    return StepTimes(
        times.start_TR + shift_T,
        times.data_TR + delay_TR,
        times.forward_TR,
        times.backward_TR + (most_T[:, None] - delay_TR) + stuck_T[:, None],
        times.optimizer_TR,
        times.end_TR + shift_T + more_T[:, None],
        times.arrive_TCR + shift_T[:, None] + delay_TR[:, None, :] + later_TCR,
        times.finish_TCR + shift_T[:, None] + most_T[:, None, None] + ended_TCR,
    )


def tied(times: StepTimes, per: int) -> StepTimes:
    """The same steps where the `per` ranks of a host compute one replica together: each waits in every layer for the
    slowest of them, so all come to a collective across hosts at the same time, and none looks slower than another.
    """

    def of_host(value: Ints) -> Ints:
        split = value.reshape(*value.shape[:-1], -1, per)
        return np.broadcast_to(split.max(axis=-1, keepdims=True), split.shape).reshape(value.shape)

    before_TR = of_host(times.data_TR + times.forward_TR)
    done_TR = of_host(times.data_TR + times.forward_TR + times.backward_TR)
    return replace(
        times,
        forward_TR=before_TR - times.data_TR,
        backward_TR=done_TR - before_TR,
        end_TR=of_host(times.end_TR),
        arrive_TCR=of_host(times.arrive_TCR),
    )


def _until(laid: Laid, end_ns: int) -> Laid:
    """The same of a run that ends then: a step that is not over is never told, but the calls made in it are."""
    ended = int((laid.times.end_TR.max(axis=1) <= end_ns).sum())
    begun = int((laid.times.start_TR.min(axis=1) < end_ns).sum())
    times = _first(laid.times, begun)
    return replace(laid, times=times, checkpoint_T=laid.checkpoint_T[:begun], ended=ended, until_ns=end_ns)


def _first(times: StepTimes, count: int) -> StepTimes:
    return StepTimes(*(getattr(times, name)[:count] for name in StepTimes.__slots__))
