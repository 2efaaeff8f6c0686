"""Datagrams of real switches: read to their last byte, and as they were read by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.oracle import sflow as oracle

from leadline.wire.sflow import headers as header
from leadline.wire.sflow import kernels
from leadline.wire.sflow.counters import CounterStreams
from leadline.wire.sflow.datagrams import Switch, decode_sflow, flow_columns

CASE = Path(__file__).parent / "sflow_datagrams"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CASE / "expected.json").read_text())
T = 1_750_000_000 * 10**9
every = pytest.mark.parametrize("name", sorted(EXPECTED))


def test_every_datagram_is_expected() -> None:
    assert {path.name for path in CASE.glob("*.dat")} == set(EXPECTED)


@every
def test_fields_as_read_by_hand(name: str) -> None:
    data, expected = (CASE / name).read_bytes(), EXPECTED[name]
    batch = decode_sflow(data, [len(data)])
    assert batch.error(0) is None, "not one byte is left over"
    assert batch.agent(0) == expected["agent"]
    told = {"sub_agent": kernels.SUB_AGENT, "sequence": kernels.SEQUENCE, "uptime_ms": kernels.UPTIME_MS}
    assert {key: int(batch.datagrams[0, column]) for key, column in told.items()} == {k: expected[k] for k in told}
    assert len(batch.samples) + batch.skipped_samples == int.from_bytes(data[24:28], "big") == expected["samples"]
    assert batch.skipped_records == expected["skipped_records"]
    columns, count = flow_columns(batch, [Switch("s")], np.array([T]))
    rows = [
        {key: column.tolist()[row] for key, column in columns.items() if key in expected["row"]} for row in range(count)
    ]
    assert rows == ([expected["row"]] if expected["row"] else [])
    counters = CounterStreams().counters(batch, [Switch("s")], np.array([T]))
    values: dict[str, dict[str, float]] = {}
    for stream, value in zip(counters.sample_series.tolist(), counters.value.tolist(), strict=True):
        labels = counters.labels(stream)
        values.setdefault(labels.get("port", "the switch"), {})[labels["__name__"]] = value
    assert set(values) == set(expected["counters"])
    for port, some in expected["counters"].items():
        assert some.items() <= values[port].items(), port


@pytest.mark.parametrize(
    ("name", "start", "wrap"),
    [("sflow_flow_sample.dat", 92, bytes(12) + b"\x08\x00"), ("sflow_flow_sample_eth_vlan.dat", 92, b"")],
)
def test_sampled_headers_as_scapy_reads_them(name: str, start: int, wrap: bytes) -> None:
    """`start` is where the sampled header lies; one begins at IPv4, so it is given an Ethernet header for scapy."""
    data = (CASE / name).read_bytes()
    seen = oracle.seen(wrap + data[start : start + int.from_bytes(data[start - 4 : start], "big")])
    batch = decode_sflow(data, [len(data)])
    columns, _ = flow_columns(batch, [Switch("s")], np.array([T]))
    row = {key: column.tolist()[0] for key, column in columns.items()}
    assert (row["src_ip"], row["dst_ip"], row["protocol"]) == (seen.src, seen.dst, seen.protocol)
    assert (row["src_port"], row["dst_port"], row["dscp"], row["ecn"]) == (
        seen.src_port, seen.dst_port, seen.dscp, seen.ecn,
    )  # fmt: skip
    assert batch.flows[0, [header.TCP_FLAGS, header.VLAN]].tolist() == [seen.tcp_flags, seen.vlan]
