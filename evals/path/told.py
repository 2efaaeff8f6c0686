"""What is told of a simulated fabric: samples less what is silent, wrong or missing, and relations likewise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evals.path.conditions import WINDOW_NS, Condition
from evals.path.traffic import Batch, Jobs
from leadline.model.tables import BY_NAME
from leadline.simulator.fabric import Bools, Ints
from leadline.simulator.fleet import Fleet, joined, text
from leadline.simulator.flows import taken
from leadline.simulator.happenings import standing
from leadline.simulator.rows import Common, made
from leadline.simulator.sampling import UDP, Flows, Samples, columns
from leadline.store.bundle_rows import in_order

FLOW_SAMPLE, RELATION = BY_NAME["flow_sample"], BY_NAME["relation"]
PROVIDER, CLUSTER = "provider", "default"
SLOWER = 4  # switches of mixed rates sample one packet in so many times as many


class Switches:
    """Which switch and port a port number of `sampling` is, and which of them are silent, lie or sample less."""

    def __init__(self, condition: Condition, fleet: Fleet, rng: np.random.Generator) -> None:
        ports = fleet.swports
        number = 2 * ports.link + ~ports.lower
        self.switch_P, self.name_P = np.zeros(2 * fleet.links, np.int64), np.zeros(2 * fleet.links, np.int64)
        self.switch_P[number], self.name_P[number] = ports.switch, ports.number
        self.condition = condition
        self.tells_W = rng.random(fleet.switches) >= condition.silent
        self.slower_W = condition.mixed_rates & (rng.random(fleet.switches) < 0.5)
        # Drawn only where it matters, so that the other conditions stay as they are.
        self.pauses_W = rng.random(fleet.switches) < condition.pausing if condition.pausing else ~self.tells_W
        self.told_P = self._told_as(number, rng.random(fleet.switches) < condition.lying, rng)
        self.switch_names = pa.DictionaryArray.from_arrays(pa.array(self.switch_P), fleet.switch_names)
        names = text("Ethernet", np.arange(int(self.name_P.max()) + 1))
        self.port_names = pa.DictionaryArray.from_arrays(pa.array(self.name_P), names)

    def _told_as(self, number_N: Ints, lies_W: Bools, rng: np.random.Generator) -> Ints:
        """Number that each port is told as: a switch that lies has all of its ports off by one, or two swapped."""
        told_P = np.arange(len(self.switch_P))
        for switch in np.flatnonzero(lies_W):
            mine = number_N[self.switch_P[number_N] == switch]
            if rng.random() < 0.5:
                told_P[mine] = np.roll(mine, 1)
            else:
                one, other = rng.choice(mine, 2, replace=False)
                told_P[one], told_P[other] = other, one
        return told_P

    def rows(self, flows: Flows, ids: Any, samples: Samples, rng: np.random.Generator) -> pa.Table | None:
        """Rows of `flow_sample`; None if nothing is left."""
        switch_N = self.switch_P[samples.in_port_N]
        slower_N = self.slower_W[switch_N]
        pauses_N = self.pauses_W[switch_N] & (samples.time_ns_N % WINDOW_NS < WINDOW_NS // 2)
        kept_N = self.tells_W[switch_N] & ~pauses_N & (~slower_N | (rng.random(len(switch_N)) * SLOWER < 1.0))
        samples, slower_N = taken(samples, np.flatnonzero(kept_N)), slower_N[kept_N]
        if not len(samples.flow_N):
            return None
        ins, outs = self.told_P[samples.in_port_N], self.told_P[samples.out_port_N]
        samples = replace(samples, in_port_N=ins, out_port_N=outs)
        told: dict[str, Any] = dict(columns(samples, flows, ids, self.switch_names, self.port_names))
        told["rate"] = np.where(slower_N, samples.rate * SLOWER, samples.rate).astype(np.uint64)
        for name in ("in_port", "out_port"):
            gone_N = rng.random(len(ins)) < self.condition.portless
            told[name] = pc.if_else(pa.array(gone_N), None, told[name].dictionary_decode()).dictionary_encode()
        batch = int(rng.integers(0, 2**31))
        return made(FLOW_SAMPLE, told, len(ins), Common(PROVIDER, CLUSTER, 0), batch)


def told_relations(
    condition: Condition, fleet: Fleet, jobs: Jobs, traffic: Sequence[Batch], since_ns: int, rng: np.random.Generator
) -> pa.Table:
    """Rows of `relation`: what stands on what, addresses and owners as far as the condition has them told."""
    provider = Common(PROVIDER, CLUSTER, 0)
    tables = []
    for given, count in _standing(condition, fleet, since_ns, rng):
        tables.append(made(RELATION, given, count, provider, 0))
    for place, tenant in enumerate(jobs.tenants):
        for given, count in _of_job(condition, fleet, jobs, place, traffic, since_ns):
            tables.append(made(RELATION, given, count, Common(tenant, CLUSTER, 0), 0))
    whole = pa.concat_tables(tables).unify_dictionaries()
    return in_order(RELATION, whole)


Told = Iterator[tuple[dict[str, Any], int]]


def _standing(condition: Condition, fleet: Fleet, since_ns: int, rng: np.random.Generator) -> Told:
    """As the simulator tells it, with cables crossed in the inventory; addresses are told here, or not."""
    for given, count in standing(fleet, 1, since_ns):
        child = given["child"].dictionary_decode()
        if count and child[0].as_py().startswith("address:"):
            continue
        if condition.miscabled and given["kind"][0] == "linked" and child[0].as_py().startswith("swport:"):
            given["parent"] = _crossed(given["parent"], condition.miscabled, rng)
        yield given, count
    if condition.addresses:
        nic = np.arange(fleet.host_links)
        yield _relation(
            joined("address:", fleet.addresses(nic)), joined("port:", fleet.port_names), "in", "agent", since_ns
        )


def _crossed(parent_N: pa.DictionaryArray, share: float, rng: np.random.Generator) -> pa.DictionaryArray:
    """Far ends of some links, taken in pairs, exchanged."""
    order = np.arange(len(parent_N))
    pairs = rng.permutation(len(parent_N))[: 2 * max(1, round(share * len(parent_N) / 2))].reshape(-1, 2)
    order[pairs] = order[pairs[:, ::-1]]
    return parent_N.take(pa.array(order))


def _of_job(
    condition: Condition, fleet: Fleet, jobs: Jobs, place: int, traffic: Sequence[Batch], since_ns: int
) -> Told:
    name, nic_R = jobs.names[place], jobs.nic_JR[place]
    rank_R = text(f"rank:{name}/", np.arange(len(nic_R)))
    yield _relation(rank_R, pa.repeat(f"job:{name}", len(nic_R)), "in", "torch-hook", since_ns)
    yield _relation(rank_R, text("host:h", nic_R // fleet.rails + 1), "runs-on", "torch-hook", since_ns)
    if not condition.owners:
        return
    for batch in traffic:
        mine = np.flatnonzero(batch.job_F == place)
        if not len(mine):
            continue
        sender = text(f"rank:{name}/", batch.src_rank_F[mine])
        receiver = text(f"rank:{name}/", batch.dst_rank_F[mine])
        flows = pa.array([f"flow:{high:016x}{low:016x}" for low, high in batch.ids_F2[mine].tolist()])
        yield _relation(flows, sender, "owns", "torch-hook", since_ns)
        if batch.protocol == UDP:
            pair = joined("qp:", fleet.addresses(batch.dst_F[mine]), text("/", batch.dst_qp_F[mine]))
            yield _relation(pair, receiver, "owns", "nccl-plugin", since_ns)
        else:  # a hook tells both directions of its sockets, at both ends
            yield _relation(flows, receiver, "owns", "torch-hook", since_ns)


def _relation(child: pa.Array, parent: pa.Array, kind: str, source: str, since_ns: int) -> tuple[dict[str, Any], int]:
    count = len(child)
    return {
        "child": child.dictionary_encode(), "parent": parent.dictionary_encode(), "kind": [kind, count],
        "from_ns": np.full(count, since_ns), "to_ns": [None, count], "source": [source, count],
        "confidence": np.ones(count),
    }, count  # fmt: skip
