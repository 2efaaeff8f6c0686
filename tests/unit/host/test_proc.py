"""Files of /proc, as a kernel wrote them, and names that lead to the host."""

from __future__ import annotations

import os
from pathlib import Path

from leadline.host.sources import cgroup, proc, ranks
from leadline.host.sources.proc import Proc
from leadline.host.sources.rdma import Rdma, metric_name, parse_counter
from leadline.model.metric_units import unit_of
from leadline.model.names import entity_of

from .conftest import Site, recorded, site_with


def values(found: object) -> dict[str, float]:
    return {
        stream.name + "".join(f" {value}" for _, value in stream.labels): value
        for stream, value in found  # type: ignore[attr-defined]
    }


def test_processor_memory_load_and_pressure() -> None:
    stat = values(proc.parse_stat(recorded("stat")))
    assert stat["node_cpu_seconds_total user"] == 6887.79
    assert stat["node_cpu_seconds_total steal"] == 11.99
    assert stat["node_boot_time_seconds"] == 1795188987
    assert stat["node_procs_blocked"] == 0
    memory = values(proc.parse_meminfo(recorded("meminfo")))
    assert memory["node_memory_MemTotal_bytes"] > 2**30
    assert memory["node_memory_HugePages_Total"] == 0
    assert set(values(proc.parse_loadavg(recorded("loadavg")))) == {"node_load1", "node_load5", "node_load15"}
    pressure = values(proc.parse_pressure("cpu", b"some avg10=0.25 avg60=0.80 avg300=0.75 total=1784037611\nfull x\n"))
    assert pressure == {"node_pressure_cpu_waiting_seconds_total": 1784.037611}
    assert len(values(proc.parse_pressure("cpu", recorded("pressure_cpu")))) == 2


def test_tcp_and_disks() -> None:
    snmp = values(proc.parse_netstat(recorded("snmp")))
    assert snmp["node_netstat_Tcp_RetransSegs"] > 0
    netstat = values(proc.parse_netstat(recorded("netstat")))
    assert {"node_netstat_TcpExt_TCPTimeouts", "node_netstat_TcpExt_TCPOFOQueue"} <= set(netstat)
    disks = values(proc.parse_diskstats(recorded("diskstats")))
    assert disks
    assert all(name.split()[1] == "vda" for name in disks)


def test_the_whole_of_it_reads_a_tree_and_maps_to_the_host(tmp_path: Path) -> None:
    for name, place in (("stat", "stat"), ("snmp", "net/snmp"), ("pressure_cpu", "pressure/cpu")):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_bytes(recorded(name))
    found = Proc(site_with(proc_root=tmp_path)).poll(5)
    names = {sample.stream.name for sample in found.samples}
    assert {
        "node_cpu_seconds_total",
        "node_netstat_Tcp_RetransSegs",
        "node_pressure_cpu_waiting_seconds_total",
    } <= names
    for sample in found.samples:
        labels = {"__name__": sample.stream.name, "host.name": "h3", **dict(sample.stream.labels)}
        assert entity_of(labels).entity == "host:h3", labels
        assert sample.time_ns == 5


def test_nonsense_is_passed_over() -> None:
    for parse in (proc.parse_stat, proc.parse_meminfo, proc.parse_loadavg, proc.parse_netstat, proc.parse_diskstats):
        for text in (b"", b"\xff\xfe", b"cpu x\nMemTotal: y kB\nTcp: A\nTcp: -\n1 2 vda\n", b"a b c"):
            assert not list(parse(text))  # type: ignore[operator]


def test_what_only_unicode_calls_a_digit_is_no_number() -> None:
    """Byte 0xb2 is a superscript two in Latin-1: a digit to `isdigit`, nothing to `int`."""
    assert not list(proc.parse_stat(b"cpu \xb2 \xb3\nctxt \xb9\n"))
    assert not list(proc.parse_diskstats(b"8 0 sda " + b"\xb2 " * 11))
    assert ranks.parse_io(b"read_bytes: \xb2\nwrite_bytes: 7\n") == {"write_bytes": 7}
    assert cgroup.parse_flat(b"oom_kill \xb2\nlow 1\nhigh " + b"9" * 5000 + b"\n") == {"low": 1}
    assert ranks.parse_stat(b"1 (a) R" + b" 9" * 10 + b" " + b"9" * 4000 + b" 9" * 12) is None


def test_a_process(site: Site) -> None:
    text = (
        b"812 (a) (b ) R 1 812 812 0 -1 4194304 100 0 7 0 250 50 0 0 20 0 12 0 9876 1000000 2560 18446744073709551615"
    )
    stat = ranks.parse_stat(text)
    assert stat == ranks.Stat("R", 2.5, 0.5, 12, 2560 * os.sysconf("SC_PAGE_SIZE"), 7)
    assert ranks.parse_stat(b"") is None
    assert ranks.parse_stat(b"812 (a) R 1 2") is None
    io = ranks.parse_io(b"rchar: 1\nread_bytes: 4096\nwrite_bytes: 512\nx\n")
    samples = ranks.samples_of(812, stat, io, 9)
    for sample in samples:
        labels = {"__name__": sample.stream.name, "host.name": "h3", **dict(sample.stream.labels)}
        assert entity_of(labels).entity == "process:h3/812"
    assert [s.value for s in samples if s.stream.name == "process.disk.io"] == [4096, 512]


def test_rdma_counters_are_names_as_data(site: Site) -> None:
    port = site.config.sys_root / "class" / "infiniband" / "mlx5_0" / "ports" / "1"
    for place, text in (
        ("counters/port_xmit_data", "1234\n"),
        ("hw_counters/out_of_sequence", "5\n"),
        ("hw_counters/lifespan", "10\n"),
        ("hw_counters/not_supported", "N/A (no counter)\n"),
        ("hw_counters/.out_of_sequence.new", "7\n"),
    ):
        (port / place).parent.mkdir(parents=True, exist_ok=True)
        (port / place).write_text(text)
    found = {s.stream.name: s for s in Rdma(site).poll(3).samples}
    assert {name: s.value for name, s in found.items()} == {
        "node_infiniband_port_xmit_data_total": 1234,
        "node_infiniband_out_of_sequence_total": 5,
        "node_infiniband_lifespan": 10,
    }
    labels = {"host.name": "h3", **dict(found["node_infiniband_port_xmit_data_total"].stream.labels)}
    assert entity_of({"__name__": "node_infiniband_port_xmit_data_total", **labels}).entity == "port:h3/mlx5_0"
    assert unit_of(metric_name("port_xmit_data")) == "4 bytes"
    assert parse_counter(b"9" * 30) is None
