"""Trees of counters, kernel logs, pages and plans: what the lab's telemetry writes, without a lab."""

from __future__ import annotations

import os
import re
import selectors
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.telemetry.http_pages import PageServer, answer, wants_close
from leadline.lab.telemetry.kernel_log import (
    Sharer,
    append,
    append_xid,
    next_sequence,
    record_parts,
)
from leadline.lab.telemetry.lldp import configuration
from leadline.lab.telemetry.node_pages import ShownPort, netstat_values, node_page
from leadline.lab.telemetry.plan import (
    PlannedNode,
    TelemetryConfig,
    in_slot,
    make_plan,
    read_plan,
    scrape_targets,
    sflow_senders,
    write_json,
)
from leadline.lab.telemetry.rtnetlink import Counters, Queue
from leadline.lab.telemetry.sysfs_tree import SharedCounters, Tree, infiniband_files, net_files
from leadline.lab.topology import load
from leadline.lab.workloads.transport.hw_counters import HwCounters
from leadline.model.errors import DataError, UsageError
from leadline.model.names import entity_of
from leadline.model.nic_counters import HW_COUNTERS, SYSFS_COUNTERS
from leadline.wire.exposition.pages import decode_exposition
from leadline.wire.kernel_log.kmsg import kmsg_record

LINK = Counters(2, "eth0", True, "up", 3, 2, 1, 10, 11, 1200, 1300, 1, 2, 3, 4, 5)
QUEUE = Queue(2, "htb", 1, 1514, 7, 0, 9)
# -- trees --------------------------------------------------------------------------------------------------------


def test_files_of_an_interface() -> None:
    files = net_files(LINK, QUEUE, 250_000_000)
    assert files["class/net/eth0/statistics/rx_bytes"] == "1200"
    assert files["class/net/eth0/carrier_down_count"] == "1"
    assert files["class/net/eth0/speed"] == "250"
    assert files["class/net/eth0/queue/drops"] == "7"
    assert not [name for name in net_files(LINK, None, 1) if "/queue/" in name]


def test_files_of_an_rdma_port_have_the_drivers_names_and_units() -> None:
    files = infiniband_files(1, LINK, None, 250_000_000)
    port = "class/infiniband/mlx5_1/ports/1"
    assert files[f"{port}/counters/port_xmit_data"] == "325"
    assert files[f"{port}/counters/link_downed"] == "1"
    assert files[f"{port}/state"] == "4: ACTIVE"
    known = [each.name for each in SYSFS_COUNTERS]
    for name in files:
        if "/counters/" in name:
            assert any(re.fullmatch(pattern, name.rpartition("/")[2]) for pattern in known), name


