"""What TCP connections counted, as a kernel told it; and as this one tells it."""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import replace

import pytest

from leadline.host.rows import flow_rows
from leadline.host.sources import tcp_diag
from leadline.host.sources.tcp_diag import FLOWS_MAX, TcpDiag, changes, flow_of, flow_sent, is_local, less
from leadline.model.errors import DataError
from leadline.model.ids import flow_id
from leadline.model.tables.fabric import FLOW_SENT
from leadline.wire.netlink.connections import Connection, connections_request, parse_connections
from leadline.wire.rows import decode_rows

from .conftest import recorded, site_with

S = 1_000_000_000
A, B = b"\x0a\x01\x01\x01", b"\x0a\x01\x02\x01"  # 10.1.1.1, 10.1.2.1


def connection(number: int, **counted: int) -> Connection:
    told = dict.fromkeys(Connection._fields[5:-2], 0) | counted
    return Connection(struct.pack("=Q", number), A, B, 40_000 + number, 7001, **told, knows_timeouts=True)


def test_what_was_sent_between_two_looks() -> None:
    seen, sent = changes({}, parse_connections(recorded("sock_diag_before.bin")))
    assert sent == {}
    seen, sent = changes(seen, parse_connections(recorded("sock_diag_after.bin")))
    (delta,) = sent.values()  # the other way nothing was sent
    assert (delta.sent_bytes, delta.acked_bytes, delta.knows_timeouts) == (
        20_000 + 5000 * delta.again + 5000,
        25_000,
        1,
    )
    assert delta.again >= 2
    assert delta.timeouts >= 1
    assert delta.packets >= 2 + delta.again
    assert 1_000_000 < delta.busy_us < 4_000_000
    assert changes(seen, parse_connections(recorded("sock_diag_after.bin")))[1] == {}


def test_a_row_is_of_the_flow_that_switches_sample() -> None:
    seen, _ = changes({}, parse_connections(recorded("sock_diag_before.bin")))
    _, sent = changes(seen, parse_connections(recorded("sock_diag_after.bin")))
    (delta,) = sent.values()
    row = flow_sent(delta, flow_of(delta), 5 * S, S)
    assert row.flow == flow_id(6, "10.1.1.1", "10.1.2.1", delta.src_port, 7001)
    body = flow_rows([row], "h3", "h3/7f3a90b1")
    told = decode_rows(body, "application/x-ndjson", FLOW_SENT)
    assert told["again"] == [delta.again]
    assert told["rtt_ns"] == [delta.rtt_us * 1000]
    assert json.loads(body)["flow"] == f"{row.flow:032x}"


def test_both_families_and_the_one_within_the_other() -> None:
    found = {each.dst_port: flow_of(each) for each in parse_connections(recorded("sock_diag_inet6.bin"))}
    assert (found[7002].src_ip, found[7002].dst_ip) == ("fd00::1", "fd00::2")
    assert (found[7003].src_ip, found[7003].dst_ip) == ("10.1.1.1", "10.1.2.1")


def test_what_stays_on_the_host_is_not_told() -> None:
    here = replace_ends(connection(1, packets=5), b"\x7f\0\0\1", b"\x7f\0\0\2")
    mapped = replace_ends(connection(2, packets=5), *(b"\0" * 10 + b"\xff\xff" + end for end in (b"\x7f\0\0\1", A)))
    far = replace_ends(connection(3, packets=5), bytes(12) + b"\x7f\0\0\1", bytes(16))
    itself = replace_ends(connection(4, packets=5), A, A)
    assert [is_local(each) for each in (here, mapped, far, itself)] == [True, True, False, True]
    assert set(changes({}, [here, mapped, far, itself])[1]) == {far.cookie}


def replace_ends(each: Connection, source: bytes, target: bytes) -> Connection:
    return each._replace(source=source, target=target)


def test_counters_of_32_bits_wrap() -> None:
    delta = less(connection(1, packets=5, again=3), connection(1, packets=2**32 - 5, again=2**32 - 1))
    assert (delta.packets, delta.again) == (10, 4)


def test_what_an_older_kernel_does_not_count_is_null() -> None:
    data = recorded("sock_diag_after.bin")
    (size,) = struct.unpack_from("=I", data)
    whole = data[:size]
    at = 16 + 72
    while struct.unpack_from("=HH", whole, at)[1] != 2:
        at += (struct.unpack_from("=H", whole, at)[0] + 3) & ~3
    old = whole[:at] + struct.pack("=HH", 4 + 224, 2) + whole[at + 4 : at + 4 + 224]
    (found,) = parse_connections(struct.pack("=I", len(old)) + old[4:])
    assert found.sent_bytes == parse_connections(whole)[0].sent_bytes
    row = flow_sent(found, flow_of(found), S, S)
    assert (row.timeouts, row.needless) == (None, 0)


def test_no_more_rows_than_bounded_and_those_that_tell_most(monkeypatch: pytest.MonkeyPatch) -> None:
    site = site_with()
    many = [connection(n, packets=1, sent_bytes=n) for n in range(FLOWS_MAX + 10)]
    first = [replace_counts(each) for each in many]
    looks = iter([[], first, [*many[1:], many[0]._replace(again=1)]])
    monkeypatch.setattr(tcp_diag, "all_connections", lambda: iter(next(looks)))
    source = TcpDiag(site)
    assert source.poll(S).flows == []
    rows = source.poll(2 * S).flows
    assert len(rows) == FLOWS_MAX
    assert rows[0].src_port == 40_000  # it sent again
    assert rows[1].bytes == FLOWS_MAX + 9
    assert {row.window_ns for row in rows} == {S}
    assert site.counts.all() == {("agent_dropped", "flows_full"): 10}


def replace_counts(each: Connection) -> Connection:
    return each._replace(packets=0, sent_bytes=0)


def test_this_machine_tells_its_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = client.getsockname()[1]
        assert port in [each.src_port for each in tcp_diag.all_connections()]


def test_a_message_that_is_too_short_is_refused() -> None:
    with pytest.raises(DataError, match="72 bytes"):
        parse_connections(struct.pack("=IHHII", 20, 20, 0, 1, 0) + bytes(4))
    assert len(connections_request(socket.AF_INET, 1)) == 72


def test_how_often_it_looks_is_set() -> None:
    config = replace(site_with().config, flow_interval_s=0.5)
    site = site_with()
    site.config = config
    assert TcpDiag(site).every_s == 0.5
