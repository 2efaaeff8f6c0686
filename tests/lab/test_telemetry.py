"""A lab's switches, NICs and GPUs speak: what they say is held against what the kernel counted."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.lab.flows import Collector, collecting, transfer, wait_for

from leadline.lab.realise.cluster import Cluster
from leadline.lab.telemetry import Telemetry, TelemetryConfig
from leadline.lab.telemetry.lldp import control_socket
from leadline.lab.telemetry.plan import DISCARD_GROUP, Plan, read_plan
from leadline.lab.telemetry.sockets import open_node
from leadline.lab.telemetry.switch_sampler import TABLE
from leadline.lab.topology import load
from leadline.model.errors import UsageError
from leadline.wire.sflow.datagrams import Switch, flow_columns

RATE = 20
SIZE = 40_000_000


class Speaking:
    """A small lab that tells, and who listens."""

    def __init__(self, cluster: Cluster, telemetry: Telemetry, collector: Collector) -> None:
        self.cluster, self.telemetry, self.collector = cluster, telemetry, collector
        self.plan: Plan = read_plan(cluster.state)

    def switch(self, name: str) -> str:
        return next(each.sflow for each in self.plan.switches if each.name == name)

    def page(self, address: str, port: int, timeout_s: float = 5.0) -> str:
        with urllib.request.urlopen(f"http://{address}:{port}/metrics", timeout=timeout_s) as answer:
            return str(answer.read().decode())

    def gpu_page(self, host: str, timeout_s: float = 5.0) -> dict[str, float]:
        text = self.page(next(each.address for each in self.plan.hosts if each.name == host), 9400, timeout_s)
        return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[:1] != "#"}


@contextmanager
def speaking(name: str, **settings: object) -> Iterator[Speaking]:
    with collecting() as collector, Cluster(load("tiny"), name) as cluster:
        usual: dict[str, object] = {"sampling_rate": RATE, "trees_every_s": 0.5, "lldp_every_s": 2}
        config = TelemetryConfig(collectors=(("127.0.0.1", collector.port),), **(usual | settings))  # type: ignore[arg-type]
        telemetry = Telemetry(cluster, config)
        try:
            telemetry.start()
            yield Speaking(cluster, telemetry, collector)
        finally:
            telemetry.stop()


@pytest.fixture(scope="module")
def lab() -> Iterator[Speaking]:
    with speaking(f"tele{os.getpid()}", counters_every_s=1.0) as found:
        yield found


def received(lab: Speaking, switch: str, port: str) -> int:
    sockets = open_node(switch, lab.cluster.namespace(switch))
    try:
        return sockets.links()[port].rx_bytes
    finally:
        sockets.close()


def rows(lab: Speaking, switch: str) -> dict[str, object]:
    batch, datagrams = lab.collector.of(lab.switch(switch))
    ports = {each["switch"]: each["ports"] for each in json.loads(lab.telemetry.senders_file.read_text())}
    names = {int(index): name for index, name in ports[switch].items()}
    columns, _ = flow_columns(batch, [Switch(switch, names)] * datagrams, np.zeros(datagrams, np.int64))
    return {name: each if isinstance(each, np.ndarray) else each.to_pylist() for name, each in columns.items()}


def test_samples_estimate_what_the_interfaces_counted(lab: Speaking) -> None:
    topology = lab.cluster.topology
    way_in = topology.neighbour(topology.host("h1").primary)
    before = received(lab, way_in.node, way_in.name)
    transfer(lab.cluster, "h1", "h2", SIZE)
    counted = received(lab, way_in.node, way_in.name) - before
    assert counted > SIZE

    def estimated() -> float:
        columns = rows(lab, way_in.node)
        ours = np.array([port == way_in.name for port in columns["in_port"]], bool)  # type: ignore[attr-defined]
        return float(columns["frame_bytes"][ours].sum() * RATE)  # type: ignore[index]

    # 26,000 frames, one in 20: 1,300 samples of one size, so the estimate's standard error is 2.7 %.
    wait_for("samples of all that passed", lambda: estimated() > counted * 0.89)
    assert estimated() == pytest.approx(counted, rel=0.11)
    columns = rows(lab, way_in.node)
    assert lab.cluster.address("h1") in set(columns["src_ip"])  # type: ignore[call-overload]
    assert 5001 in set(columns["dst_port"].tolist())  # type: ignore[attr-defined]
    assert not {each for each in columns["dropped"] if each}  # type: ignore[attr-defined]


def test_every_switch_on_the_way_samples_the_same_flow(lab: Speaking) -> None:
    transfer(lab.cluster, "h1", "h2", SIZE // 8)
    flows = {}
    for switch in lab.cluster.topology.switches:
        if switch.tier != "frontend":
            wait_for("samples", lambda name=switch.name: len(rows(lab, name)["src_ip"]) > 0)  # type: ignore[arg-type, misc]
            columns = rows(lab, switch.name)
            flows[switch.name] = {tuple(each) for each in np.asarray(columns["flow"]).tolist()}
    assert len(set.intersection(*flows.values())) >= 1


def test_counter_samples_and_trees_agree_with_the_kernel(lab: Speaking) -> None:
    topology = lab.cluster.topology
    port = topology.host("h2").primary
    transfer(lab.cluster, "h2", "h1", SIZE // 8)
    sockets = open_node("h2", lab.cluster.namespace("h2"))
    root = lab.cluster.state / "hosts" / "h2" / "sys" / "class"

    def agrees() -> bool:
        link = sockets.links()[port.name]
        sent = int((root / "infiniband/mlx5_0/ports/1/counters/port_xmit_data").read_text())
        return (
            sent == link.tx_bytes // 4
            and int((root / f"net/{port.name}/statistics/rx_bytes").read_text()) == link.rx_bytes
        )

    wait_for("the tree of h2", agrees)
    sockets.close()
    assert (root / "infiniband/mlx5_0/ports/1/state").read_text().strip() == "4: ACTIVE"
    assert int((root / "infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence").read_text()) >= 0
    leaf = topology.neighbour(port)
    switch_tree = lab.cluster.state / "switches" / leaf.node / "sys" / "class" / "net" / leaf.name
    assert int((switch_tree / "queue" / "backlog").read_text()) >= 0
    batch, _ = lab.collector.of(lab.switch(leaf.node))
    assert len(batch.records) >= len(topology.switch(leaf.node).ports)


def test_a_link_that_goes_down_shows_everywhere(lab: Speaking) -> None:
    port = lab.cluster.topology.host("h1").primary
    link = lab.cluster.topology.link_of(port).id
    downed = lab.cluster.state / "hosts/h1/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed"
    before = int(downed.read_text())
    lab.cluster.link_down(link)
    try:
        wait_for("the carrier", lambda: int(downed.read_text()) == before + 1)
        state = downed.parents[1] / "state"
        wait_for("the port's state", lambda: state.read_text().strip() == "1: DOWN")
    finally:
        lab.cluster.link_up(link)
    wait_for("the port's state", lambda: state.read_text().strip() == "4: ACTIVE")
    leaf = next(each for each in lab.plan.switches if each.name == "leaf1")
    text = lab.page(leaf.address, 9100)
    assert 'node_network_carrier_down_changes_total{device="Ethernet1"} 2' in text
    assert 'node_qdisc_drops_total{device="Ethernet1",kind="htb"}' in text


def test_a_gpu_is_as_busy_as_what_runs_on_it(lab: Speaking) -> None:
    gpu = lab.cluster.topology.host("h1").gpus[0]
    assert lab.gpu_page("h1")["DCGM_FI_DEV_GPU_UTIL"] == 0
    spin = "import time; b = bytearray(60_000_000); end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    process = lab.cluster.spawn("h1", [sys.executable, "-c", spin], name="spin", env={"CUDA_VISIBLE_DEVICES": gpu})
    try:
        # Two readings: the first finds the process (it is looked for every 3 s), the second has a span to count.
        wait_for("a busy GPU", lambda: lab.gpu_page("h1")["DCGM_FI_DEV_GPU_UTIL"] > 60)
        page = lab.gpu_page("h1")
        assert page["DCGM_FI_DEV_FB_USED"] >= 60
        assert page["DCGM_FI_DEV_POWER_USAGE"] > 300
        assert lab.gpu_page("h2")["DCGM_FI_DEV_GPU_UTIL"] == 0
    finally:
        process.popen.kill()
        process.popen.wait()


def test_an_exporter_that_is_stopped_hangs_alone(lab: Speaking) -> None:
    pid = lab.telemetry.exporter_pid("h1")
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            lab.gpu_page("h1", timeout_s=0.5)
        assert lab.gpu_page("h2")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert lab.gpu_page("h1")
    with pytest.raises(UsageError):
        lab.telemetry.exporter_pid("h9")


def test_an_oom_kill_is_in_the_kernel_log_of_its_host_only(lab: Speaking) -> None:
    eat = "import time\nheld = []\nwhile len(held) < 200: held.append(bytearray(4_000_000)); time.sleep(0.01)"
    process = lab.cluster.spawn("h2", [sys.executable, "-c", eat], name="eater")
    process.cgroup.set_memory_limit(64 << 20)
    assert process.popen.wait(30) == -signal.SIGKILL
    log = lab.cluster.state / "hosts" / "h2" / "kmsg"
    wait_for("the kernel's line", lambda: f"Killed process {process.pid} " in log.read_text())
    assert "oom-kill:constraint=CONSTRAINT_MEMCG" in log.read_text()
    assert (lab.cluster.state / "hosts" / "h1" / "kmsg").read_text() == ""


def test_a_rule_that_discards_says_what_and_why(lab: Speaking) -> None:
    rule = f'udp dport 4444 log group {DISCARD_GROUP} prefix "acl" drop'
    chain = f"chain c {{\ntype filter hook forward priority 0;\n{rule}\n}}\n"
    lab.cluster.command("leaf1", ["nft", "-f", "-"], f"table inet told {{\n{chain}}}\n")
    try:
        with lab.cluster.socket_in("h1", socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(5):
                sender.sendto(b"x" * 100, (lab.cluster.address("h2"), 4444))
        wait_for("the discards", lambda: list(rows(lab, "leaf1")["dropped"]).count("acl") == 5)  # type: ignore[call-overload]
    finally:
        lab.cluster.command("leaf1", ["nft", "delete", "table", "inet", "told"])


def neighbours(state: Path, node: str) -> dict[str, tuple[str, str]]:
    command = ["lldpcli", "-u", str(control_socket(state, node)), "-f", "json0", "show", "neighbors"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {
        port["name"]: (port["chassis"][0]["name"][0]["value"], port["port"][0]["id"][0]["value"])
        for port in told["lldp"][0].get("interface", [])
    }


def test_lldp_finds_every_neighbour(lab: Speaking) -> None:
    topology = lab.cluster.topology
    for node in topology.nodes:
        pairs = topology.neighbours(node)
        expected = {port.name: (other.node, other.name) for port, other in pairs}
        wait_for(f"neighbours of {node}", lambda n=node, e=expected: neighbours(lab.cluster.state, n) == e)  # type: ignore[misc]


def test_two_labs_speak_side_by_side_and_leave_nothing(lab: Speaking) -> None:
    with speaking(f"telf{os.getpid()}", lldp=False) as other:
        assert other.switch("leaf1") != lab.switch("leaf1")
        assert other.gpu_page("h1")
        with pytest.raises(UsageError):
            other.telemetry.start()
        pids = [other.telemetry.exporter_pid("h1"), int(str(other.telemetry.status()["pid"]))]
        other.telemetry.stop()
        for pid in pids:
            wait_for("the processes", lambda p=pid: not Path(f"/proc/{p}").exists())  # type: ignore[misc]
        assert TABLE not in other.cluster.command("leaf1", ["nft", "list", "tables"])
        other.telemetry.stop()
    assert lab.gpu_page("h1")
