"""Every fault of the lab really breaks something that the kernel counts, and is gone when it is stopped.

The job is `rings`, small and without torch: faults take hold of ranks, links and pages, not of what a rank computes.
What needs the training program's own obedience (slow loader, divergence) is checked at its control file here, and on
real training in test_scenarios_run.py.
"""

from __future__ import annotations

import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.lab import faketime
from leadline.lab.faults import BY_NAME, FAULTS, Fault
from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.status import status
from leadline.lab.running import RunningLab
from leadline.lab.telemetry import Telemetry, TelemetryConfig
from leadline.lab.topology import Topology, build, load, read_shape
from leadline.lab.workloads.rings.job import Rings

CLOCKS = {"clock-step", "clock-drift"}
NOBODY = ("127.0.0.1", 9)  # where the switches of this test send: nothing listens there
SMALL = """
name: four
leaves: 2
spines: 2
hosts: 4
homes: 2
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[RunningLab]:
    """Four hosts, a job of four ranks that reduces for ever, and the telemetry's exporters."""
    import os

    with Cluster(_four(), f"f{os.getpid()}") as cluster:
        running = RunningLab(cluster)
        config = TelemetryConfig(collectors=(NOBODY,), lldp=False, kernel_log=False)
        running.telemetry = Telemetry(cluster, config)
        running.telemetry.start()
        for kind in FAULTS:
            if kind.name not in CLOCKS or faketime.faketime() is not None:
                kind().prepare(running)
        try:
            yield running
        finally:
            for job in running.jobs.values():
                job.stop()
            running.telemetry.stop()


@pytest.fixture
def busy(lab: RunningLab) -> RunningLab:
    """The lab with a job that runs; a fault may have killed the one before."""
    job = lab.jobs.get("rings-1")
    if job is None or any(code is not None for code in job.poll().values()):
        if job is not None:
            job.stop()
        job = Rings(name="rings-1", max_bytes=1 << 18, cycles=0, seconds=120.0, timeout_s=30.0)
        job.start(lab.cluster)
        lab.jobs["rings-1"] = job
        wait_until(lambda: sum(sent(lab)) > 1 << 20, "the ranks talk")
    return lab


def _four() -> Topology:
    return build(read_shape(SMALL, "test"))


def test_every_fault_is_tried_here() -> None:
    assert set(TRIALS) | ELSEWHERE == set(BY_NAME)


ELSEWHERE = {"colocated-neighbour"}  # needs a machine with several hosts: test_application_faults.py


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind.name not in ELSEWHERE], ids=lambda kind: kind.name)
def test_a_fault_breaks_what_it_says_and_is_mended(busy: RunningLab, kind: type[Fault]) -> None:
    if kind.name in CLOCKS and faketime.faketime() is None:
        pytest.skip("needs libfaketime (Debian: apt install libfaketime)")
    fault = kind().chosen(busy, random.Random(7))
    assert fault == kind().chosen(busy, random.Random(7)), "the same seed breaks the same thing"
    component = fault.component(busy)
    assert component
    assert all(":" in each for each in component)
    before = dict(fault.seen(busy))
    broken, mended = TRIALS[kind.name](busy, fault, before)
    fault.start(busy)
    try:
        wait_until(broken, f"{kind.name} shows")
    finally:
        fault.stop(busy)
    if mended is not None:
        wait_until(mended, f"{kind.name} is over")


Check = Callable[[], bool]
Trial = Callable[[RunningLab, Fault, dict[str, object]], tuple[Check, Check | None]]


