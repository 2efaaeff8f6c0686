"""The scanner of sFlow version 5 datagrams: many at once, rows of integers out.

    datagram   version 5 | agent | sub-agent | sequence | uptime | samples: (format | length | ...)*
    sample     sequence | source | ... | records: (format | length | ...)*

A datagram is taken whole or not at all: at its first mistake its rows are taken back and the next one is read.
Structures may have grown at their end (the specification's way to extend them), so what follows the fields that we
know is passed over by the length; bytes behind the last sample are a mistake. Every read is compared with the end of
its datagram, sample or record before it is made.

Source: sFlow.org, "sFlow Version 5" (July 2004), section 5; "sFlow Dropped Packet Notification Structures" (2020).
"""

# To mypy a compiled kernel is Any (see `wire.kernel`), and so is what one returns to another.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.wire.kernel import kernel
from leadline.wire.murmur import murmur3_slice
from leadline.wire.sflow import headers as header
from leadline.wire.sflow.headers import Bytes, Row, be32, put_address
from leadline.wire.words import byte_at

Table = NDArray[np.int64]

# Errors, as indices of `sflow.EXPECTED`; 0 is none.
OK, VERSION, AGENT, CUT, SAMPLE_LENGTH, RECORD_LENGTH, SAMPLE_FIELDS, RECORD_FIELDS, HEADER_LENGTH, HOP, BEHIND = range(
    11
)

# Columns of a datagram. The three COUNT columns are how many rows of each kind it made.
(
    ERROR, ERROR_AT, AGENT_IP, SUB_AGENT, SEQUENCE, UPTIME_MS, SAMPLE_COUNT, FLOW_COUNT, RECORD_COUNT, DATAGRAM_COLUMNS,
) = range(10)  # fmt: skip
# Columns of a sample; KIND is the number of its structure, POOL is -1 but for flow samples, DROPS but for counters.
(S_DATAGRAM, KIND, SOURCE_TYPE, SOURCE_INDEX, S_SEQUENCE, POOL, DROPS, SAMPLE_COLUMNS) = range(8)
# Columns of a counter record: its sample, its structure, and where its fields begin.
(R_SAMPLE, FORMAT, BEGIN, RECORD_COLUMNS) = range(4)

FLOW, COUNTERS, FLOW_EXPANDED, COUNTERS_EXPANDED, DISCARDED = 1, 2, 3, 4, 5
RAW_HEADER, ETHERNET_FRAME, SAMPLED_IPV4, SAMPLED_IPV6, SWITCH, ROUTER = 1, 2, 3, 4, 1001, 1002
INTERFACE, ETHERNET, VLAN_COUNTERS, PROCESSOR = 1, 2, 5, 1001

# Bytes of the fields that we read of each structure; a record that is shorter is none.
INTERFACE_BYTES, ETHERNET_BYTES, VLAN_BYTES, PROCESSOR_BYTES = 88, 52, 28, 28

RECORD_BYTES_MIN = 36  # of a counter record, with its format and length: bounds how many there are

# Places in `state`: rows made so far, what was passed over, and where the mistake is.
SAMPLES, FLOWS, RECORDS, SKIPPED_SAMPLES, SKIPPED_RECORDS, BAD_AT, STATE_SIZE = range(7)

KEY_BYTES = 41  # of a flow id: protocol 1, addresses 32, ports 4, queue pair 4


@kernel
def scan(
    data: Bytes,
    start_D: Row,
    end_D: Row,
    datagrams: Table,
    agents: NDArray[np.uint8],
    samples: Table,
    flows: Table,
    addresses: NDArray[np.uint8],
    ids: NDArray[np.uint64],
    records: Table,
    state: Row,
    key: Bytes,
) -> None:
    """Read D datagrams `data[start:end]` into the tables; `state` tells how many rows of each were filled.

    `samples`, `flows`, `addresses` and `ids` must have room for `samples_at_most`, `records` by RECORD_BYTES_MIN;
    `state` is zeros, `key` has KEY_BYTES.
    """
    for d in range(len(start_D)):
        before_samples, before_flows, before_records = state[SAMPLES], state[FLOWS], state[RECORDS]
        skipped_samples, skipped_records = state[SKIPPED_SAMPLES], state[SKIPPED_RECORDS]
        error = _datagram(
            data, start_D[d], end_D[d], d, datagrams[d], agents[d], samples, flows, addresses, records, state
        )
        if error != OK:
            datagrams[d, ERROR_AT] = state[BAD_AT] - start_D[d]
            state[SAMPLES], state[FLOWS], state[RECORDS] = before_samples, before_flows, before_records
            state[SKIPPED_SAMPLES], state[SKIPPED_RECORDS] = skipped_samples, skipped_records
        datagrams[d, ERROR] = error
        datagrams[d, SAMPLE_COUNT] = state[SAMPLES] - before_samples
        datagrams[d, FLOW_COUNT] = state[FLOWS] - before_flows
        datagrams[d, RECORD_COUNT] = state[RECORDS] - before_records
        for n in range(before_flows, state[FLOWS]):
            _flow_id(flows[n], addresses[n], ids[n], key)


