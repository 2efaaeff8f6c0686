"""A program: writes the seeds, small good inputs of every target, into its corpus as `seed-NAME`.

    python -m tests.fuzz.seeds

What is mutated starts from here; inputs that are there already under other names stay. Most are made from what tests
have: recorded scrapes, datagrams, logs, traces.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from tests.fuzz.registry import BY_NAME as TARGETS
from tests.fuzz.targets.metrics import PACKED
from tests.fuzz.targets.proc import READERS
from tests.fuzz.targets.tables import TABLES
from tests.oracle import guarded_bodies, guarded_scans, sflow
from tests.unit.store.test_guard_depth import NESTINGS
from tests.unit.wire.rings import everything, fresh

from leadline.host.frames import FRAME_HEAD_BYTES, Item, to_frame
from leadline.host.mesh.packet import Packet, Stamp, Told, encode
from leadline.host.mesh.recorded import HEAD, RECORD
from leadline.model.tables import BY_NAME, Table, Type
from leadline.store.bundle import Draft
from leadline.store.bundle_format import Manifest
from leadline.store.bundle_parquet import TableWriter
from leadline.store.schema import arrow_table
from leadline.wire.ring.format import read_segment
from leadline.wire.ring.writer import RingWriter

GOLDEN = Path(__file__).parents[1] / "golden"
HOST = Path(__file__).parents[1] / "unit" / "host" / "recorded"
T = 1_750_000_000 * 10**9
VALUES: dict[Type, Any] = {
    Type.SYM: "a", Type.STR: "b c", Type.SYMS: ["x", "é"], Type.I64: T, Type.U64: 7, Type.U128: "0a" * 16,
    Type.F64: 0.5, Type.BOOL: True, Type.MAP: {"k": "v"},
}  # fmt: skip
TEXT = b"""# HELP a_total What.
# TYPE a_total counter
a_total{b="c\\n",d="\xc3\xa9"} 1027 1395066363000
{"x.y",b="c"} -1.5e-7
b +Infinity
c{le="0.1",} 1e400 -5
"""
OPENMETRICS = b"""# TYPE a counter
# UNIT a seconds
a_total{b="c"} 1027 1520879607.789 # {trace="t"} 0.5 1.25
a_bucket{le="+Inf"} 7 1.5e9
# EOF
"""
KMSG = b"6,3973,227986636,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\\x0a\n SUBSYSTEM=pci\n"
DMESG = b"""[  227.986636] mlx5_core 0000:3b:00.0 eth2: Link down
<3>[    1.5] Out of memory: Killed process 123 (python3) total-vm:1kB
kern  :err   : [Sun Feb 23 16:24:18 2025] EDAC MC0: 1 CE memory read error
2025-02-23T16:24:18,123456+01:00 pcieport 0000:00:01.0: AER: Uncorrectable (Fatal) error received
"""
KINETO = {
    "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32", "ts": 10.5, "dur": 3, "args": {}},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "ts": 9, "dur": 30},
        {"ph": "X", "cat": "cpu_op", "name": "aten::cat", "ts": 9, "dur": 1},
    ],
    "distributedInfo": {"rank": 1, "world_size": 2},
    "baseTimeNanoseconds": T,
}
CHAKRA = {
    "workload_graph": [
        {"Id": 1, "Name": "all_reduce", "runtime": 5, "data_deps": [], "is_cpu_op": False},
        {"Id": 2, "Name": "matmul", "runtime": 2.5, "data_deps": [1], "ctrlDeps": [1], "is_cpu_op": True},
    ]
}
WHATIF = b"""dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id
0,0,0,3,forward-compute,0.001,0.25,0,0,1
1,0,1,3,grads-sync,0.3,0.01,0,,
"""
STATEMENTS = [
    "SELECT host, count() FROM event WHERE time_ns > 1790000000000 * 1000000 AND kind IN ('a', 'b') GROUP BY host",
    "WITH x AS (SELECT 1 AS n) SELECT * FROM x JOIN step AS s ON s.rank = x.n WHERE s.job = 'j' LIMIT 5",
    "SELECT quantile(0.9)(value) FROM leadline.metric_sample UNION ALL SELECT arrayMap(x -> x + 1, [1])",
    "SELECT CASE WHEN message ILIKE '%a%' THEN 1 END, toDateTime64(time_ns / 1e9, 3) FROM event ORDER BY 1 DESC",
    *(before + opening * 2 + inner + closing * 2 + after for before, opening, inner, closing, after in NESTINGS[18:30]),
]
PROBE = encode(
    Packet(2, 8, 1000, 1, 46, 3, Stamp.KERNEL, Stamp.USER, T, 1999, 2000, (Told(1, T - 9),), (Told(4, T + 6),)),
    bytes(range(16)), 1, 7,
)  # fmt: skip
WAY = {"count": 24, "sent": 24, "lost": 0, "min_ns": 210, "p50_ns": 327, "p99_ns": 2332, "queue_p99_ns": 2139}
PROBER_LINES = (
    {"kind": "ready", "src": "a", "boot": 9, "port": 7500, "ports": 2, "stamp": "kernel", "base_ns": 1},
    {"kind": "edge", "src": "a", "dst": "b", "label": 0, "src_port": 7500, "back_port": 7600, "class": 0, "end_ns": T,
     "window_ns": 2000000000, "report_ns": 250000000, "count": 398, "corners": 5, "valid": True, "state": "valid",
     "offset_ns": -650089, "rate_ppb": 6020.317, "bound_ns": 222, "width_ns": 194.0, "noise_ns": 2.36,
     "stamp": "kernel", "there": WAY, "back": {"count": 0, "sent": 0, "lost": 0}, "stall_p99_ns": 163296},
    {"kind": "silent", "src": "b", "dst": "a", "label": 0, "src_port": 7600, "class": 0, "time_ns": T,
     "age_ns": 100000001, "was_heard": True},
    {"kind": "trace", "src": "a", "dst": "b", "src_port": 7500, "class": 0, "time_ns": T, "hops": ["10.0.0.1", None]},
    {"kind": "counters", "time_ns": T, "sent": 1, "sent_bytes": 83, "received": 1, "received_bytes": 83, "hellos": 1,
     "stamps_lost": 0, "send_errors": 0, "lines_lost": 0, "cpu_s": 0.01, "refused": {"tag": 1}},
    {"kind": "truth", "raw_ns": 1, "host_ns": T},
    {"kind": "failed", "text": "port 7500 of 0.0.0.0: Address already in use"},
)  # fmt: skip
ANSWER = {
    "choices": [{"message": {"content": '```json\n{"summary": "x", "claims": []}\n```'}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
}
PROC = {
    "cgroup": b"12:memory:/job/a)b\n3:cpu,cpuacct:/job\n0::/user.slice\n",
    "memory.events": b"low 0\noom_kill 3\n",
    "pid_stat": b"41 (a) b) R " + b" ".join(b"%d" % n for n in range(1, 50)),
    "pid_io": b"rchar: 5\nread_bytes: 4096\nwrite_bytes: 0\n",
    "counter": b"18446744073709551615\n",
    "os_release": b'NAME="a"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "cpuinfo": b"processor\t: 0\nmodel name\t: A (R)\nmicrocode\t: 0x1\n",
    "command_line": b"quiet isolcpus=1-7 mitigations=off\n",
    "gpu_driver": b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n",
    "drvinfo": bytes(4) + b"mlx5_core".ljust(32, b"\0") + b"6.1".ljust(32, b"\0") + b"22.1".ljust(32, b"\0"),
    "ringparam": b"".join(n.to_bytes(4, "little") for n in range(16, 25)),
    "pauseparam": b"".join(n.to_bytes(4, "little") for n in (19, 1, 1, 0)),
    "gpu_information": b"Model: \t A100\nGPU UUID: \t GPU-509665ad-0000-1111-2222-333344445555\n",
}
LLDP = {
    "lldp": [{"interface": [{"name": "eth2", "chassis": [{"name": [{"value": "leaf1"}], "capability": [
        {"type": "Bridge", "enabled": True}]}], "port": [{"id": [{"type": "ifname", "value": "swp7"}],
                                                          "descr": [{"value": "to n1"}]}]}]}]
}  # fmt: skip
REQUESTS = (
    (
        b"GET /api/v1/now?x=%20 HTTP/1.1\r\nhost: localhost\r\n\r\n"
        b"POST /api/v1/sql HTTP/1.1\r\nhost: l\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\nabcd"
    ),
    b"POST /v1/metrics HTTP/1.1\r\nhost: l\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\nx: y\r\n\r\n",
    b"GET http://h/ HTTP/1.0\r\nconnection: keep-alive\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nhost: l\r\nconnection: close\r\n\r\n",
)


def row(table: Table, nullable: bool = True) -> dict[str, Any]:
    """One row of a table, every column given."""
    return {column.name: VALUES[column.type] for column in table.given if nullable or not column.nullable}


def ndjson(table: Table) -> bytes:
    """Two rows: one with all columns, one with those that it must have."""
    return b"".join(json.dumps(row(table, every)).encode() + b"\n" for every in (True, False))


def stored(table: Table) -> pa.Table:
    """Two rows of a table as the store has them."""
    columns = {}
    for column in table.columns:
        value = VALUES[column.type]
        columns[column.name] = [int(value, 16) if column.type is Type.U128 else value] * 2
    return arrow_table(table, columns)


def arrow_stream(table: Table, compression: str | None) -> bytes:
    """The rows as an Arrow stream."""
    rows = stored(table).select([column.name for column in table.given])
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(out, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return out.getvalue()


def parquet(table: Table) -> bytes:
    """The rows as the member of a recording."""
    out = io.BytesIO()
    writer = TableWriter(table, out)
    writer.write(stored(table))
    writer.close()
    return out.getvalue()


def recording() -> bytes:
    """A recording of two tables."""
    with Draft(Manifest(T, T + 10**9, "", "", False, {"leadline": "1"}), "a: 1\n", None) as draft:
        for name in ("event", "relation"):
            draft.add(BY_NAME[name], [stored(BY_NAME[name])])
        return b"".join(draft.chunks())


def logs() -> bytes:
    """Log records with attributes of every kind."""
    request = ExportLogsServiceRequest()
    resource_logs = request.resource_logs.add()
    resource_logs.resource.attributes.add(key="service.name").value.string_value = "trainer"
    record = resource_logs.scope_logs.add(scope={"name": "s"}).log_records.add(time_unix_nano=T, severity_number=17)
    record.body.string_value, record.trace_id, record.event_name = "é failed", bytes(range(16)), "job.failed"
    for name, value in (("a", {"int_value": -7}), ("b", {"double_value": 1e21}), ("c", {"bytes_value": b"\xff"}),
                        ("d", {"array_value": {"values": [{"bool_value": True}]}}),
                        ("e", {"kvlist_value": {"values": [{"key": "k"}]}})):  # fmt: skip
        record.attributes.add(key=name, value=value)
    return bytes(request.SerializeToString())


def spoiled(name: str) -> bytes:
    """A golden file that was taken from a real fault."""
    return (GOLDEN / name).read_bytes()


def seeds() -> dict[str, dict[str, bytes]]:
    """By target and name."""
    ring = fresh(64, strings_bytes=512)
    everything(RingWriter(ring))
    segment = read_segment(ring, 0).segment
    datagrams = {path.stem: path.read_bytes() for path in sorted((GOLDEN / "sflow_datagrams").glob("*.dat"))}
    dropped = sflow.datagram("10.0.0.1", [sflow.discarded(1, 7, 0, 7, 9, 259, [sflow.router("2001:db8::1", 1, 2)])])
    page = spoiled("dcgm_scrape/scrape_1.prom")
    packed: Mapping[str, bytes] = {
        "gzip": gzip.compress(TEXT, mtime=0), "deflate": zlib.compress(TEXT),
        "snappy": bytes(cramjam.snappy.compress_raw(TEXT)), "zstd": bytes(cramjam.zstd.compress(TEXT)),
    }  # fmt: skip
    item = Item("/v1/metrics", "application/x-protobuf", b"body", bytes(range(16)), 3, (("ring:a", "17"),), T)
    tables = {name: (bytes([place]), BY_NAME[name]) for place, name in enumerate(TABLES)}
    kmsg = spoiled("gpu_kernel_logs/kmsg.1.log")[:2000]
    return {
        "remote_write_1": {"streams": guarded_bodies.v1()},
        "remote_write_2": {"streams": guarded_bodies.v2()},
        "otlp_metrics": {"request": guarded_scans.request()},
        "otlp_metrics_json": {"request": _as_json(guarded_scans.request(), "metrics")},
        "otlp_logs": {"request": logs()},
        "otlp_logs_json": {"request": _as_json(logs(), "logs")},
        "exposition": {"page": TEXT, "dcgm": page},
        "openmetrics": {"page": OPENMETRICS},
        "body": {name: bytes([PACKED.index(name), 5]) + data for name, data in packed.items()},
        "ndjson": {name: first + ndjson(table) for name, (first, table) in tables.items()},
        "rows_json": {
            name: first + b"[" + b",".join(ndjson(table).splitlines()) + b"]" for name, (first, table) in tables.items()
        },
        "arrow": {
            **{name: first + arrow_stream(table, None) for name, (first, table) in tables.items()},
            "event-lz4": b"\0" + arrow_stream(BY_NAME["event"], "lz4"),
            "event-zstd": b"\0" + arrow_stream(BY_NAME["event"], "zstd"),
            "nulls": b"\0" + spoiled("damaged_arrow/nulls.arrow"),
            "offsets": b"\0" + spoiled("damaged_arrow/offsets.arrow"),
        },
        "ring": {"everything": bytes(ring), "empty": bytes(fresh(64, strings_bytes=512))},
        "ring_segments": {"everything": segment, "two": segment + segment},
        "sflow": {**{name: b"\xff" + data for name, data in datagrams.items()}, "dropped": b"\x80" + dropped + dropped},
        "netlink": {path.stem: path.read_bytes()[:2048] for path in sorted(HOST.glob("*.bin"))},
        "kernel_log": {"kmsg": KMSG, "dmesg": DMESG, "xid": kmsg},
        "proc_files": {
            name: bytes([place]) + (PROC.get(name) or (HOST / name).read_bytes()[:1500])
            for place, (name, _) in enumerate(READERS)
        },
        "spool": {"item": to_frame(item)[FRAME_HEAD_BYTES:]},
        "lldp": {"leaf": json.dumps(LLDP).encode()},
        "http": {f"{place}": bytes([place]) + data for place, data in enumerate(REQUESTS)},
        "trace": {
            "kineto": json.dumps(KINETO).encode(), "chakra": json.dumps(CHAKRA).encode(), "whatif": WHATIF,
            "whatif-gzip": gzip.compress(WHATIF, mtime=0), "chakra-golden": spoiled("chakra/small_chakra.0.json.gz"),
        },
        "bundle": {"two-tables": recording()},
        "bundle_table": {name: first + parquet(table) for name, (first, table) in tables.items()},
        "sql": {f"{place}": text.encode() for place, text in enumerate(STATEMENTS)},
        "explanation": {"answer": json.dumps(ANSWER).encode()},
        "probe_packet": {"pair": PROBE},
        "prober_line": {line["kind"]: json.dumps(line).encode() for line in PROBER_LINES},
        "probe_record": {"two": HEAD.pack(b"LLPR", 1, 52) + RECORD.pack(1, 2, 0, 46, 1, 1, 5, T, T + 9, 7) * 2},
    }  # fmt: skip


def _as_json(body: bytes, kind: str) -> bytes:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    request = (ExportMetricsServiceRequest if kind == "metrics" else ExportLogsServiceRequest).FromString(body)
    text = json_format.MessageToJson(request, use_integers_for_enums=True, indent=None)
    return text.replace('"traceId": "AAECAwQFBgcICQoLDA0ODw=="', f'"traceId": "{bytes(range(16)).hex()}"').encode()


def main() -> None:
    """Write them."""
    for name, inputs in seeds().items():
        corpus = TARGETS[name].corpus
        corpus.mkdir(parents=True, exist_ok=True)
        for each, data in inputs.items():
            (corpus / f"seed-{each}").write_bytes(data)


if __name__ == "__main__":
    main()
