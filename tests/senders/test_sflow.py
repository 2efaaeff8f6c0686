"""sFlow of programs that are not ours, and our datagrams read by programs that are not ours.

pmacctd (sfprobe) ─┐                                         ┌─ Leadline
Open vSwitch ──────┴─> Leadline       our datagrams ─────────┼─ sfcapd, read by nfdump
                                                             └─ sfacctd (pmacct)
"""

from __future__ import annotations

import csv
import ctypes
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from tests.senders.running import RunningLeadline, running, wait_for

from leadline.wire.sflow import encode

GOLDEN = Path(__file__).parents[1] / "golden" / "sflow_datagrams"
RELAY, LAB, OVS = "127.79.0.1", "127.79.0.2", "127.0.0.1"  # source addresses: they say who sends
MAC = {"src": "0a:00:00:00:00:01", "dst": "0a:00:00:00:00:02"}


def needs(*programs: str, root: bool = False) -> pytest.MarkDecorator:
    missing = [name for name in programs if shutil.which(name) is None]
    if root and os.geteuid() != 0:
        missing.append("root")
    return pytest.mark.skipif(bool(missing), reason=f"missing: {', '.join(missing)}")


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bound(port: int, pid: int | str = "self") -> bool:
    """Whether a program listens on a UDP port of this network namespace."""
    lines = Path(f"/proc/{pid}/net/udp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") for line in lines)


def taken(port: int) -> bool:
    """Whether the program on a UDP port has read all that was sent to it."""
    fields = [line.split() for line in Path("/proc/self/net/udp").read_text().splitlines()[1:]]
    return all(int(each[4].partition(":")[2], 16) == 0 for each in fields if each[1].endswith(f":{port:04X}"))


@pytest.fixture(scope="module")
def port() -> int:
    return free_udp_port()