@kernel
def samples_at_most(data: Bytes, start_D: Row, end_D: Row) -> int:
    """How many samples D datagrams have, or a few more where one has a mistake: the room that `scan` needs."""
    found = 0
    for d in range(len(start_D)):
        at, end = start_D[d], end_D[d]
        if at + 8 > end:
            continue
        at += 12 if be32(data, at + 4) == 1 else 24
        if at + 16 > end:
            continue
        count = be32(data, at + 12)
        at += 16
        while count > 0 and at + 8 <= end:
            size = be32(data, at + 4)
            found += 1
            count -= 1
            at += 8 + size + (-size & 3)
    return found


@kernel
def _bad(state: Row, at: int, error: int) -> int:
    state[BAD_AT] = at
    return error


@kernel
def _datagram(
    data: Bytes, at: int, end: int, d: int, datagram: Row, agent: Bytes, samples: Table, flows: Table,
    addresses: NDArray[np.uint8], records: Table, state: Row,
) -> int:  # fmt: skip
    if at + 8 > end:
        return _bad(state, end, CUT)
    if be32(data, at) != 5:
        return _bad(state, at, VERSION)
    kind = be32(data, at + 4)
    if kind != 1 and kind != 2:
        return _bad(state, at + 4, AGENT)
    size = 4 if kind == 1 else 16
    at += 8
    if at + size + 16 > end:
        return _bad(state, end, CUT)
    put_address(data, at, size, agent, 0)
    datagram[AGENT_IP] = 4 if kind == 1 else 6
    at += size
    datagram[SUB_AGENT] = be32(data, at)
    datagram[SEQUENCE] = be32(data, at + 4)
    datagram[UPTIME_MS] = be32(data, at + 8)
    count = be32(data, at + 12)
    at += 16
    for _ in range(count):
        if at + 8 > end:
            return _bad(state, end, CUT)
        size = be32(data, at + 4)
        if size > end - at - 8:
            return _bad(state, at + 4, SAMPLE_LENGTH)
        error = _sample(data, at, at + 8 + size, d, samples, flows, addresses, records, state)
        if error != OK:
            return error
        at = min(at + 8 + size + (-size & 3), end)
    return _bad(state, at, BEHIND) if at < end else OK


@kernel
def _sample(
    data: Bytes, at: int, end: int, d: int, samples: Table, flows: Table, addresses: NDArray[np.uint8],
    records: Table, state: Row,
) -> int:  # fmt: skip
    kind = be32(data, at)
    at += 8
    if kind == FLOW:
        fixed = 32
    elif kind == COUNTERS:
        fixed = 12
    elif kind == FLOW_EXPANDED:
        fixed = 44
    elif kind == COUNTERS_EXPANDED:
        fixed = 16
    elif kind == DISCARDED:
        fixed = 32
    else:
        state[SKIPPED_SAMPLES] += 1
        return OK
    if at + fixed > end:
        return _bad(state, end, SAMPLE_FIELDS)
    s = state[SAMPLES]
    state[SAMPLES] += 1
    sample = samples[s]
    sample[S_DATAGRAM], sample[KIND], sample[S_SEQUENCE] = d, kind, be32(data, at)
    sample[POOL] = sample[DROPS] = -1
    if kind in (FLOW, COUNTERS):
        source = be32(data, at + 4)
        sample[SOURCE_TYPE], sample[SOURCE_INDEX] = source >> 24, source & 0xFFFFFF
        at += 8
    else:
        sample[SOURCE_TYPE], sample[SOURCE_INDEX] = be32(data, at + 4), be32(data, at + 8)
        at += 12
    if kind in (COUNTERS, COUNTERS_EXPANDED):
        return _counters(data, at, end, s, records, state)
    return _flow(data, at, end, d, s, sample, flows, addresses, state)


