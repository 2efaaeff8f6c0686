"""A realised cluster: everyone reaches everyone, programs live on their node, links flap, packets get lost."""

from __future__ import annotations

import itertools
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.lab.realise import namespaces
from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.status import PortStatus, status
from leadline.lab.topology import load
from leadline.model.errors import UsageError, WorldError

PATIENCE_S = 20.0


@pytest.fixture
def tiny(lab_name: str) -> Iterator[Cluster]:
    with Cluster(load("tiny"), lab_name) as cluster:
        yield cluster


def reaches(cluster: Cluster, host: str, address: str, source: str = "", timeout_s: float = 5.0) -> bool:
    """Whether a TCP connection from the host to the address comes about; somebody must listen at port 7."""
    with cluster.socket_in(host, socket.AF_INET, socket.SOCK_STREAM) as sender:
        sender.settimeout(timeout_s)
        if source:
            sender.bind((source, 0))
        try:
            sender.connect((address, 7))
        except OSError:
            return False
        return True


def listening(cluster: Cluster, host: str) -> socket.socket:
    listener = cluster.socket_in(host, socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("0.0.0.0", 7))
    listener.listen(1000)
    return listener


def port_of(cluster: Cluster, port: str) -> PortStatus:
    return next(each for node in status(cluster) for each in node.ports if each.port == port)


def route_lines(cluster: Cluster) -> dict[str, list[str]]:
    return {node: sorted(cluster.command(node, ["ip", "route"]).splitlines()) for node in cluster.topology.nodes}


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def test_everyone_reaches_every_address(lab_name: str) -> None:
    with Cluster(load("clos8"), lab_name) as cluster:
        everyone = (*cluster.topology.hosts, *cluster.topology.storage)
        listeners = [listening(cluster, host.name) for host in everyone]
        for source, target in itertools.permutations(everyone, 2):
            for port in target.ports:
                if port.role == "backend" and not source.backend:
                    continue  # a storage host is not in the backend
                assert reaches(cluster, source.name, port.address), f"{source.name} does not reach {port.id}"
        for listener in listeners:
            listener.close()
    assert not cluster.state.exists()
    assert not list(namespaces.NETNS.glob(f"ll-{lab_name}-*"))


def test_a_connection_takes_the_spine_that_the_kernel_says_it_will(lab_name: str) -> None:
    with Cluster(load("clos8"), lab_name) as cluster:
        listener = listening(cluster, "h2")
        target, source = cluster.address("h2"), cluster.address("h1")
        used = set()
        for port in range(40000, 40012):
            ask = f"ip route get {target} from {source} iif Ethernet1 ipproto tcp sport {port} dport 7"
            told = re.search(r"dev (\S+)", cluster.command("leaf1", ask.split()))
            assert told
            before = {name: port_of(cluster, f"swport:leaf1/{name}").sent_bytes for name in ("Ethernet9", "Ethernet10")}
            with cluster.socket_in("h1", socket.AF_INET, socket.SOCK_STREAM) as sender:
                sender.bind((source, port))
                sender.connect((target, 7))
                sender.send(bytes(3000))
                accepted, _ = listener.accept()
                assert len(accepted.recv(3000, socket.MSG_WAITALL)) == 3000
                accepted.close()
            grown = {
                name for name in before if port_of(cluster, f"swport:leaf1/{name}").sent_bytes > before[name] + 3000
            }
            assert grown == {told[1]}
            used |= grown
        listener.close()
        assert used == {"Ethernet9", "Ethernet10"}, "twelve connections, and all hashed to one spine"