def test_only_what_changed_is_written_and_readers_never_see_a_part(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert tree.write({"class/net/eth0/statistics/rx_bytes": "9", "class/net/eth0/operstate": "up"}) == 2
    file = tmp_path / "class/net/eth0/statistics/rx_bytes"
    before = file.stat()
    assert tree.write({"class/net/eth0/statistics/rx_bytes": "9", "class/net/eth0/operstate": "down"}) == 1
    assert tree.write({"class/net/eth0/statistics/rx_bytes": str(2**64 - 1)}) == 1
    assert int(file.read_text()) == 2**64 - 1
    assert (file.stat().st_ino, file.stat().st_size) == (before.st_ino, before.st_size)  # written over, in one piece
    assert (tmp_path / "class/net/eth0/operstate").read_text().strip() == "down"
    assert tree.write({"class/net/eth0/operstate": "x" * 30}) == 1
    assert (tmp_path / "class/net/eth0/operstate").read_text().strip() == "x" * 30
    assert not [each for each in tmp_path.rglob("*") if each.name.startswith(".")]


def test_two_programs_add_to_one_nics_counters(tmp_path: Path) -> None:
    roce = HwCounters(tmp_path / "hw_counters")
    tcp = SharedCounters(tmp_path / "hw_counters")
    tcp.bring_to({"out_of_sequence": 2, "roce_adp_retrans": 1})
    roce.counts["out_of_sequence"] += 5
    roce.write()
    tcp.bring_to({"out_of_sequence": 3, "roce_adp_retrans": 1})
    roce.counts["out_of_sequence"] += 1
    roce.write()
    tcp.bring_to({"out_of_sequence": 13, "roce_adp_retrans": 1})
    assert int((tmp_path / "hw_counters/out_of_sequence").read_text()) == 19
    assert int((tmp_path / "hw_counters/roce_adp_retrans").read_text()) == 1
    known = [each.name for each in HW_COUNTERS]
    for file in (tmp_path / "hw_counters").iterdir():
        assert any(re.fullmatch(pattern, file.name) for pattern in known), file.name


# -- kernel log ---------------------------------------------------------------------------------------------------


def test_lines_are_numbered_on_and_have_the_drivers_form(tmp_path: Path) -> None:
    (tmp_path / "hosts" / "h3").mkdir(parents=True)
    append(tmp_path / "hosts" / "h3", "first", priority=6, now_us=7)
    for _ in range(2):
        append_xid(tmp_path, "h3", "GPU-855c860a-277d-543a-8443-21197eabb7ae", 79, os.getpid())
    lines = (tmp_path / "hosts" / "h3" / "kmsg").read_text().splitlines()
    assert lines[0] == "6,0,7,-;first"
    # Once, and first: which GPU is at that address.
    assert lines[1].endswith("-;NVRM: GPU at PCI:0085:5c:00: GPU-855c860a-277d-543a-8443-21197eabb7ae")
    assert len(lines) == 4
    assert re.fullmatch(
        r"3,2,\d+,-;NVRM: Xid \(PCI:0085:5c:00\): 79, pid=\d+, name=\S.*, GPU has fallen off the bus\.", lines[2]
    )


@given(st.text(max_size=60), st.integers(0, 7), st.integers(0, 2**40), st.integers(0, 2**50))
def test_a_record_is_one_line_whatever_the_text(text: str, priority: int, sequence: int, time_us: int) -> None:
    record = kmsg_record(priority, sequence, time_us, text)
    assert record.count(b"\n") == 1
    parts = record_parts(record)
    assert parts is not None
    assert parts[:2] == (priority, time_us)
    assert next_sequence(record) == sequence + 1


@given(st.binary(max_size=80))
def test_any_record_has_parts_or_none(record: bytes) -> None:
    parts = record_parts(record)
    assert parts is None or 0 <= parts[0] <= 7
    assert next_sequence(record) >= 0


def test_oom_lines_go_to_the_host_of_the_control_group() -> None:
    def host_of_group(path: str) -> str | None:
        return path.split("/")[3] if path.startswith("/leadline-lab/demo/") else None

    sharer = Sharer(host_of_group)
    first = (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/leadline-lab/demo/h3/"
        "bert-1-rank2,task_memcg=/leadline-lab/demo/h3/bert-1-rank2,task=python,pid=4711,uid=0"
    )
    assert sharer.host_of(first) == "h3"
    assert sharer.host_of("Memory cgroup out of memory: Killed process 4712 (python) total-vm:1kB") is None
    assert sharer.host_of("Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB") == "h3"
    assert sharer.host_of("Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB") is None
    assert sharer.host_of(first.replace("/leadline-lab/demo", "/user.slice")) is None
    assert sharer.host_of("veth0: link becomes ready") is None


# -- pages --------------------------------------------------------------------------------------------------------


def test_a_page_of_ports_is_node_exporters(tmp_path: Path) -> None:
    netstat = netstat_values(
        "TcpExt: SyncookiesSent TCPTimeouts TCPOFOQueue\nTcpExt: 0 3 4\nIpExt: InNoRoutes\nIpExt: 1\n",
        "Tcp: RtoAlgorithm RetransSegs\nTcp: 1 5\n",
    )
    assert netstat == {"Tcp_RetransSegs": 5, "TcpExt_TCPTimeouts": 3, "TcpExt_TCPOFOQueue": 4}
    body = node_page([ShownPort(LINK, QUEUE, 250_000_000), ShownPort(LINK, None, 1)], netstat)
    samples = decode_exposition(body, "text/plain; version=0.0.4", 1_000)
    assert len(samples.value) == 2 * 15 + 5 + 3
    text = body.decode()
    assert 'node_network_carrier_down_changes_total{device="eth0"} 1' in text
    assert 'node_qdisc_drops_total{device="eth0",kind="htb"} 7' in text
    assert 'node_network_speed_bytes{device="eth0"} 31250000' in text
    assert "# TYPE node_netstat_Tcp_RetransSegs untyped" in text


def test_a_switchs_ports_are_told_from_a_hosts() -> None:
    stream = {"__name__": "node_qdisc_drops_total", "device": "Ethernet3", "instance": "127.79.0.1:9100"}
    assert entity_of({**stream, "switch": "leaf1"}).entity == "swport:leaf1/Ethernet3"
    host = {"__name__": "node_network_up", "device": "eth0", "instance": "127.78.0.1:9100", "nodename": "h1"}
    assert entity_of(host).entity == "port:h1/eth0"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /metrics HTTP/1.1", b"200"),
        (b"GET /metrics?x=1 HTTP/1.1\r\nHost: a", b"200"),
        (b"HEAD /metrics HTTP/1.1", b"200"),
        (b"GET / HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"\xff", b"405"),
    ],
)
def test_answers(head: bytes, status: bytes) -> None:
    assert answer(head, lambda: b"page").split()[1] == status
    assert wants_close(b"GET / HTTP/1.0")
    assert wants_close(b"GET / HTTP/1.1\r\nconnection:  Close")
    assert not wants_close(head)