@kernel
def _counters(data: Bytes, at: int, end: int, s: int, records: Table, state: Row) -> int:
    """Note where the counter records of a sample lie; their fields are read as columns, later."""
    count = be32(data, at)
    at += 4
    for _ in range(count):
        if at + 8 > end:
            return _bad(state, end, SAMPLE_FIELDS)
        kind, size = be32(data, at), be32(data, at + 4)
        if size > end - at - 8:
            return _bad(state, at + 4, RECORD_LENGTH)
        if kind == INTERFACE:
            fixed = INTERFACE_BYTES
        elif kind == ETHERNET:
            fixed = ETHERNET_BYTES
        elif kind == VLAN_COUNTERS:
            fixed = VLAN_BYTES
        elif kind == PROCESSOR:
            fixed = PROCESSOR_BYTES
        else:
            fixed = -1
        if fixed < 0:
            state[SKIPPED_RECORDS] += 1
        elif size < fixed:
            return _bad(state, at + 4, RECORD_FIELDS)
        else:
            record = records[state[RECORDS]]
            state[RECORDS] += 1
            record[R_SAMPLE], record[FORMAT], record[BEGIN] = s, kind, at + 8
        at = min(at + 8 + size + (-size & 3), end)
    return OK


@kernel
def _flow(
    data: Bytes, at: int, end: int, d: int, s: int, sample: Row, flows: Table, addresses: NDArray[np.uint8], state: Row
) -> int:
    """The rest of a flow or discarded-packet sample, behind its source."""
    n = state[FLOWS]
    state[FLOWS] += 1
    row, address = flows[n], addresses[n]
    row[:] = 0
    address[:] = 0
    for column in header.NOT_TOLD:
        row[column] = -1
    row[header.DATAGRAM], row[header.SAMPLE] = d, s
    kind = sample[KIND]
    if kind == DISCARDED:
        sample[DROPS] = be32(data, at)
        row[header.RATE] = 1
        row[header.IN_VALUE], row[header.OUT_VALUE] = be32(data, at + 4), be32(data, at + 8)
        row[header.REASON] = be32(data, at + 12)
        at += 16
    else:
        row[header.RATE], sample[POOL], sample[DROPS] = be32(data, at), be32(data, at + 4), be32(data, at + 8)
        at += 12
        at = _interfaces(data, at, kind == FLOW_EXPANDED, row)
        if row[header.OUT_FORMAT] == 1:
            row[header.REASON] = row[header.OUT_VALUE]
    count = be32(data, at)
    at += 4
    for _ in range(count):
        if at + 8 > end:
            return _bad(state, end, SAMPLE_FIELDS)
        size = be32(data, at + 4)
        if size > end - at - 8:
            return _bad(state, at + 4, RECORD_LENGTH)
        error = _flow_record(data, at, at + 8 + size, row, address, state)
        if error != OK:
            return error
        at = min(at + 8 + size + (-size & 3), end)
    return OK


@kernel
def _interfaces(data: Bytes, at: int, expanded: bool, row: Row) -> int:
    """Input and output: in the compact form the two highest bits are the format."""
    if expanded:
        row[header.IN_FORMAT], row[header.IN_VALUE] = be32(data, at), be32(data, at + 4)
        row[header.OUT_FORMAT], row[header.OUT_VALUE] = be32(data, at + 8), be32(data, at + 12)
        return at + 16
    came, left = be32(data, at), be32(data, at + 4)
    row[header.IN_FORMAT], row[header.IN_VALUE] = came >> 30, came & 0x3FFFFFFF
    row[header.OUT_FORMAT], row[header.OUT_VALUE] = left >> 30, left & 0x3FFFFFFF
    return at + 8