@pytest.fixture(scope="module")
def leadline(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[RunningLeadline]:
    directory = tmp_path_factory.mktemp("sflow")
    senders = [
        {"address": RELAY, "switch": "probe"},
        {"address": LAB, "switch": "leaf1", "ports": {7: "Ethernet1", 9: "Ethernet3"}},
        {"address": OVS, "switch": "ovs", "ports": {1001: "p1", 1002: "p2"}},
    ]
    (directory / "leadline.yaml").write_text(yaml.safe_dump({"ingest": {"sflow": {"port": port, "senders": senders}}}))
    with RunningLeadline(directory) as running_leadline:
        yield running_leadline


def wrong(leadline: RunningLeadline) -> dict[tuple[str, str], int]:
    """What was lost or refused, other than fields that a switch cannot tell."""
    found = leadline.refused()
    return {key: amount for key, amount in found.items() if key[0] in ("sflow_lost", "ingest_refused")
            and key[1] != "blank_value"}  # fmt: skip


@contextmanager
def pmacct(command: list[str], log: Path) -> Iterator[None]:
    """One of pmacct's daemons, which write what they hold and end when they are interrupted, not when terminated."""
    with running(command, log) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(15)


def send(datagrams: list[bytes], source: str, *ports: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((source, 0))
        for datagram in datagrams:
            for port in ports:
                sender.sendto(datagram, ("127.0.0.1", port))
            time.sleep(0.001)


# --- pmacct's probe -----------------------------------------------------------------------------------------------


@contextmanager
def namespace(name: str) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """A network namespace with its loopback up; gives a function that runs another inside it."""
    subprocess.run(["ip", "netns", "add", name], check=True)

    def call(function: Callable[[], Any]) -> Any:
        result = []

        def enter() -> None:
            with open(f"/run/netns/{name}") as there:
                assert ctypes.CDLL(None).setns(there.fileno(), 0) == 0
            result.append(function())

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        return result[0]

    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield call
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def relay(received: socket.socket, port: int, ended: threading.Event) -> None:
    """Pass datagrams on from inside a namespace, as a relay of a site would."""
    received.settimeout(0.1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((RELAY, 0))
        while not ended.is_set():
            try:
                sender.sendto(received.recv(65535), ("127.0.0.1", port))
            except TimeoutError:
                continue


def received_on(name: str) -> dict[str, int]:
    shown = subprocess.run(["ip", "-n", name, "-s", "-j", "link", "show", "lo"], capture_output=True, check=True)
    counters: dict[str, int] = json.loads(shown.stdout)[0]["stats64"]["rx"]
    return counters


@needs("pmacctd", "ip", root=True)
def test_the_byte_estimate_of_pmacctd_agrees_with_the_interface(
    leadline: RunningLeadline, port: int, tmp_path: Path
) -> None:
    """1 in 10 of 10,000 packets: the estimate is within 4 standard errors of what the interface counted."""
    name, rate, packets = "ll-sflowtest-probe", 10, 10_000
    with ExitStack() as stack:
        call = stack.enter_context(namespace(name))
        inside, sink, source = (
            stack.enter_context(call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))) for _ in range(3)
        )
        inside.bind(("127.0.0.1", 0))
        sink.bind(("127.0.0.1", 0))
        ended = threading.Event()
        relaying = threading.Thread(target=relay, args=(inside, port, ended))
        relaying.start()
        stack.callback(relaying.join)
        stack.callback(ended.set)
        (tmp_path / "pmacctd.conf").write_text(
            f"daemonize: false\npcap_interface: lo\nsnaplen: 128\nplugins: sfprobe[a]\nsampling_rate: {rate}\n"
            f"sfprobe_receiver: 127.0.0.1:{inside.getsockname()[1]}\nsfprobe_agentip: 10.77.0.1\n"
        )
        command = ["ip", "netns", "exec", name, "pmacctd", "-f", str(tmp_path / "pmacctd.conf")]
        stack.enter_context(pmacct(command, tmp_path / "pmacctd.log"))
        wait_for("pmacctd", lambda: "Sampling at" in (tmp_path / "pmacctd.log").read_text())
        time.sleep(0.5)  # it opens the interface before it says so, but not always before it reads from it
        before = received_on(name)
        for number in range(packets):
            source.sendto(b"x" * 1400, sink.getsockname())
            if number % 50 == 0:
                time.sleep(0.005)  # 10,000 packets a second: nobody has to drop
        after = received_on(name)
        counted = {key: after[key] - before[key] for key in ("bytes", "packets")}

        def sampled() -> Any:
            (found,) = leadline.sql(
                "SELECT count() AS samples, sum(rate * frame_bytes) AS bytes, max(time_ns) AS newest, "
                f"countIf(dst_port = {sink.getsockname()[1]}) AS ours FROM flow_sample WHERE switch = 'probe'"
            )
            return found if int(found["samples"]) >= 0.9 * packets / rate else None

        wait_for("the samples", sampled)
        time.sleep(1.5)  # the last datagrams
        found = sampled()
    samples = int(found["samples"])
    # The frames of the estimate have 4 bytes of check sum that the interface does not count.
    expected = counted["bytes"] + 4 * counted["packets"]
    error = 4 * math.sqrt((1 - 1 / rate) / samples)
    assert abs(int(found["bytes"]) / expected - 1) < error, (found, counted)
    assert int(found["ours"]) > 0.9 * samples
    (pool,) = leadline.sql(
        "SELECT max(value) AS packets FROM metric_sample JOIN series USING (series) "
        "WHERE name = 'sflow_sample_pool_packets_total' AND labels['switch'] = 'probe'"
    )
    assert pool["packets"] == pytest.approx(counted["packets"], rel=0.2), "told once a second, so up to a second old"
    assert wrong(leadline) == {}


# --- Open vSwitch -------------------------------------------------------------------------------------------------


@contextmanager
def open_vswitch(directory: Path, collector: int) -> Iterator[Callable[..., str]]:
    """A userspace Open vSwitch with two dummy ports, of which every packet is sampled; gives `ovs-appctl`."""
    environ = {**os.environ, **{f"OVS_{name}DIR": str(directory) for name in ("RUN", "LOG", "DB")}}
    remote, control = f"unix:{directory}/db.sock", str(directory / "vswitchd.ctl")

    def run(*command: str) -> str:
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=20, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    run("ovsdb-tool", "create", str(directory / "conf.db"), "/usr/share/openvswitch/vswitch.ovsschema")
    database = ["ovsdb-server", str(directory / "conf.db"), f"--remote=p{remote}", f"--unixctl={directory}/db.ctl"]
    daemon = ["ovs-vswitchd", remote, "--disable-system", "--enable-dummy", f"--unixctl={control}"]
    vsctl = ("ovs-vsctl", f"--db={remote}", "--timeout=15")
    with running(database, directory / "ovsdb.log"):
        wait_for("ovsdb-server", (directory / "db.sock").exists)
        run(*vsctl, "--no-wait", "init")
        with running(daemon, directory / "vswitchd.log"):
            wait_for("ovs-vswitchd", Path(control).exists)
            ports = [
                word
                for number in (1, 2)
                for word in ("--", "add-port", "br0", f"p{number}", "--", "set", "interface", f"p{number}",
                             "type=dummy", f"options:ifindex={1000 + number}")
            ]  # fmt: skip
            run(*vsctl, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy", *ports)
            target = '"' + f"127.0.0.1:{collector}" + '"'  # with its quotes: it is a string of the database
            sampling = (f"target={target}", "header=128", "sampling=1", "polling=1")
            run(*vsctl, "--", "--id=@s", "create", "sflow", *sampling, "--", "set", "bridge", "br0", "sflow=@s")
            yield lambda *words: run("ovs-appctl", "-t", control, *words)


@needs("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-appctl")
def test_open_vswitch_tells_every_packet_and_its_ports(leadline: RunningLeadline, port: int, tmp_path: Path) -> None:
    forth = Ether(**MAC) / Dot1Q(vlan=100, prio=3) / IP(src="10.1.1.0", dst="10.2.3.1", tos=0x6B)
    forth = forth / UDP(sport=49152, dport=4791) / BTH(opcode=4, dqpn=0x123456, psn=1) / (b"x" * 1000)
    back = Ether(src=MAC["dst"], dst=MAC["src"]) / Dot1Q(vlan=100) / IPv6(src="2001:db8::2", dst="2001:db8::1")
    back = back / TCP(sport=80, dport=50_000) / (b"y" * 200)
    with open_vswitch(tmp_path, port) as appctl:
        appctl("netdev-dummy/receive", "p2", bytes(back).hex())  # so that the switch knows where the other end is
        for _ in range(50):
            appctl("netdev-dummy/receive", "p1", bytes(forth).hex())
        rows = wait_for(
            "51 samples",
            lambda: (
                (found := leadline.sql("SELECT * FROM flow_sample WHERE switch = 'ovs' ORDER BY time_ns LIMIT 100"))
                and len(found) == 51
                and found
            ),
        )
        port_names = wait_for(
            "counters of both ports",
            lambda: (
                {row["entity"] for row in leadline.sql("SELECT entity FROM series WHERE name = 'ifInOctets'")}
                >= {"swport:ovs/p1", "swport:ovs/p2"}
            ),
        )
    assert port_names
    told = Tally((row["in_port"], row["out_port"], row["src_ip"], row["dst_port"], row["dst_qp"]) for row in rows)
    assert told == {
        ("p1", "p2", "10.1.1.0", 4791, 0x123456): 50,
        ("p2", None, "2001:db8::2", 50_000, None): 1,  # flooded: it left by several ports
    }
    assert {(row["dscp"], row["ecn"], int(row["rate"])) for row in rows if row["dst_port"] == 4791} == {(26, 3, 1)}
    assert wrong(leadline) == {}


# --- our datagrams, read by others --------------------------------------------------------------------------------


def ours() -> list[bytes]:
    """What the lab's switches send: TCP, UDP, RoCEv2, IPv6 and a VLAN, with counters between them."""
    frames = [
        Ether(**MAC) / IP(src="10.1.1.0", dst="10.2.3.1") / TCP(sport=5000, dport=80),
        Ether(**MAC) / IP(src="10.1.1.0", dst="10.2.3.1") / UDP(sport=5001, dport=53000),
        Ether(**MAC) / IP(src="10.1.2.0", dst="10.2.3.1") / UDP(sport=49152, dport=4791) / BTH(opcode=4, dqpn=77),
        Ether(**MAC) / IPv6(src="2001:db8::1", dst="2001:db8::2") / TCP(sport=5002, dport=443),
        Ether(**MAC) / Dot1Q(vlan=100) / IP(src="10.1.3.0", dst="10.2.3.1") / TCP(sport=5003, dport=80),
    ]
    agent = encode.Agent("10.0.0.1")
    counters = encode.InterfaceCounters(7, 6, 10**9, 1, 3, *range(14))
    made: list[bytes | None] = []
    for number in range(60):
        header = bytes(frames[number % len(frames)])
        record = encode.raw_header(header, 1000 + 7 * number)
        made.append(agent.add(encode.flow_sample(number, 7, 100, 100 * number, 0, 7, 9, [record]), 1000 + number))
        if number % 10 == 0:
            counted = encode.counter_sample(number // 10, 7, [encode.interface_counters(counters)])
            made.append(agent.add(counted, 1000 + number))
    made.append(agent.flush(2000))
    return [datagram for datagram in made if datagram]


Volumes = dict[tuple[str, str, int, int, int], tuple[int, int]]
"""Packets and bytes by source, destination, their ports, and protocol."""


def summed(rows: Iterator[tuple[str, str, int, int, int, int, int]]) -> Volumes:
    packets: Tally[Any] = Tally()
    octets: Tally[Any] = Tally()
    for src, dst, src_port, dst_port, protocol, count, size in rows:
        key = (src, dst, src_port, dst_port, protocol)
        packets[key] += count
        octets[key] += size
    return {key: (packets[key], octets[key]) for key in packets}


def seen_by_leadline(leadline: RunningLeadline) -> Volumes:
    rows = leadline.sql(
        "SELECT src_ip, dst_ip, src_port, dst_port, protocol, sum(rate) AS packets, sum(rate * frame_bytes) AS bytes "
        "FROM flow_sample WHERE switch = 'leaf1' GROUP BY src_ip, dst_ip, src_port, dst_port, protocol"
    )
    return summed(
        (row["src_ip"], row["dst_ip"], int(row["src_port"]), int(row["dst_port"]), int(row["protocol"]),
         int(row["packets"]), int(row["bytes"]))
        for row in rows
    )  # fmt: skip


def seen_by_nfdump(directory: Path) -> Volumes:
    shown = subprocess.run(
        ["nfdump", "-R", str(directory), "-q", "-N", "-6", "-o", "fmt:%sa,%da,%sp,%dp,%pr,%pkt,%byt"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    rows = [[word.strip() for word in line.split(",")] for line in shown.stdout.splitlines() if line.count(",") == 6]
    return summed((r[0], r[1], int(r[2]), int(r[3]), int(r[4]), int(r[5]), int(r[6])) for r in rows)


PROTOCOLS = {"tcp": 6, "udp": 17}


def seen_by_sfacctd(path: Path) -> Volumes:
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()
    rows = [row for row in csv.DictReader(lines) if row["SRC_IP"] != "SRC_IP"]  # the heading comes again
    return summed(
        (r["SRC_IP"], r["DST_IP"], int(r["SRC_PORT"]), int(r["DST_PORT"]), PROTOCOLS[r["PROTOCOL"]], int(r["PACKETS"]),
         int(r["BYTES"]))
        for r in rows
    )  # fmt: skip


@needs("sfcapd", "nfdump", "sfacctd")
def test_nfdump_and_pmacct_find_the_same_packets_and_bytes(
    leadline: RunningLeadline, port: int, tmp_path: Path
) -> None:
    captured, printed = tmp_path / "captured", tmp_path / "printed.csv"
    captured.mkdir()
    capture_port, account_port = free_udp_port(), free_udp_port()
    (tmp_path / "sfacctd.conf").write_text(
        f"daemonize: false\nsfacctd_ip: 127.0.0.1\nsfacctd_port: {account_port}\nsfacctd_renormalize: true\n"
        "plugins: print[a]\naggregate[a]: src_host, dst_host, src_port, dst_port, proto\nprint_output[a]: csv\n"
        f"print_output_file[a]: {printed}\nprint_output_file_append[a]: true\nprint_refresh_time[a]: 1\n"
    )
    capture = ["sfcapd", "-b", "127.0.0.1", "-p", str(capture_port), "-w", str(captured), "-t", "2"]
    datagrams = [*ours(), *(path.read_bytes() for path in sorted(GOLDEN.glob("*flow_sample*.dat")))]
    with (
        running(capture, tmp_path / "sfcapd.log"),
        pmacct(["sfacctd", "-f", str(tmp_path / "sfacctd.conf")], tmp_path / "sfacctd.log"),
    ):
        wait_for("sfcapd and sfacctd", lambda: bound(capture_port) and bound(account_port))
        send(datagrams, LAB, port, capture_port, account_port)
        wait_for("our rows", lambda: sum(p for p, _ in seen_by_leadline(leadline).values()) == 60 * 100 + 2048 + 2000)
        expected = seen_by_leadline(leadline)
        wait_for("sfcapd and sfacctd to read", lambda: taken(capture_port) and taken(account_port))
    # What they still held they wrote when they were stopped.
    assert seen_by_sfacctd(printed) == expected
    assert seen_by_nfdump(captured) == expected
    assert len(expected) == 7
    assert expected["10.243.27.17", "10.243.0.45", 5672, 59451, 6] == (2048, 2048 * 490)
