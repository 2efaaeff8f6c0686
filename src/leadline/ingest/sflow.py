"""From received sFlow datagrams to the intake: decode, ask who sent them, count what is missing.

    Datagrams ──> wire.sflow ──> allowed senders ──> sequence numbers ──> rows of flow_sample, metric samples

UDP cannot be pushed back: what the intake has no room for is tried again for a little while and then lost, under a
name. Runs on one thread.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    ends: Sequence[int] | Int64s
    senders: Sequence[str]
    arrived_ns: Sequence[int] | Int64s


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
        arrived_ns = np.asarray(datagrams.arrived_ns, np.int64)
        agents, agent_D = batch.agents_told()
        speakers, speaker_D = self._speakers(batch, datagrams, agents, agent_D)
        content = _hashes(batch)
        names = [f"{address}/{sub_agent}" for address, sub_agent in agents]
        in_order_D = self._sequence(batch, names, agent_D, speaker_D, content)
        switch_D = [speakers[speaker][0] if speaker >= 0 else None for speaker in speaker_D.tolist()]
        lost, pools = self._sequences.samples(batch, names, agent_D, in_order_D, arrived_ns)
        for reason, amount in lost.items():
            self._intake.counts.add(counter("sflow_lost", reason), amount)
        self._intake.counts.add(counter("sflow_skipped", "sample"), batch.skipped_samples)
        self._intake.counts.add(counter("sflow_skipped", "record"), batch.skipped_records)
        done = self._rows(batch, content, switch_D, arrived_ns)
        for samples in (
            self._streams.counters(batch, switch_D, arrived_ns),
            self._streams.samplers(switches_of(pools, switch_D)),
        ):
            if len(samples.value):
                done += self._samples(samples)
        self._note_heard(batch, speakers, speaker_D, arrived_ns, done)
        return done

    # -- who and in what order ----------------------------------------------------------------------------

    def _speakers(
        self, batch: SflowBatch, datagrams: Datagrams, agents: list[tuple[str, int]], agent_D: Int64s
    ) -> tuple[list[tuple[Switch, str]], Int64s]:
        """Who speaks: the switches of the batch with the addresses they send from, and which is whose, (D,); -1 for a
        datagram that is refused, which is counted here."""
        now_ns = self._intake.now_ns()
        speakers: list[tuple[Switch, str]] = []
        place: dict[tuple[str, int], int] = {}
        strangers: Tally[tuple[str, int]] = Tally()
        found: list[int] = []
        for pair in zip(datagrams.senders, agent_D.tolist(), strict=True):
            speaker = place.get(pair)
            if speaker is None:
                address, agent = pair[0], agents[pair[1]][0]
                switch = self._allowed.switch(address, plain_address(agent) if agent else "")
                speaker = place[pair] = -1 if switch is None else len(speakers)
                if switch is not None:
                    speakers.append((switch, address))
            if speaker < 0:
                strangers[pair] += 1
            found.append(speaker)
        for (address, number), amount in strangers.items():
            said = (
                f"a datagram from {address} (agent {agents[number][0] or 'unknown'}); name it in ingest.sflow.senders"
            )
            self._intake.sources.refuse(self._strangers, now_ns, refused("unknown_sender"), amount, said)
        speaker_D = np.array(found, np.int64)
        bad_D = (batch.datagrams[:, sflow_kernels.ERROR] != sflow_kernels.OK) & (speaker_D >= 0)
        for d in np.flatnonzero(bad_D).tolist():
            switch, address = speakers[found[d]]
            error = str(batch.error(d, address))
            self._intake.sources.refuse(self._sender(switch, address), now_ns, refused("malformed"), 1, error)
        speaker_D[bad_D] = -1
        return speakers, speaker_D

    def _sequence(
        self, batch: SflowBatch, agents: list[str], agent_D: Int64s, speaker_D: Int64s, content: UInt64s
    ) -> NDArray[np.bool_]:
        """Which datagrams came in their order. One that came twice loses its speaker: it is taken no further."""
        taken = np.flatnonzero(speaker_D >= 0)
        lost, late_T, copy_T = self._sequences.datagrams(
            agents, agent_D[taken], batch.datagrams[taken, sflow_kernels.SEQUENCE],
            batch.datagrams[taken, sflow_kernels.UPTIME_MS], content[taken, 0],
        )  # fmt: skip
        in_order_D = np.zeros(len(speaker_D), np.bool_)
        in_order_D[taken] = ~(late_T | copy_T)
        speaker_D[taken[copy_T]] = -1
        self._intake.counts.add(counter("sflow_lost", "datagrams"), lost)
        self._intake.counts.add(counter("sflow_late", "datagrams"), int(late_T.sum()))
        self._intake.counts.add(counter("sflow_skipped", "copy"), int(copy_T.sum()))
        return in_order_D

    def _sender(self, switch: Switch, address: str) -> Sender:
        return Sender(self._principal.tenant, WAY, f"{switch.name} at {address}")

    # -- to the intake ------------------------------------------------------------------------------------

    def _rows(
        self, batch: SflowBatch, content: UInt64s, switch_D: list[Switch | None], arrived_ns: Int64s
    ) -> list[Future[None]]:
        columns, count = flow_columns(batch, switch_D, arrived_ns)
        if not count:
            return []
        number = _batch_id(self._principal, content, arrived_ns)
        return self._offered(
            count,
            lambda: self._intake.rows(FLOW_SAMPLE, columns, count, number, self._principal, self._all, awaited=False),
        )

    def _samples(self, samples: Samples) -> list[Future[None]]:
        return self._offered(
            len(samples.value), lambda: self._intake.samples(samples, self._principal, self._all, awaited=False)
        )

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
        speakers: list[tuple[Switch, str]],
        speaker_D: Int64s,
        arrived_ns: Int64s,
        done: list[Future[None]],
    ) -> None:
        """Once it is stored, every switch of the batch was heard."""
        taken = np.flatnonzero(speaker_D >= 0)
        speaker_T = speaker_D[taken]
        rows_S = np.zeros(len(speakers), np.int64)
        newest_ns_S = np.zeros(len(speakers), np.int64)
        np.add.at(rows_S, speaker_T, batch.datagrams[taken, sflow_kernels.FLOW_COUNT])
        np.maximum.at(newest_ns_S, speaker_T, arrived_ns[taken])
        heard: dict[Sender, tuple[int, int]] = {}
        for speaker in np.unique(speaker_T).tolist():
            sender = self._sender(*speakers[speaker])
            rows, newest_ns = heard.get(sender, (0, 0))  # one address may send for several agents of a switch
            heard[sender] = rows + int(rows_S[speaker]), max(newest_ns, int(newest_ns_S[speaker]))
        self._intake.counts.add(accepted("datagrams"), len(taken))
        tells = set()
        if len(batch.flows):
            tells.add(FLOW_SAMPLE.name)
        if len(batch.records):
            tells.add("interface counters")

        def note(stored: Future[None] | None) -> None:
            now_ns = self._intake.now_ns()
            for sender, (rows, newest_ns) in heard.items():
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


def _batch_id(principal: Principal, content: UInt64s, arrived_ns: Int64s) -> int:
    """From what came (its hashes), when, and for whom: offered again, it is the same batch."""
    whole = f"{principal.tenant}/{principal.cluster}/{FLOW_SAMPLE.name}/".encode()
    whole += arrived_ns.tobytes() + content.tobytes()
    ids = np.empty((1, 2), np.uint64)
    murmur3_slices(np.frombuffer(whole, np.uint8), np.zeros(1, np.int64), np.array([len(whole)]), ids)
    return int(ids[0, 0]) | int(ids[0, 1]) << 64