@kernel
def _flow_record(data: Bytes, at: int, end: int, row: Row, address: Bytes, state: Row) -> int:
    kind, length_at = be32(data, at), at + 4
    at += 8
    if kind == RAW_HEADER:
        if at + 16 > end:
            return _bad(state, length_at, RECORD_FIELDS)
        size = be32(data, at + 12)
        if size > end - at - 16:
            return _bad(state, at + 12, HEADER_LENGTH)
        _raw_header(data, at, at + 16 + size, row, address)
    elif kind == ETHERNET_FRAME:
        if at + 24 > end:
            return _bad(state, length_at, RECORD_FIELDS)
        if row[header.FRAME_BYTES] == 0:
            row[header.FRAME_BYTES] = be32(data, at)
    elif kind in (SAMPLED_IPV4, SAMPLED_IPV6):
        if at + (32 if kind == SAMPLED_IPV4 else 56) > end:
            return _bad(state, length_at, RECORD_FIELDS)
        _sampled_ip(data, at, 4 if kind == SAMPLED_IPV4 else 16, row, address)
    elif kind == SWITCH:
        if at + 16 > end:
            return _bad(state, length_at, RECORD_FIELDS)
        row[header.IN_VLAN], row[header.IN_PRIORITY] = be32(data, at), be32(data, at + 4)
        row[header.OUT_VLAN], row[header.OUT_PRIORITY] = be32(data, at + 8), be32(data, at + 12)
    elif kind == ROUTER:
        return _router(data, at, end, length_at, row, address, state)
    else:
        state[SKIPPED_RECORDS] += 1
    return OK


@kernel
def _raw_header(data: Bytes, at: int, end: int, row: Row, address: Bytes) -> None:
    """header protocol | frame length | stripped | header length | header: the best description of a packet."""
    row[header.HEADERS] += 1
    row[header.FRAME_BYTES] = be32(data, at + 4)
    protocol = be32(data, at)
    if protocol == 1:
        header.ethernet(data, at + 16, end, row, address)
    elif protocol == 11:
        header.ipv4(data, at + 16, end, row, address)
    elif protocol == 12:
        header.ipv6(data, at + 16, end, row, address)


@kernel
def _sampled_ip(data: Bytes, at: int, size: int, row: Row, address: Bytes) -> None:
    """length | protocol | source | destination | ports | TCP flags | type of service; counts where no header does."""
    if row[header.FRAME_BYTES] == 0:
        row[header.FRAME_BYTES] = be32(data, at)
    if row[header.IP] != 0:
        return
    row[header.IP], row[header.ADDRESSED] = 4 if size == 4 else 6, 1
    row[header.PROTOCOL] = be32(data, at + 4) & 0xFF
    put_address(data, at + 8, size, address, header.SRC)
    put_address(data, at + 8 + size, size, address, header.DST)
    at += 8 + 2 * size
    row[header.SRC_PORT], row[header.DST_PORT] = be32(data, at) & 0xFFFF, be32(data, at + 4) & 0xFFFF
    row[header.TCP_FLAGS] = be32(data, at + 8) & 0xFF
    row[header.DSCP], row[header.ECN] = (be32(data, at + 12) >> 2) & 63, be32(data, at + 12) & 3


@kernel
def _router(data: Bytes, at: int, end: int, length_at: int, row: Row, address: Bytes, state: Row) -> int:
    """next hop: type and address | source mask | destination mask."""
    if at + 4 > end:
        return _bad(state, length_at, RECORD_FIELDS)
    kind = be32(data, at)
    if kind > 2:
        return _bad(state, at, HOP)
    size = 4 if kind == 1 else 16 if kind == 2 else 0
    if at + 4 + size + 8 > end:
        return _bad(state, length_at, RECORD_FIELDS)
    if size:
        row[header.NEXT_HOP] = 4 if kind == 1 else 6
        put_address(data, at + 4, size, address, header.HOP)
    at += 4 + size
    row[header.SRC_MASK], row[header.DST_MASK] = be32(data, at), be32(data, at + 4)
    return OK


@kernel
def _flow_id(row: Row, address: Bytes, flow: NDArray[np.uint64], key: Bytes) -> None:
    """`model.ids.flow_id` of a row; 0 where the addresses are not known."""
    flow[0] = flow[1] = np.uint64(0)
    if row[header.ADDRESSED] == 0:
        return
    key[0] = row[header.PROTOCOL]
    for i in range(32):
        key[1 + i] = byte_at(address, i)
    ports = (row[header.SRC_PORT] << 16) | row[header.DST_PORT]
    qp = max(row[header.DST_QP], 0)
    for i in range(4):
        key[33 + i] = (ports >> (24 - 8 * i)) & 0xFF
        key[37 + i] = (qp >> (24 - 8 * i)) & 0xFF
    flow[0], flow[1] = murmur3_slice(key, 0, KEY_BYTES)
