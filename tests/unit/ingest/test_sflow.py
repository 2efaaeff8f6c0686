"""The sFlow collector: who may send, what is lost and copied, rows and counters in the store, sockets and stopping."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.oracle import sflow as oracle

from leadline.ingest.config import SflowConfig, SflowSender
from leadline.ingest.sflow import Datagrams, SflowIntake
from leadline.ingest.sflow_listener import SflowListener, require_known_senders
from leadline.ingest.sflow_receiver import BATCH_BYTES, NOTE_BYTES, Batch, Received
from leadline.ingest.sflow_senders import Allowed, senders_of
from leadline.ingest.sflow_sequence import WINDOW, Sequences
from leadline.model.counters import COUNTERS
from leadline.model.errors import BusyError, ConfigError, WorldError
from leadline.testing.clock import START_NS as T

from .conftest import Bench

FRAME = bytes.fromhex(
    "0a0000000002 0a0000000001 0800 45000028 00004000 40060000 0a010100 0a020301"  # Ethernet, IPv4
    "c0000050 00000000 00000000 50100000 00000000"  # TCP
)
PORTS = {7: "Ethernet1", 9: "Ethernet3"}
LEAF = SflowSender("127.77.0.1", "leaf1", PORTS)
SPINE = SflowSender("127.77.0.2", "spine1")


def flow(sequence: int, rate: int = 100, drops: int = 0, source: int = 7) -> bytes:
    records = [oracle.raw_header(FRAME, 1500)]
    return oracle.flow_sample(sequence, source, rate, sequence * rate, drops, (0, 7), (0, 9), records)


def datagram(sequence: int, *samples: bytes, agent: str = "10.0.0.1", **more: Any) -> bytes:
    return oracle.datagram(agent, samples or (flow(sequence),), sequence, **more)


def batch(*given: bytes, sender: str = "127.77.0.1", at_ns: int = T) -> Datagrams:
    ends, size = [], 0
    for one in given:
        size += len(one)
        ends.append(size)
    return Datagrams(b"".join(given), ends, [sender] * len(given), [at_ns + n for n in range(len(given))])


def take(taker: SflowIntake, given: Datagrams) -> None:
    for done in taker.take(given):
        done.result(10)


def counted(bench: Bench) -> dict[str, int]:
    """Counts of the sFlow families and of what was refused, without zeros."""
    wanted = ("sflow_lost", "sflow_late", "sflow_skipped", "sflow_senders")
    found = {
        f"{each.family.removeprefix('sflow_')} {each.reason}": total
        for each, total in bench.counts.totals().items()
        if each.family in wanted and total
    }
    return {**found, **bench.refused()}


# --- rows and samples ---------------------------------------------------------------------------------------------


def test_flow_samples_become_rows_of_their_switch(bench: Bench) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF, SPINE], tenant="provider", cluster="east"), bench.intake)
    take(taker, batch(datagram(1), datagram(2)))
    take(taker, batch(datagram(1, agent="10.0.0.2"), sender="127.77.0.2"))
    rows = sorted(bench.store.rows("flow_sample"), key=lambda row: (row["switch"], row["time_ns"]))
    assert [(row["switch"], row["in_port"], row["time_ns"] - T) for row in rows] == [
        ("leaf1", "Ethernet1", 0), ("leaf1", "Ethernet1", 1), ("spine1", "ifIndex7", 0),
    ]  # fmt: skip
    assert {(row["tenant"], row["cluster"], row["src_ip"], row["frame_bytes"]) for row in rows} == {
        ("provider", "east", "10.1.1.0", 1500)
    }
    assert bench.accepted("datagrams") == bench.accepted("rows") == 3
    heard = {source.sender.name: (source.rows, source.tells) for source in bench.sources.all()}
    assert heard["leaf1 at 127.77.0.1"] == (2, {"flow_sample"})
    assert heard["spine1 at 127.77.0.2"] == (1, {"flow_sample"})
    assert counted(bench) == {}


def test_counters_become_metric_samples_of_the_port(bench: Bench) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    record = oracle.interface(9, 10**9, 3, (1000, 2000), [1, 2, 3, 4, 5, oracle.U32, 7, 8, 9, 10, 11])
    take(taker, batch(datagram(1, oracle.counter_sample(1, 9, [record]))))
    stored = {labels: value for labels, _, value in bench.stored()}
    assert stored["ifInOctets{port=Ethernet3,switch=leaf1}"] == 1000
    assert "ifInUnknownProtos{port=Ethernet3,switch=leaf1}" not in stored
    row = next(row for row in bench.store.rows("series") if row["name"] == "ifOutDiscards")
    assert (row["entity"], row["entity_kind"], row["unit"], row["type"], row["source"]) == (
        "swport:leaf1/Ethernet3", "swport", "packets", "counter", "sflow",
    )  # fmt: skip
    assert bench.refused() == {"blank_value": 1}


def test_pools_are_told_once_a_second(bench: Bench) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    for number, at_ns in enumerate((T, T + 10**8, T + 10**9), 1):
        take(taker, batch(datagram(number, flow(number, 100, drops=3)), at_ns=at_ns))
    told = [(labels, (at - T) / 1e9, value) for labels, at, value in bench.stored() if "pool" in labels]
    name = "sflow_sample_pool_packets_total{port=Ethernet1,switch=leaf1}"
    assert told == [(name, 0.0, 100), (name, 1.0, 300)]


def test_the_same_content_at_another_time_is_another_batch(bench: Bench) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    again = datagram(1)
    take(taker, batch(again))
    SflowIntake(SflowConfig(senders=[LEAF]), bench.intake).take(batch(again))[0].result(10)
    assert len(bench.store.rows("flow_sample")) == 1, "offered again it is the same batch"
    take(SflowIntake(SflowConfig(senders=[LEAF]), bench.intake), batch(again, at_ns=T + 5))
    assert len(bench.store.rows("flow_sample")) == 2


# --- who may send -------------------------------------------------------------------------------------------------


def test_who_is_not_listed_is_refused_and_told(bench: Bench) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    take(taker, batch(datagram(1), b"x", sender="192.0.2.9"))
    assert bench.refused() == {"unknown_sender": 2}
    assert not bench.store.rows("flow_sample")
    (source,) = bench.sources.all()
    assert "192.0.2.9" in source.last_error
    assert "ingest.sflow.senders" in source.last_error


def test_what_is_malformed_is_told_with_its_sender_and_spoils_nothing(bench: Bench) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    take(taker, batch(datagram(1), datagram(2)[:-1], datagram(3)))
    assert bench.refused() == {"malformed": 1}
    assert len(bench.store.rows("flow_sample")) == 2
    error = next(source.last_error for source in bench.sources.all() if source.last_error)
    assert error.startswith("sFlow datagram 1 from 127.77.0.1, byte ")


def test_unknown_switches_are_called_by_their_agent_address(bench: Bench) -> None:
    taker = SflowIntake(SflowConfig(accept_unknown=True), bench.intake)
    take(taker, batch(datagram(1), datagram(1, agent="2001:db8::7"), b"", sender="127.0.0.1"))
    assert {row["switch"] for row in bench.store.rows("flow_sample")} == {"10.0.0.1", "2001:db8::7"}
    assert bench.refused() == {"unknown_sender": 1}, "an empty datagram names no agent"


def test_one_address_may_send_for_several_agents() -> None:
    relay = [
        SflowSender("10.0.0.5", "leaf1", agent="10.1.0.1"),
        SflowSender("10.0.0.5", "leaf2", agent="2001:DB8::2"),
        SflowSender("::ffff:10.0.0.6", "spine1"),
    ]
    allowed = Allowed(SflowConfig(senders=relay))

    def name(address: str, agent: str) -> str:
        found = allowed.switch(address, agent)
        return found.name if found else ""

    assert name("10.0.0.5", "10.1.0.1") == "leaf1"
    assert name("10.0.0.5", "2001:db8::2") == "leaf2"
    assert name("10.0.0.5", "10.1.0.9") == name("10.1.0.1", "10.1.0.1") == ""
    assert name("10.0.0.6", "10.7.7.7") == "spine1"


def test_files_of_senders_are_read_again_when_they_change(bench: Bench, tmp_path: Path) -> None:
    taker = SflowIntake(SflowConfig(senders=[SPINE], sender_files=[str(tmp_path / "*.*")]), bench.intake)
    taker.refresh()
    path = tmp_path / "lab.json"

    def written(content: str) -> str:
        """The switch that 127.77.0.1 is, after a refresh."""
        path.write_text(content)
        os.utime(path, ns=(time.time_ns(), time.time_ns()))
        taker.refresh()
        found = taker._allowed.switch("127.77.0.1", "10.0.0.1")
        return f"{found.name} {found.port(7)}" if found else ""

    assert written(json.dumps([{"address": "127.77.0.1", "switch": "leaf1", "ports": {"7": "Ethernet1"}}])) == (
        "leaf1 Ethernet1"
    )
    assert written(json.dumps([{"address": "127.77.0.1", "switch": "leaf9"}])) == "leaf9 ifIndex7"
    assert written("[{") == "leaf9 ifIndex7", "as it was"
    assert counted(bench) == {"senders malformed": 1}
    taker.refresh()
    assert counted(bench) == {"senders malformed": 1}, "told once"
    path.rename(tmp_path / "lab.yaml")
    assert taker._allowed.switch("127.77.0.2", "") is not None
    (tmp_path / "lab.yaml").write_text("- {address: 127.77.0.1, switch: leaf3, ports: {7: Ethernet7}}\n")
    taker.refresh()
    found = taker._allowed.switch("127.77.0.1", "")
    assert found is not None
    assert found.port(7) == "Ethernet7"
    (tmp_path / "lab.yaml").unlink()
    taker.refresh()
    assert taker._allowed.switch("127.77.0.1", "") is None


@pytest.mark.parametrize(
    "content",
    [
        "{}", "[1]", '[{"switch": "a"}]', '[{"address": "x", "switch": "a"}]', '[{"address": "1.2.3.4", "switch": ""}]',
        '[{"address": "1.2.3.4", "switch": "a", "ports": [1]}]', '[{"address": "1.2.3.4", "switch": "a", "port": 1}]',
        '[{"address": "1.2.3.4", "switch": "a", "ports": {"x": "y"}}]', "[" * 100_000, "\0",
        '[{"address": "1.2.3.4", "switch": "a", "ports": {"1": ""}}]',
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["s.json", "s.yml"])
def test_a_file_that_lists_no_senders_says_why(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match="expected"):
        senders_of(tmp_path / name)


def test_a_wrong_sender_in_the_settings_is_refused_at_the_start(bench: Bench) -> None:
    with pytest.raises(ConfigError, match=r"ingest\.sflow\.senders: expected an IP address, got 'leaf1'"):
        SflowIntake(SflowConfig(senders=[SflowSender("leaf1", "leaf1")]), bench.intake)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com"])
def test_strangers_may_only_send_from_this_machine(host: str) -> None:
    with pytest.raises(ConfigError, match="loopback"):
        require_known_senders(SflowConfig(accept_unknown=True), host)
    require_known_senders(SflowConfig(senders=[LEAF]), host)
    for loopback in ("127.0.0.1", "::1", "localhost"):
        require_known_senders(SflowConfig(accept_unknown=True), loopback)


# --- what is missing ----------------------------------------------------------------------------------------------


def test_gaps_in_the_numbers_are_losses(bench: Bench) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    take(taker, batch(datagram(2**32 - 2, flow(10)), datagram(2**32 - 1, flow(11))))
    take(taker, batch(datagram(0, flow(12, drops=2)), datagram(4, flow(15, drops=7))))
    assert counted(bench) == {"lost datagrams": 3, "lost samples": 2, "lost switch": 7}


def test_every_source_and_agent_counts_for_itself(bench: Bench) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    take(taker, batch(datagram(1, flow(1), flow(500, source=9)), datagram(900, flow(77), agent="10.0.0.2")))
    take(taker, batch(datagram(2, flow(2), flow(501, source=9)), datagram(901, flow(78), agent="10.0.0.2")))
    take(taker, batch(datagram(50, flow(900), sub_agent=3)))
    assert counted(bench) == {}


def test_a_copy_is_not_taken_twice_and_a_late_one_is_taken(bench: Bench) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    take(taker, batch(datagram(5), datagram(7), datagram(6), datagram(7)))
    take(taker, batch(datagram(6), datagram(8)))
    assert len(bench.store.rows("flow_sample")) == 4
    assert counted(bench) == {"lost datagrams": 1, "late datagrams": 1, "lost samples": 1, "skipped copy": 2}


@pytest.mark.parametrize(("uptime_ms", "sequence"), [(5, 1), (90_000, 1), (90_000, 900 - WINDOW - 1)])
def test_an_agent_that_begins_anew_lost_nothing(bench: Bench, uptime_ms: int, sequence: int) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    take(taker, batch(datagram(900, uptime_ms=90_000)))
    take(taker, batch(datagram(sequence, uptime_ms=uptime_ms), datagram(sequence + 1, uptime_ms=uptime_ms)))
    assert counted(bench) == {}
    assert len(bench.store.rows("flow_sample")) == 3


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.ingest.sflow_sequence.AGENTS_MAX", 3)
    sequences = Sequences()
    for number in range(10):
        sequences.datagram(f"10.0.0.{number}/0", 1, 0, 0)
        for sequence in range(200):
            sequences.datagram("10.0.0.99/0", sequence, 0, sequence)
    assert len(sequences._agents) == 3
    assert len(sequences._agents["10.0.0.99/0"].recent) == WINDOW


# --- a store that has no room -------------------------------------------------------------------------------------


def test_what_finds_no_room_in_time_is_lost_and_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.ingest.sflow.BUSY_S_MAX", 0.0)
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)

    def full(*_: Any, **__: Any) -> Any:
        raise BusyError("full")

    monkeypatch.setattr(bench.intake, "rows", full)
    take(taker, batch(datagram(1), datagram(2)))
    assert counted(bench) == {"lost store": 2}


def test_what_finds_room_later_is_not_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    real, refusals = bench.intake.rows, [BusyError("full")] * 2

    def rows(*given: Any, **more: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return real(*given, **more)

    monkeypatch.setattr(bench.intake, "rows", rows)
    take(taker, batch(datagram(1)))
    assert len(bench.store.rows("flow_sample")) == 1
    assert counted(bench) == {}


def test_rows_that_the_store_refuses_are_lost_and_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.ingest.lanes.APPEND_TRIES", 1)
    bench.faults.broken = "disk full"
    taker = SflowIntake(SflowConfig(senders=[LEAF]), bench.intake)
    for done in taker.take(batch(datagram(1))):
        assert done.exception(10) is not None
    assert counted(bench)["lost store"] == 3, "one row and two samples of the pool"


# --- the listener -------------------------------------------------------------------------------------------------


def listening(bench: Bench, use: Callable[[SflowListener], Any], **config: Any) -> Any:
    """Run a listener on a free port for the time of `use`, which runs in another thread."""

    async def run() -> Any:
        listener = SflowListener(SflowConfig(port=0, **config), "127.0.0.1", bench.intake)
        listener.open()
        serving = asyncio.create_task(listener.run())
        try:
            return await asyncio.to_thread(use, listener)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            assert listener.addresses == [], "its sockets are closed"

    return asyncio.run(run())


def until(look: Callable[[], Any], seconds: float = 10.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def send(listener: SflowListener, *given: bytes, source: str = "127.0.0.1") -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((source, 0))
        for one in given:
            sender.sendto(one, listener.addresses[0])


def real_time(bench: Bench) -> Bench:
    """The kernel stamps with the real time, so the intake must have it too."""
    bench.clock.advance((time.time_ns() - bench.clock()) / 1e9)
    return bench


def test_datagrams_arrive_with_the_kernels_stamp_and_their_source(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def use(listener: SflowListener) -> None:
        began_ns = time.time_ns()
        send(listener, datagram(1), b"x" * 30_000, source="127.77.0.1")
        send(listener, datagram(1, agent="10.0.0.2"), source="127.77.0.2")
        send(listener, datagram(1), source="127.77.0.3")
        assert until(lambda: bench.accepted("rows") == 2)
        rows = bench.store.rows("flow_sample")
        assert {row["switch"] for row in rows} == {"leaf1", "spine1"}
        assert all(began_ns <= row["time_ns"] <= time.time_ns() for row in rows)
        assert until(lambda: bench.refused() == {"unknown_sender": 1, "malformed": 1})

    listening(real_time(bench), use, senders=[LEAF, SPINE])
    assert caplog.messages == [], "its threads end before its sockets do"


def test_what_was_received_is_taken_before_it_stops(bench: Bench) -> None:
    listening(
        real_time(bench),
        lambda listener: (send(listener, *(datagram(n) for n in range(300))), time.sleep(0.3)),
        accept_unknown=True,
    )
    bench.intake.stop()
    assert bench.accepted("rows") == 300


def test_a_full_queue_drops_and_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real_time(bench)
    monkeypatch.setattr("leadline.ingest.sflow_receiver.LINGER_S", 0.0)
    slow = threading.Event()
    real = SflowIntake.take

    def held(self: SflowIntake, given: Datagrams) -> Any:
        assert slow.wait(10)
        return real(self, given)

    monkeypatch.setattr(SflowIntake, "take", held)

    def use(listener: SflowListener) -> None:
        large = oracle.datagram("10.0.0.1", [oracle.tagged(99, b"\0" * 60_000)])
        for _ in range(40):  # 2.4 MB; 1 MiB may wait
            send(listener, large)
            time.sleep(0.002)
        assert until(lambda: counted(bench).get("lost queue", 0) > 0)
        slow.set()

    listening(bench, use, accept_unknown=True, queue_bytes_max=1 << 20)
    lost = counted(bench)
    assert 15 <= lost["lost queue"] <= 38


def test_empty_datagrams_fill_the_queue_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.ingest.sflow_receiver.LINGER_S", 0.0)
    for module in ("sflow_listener", "sflow_receiver"):
        monkeypatch.setattr(f"leadline.ingest.{module}.NOTE_BYTES", 1 << 18)
    slow = threading.Event()
    monkeypatch.setattr(SflowIntake, "take", lambda *_: slow.wait(10))

    def use(listener: SflowListener) -> None:
        for _ in range(40):
            send(listener, b"")
            time.sleep(0.001)
        assert until(lambda: counted(bench).get("lost queue", 0) > 0)
        slow.set()

    listening(bench, use, accept_unknown=True, queue_bytes_max=1 << 20)


def test_a_batch_of_empty_datagrams_ends() -> None:
    batch = Batch()
    while not batch.full:
        batch.add(Received(b"", [0], ["127.0.0.1"], [1]))
    assert len(batch.cut().ends) == BATCH_BYTES // NOTE_BYTES


def test_what_the_kernel_drops_is_counted(bench: Bench) -> None:
    async def late() -> None:
        """Datagrams that arrive before anyone reads them: the smallest buffer holds a few."""
        config = SflowConfig(port=0, accept_unknown=True, receive_buffer_bytes=4096)
        listener = SflowListener(config, "127.0.0.1", bench.intake)
        listener.open()
        for _ in range(200):
            send(listener, b"\0" * 1400)
        serving = asyncio.create_task(listener.run())
        await asyncio.to_thread(until, lambda: bench.refused().get("unknown_sender", 0) > 0)
        send(listener, datagram(1))  # the count comes with the next datagram
        assert await asyncio.to_thread(until, lambda: counted(bench).get("lost kernel", 0) > 0)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(late())
    assert counted(bench)["lost kernel"] + bench.refused()["unknown_sender"] == 200


def test_a_mistake_of_ours_does_not_stop_the_listener(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real_time(bench)
    real, mistakes = SflowIntake.take, [ZeroDivisionError()]

    def take_badly(self: SflowIntake, given: Datagrams) -> Any:
        if mistakes:
            raise mistakes.pop()
        return real(self, given)

    monkeypatch.setattr(SflowIntake, "take", take_badly)

    def use(listener: SflowListener) -> None:
        send(listener, datagram(1))
        assert until(lambda: counted(bench) == {"lost failed": 1})
        send(listener, datagram(2))
        assert until(lambda: bench.accepted("rows") == 1)

    listening(bench, use, accept_unknown=True)


def test_nobody_listens_until_somebody_may_send(bench: Bench) -> None:
    assert not SflowConfig().listens
    assert SflowConfig(sender_files=["x"]).listens
    assert listening(bench, lambda listener: listener.addresses) == []


def test_a_port_that_is_taken_is_told_with_its_setting(bench: Bench) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        listener = SflowListener(SflowConfig(port=port, senders=[LEAF]), "127.0.0.1", bench.intake)
        with pytest.raises(WorldError, match=f"127.0.0.1:{port}/udp .ingest.sflow.port"):
            listener.open()


def test_every_reason_of_loss_is_declared() -> None:
    reasons = {each.reason for each in COUNTERS if each.family == "sflow_lost"}
    assert reasons == {"kernel", "queue", "datagrams", "samples", "switch", "store", "failed"}