def test_a_program_lives_on_its_node(tiny: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = (
        "import os, socket\n"
        "ports = sorted(os.listdir('/sys/class/net'))\n"
        "print(os.getpid(), socket.gethostname(), ports, os.environ['ASKED'], os.nice(0))"
    )
    started = tiny.spawn("h1", [sys.executable, "-c", program], name="asker", env={"ASKED": "yes"}, stdout=out, nice=5)
    assert started.popen.wait(PATIENCE_S) == 0
    assert out.read_text().splitlines()[0] == f"{started.pid} h1 ['eth0', 'fe0', 'lo'] yes 5"
    assert socket.gethostname() != "h1"
    assert started.name == "asker"
    assert started.node == "h1"


def test_who_asks_for_a_name_is_soon_told_that_there_is_none(tiny: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = (
        "import socket, time; began = time.monotonic(); socket.getfqdn('h2.test'); print(time.monotonic() - began)"
    )
    started = tiny.spawn("h1", [sys.executable, "-c", program], name="asker", stdout=out)
    assert started.popen.wait(PATIENCE_S) == 0
    assert float(out.read_text()) < 4.0, "the resolver's own patience is 10 s"


def test_a_program_joins_its_control_group_and_ends_with_the_lab(tiny: Cluster) -> None:
    alone = tiny.spawn("h1", ["sleep", "60"], name="alone")
    first = tiny.spawn("h2", ["sleep", "60"], name="first", cgroup="job")
    second = tiny.spawn("h2", ["sleep", "60"], name="second", cgroup="job", detached=True)
    wait_until(lambda: Path(f"/proc/{second.pid}/comm").read_text() == "sleep\n")
    wait_until(lambda: Path(f"/proc/{first.pid}/comm").read_text() == "sleep\n")
    wait_until(lambda: Path(f"/proc/{alone.pid}/comm").read_text() == "sleep\n")
    if not alone.cgroup.entrances():
        pytest.skip("no control groups on this machine")
    assert alone.cgroup.processes() == {alone.pid}
    assert first.cgroup.processes() == {first.pid, second.pid}
    programs = {node.node: node.programs for node in status(tiny)}
    assert programs["h2"] == {"sleep": 2}
    group = Path(alone.cgroup.entrances()[0]).parent
    tiny.down()
    assert [each.popen.wait(PATIENCE_S) for each in (alone, first, second)] == [-9, -9, -9]
    assert not group.parent.parent.exists()


def test_a_limit_of_memory_kills_for_real(tiny: Cluster) -> None:
    eater = "import time\nblocks = []\nwhile True:\n    blocks.append(bytes(b'x' * 1_000_000)); time.sleep(0.001)"
    victim = tiny.spawn("h1", [sys.executable, "-c", eater], name="eater")
    victim.cgroup.set_memory_limit(60_000_000)
    assert victim.cgroup.oom_kills() == 0
    assert victim.popen.wait(PATIENCE_S) == -9
    assert victim.cgroup.oom_kills() == 1


def test_a_quota_of_cpu_throttles(tiny: Cluster) -> None:
    spinner = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    spinning = tiny.spawn("h1", [sys.executable, "-c", spinner], name="spinner", nice=10)
    spinning.cgroup.set_cpu_quota(0.1)
    wait_until(lambda: spinning.cgroup.throttled() > 3)
    spinning.cgroup.set_cpu_quota(None)
    spinning.popen.kill()
    spinning.popen.wait()


def test_two_labs_side_by_side(lab_name: str) -> None:
    other_name = f"{lab_name}b"
    with Cluster(load("tiny"), lab_name) as one:
        with Cluster(load("tiny"), other_name) as other:
            listener = listening(one, "h2")
            assert reaches(one, "h1", one.address("h2"))
            assert not reaches(other, "h1", other.address("h2")), "the other's h2 does not listen"
        assert reaches(one, "h1", one.address("h2")), "the end of one lab is not the end of both"
        listener.close()


def test_a_link_that_flaps_comes_back_with_its_routes(tiny: Cluster) -> None:
    listener = listening(tiny, "h2")
    target = tiny.address("h2")
    for link in ("h1/eth0", "leaf1/Ethernet2", "leaf2/Ethernet2"):
        a, b = tiny.topology.link(link).ends
        before = route_lines(tiny)
        changes = port_of(tiny, a.id).carrier_changes
        tiny.link_down(link)
        assert not port_of(tiny, b.id).carrier
        assert not reaches(tiny, "h1", target, timeout_s=0.5)
        tiny.link_up(link)
        # Until the kernel has looked at the carriers again, some routes are marked `linkdown`.
        wait_until(lambda a=a, b=b: port_of(tiny, a.id).carrier and port_of(tiny, b.id).carrier)
        wait_until(lambda before=before: route_lines(tiny) == before)
        assert reaches(tiny, "h1", target)
        assert port_of(tiny, a.id).carrier_changes == changes + 2
    listener.close()


def test_leaves_stop_using_a_spine_that_lost_its_way(lab_name: str) -> None:
    with Cluster(load("clos8"), lab_name) as cluster:
        assert "Ethernet9" in cluster.command("leaf1", ["ip", "route", "show", "10.2.0.0/16"])
        cluster.link_down("leaf2/Ethernet9")  # leaf2 to spine1: leaf1 sees nothing of it but what BGP would tell
        assert "Ethernet9" not in cluster.command("leaf1", ["ip", "route", "show", "10.2.0.0/16"])
        listener = listening(cluster, "h2")
        assert all(reaches(cluster, "h1", cluster.address("h2")) for _ in range(8))
        cluster.link_up("leaf2/Ethernet9")
        assert "Ethernet9" in cluster.command("leaf1", ["ip", "route", "show", "10.2.0.0/16"])
        listener.close()


def test_a_host_falls_back_to_its_other_nic(lab_name: str) -> None:
    with Cluster(load("clos8"), lab_name) as cluster:
        host = cluster.topology.host("h1")
        far = cluster.address("h3", "eth1")

        def leaves_by() -> str:
            told = re.search(r"dev (\S+)", cluster.command("h1", ["ip", "route", "get", far]))
            assert told
            return told[1]

        assert leaves_by() == host.primary.name == "eth0"
        cluster.link_down("h1/eth0")
        wait_until(lambda: leaves_by() == "eth1")  # the kernel looks at carriers once a second
        listener = listening(cluster, "h3")
        assert reaches(cluster, "h1", far)
        cluster.link_up("h1/eth0")
        wait_until(lambda: leaves_by() == "eth0")
        listener.close()


def test_a_rate_is_changed_while_packets_flow(tiny: Cluster) -> None:
    tiny.shape("leaf1", "Ethernet1", 20_000_000, 60_000)
    assert port_of(tiny, "swport:leaf1/Ethernet1").rate_bps == 20_000_000
    assert "limit 60000b" in tiny.command("leaf1", ["tc", "qdisc", "show", "dev", "Ethernet1"])
    tiny.command("leaf1", ["tc", "qdisc", "del", "dev", "Ethernet1", "root"])
    tiny.shape("leaf1", "Ethernet1", 30_000_000, 60_000)
    assert port_of(tiny, "swport:leaf1/Ethernet1").rate_bps == 30_000_000
    with pytest.raises(UsageError, match="no port 'Ethernet9'"):
        tiny.shape("leaf1", "Ethernet9", 20_000_000, 60_000)


def test_packets_are_lost_silently(tiny: Cluster) -> None:
    listener = listening(tiny, "h2")
    target = tiny.address("h2")
    before = port_of(tiny, "swport:leaf1/Ethernet2")
    rule = tiny.drop_rule("leaf1", "Ethernet2", f"ip daddr {target}")
    spared = tiny.drop_rule("leaf1", "Ethernet2", "ip daddr 10.9.9.9")
    assert not reaches(tiny, "h1", target, timeout_s=0.5)
    assert tiny.dropped(rule) > 0
    assert tiny.dropped(spared) == 0
    assert port_of(tiny, "swport:leaf1/Ethernet2").dropped == before.dropped, "no counter of the port tells"
    tiny.remove_rule(rule)
    assert reaches(tiny, "h1", target)
    received = tiny.drop_rule("leaf1", "Ethernet1", probability=0.5, direction="received")
    wait_until(lambda: reaches(tiny, "h1", target, timeout_s=1.0) and tiny.dropped(received) > 0)
    with pytest.raises(WorldError, match=r"leaf1: nft .* failed"):
        tiny.drop_rule("leaf1", "Ethernet2", "no such thing")
    with pytest.raises(WorldError, match="nft"):
        tiny.remove_rule(rule)
    listener.close()


def test_hosts_of_one_machine_share_its_uplink(lab_name: str) -> None:
    topology = load("name: m\nhosts: 3\nhosts_per_machine: 2\nmachine_rate_bps: 50_000_000\nstorage: 0\n")
    with Cluster(topology, lab_name) as cluster:
        listeners = [listening(cluster, host) for host in ("h1", "h2", "h3")]
        assert reaches(cluster, "h3", cluster.address("h1"))
        assert reaches(cluster, "h3", cluster.address("h2"))
        for listener in listeners:
            listener.close()
        listing = cluster.command("leaf1", ["tc", "-s", "qdisc", "show"])
        for device in ("m1-out", "m1-in"):
            shared = re.search(rf"bfifo 10: dev {device} .*\n Sent (\d+) bytes (\d+) pkt", listing)
            assert shared
            assert int(shared[2]) >= 4, "a connection to each of the two passed"
        assert "m2-out" not in listing, "h3 is alone on its machine"
        rates = cluster.command("leaf1", ["tc", "class", "show", "dev", "m1-out"])
        assert "rate 50Mbit" in rates


def test_commands_say_what_went_wrong(tiny: Cluster) -> None:
    with pytest.raises(WorldError, match=r"h1: ip link show nothing failed \(1\): Device \"nothing\" does not exist"):
        tiny.command("h1", ["ip", "link", "show", "nothing"])
    with pytest.raises(WorldError, match="is not installed"):
        tiny.command("h1", ["no-such-program"])
    with pytest.raises(UsageError, match="no node 'h7'"):
        tiny.command("h7", ["true"])
    with pytest.raises(UsageError, match="no node 'h7'"):
        tiny.spawn("h7", ["true"], name="x")
    missing = tiny.spawn("h1", ["no-such-program"], name="missing")
    assert missing.popen.wait(PATIENCE_S) == 127
    assert "no-such-program" in (tiny.state / "log" / "h1.missing.log").read_text()


def test_the_machine_itself_is_left_as_it_was(lab_name: str) -> None:
    def seen() -> dict[str, str]:
        paths = ("tcp_congestion_control", "tcp_allowed_congestion_control", "ip_forward", "fib_multipath_hash_policy")
        found = {name: Path(f"/proc/sys/net/ipv4/{name}").read_text() for name in paths}
        mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"ll-{lab_name}" in line]
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
        return {**found, "mounts": str(mounts), "links": re.sub(r"^\d+: ", "", links), "host": os.uname().nodename}

    before = seen()
    with Cluster(load("tiny"), lab_name) as cluster:
        cluster.spawn("h1", ["true"], name="true").popen.wait(PATIENCE_S)
        assert cluster.command("h1", ["cat", "/proc/sys/net/ipv4/tcp_congestion_control"]) == "reno\n"
        assert {**seen(), "mounts": ""} == {**before, "mounts": ""}
    assert seen() == before