def _throttled(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    group = lab.rank(None, fault.rank or 0).process.cgroup  # type: ignore[attr-defined]
    limit = group.file("cpu", "cpu.max" if (group.file("cpu", "cpu.max")).exists() else "cpu.cfs_quota_us")
    return (
        lambda: int(fault.seen(lab)["throttled"]) > int(before["throttled"]),  # type: ignore[call-overload]
        lambda: limit.read_text().split()[0] in ("max", "-1"),
    )


def _told(name: str) -> Trial:
    def trial(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
        control = lab.rank(None, getattr(fault, "rank", None) or 0).control
        return (
            lambda: name in json.loads(control.read_text()),
            (lambda: name not in json.loads(control.read_text())) if fault.lasts else None,
        )

    return trial


def _oom(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    group = lab.rank(None, fault.rank or 0).process.cgroup  # type: ignore[attr-defined]
    in_use = group.memory_bytes()
    limit = group.file("memory", "memory.limit_in_bytes")
    limit = limit if limit.exists() else group.file("memory", "memory.max")
    return lambda: in_use < int(limit.read_text()) < in_use + 200 * 2**20, None


def _pressed(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    group = lab.rank(None, fault.rank or 0).process.cgroup  # type: ignore[attr-defined]
    limit = group.file("memory", "memory.limit_in_bytes")
    limit = limit if limit.exists() else group.file("memory", "memory.max")

    def limited() -> bool:
        return limit.read_text().strip() != "max" and int(limit.read_text()) < 2**40

    return limited, lambda: not limited()


def _thin(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    """Both ends of the storage host's cable send at a part of their rate."""
    own = lab.cluster.topology.host(fault.host).ports[0]  # type: ignore[attr-defined]
    ends = (own, lab.cluster.topology.neighbour(own))

    def ratios() -> list[float]:
        told = [port for node in status(lab.cluster) for port in node.ports]
        rates = [next(each.rate_bps or 0 for each in told if each.port == end.id) for end in ends]
        return [rate / lab.cluster.topology.link_of(own).rate_bps for rate in rates]

    return lambda: max(ratios()) < 0.3, lambda: min(ratios()) > 0.99


def _state(letter: str, after: str | None) -> Trial:
    def trial(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
        def there(wanted: str) -> bool:
            return str(fault.seen(lab)["state"]) in wanted

        return lambda: there(letter), (lambda: there(after)) if after is not None else None

    return trial


def _dead(signal_number: int) -> Trial:
    def trial(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
        process = lab.rank(None, fault.rank or 0).process  # type: ignore[attr-defined]
        return lambda: process.popen.poll() == -signal_number, None

    return trial


def _page(words: Callable[[RunningLab, Fault], str]) -> Trial:
    """What the host's GPU page says while the fault lasts, and no longer afterwards."""

    def trial(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
        host = getattr(fault, "host", None) or lab.rank(None, fault.rank or 0).host  # type: ignore[attr-defined]
        wanted = words(lab, fault)
        return lambda: wanted in page(lab, host), lambda: wanted not in page(lab, host)

    return trial


def _gpu(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    one = lab.rank(None, fault.rank or 0)  # type: ignore[attr-defined]

    def clock_mhz() -> float:
        lines = page(lab, one.host).splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith("DCGM_FI_DEV_SM_CLOCK{"))

    wait_until(
        lambda: clock_mhz() > 1000, "the GPU of the rank is at work"
    )  # its model looks for new processes at times
    healthy_mhz = clock_mhz()
    return lambda: clock_mhz() < 0.6 * healthy_mhz, lambda: clock_mhz() > 0.6 * healthy_mhz


def _lost(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    return lambda: int(fault.seen(lab)["lost_packets"]) > 0, lambda: int(fault.seen(lab)["lost_packets"]) == 0  # type: ignore[call-overload]


def _carrier(down: bool) -> Trial:
    def trial(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
        link = lab.link(fault.link)  # type: ignore[attr-defined]
        host = next(end for end in link.ends if end.id.startswith("port:"))

        def changes() -> int:
            return int(fault.seen(lab)[f"{host.node}/{host.name}"]["carrier_changes"])  # type: ignore[index,call-overload]

        def carrier() -> bool:
            told = lab.cluster.command(host.node, ["ip", "-json", "link", "show", "dev", host.name])
            return "LOWER_UP" in json.loads(told)[0]["flags"]

        at_first = changes()
        return (lambda: not carrier()) if down else (lambda: changes() >= at_first + 2), carrier

    return trial


def _slow(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    link = lab.link(fault.link)  # type: ignore[attr-defined]
    end = next(each for each in link.ends if each.id.startswith("swport:"))

    def rate_bps() -> float:
        node = next(each for each in status(lab.cluster) if each.node == end.node)
        return float(next(port.rate_bps or 0 for port in node.ports if port.port == end.id))

    return lambda: rate_bps() < 0.3 * link.rate_bps, lambda: abs(rate_bps() / link.rate_bps - 1) < 0.01


def _bulk(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    """The fault's own traffic crosses the link that it names."""
    name = next(each for each in fault.component(lab) if each.startswith("link:"))
    link = lab.link(name)
    ports = [end for end in link.ends if end.id.startswith("swport:")]

    def carried() -> int:
        return sum(
            json.loads(lab.cluster.command(end.node, ["ip", "-json", "-s", "link", "show", "dev", end.name]))[0][
                "stats64"
            ]["tx"]["bytes"]
            for end in ports
        )

    at_first = carried()
    return lambda: carried() > at_first + (20 << 20), None


def _silent(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    host = fault.host  # type: ignore[attr-defined]

    def answers() -> bool:
        try:
            return bool(page(lab, host, timeout_s=0.5))
        except (TimeoutError, urllib.error.URLError):
            return False

    return lambda: not answers(), answers


def _replayed(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    """What proves it moves, as pages, files and logs tell it; afterwards the levers of its real effect are free."""

    def proof() -> list[object]:
        return [value for name, value in fault.seen(lab).items() if fault.signal in name]

    at_first = [value for name, value in before.items() if fault.signal in name]
    assert None not in at_first, f"{fault.signal} is told before anything plays"
    return lambda: proof() != at_first, None


def _narrow(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    """Replayed, and a port that really sends at a part of its rate while it lasts."""
    shows, _ = _replayed(lab, fault, before)
    slow, whole = _slow(lab, fault, before)
    return lambda: shows() and slow(), whole


def _absent(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    """The host's page does not list the GPU while it is lost."""

    def listed() -> object:
        return fault.seen(lab)["gpus_listed"]

    return lambda: listed() == 0, lambda: listed() == before["gpus_listed"] == 1


def _grows(*names: str) -> Trial:
    """A count of what `seen` tells, the largest of its ports or switches."""

    def trial(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
        def count() -> int:
            seen = fault.seen(lab)
            parts = [seen, *(each for each in seen.values() if isinstance(each, dict))]
            return max(int(part[name]) for part in parts for name in names if name in part)  # type: ignore[call-overload]

        at_first = count()
        return lambda: count() > at_first, None

    return trial


def _spine(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    switch = lab.cluster.topology.switch(fault.switch)  # type: ignore[attr-defined]

    def carriers() -> set[bool]:
        told = [lab.cluster.command(switch.name, ["ip", "-json", "link", "show", "dev", p.name]) for p in switch.ports]
        return {"LOWER_UP" in json.loads(each)[0]["flags"] for each in told}

    return lambda: carriers() == {False}, lambda: carriers() == {True}


def _mtu(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    """Long packets are lost at the port while it is wrong, and pass again afterwards."""
    grows, _ = _grows("too_long")(lab, fault, before)
    sent_before = sum(sent(lab))
    return grows, lambda: sum(sent(lab)) > sent_before + (1 << 22)


def _clock(at_least_ns: int) -> Trial:
    def trial(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
        def offset_ns() -> int:
            return int(fault.seen(lab)["offset_ns"])  # type: ignore[call-overload]

        def ranks_own() -> set[str]:
            text = Path(f"/proc/{lab.rank(None, 0).process.pid}/environ").read_text()
            return {each.partition("=")[0] for each in text.split("\0")}

        assert {"LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE"} <= ranks_own(), "a rank reads the clock of its machine"
        assert abs(offset_ns()) < 1_000_000
        return lambda: offset_ns() > at_least_ns, lambda: abs(offset_ns()) < 1_000_000

    return trial


def _stale(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    assert before["repeats"] == 0
    return lambda: fault.seen(lab)["repeats"] == 1, lambda: fault.seen(lab)["repeats"] == 0


def _unlabelled(lab: RunningLab, fault: Fault, before: dict[str, object]) -> tuple[Check, Check | None]:
    host = fault.host  # type: ignore[attr-defined]
    return lambda: 'UUID="' not in page(lab, host), lambda: 'UUID="' in page(lab, host)


TRIALS: dict[str, Trial] = {
    "slow-worker": _throttled,
    "slow-loader": _told("data_delay_s"),
    "imbalanced-stage": _told("stage_factor"),
    "imbalanced-sequences": _told("sequence_factor"),
    "memory-pressure": _pressed,
    "loop-bug": _told("loop_batch"),
    "slow-operator": _told("operator_version"),
    "checkpoint-storm": _told("checkpoint_mb_per_step"),
    "slow-storage": _thin,
    "oom-kill": _oom,
    "sigstop": _state("T", "RSD"),
    "sigsegv": _dead(11),
    "divergence": _told("diverge"),
    "gpu-throttle": _gpu,
    "xid": _dead(6),
    "gpu-lost": _absent,
    "row-remaps": _replayed,
    "nvlink-errors": _replayed,
    "pfc-storm": _narrow,
    "marginal-optic": _replayed,
    "wrong-gid": _replayed,
    "wrong-dscp": _replayed,
    "pcie-width": _narrow,
    "lossy-link": _lost,
    "slow-link": _slow,
    "flapping-link": _carrier(down=False),
    "dead-nic": _carrier(down=True),
    "blackhole": _lost,
    "ecmp-collision": _bulk,
    "neighbour-congestion": _bulk,
    "dead-spine": _spine,
    "incast": _grows("queue_drops"),
    "wrong-mtu": _mtu,
    "clock-step": _clock(900_000_000),
    "clock-drift": _clock(10_000),
    "switch-stops-sampling": _grows("withheld"),
    "labels-missing": _unlabelled,
    "stale-source": _stale,
    "exporter-hangs": _silent,
    "duplicate-uuid": _page(lambda lab, fault: lab.cluster.topology.host(fault.of_host).gpus[0]),  # type: ignore[attr-defined]
}


def page(lab: RunningLab, host: str, timeout_s: float = 5.0) -> str:
    """A host's GPU page, by the address that its scrape target has."""
    targets = json.loads((lab.state / "scrape" / "dcgm.json").read_text())
    address = next(each["targets"][0] for each in targets if each["labels"]["nodename"] == host)
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=timeout_s) as answer:
        return str(answer.read().decode())


def sent(lab: RunningLab) -> list[int]:
    """Bytes that each host sent by its primary port."""
    found = []
    for host in lab.cluster.topology.hosts:
        told = lab.cluster.command(host.name, ["ip", "-json", "-s", "link", "show", "dev", host.primary.name])
        found.append(int(json.loads(told)[0]["stats64"]["tx"]["bytes"]))
    return found


def wait_until(true: Check, what: str, timeout_s: float = 20.0) -> None:
    """Wait for something to come true. Fails after `timeout_s`, which is long even for a busy machine."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.1)


def test_the_small_topology_is_like_the_big_one() -> None:
    assert {switch.tier for switch in _four().switches} == {switch.tier for switch in load("clos8").switches}
