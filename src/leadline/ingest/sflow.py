"""From received sFlow datagrams to the intake: decode, ask who sent them, count what is missing.

    Datagrams ──> wire.sflow ──> allowed senders ──> sequence numbers ──> rows of flow_sample, metric samples

UDP cannot be pushed back: what the intake has no room for is tried again for a little while and then lost, under a
name. Runs on one thread.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from leadline.ingest.config import SflowConfig
from leadline.ingest.intake import Intake, Receipt
from leadline.ingest.sflow_senders import Allowed, plain_address
from leadline.ingest.sflow_sequence import Sequences, switches_of
from leadline.ingest.sources import Sender
from leadline.model.counters import accepted, counter, refused
from leadline.model.errors import BusyError, RefusedError
from leadline.model.principal import Principal
from leadline.model.tables.fabric import FLOW_SAMPLE
from leadline.wire.murmur import murmur3_slices
from leadline.wire.samples import Int64s, Samples, UInt64s
from leadline.wire.sflow import kernels as sflow_kernels
from leadline.wire.sflow.counters import CounterStreams
from leadline.wire.sflow.datagrams import SflowBatch, Switch, decode_sflow, flow_columns

WAY = "sflow"
BUSY_S_MAX = 5.0  # a store that is behind for longer loses samples; the queue before us holds some seconds more
BUSY_WAIT_S = 0.05


@dataclass(frozen=True, slots=True)
class Datagrams:
    """Datagrams as they came: one behind the other, where each ends, who sent it, when it arrived (ns)."""

    data: bytes
    ends: list[int]
    senders: list[str]
    arrived_ns: list[int]


class SflowIntake:
    """Takes batches of datagrams. Construction is inert. Errors: ConfigError for a sender that cannot be one."""

    def __init__(self, config: SflowConfig, intake: Intake, stopping: threading.Event | None = None) -> None:
        self._intake = intake
        self._stopping = stopping or threading.Event()  # once set, nobody waits for room any more
        self._principal = Principal(config.tenant, config.cluster)
        self._allowed = Allowed(config)
        self._sequences = Sequences()
        self._streams = CounterStreams()
        self._all = Sender(config.tenant, WAY, "all switches")
        self._strangers = Sender(config.tenant, WAY, "unknown senders")  # one for all: addresses can be made up

    def refresh(self) -> None:
        """Read the files of senders that changed."""
        self._allowed.refresh(self._say)

    def _say(self, path: str, error: str) -> None:
        sender = Sender(self._principal.tenant, WAY, path)
        self._intake.sources.refuse(sender, self._intake.now_ns(), counter("sflow_senders", "malformed"), 1, error)

    def take(self, datagrams: Datagrams) -> list[Future[None]]:
        """Decode and hand on; returns the futures of what is to be stored."""
        batch = decode_sflow(datagrams.data, datagrams.ends)
        arrived_ns = np.array(datagrams.arrived_ns, np.int64)
        agent_D = [
            f"{batch.agent(d)}/{sub}" for d, sub in enumerate(batch.datagrams[:, sflow_kernels.SUB_AGENT].tolist())
        ]
        switch_D = self._switches(batch, datagrams)
        in_order_D = self._sequence(batch, datagrams, agent_D, switch_D)
        lost, pools = self._sequences.samples(batch, agent_D, in_order_D, arrived_ns)
        for reason, amount in lost.items():
            self._intake.counts.add(counter("sflow_lost", reason), amount)
        self._intake.counts.add(counter("sflow_skipped", "sample"), batch.skipped_samples)
        self._intake.counts.add(counter("sflow_skipped", "record"), batch.skipped_records)
        done = self._rows(batch, datagrams, switch_D, arrived_ns)
        for samples in (
            self._streams.counters(batch, switch_D, arrived_ns),
            self._streams.samplers(switches_of(pools, switch_D)),
        ):
            if len(samples.value):
                done += self._samples(samples)
        self._note_heard(batch, datagrams, switch_D, done)
        return done

    # -- who and in what order ----------------------------------------------------------------------------

    def _switches(self, batch: SflowBatch, datagrams: Datagrams) -> list[Switch | None]:
        """The switch of each datagram; None for one that is refused, which is counted here."""
        now_ns = self._intake.now_ns()
        found: list[Switch | None] = []
        for d, address in enumerate(datagrams.senders):
            agent = batch.agent(d)
            switch = self._allowed.switch(address, plain_address(agent) if agent else "")
            if switch is None:
                said = f"a datagram from {address} (agent {agent or 'unknown'}); name it in ingest.sflow.senders"
                self._intake.sources.refuse(self._strangers, now_ns, refused("unknown_sender"), 1, said)
            elif (error := batch.error(d, address)) is not None:
                self._intake.sources.refuse(self._sender(switch, address), now_ns, refused("malformed"), 1, str(error))
                switch = None
            found.append(switch)
        return found

    def _sequence(
        self, batch: SflowBatch, datagrams: Datagrams, agent_D: list[str], switch_D: list[Switch | None]
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which datagrams came in their order. One that came twice loses its switch: it is taken no further."""
        in_order_D = np.zeros(len(switch_D), np.bool_)
        told = Tally[str]()
        numbers = batch.datagrams[:, [sflow_kernels.SEQUENCE, sflow_kernels.UPTIME_MS]].tolist()
        content = _hashes(batch)[:, 0].tolist()
        for d, switch in enumerate(switch_D):
            if switch is None:
                continue
            sequence, uptime_ms = numbers[d]
            new, lost, late = self._sequences.datagram(agent_D[d], sequence, uptime_ms, content[d])
            told.update({"lost": lost, "late": late, "copy": not new})
            in_order_D[d] = new and not late
            if not new:
                switch_D[d] = None
        self._intake.counts.add(counter("sflow_lost", "datagrams"), told["lost"])
        self._intake.counts.add(counter("sflow_late", "datagrams"), told["late"])
        self._intake.counts.add(counter("sflow_skipped", "copy"), told["copy"])
        return in_order_D

    def _sender(self, switch: Switch, address: str) -> Sender:
        return Sender(self._principal.tenant, WAY, f"{switch.name} at {address}")

    # -- to the intake ------------------------------------------------------------------------------------

    def _rows(
        self, batch: SflowBatch, datagrams: Datagrams, switch_D: list[Switch | None], arrived_ns: Int64s
    ) -> list[Future[None]]:
        columns, count = flow_columns(batch, switch_D, arrived_ns)
        if not count:
            return []
        number = _batch_id(self._principal, datagrams.data, arrived_ns)
        return self._offered(
            count, lambda: self._intake.rows(FLOW_SAMPLE, columns, count, number, self._principal, self._all)
        )

    def _samples(self, samples: Samples) -> list[Future[None]]:
        return self._offered(len(samples.value), lambda: self._intake.samples(samples, self._principal, self._all))

    def _offered(self, amount: int, offer: Callable[[], Receipt]) -> list[Future[None]]:
        """Offer until it is taken or BUSY_S_MAX passed; what is not stored in the end is counted as lost."""
        end = time.monotonic() + BUSY_S_MAX
        while True:
            try:
                done = offer().done
            except RefusedError as error:
                self._intake.refuse(self._all, error.reason, str(error), amount)
                return []
            except BusyError:
                if time.monotonic() >= end or self._stopping.is_set():
                    self._lose(amount)
                    return []
                time.sleep(BUSY_WAIT_S)
            else:
                done.add_done_callback(lambda done: self._lose(amount) if done.exception() else None)
                return [done]

    def _lose(self, amount: int) -> None:
        self._intake.counts.add(counter("sflow_lost", "store"), amount)

    def _note_heard(
        self,
        batch: SflowBatch,
        datagrams: Datagrams,
        switch_D: list[Switch | None],
        done: list[Future[None]],
    ) -> None:
        """Once it is stored, every switch of the batch was heard."""
        counted = batch.datagrams[:, [sflow_kernels.FLOW_COUNT, sflow_kernels.RECORD_COUNT]].tolist()
        heard: dict[Sender, list[int]] = {}
        for d, switch in enumerate(switch_D):
            if switch is not None:
                told = heard.setdefault(self._sender(switch, datagrams.senders[d]), [0, 0, 0])
                told[0] += 1
                told[1] += counted[d][0]
                told[2] = max(told[2], datagrams.arrived_ns[d])
        self._intake.counts.add(accepted("datagrams"), sum(told[0] for told in heard.values()))
        tells = set()
        if len(batch.flows):
            tells.add(FLOW_SAMPLE.name)
        if len(batch.records):
            tells.add("interface counters")

        def note(stored: Future[None] | None) -> None:
            now_ns = self._intake.now_ns()
            for sender, (_, rows, newest_ns) in heard.items():
                self._intake.sources.heard(sender, now_ns, rows=rows, newest_ns=newest_ns)
                self._intake.sources.tells(sender, now_ns, tells)

        if done:
            done[-1].add_done_callback(note)
        else:
            note(None)


def _hashes(batch: SflowBatch) -> UInt64s:
    """A hash of each datagram, (D, 2)."""
    ids = np.empty((len(batch.start), 2), np.uint64)
    ends = np.append(batch.start[1:], len(batch.data))
    murmur3_slices(batch.data, batch.start, ends, ids)
    return ids


def _batch_id(principal: Principal, data: bytes, arrived_ns: Int64s) -> int:
    """From what came, when, and for whom: offered again, it is the same batch."""
    whole = f"{principal.tenant}/{principal.cluster}/{FLOW_SAMPLE.name}/".encode() + arrived_ns.tobytes() + data
    ids = np.empty((1, 2), np.uint64)
    murmur3_slices(np.frombuffer(whole, np.uint8), np.zeros(1, np.int64), np.array([len(whole)]), ids)
    return int(ids[0, 0]) | int(ids[0, 1]) << 64