def test_pages_over_real_sockets() -> None:
    loop = selectors.DefaultSelector()
    server = PageServer(loop, "127.0.0.1", 0, lambda: b"leadline 1\n")
    address = server._listener.getsockname()
    done = threading.Event()

    def serve() -> None:
        while not done.is_set():
            for key, _ in loop.select(0.01):
                key.data()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with socket.create_connection(address, 5) as client:
            client.settimeout(5)
            for part in (b"GET /metr", b"ics HTTP/1.1\r\n\r\nGET /metrics HTTP/1.0\r\n\r\n"):
                client.sendall(part)
            answers = b""
            while data := client.recv(4096):
                answers += data
        assert answers.count(b"leadline 1\n") == 2
        with socket.create_connection(address, 5) as client:
            client.settimeout(5)
            client.sendall(b"x" * 9000)
            assert client.recv(10) == b""
    finally:
        done.set()
        thread.join()
        server.close()


# -- plan ---------------------------------------------------------------------------------------------------------


def test_a_plan_comes_back_from_its_file(tmp_path: Path) -> None:
    topology = load("clos8")
    namespaces = {node: f"ll-x-{node}" for node in topology.nodes}
    plan = in_slot(make_plan(topology, "x", TelemetryConfig(sampling_rate=50), namespaces, "leadline-lab/x"), 3)
    plan.write(tmp_path)
    assert read_plan(tmp_path) == plan
    h3 = next(host for host in plan.hosts if host.name == "h3")
    assert (h3.address, [port.rail for port in h3.ports]) == ("127.78.3.3", [0, 1, -1])
    leaf1 = plan.switches[0]
    assert (leaf1.name, leaf1.sflow, leaf1.address) == ("leaf1", "127.77.3.1", "127.79.3.1")
    assert leaf1.ports[0].neighbour == topology.neighbour(topology.switch("leaf1").ports[0]).address
    senders = sflow_senders(plan, {each.name: {2: "Ethernet1"} for each in plan.switches})
    assert senders[0] == {"address": "127.77.3.1", "switch": "leaf1", "ports": {"2": "Ethernet1"}}
    targets = scrape_targets(plan)
    assert targets["dcgm.json"][2] == {
        "targets": ["127.78.3.3:9400"],
        "labels": {"job": "dcgm-exporter", "nodename": "h3"},
    }
    assert len(targets["dcgm.json"]) == 8  # the storage host has no GPU


def test_wrong_plans_and_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        TelemetryConfig(sampling_rate=-1)
    with pytest.raises(UsageError):
        TelemetryConfig(trees_every_s=0)
    write_json(tmp_path / "telemetry.json", {"lab": "x"})
    with pytest.raises(DataError):
        read_plan(tmp_path)
    assert PlannedNode("h1", "n", 1, "a", ()).gpus == ()


def test_lldpd_is_told_its_name_first() -> None:
    assert configuration("h1", 5).splitlines()[0] == "configure system hostname h1"
