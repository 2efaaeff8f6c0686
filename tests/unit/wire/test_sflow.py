"""sFlow datagrams: every structure, headers cut short, errors that name the byte, rows and metric samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracle import sflow as oracle

from leadline.model.ids import flow_id
from leadline.model.names import entity_of, unit_of
from leadline.model.tables.fabric import FLOW_SAMPLE
from leadline.store.schema import arrow_table
from leadline.wire.sflow import headers as header
from leadline.wire.sflow import kernels
from leadline.wire.sflow.counters import METADATA, CounterStreams
from leadline.wire.sflow.datagrams import SflowBatch, Switch, decode_sflow, flow_columns, reason_name

T = 1_750_000_000 * 10**9
LEAF = Switch("leaf1", {7: "Ethernet1", 9: "Ethernet3"})

# A RoCEv2 packet by hand: Ethernet, IPv4 (CE marked, DSCP 26), UDP 49152 > 4791, BTH (RC SEND only, QP 0x123456).
ROCE = bytes.fromhex(
    "0a0000000002 0a0000000001 0800"
    "45 6b 0034 0000 4000 40 11 0000 0a010100 0a020301"
    "c000 12b7 0020 0000"
    "04 40 ffff 00 123456 80 abcdef"
)


def read(*datagrams: bytes) -> SflowBatch:
    return decode_sflow(b"".join(datagrams), np.cumsum([len(one) for one in datagrams], dtype=np.int64))


def sampled(*records: bytes, **more: Any) -> bytes:
    """A datagram with one flow sample from port 7 to port 9."""
    given = {"sequence": 1, "source": 7, "rate": 100, "pool": 5000, "drops": 2, "came": (0, 7), "left": (0, 9), **more}
    return oracle.datagram("10.0.0.1", [oracle.flow_sample(records=records, **given)])


def row(datagram: bytes) -> dict[str, Any]:
    """The one row of `flow_sample` that a datagram gives."""
    batch = read(datagram)
    assert batch.error(0) is None
    columns, count = flow_columns(batch, [LEAF], np.array([T]))
    assert count == 1
    return {name: column.tolist()[0] for name, column in columns.items()}


def test_a_roce_packet_tells_its_queue_pair() -> None:
    found = row(sampled(oracle.raw_header(ROCE, 1086)))
    flow = found.pop("flow")
    assert found == {
        "switch": "leaf1", "in_port": "Ethernet1", "out_port": "Ethernet3", "time_ns": T, "rate": 100,
        "frame_bytes": 1086, "protocol": 17, "src_ip": "10.1.1.0", "dst_ip": "10.2.3.1", "src_port": 49152,
        "dst_port": 4791, "dst_qp": 0x123456, "dscp": 26, "ecn": 3, "dropped": None,
    }  # fmt: skip
    assert flow[0] | flow[1] << 64 == flow_id(17, "10.1.1.0", "10.2.3.1", 49152, 4791, 0x123456)
    flows = read(sampled(oracle.raw_header(ROCE, 1086))).flows[0]
    assert (flows[header.OPCODE], flows[header.PSN]) == (4, 0xABCDEF)


def test_rows_fit_the_table() -> None:
    columns, count = flow_columns(read(sampled(oracle.raw_header(ROCE, 1086))), [LEAF], np.array([T]))
    assert list(columns) == [column.name for column in FLOW_SAMPLE.given]
    added = {"tenant": ["t"], "cluster": ["c"], "batch": [1], "batch_row": [0]}
    assert arrow_table(FLOW_SAMPLE, {**columns, **added}).num_rows == count == 1


def test_a_header_cut_anywhere_tells_what_is_left_of_it() -> None:
    whole = row(sampled(oracle.raw_header(ROCE, 1086)))
    absent = {"src_ip": "", "dst_ip": "", "dst_qp": None}
    for size in range(len(ROCE)):
        found = row(sampled(oracle.raw_header(ROCE[:size], 1086)))
        for name in ("protocol", "src_ip", "dst_ip", "src_port", "dst_port", "dst_qp", "dscp", "ecn"):
            assert found[name] in (whole[name], absent.get(name, 0)), f"{name} of {size} bytes"
        qp = found["dst_qp"]
        if found["src_ip"]:
            flow = flow_id(
                found["protocol"], found["src_ip"], found["dst_ip"], found["src_port"], found["dst_port"], qp
            )
            assert found["flow"][0] | found["flow"][1] << 64 == flow
        else:
            assert found["flow"] == [0, 0]
    assert [row(sampled(oracle.raw_header(ROCE[:size], 1)))["dst_qp"] for size in (49, 50)] == [None, 0x123456]


@pytest.mark.parametrize("expanded", [False, True])
def test_interfaces_by_their_format(expanded: bool) -> None:
    def ports(came: tuple[int, int], left: tuple[int, int]) -> tuple[str, str, str]:
        found = row(sampled(oracle.raw_header(ROCE, 1086), came=came, left=left, expanded=expanded))
        return found["in_port"], found["out_port"], found["dropped"]

    assert ports((0, 7), (0, 12)) == ("Ethernet1", "ifIndex12", None)
    assert ports((0, 0), (0, 0x3FFFFFFF)) == (None, None, None)
    assert ports((0, 7), (1, 259)) == ("Ethernet1", None, "no_buffer_space")
    assert ports((0, 7), (1, 9999)) == ("Ethernet1", None, "reason_9999")
    assert ports((0, 7), (2, 3)) == ("Ethernet1", None, None)


def test_an_expanded_sample_has_room_for_wide_indexes() -> None:
    found = row(sampled(oracle.raw_header(ROCE, 64), came=(0, 0xC0000001), left=(0, 0x40000000), expanded=True))
    assert (found["in_port"], found["out_port"]) == ("ifIndex3221225473", "ifIndex1073741824")


def test_a_discarded_packet_says_why_and_where() -> None:
    sample = oracle.discarded(3, 7, 11, 7, 9, 302, [oracle.raw_header(ROCE, 1086)])
    found = row(oracle.datagram("10.0.0.1", [sample]))
    assert (found["in_port"], found["out_port"], found["dropped"]) == (
        "Ethernet1", "Ethernet3", "uc_reverse_path_forwarding",
    )  # fmt: skip
    assert (found["rate"], found["dst_qp"]) == (1, 0x123456)
    assert read(oracle.datagram("10.0.0.1", [sample])).samples[0, kernels.DROPS] == 11


def test_reasons_as_the_specification_numbers_them() -> None:
    assert [reason_name(code) for code in (0, 15, 256, 263, 303)] == [
        "net_unreachable", "precedence_cutoff", "unknown", "src_mac_is_multicast", "split_horizon",
    ]  # fmt: skip


@pytest.mark.parametrize("first", ["header", "sampled"])
def test_a_header_is_believed_before_a_record_that_describes_it(first: str) -> None:
    records = [
        oracle.raw_header(ROCE, 1086),
        oracle.sampled_ip(200, 6, "192.0.2.1", "192.0.2.2", 80, 81, 0x12, 0xB8),
        oracle.ethernet_frame(300),
    ]
    found = row(sampled(*(records if first == "header" else reversed(records))))
    assert (found["frame_bytes"], found["src_ip"], found["src_port"], found["dscp"]) == (1086, "10.1.1.0", 49152, 26)


@pytest.mark.parametrize(("src", "dst"), [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")])
def test_sampled_ip_records_serve_where_there_is_no_header(src: str, dst: str) -> None:
    found = row(sampled(oracle.sampled_ip(200, 6, src, dst, 80, 81, 0x12, 0xBA)))
    assert (found["protocol"], found["src_ip"], found["dst_ip"], found["src_port"], found["dst_port"]) == (
        6, src, dst, 80, 81,
    )  # fmt: skip
    assert (found["frame_bytes"], found["dscp"], found["ecn"]) == (200, 46, 2)
    assert found["flow"][0] | found["flow"][1] << 64 == flow_id(6, src, dst, 80, 81)


def test_a_frame_without_ip_is_a_row_of_its_port() -> None:
    arp = bytes.fromhex("ffffffffffff 0a0000000001 0806 0001 0800 06 04 0001")
    found = row(sampled(oracle.raw_header(arp, 64)))
    assert (found["frame_bytes"], found["src_ip"], found["protocol"], found["flow"]) == (64, "", 0, [0, 0])


def test_extended_records_and_tags() -> None:
    tagged = ROCE[:12] + bytes.fromhex("88a8 6005 8100 e007") + ROCE[12:]
    datagram = sampled(
        oracle.raw_header(tagged, 1094), oracle.switch(100, 5, 200, 6), oracle.router("10.9.9.9", 24, 16)
    )
    batch = read(datagram)
    flows = batch.flows[0]
    assert (flows[header.VLAN], flows[header.PRIORITY], flows[header.DST_QP]) == (5, 3, 0x123456)
    assert flows[[header.IN_VLAN, header.IN_PRIORITY, header.OUT_VLAN, header.OUT_PRIORITY]].tolist() == [
        100,
        5,
        200,
        6,
    ]
    assert flows[[header.NEXT_HOP, header.SRC_MASK, header.DST_MASK]].tolist() == [4, 24, 16]
    assert batch.addresses[0, header.HOP :].tolist() == [0] * 10 + [255, 255, 10, 9, 9, 9]
    hop6 = read(sampled(oracle.router("2001:db8::9", 48, 64))).flows[0]
    assert (hop6[header.NEXT_HOP], hop6[header.DST_MASK]) == (6, 64)
    assert read(sampled(oracle.router("", 0, 0))).error(0) is None


def test_later_fragments_have_no_ports() -> None:
    later = bytearray(ROCE)
    later[20:22] = bytes.fromhex("2001")
    found = row(sampled(oracle.raw_header(bytes(later), 1086)))
    assert (found["src_ip"], found["src_port"], found["dst_port"], found["dst_qp"]) == ("10.1.1.0", 0, 0, None)


def test_what_is_not_known_is_passed_over_and_counted() -> None:
    datagram = oracle.datagram(
        "2001:db8::7",
        [
            oracle.tagged(1, b"abc", enterprise=4300),
            oracle.flow_sample(
                1, 7, 100, 0, 0, (0, 7), (0, 9),
                [oracle.tagged(1036, b"1234"), oracle.raw_header(ROCE, 64), oracle.tagged(1, b"x" * 5, 8800)],
            ),
            oracle.counter_sample(1, 7, [oracle.tagged(7, b"\0" * 56)]),
        ],
    )  # fmt: skip
    batch = read(datagram)
    assert batch.error(0) is None
    assert batch.agent(0) == "2001:db8::7"
    assert (batch.skipped_samples, batch.skipped_records, len(batch.flows)) == (1, 3, 1)


def test_structures_may_have_grown_at_their_end() -> None:
    longer = oracle.tagged(1, oracle.raw_header(ROCE, 1086)[8:] + b"more")
    sample = oracle.flow_sample(1, 7, 100, 0, 0, (0, 7), (0, 9), [longer])
    grown = oracle.tagged(1, sample[8:] + b"and more")
    assert row(oracle.datagram("10.0.0.1", [grown]))["dst_qp"] == 0x123456


# --- mistakes -----------------------------------------------------------------------------------------------------

GOOD = sampled(oracle.raw_header(ROCE, 1086))


@pytest.mark.parametrize(
    ("datagram", "message"),
    [
        (b"", "byte 0: expected more bytes of the datagram, got its end"),
        (b"\0\0\0\5", "byte 4: expected more bytes of the datagram, got its end"),
        (b"\0\0\0\4" + GOOD[4:], "byte 0: expected sFlow version 5, got 4"),
        (GOOD[:4] + b"\0\0\0\3" + GOOD[8:], "byte 4: expected an agent address of type 1"),
        (GOOD + b"\0\0", "byte 148: expected the end of the datagram behind its last sample, got the bytes 0000"),
        (GOOD[:32] + b"\0\0\1\0" + GOOD[36:], "byte 32: expected a sample that ends within the datagram, got 256"),
        (GOOD[:72] + b"\0\0\1\0" + GOOD[76:], "byte 72: expected a record that ends within its sample, got 256"),
        (GOOD[:88] + b"\0\0\1\0" + GOOD[92:], "byte 88: expected a packet header that ends within its record, got 256"),
        (GOOD[:64] + b"\0\0\0\2" + GOOD[68:], "byte 148: expected all fields of the sample within its length"),
        (sampled(oracle.tagged(1, b"\0" * 12)), "byte 72: expected all fields of the record within its length, got 12"),
        (sampled(oracle.tagged(1002, oracle.words(3, 0, 0))), "byte 76: expected a next hop of type 0, 1"),
    ],
    ids=["empty", "cut", "version", "agent", "behind", "sample", "record", "header", "records", "fields", "hop"],
)  # fmt: skip
def test_an_error_names_datagram_sender_and_byte(datagram: bytes, message: str) -> None:
    batch = read(GOOD, datagram, GOOD)
    error = batch.error(1, "10.0.0.99")
    assert error is not None
    assert str(error).startswith("sFlow datagram 1 from 10.0.0.99, byte ")
    assert message in str(error)
    assert batch.error(0) is None
    assert batch.error(2) is None
    assert batch.flows[:, header.DATAGRAM].tolist() == [0, 2], "a bad datagram leaves no rows and spoils none"
    assert batch.ids[0].tolist() == batch.ids[1].tolist()


def test_ends_must_divide_the_bytes() -> None:
    for ends in ([len(GOOD) - 1], [len(GOOD) + 1], [9, 5, len(GOOD)], []):
        with pytest.raises(ValueError, match="must rise"):
            decode_sflow(GOOD, ends)


def test_rows_of_datagrams_that_are_not_wanted_are_left_out() -> None:
    columns, count = flow_columns(read(GOOD, GOOD, GOOD), [LEAF, None, Switch("leaf2")], np.array([1, 2, 3]))
    assert count == 2
    assert columns["switch"].tolist() == ["leaf1", "leaf2"]
    assert columns["in_port"].tolist() == ["Ethernet1", "ifIndex7"]
    assert columns["time_ns"].tolist() == [1, 3]
    assert flow_columns(read(GOOD), [None], np.array([1]))[1] == 0


# --- counters -----------------------------------------------------------------------------------------------------


def told(datagram: bytes, streams: CounterStreams | None = None) -> dict[tuple[str, ...], float]:
    """Values by the values of their labels, name first."""
    batch = read(datagram)
    assert batch.error(0) is None
    samples = (streams or CounterStreams()).counters(batch, [LEAF], np.array([T]))
    assert set(samples.time_ns.tolist()) <= {T}
    found = {}
    for stream, value in zip(samples.sample_series.tolist(), samples.value.tolist(), strict=True):
        labels = samples.labels(stream)
        assert labels["__name__"] in METADATA
        found[labels.pop("__name__"), *(text for _, text in sorted(labels.items()))] = value
    return found


@pytest.mark.parametrize("expanded", [False, True])
def test_counters_of_a_port(expanded: bool) -> None:
    records = [
        oracle.interface(9, 25 * 10**9, 0b01, (2**40, 2**41), range(1, 12)),
        oracle.ethernet(range(100, 113)),
    ]
    streams = CounterStreams()
    for _ in range(2):  # made, then remembered
        found = told(oracle.datagram("10.0.0.1", [oracle.counter_sample(1, 9, records, expanded)]), streams)
        assert len(found) == 18 + 13
        port = ("Ethernet3", "leaf1")
        assert found["ifInOctets", *port] == 2**40
        assert found["ifOutOctets", *port] == 2**41
        assert found["ifSpeed", *port] == 25e9
        assert (found["ifAdminStatus", *port], found["ifOperStatus", *port]) == (1, 2)
        assert (found["ifInUcastPkts", *port], found["ifInUnknownProtos", *port]) == (1, 6)
        assert (found["ifOutUcastPkts", *port], found["ifOutDiscards", *port], found["ifOutErrors", *port]) == (
            7,
            10,
            11,
        )
        assert found["dot3StatsFCSErrors", *port] == 101
        assert found["dot3StatsSymbolErrors", *port] == 112


def test_counters_of_a_switch() -> None:
    records = [oracle.vlan(100, 5000, (1, 2, 3, 4)), oracle.processor((100, 200, 300), 2**34, 2**33)]
    found = told(oracle.datagram("10.0.0.1", [oracle.counter_sample(1, 1, records)]))
    assert found["sflow_vlan_octets", "leaf1", "100"] == 5000
    assert found["sflow_vlan_discards", "leaf1", "100"] == 4
    assert found["sflow_processor_cpu_5m", "1", "leaf1"] == 300
    assert found["sflow_processor_memory_free_bytes", "1", "leaf1"] == 2**33


def test_all_ones_are_no_value() -> None:
    record = oracle.interface(9, 2**64 - 1, 3, (2**64 - 1, 5), [oracle.U32] * 11)
    batch = read(oracle.datagram("10.0.0.1", [oracle.counter_sample(1, 9, [record])]))
    samples = CounterStreams().counters(batch, [LEAF], np.array([T]))
    names = {samples.labels(stream)["__name__"] for stream in samples.sample_series.tolist()}
    assert names == {"ifDirection", "ifAdminStatus", "ifOperStatus", "ifOutOctets", "ifPromiscuousMode"}
    assert samples.dropped == {"blank_value": 13}
    assert not len(CounterStreams().counters(batch, [None], np.array([T])).value)


def test_samplers_tell_their_pools() -> None:
    samples = CounterStreams().samplers([(LEAF, 7, 5000, 2, T), (LEAF, 12, 1, 0, T)])
    assert samples.labels(0) == {"__name__": "sflow_sample_pool_packets_total", "port": "Ethernet1", "switch": "leaf1"}
    assert samples.value.tolist() == [5000, 2, 1, 0]
    assert not len(CounterStreams().samplers([]).value)


@pytest.mark.parametrize("name", sorted(METADATA))
def test_names_lead_to_their_entity_and_unit(name: str) -> None:
    found = entity_of({"__name__": name, "switch": "leaf1", "port": "Ethernet3"})
    whole = name.startswith(("sflow_vlan", "sflow_processor"))
    assert found.entity == ("switch:leaf1" if whole else "swport:leaf1/Ethernet3")
    assert found.host is None
    if not name.startswith("sflow_") and METADATA[name].type == "counter":
        assert unit_of(name) == METADATA[name].unit


def test_a_port_without_a_switch_is_nobodys() -> None:
    assert entity_of({"__name__": "ifInOctets", "port": "Ethernet3"}).entity == ""
