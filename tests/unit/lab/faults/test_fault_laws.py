"""Laws of every fault: it says what it is, its magnitudes differ, the seed decides, and any two can be combined.

Nothing is broken here: faults act on a recording double of a lab, whose levers write down what is applied, whose
processes are none. tests/lab has the real ones.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import json
import random
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from leadline.lab.faults import BY_NAME, FAULTS, Fault, measured
from leadline.lab.faults.application import signals
from leadline.lab.faults.base import JobFault, fault_from, of_magnitude, parameters_of
from leadline.lab.harmless import HARMLESS
from leadline.lab.levers import Lever
from leadline.lab.realise.drops import DropRule
from leadline.lab.running import RunningLab
from leadline.lab.telemetry import kernel_log
from leadline.lab.topology import Topology, load
from leadline.lab.truth import MAGNITUDES
from leadline.lab.workloads import WORKLOADS
from leadline.lab.workloads.base import RankProcess
from leadline.model.errors import ConfigError, UsageError

PRESETS = {preset: load(preset) for preset in {"clos8", "cloud16", *(kind.preset for kind in FAULTS if kind.preset)}}
EVERY = pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.name)


def preset_of(*kinds: type[Fault]) -> Topology:
    """One that all of them can befall: clos8 where it can be."""
    for preset in ("clos8", *sorted(PRESETS)):
        with contextlib.suppress(UsageError):
            for kind in kinds:
                kind().check(PRESETS[preset])
            return PRESETS[preset]
    raise AssertionError(f"no topology for {[kind.name for kind in kinds]} in {', '.join(PRESETS)}")


class NoGroup:
    """Stands for a control group: nothing is limited, counters stand at 0."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0


class NoProcess:
    """Stands for a program: it has ended, so nobody sends it a signal."""

    def __init__(self, name: str, node: str) -> None:
        self.name, self.node, self.pid = name, node, 2**22 + 1  # beyond the kernel's largest
        self.cgroup = NoGroup()
        self.popen = self
        self.returncode = 0

    def poll(self) -> int:
        return 0

    def wait(self, timeout: float | None = None) -> int:
        return 0


class RecordingCluster:
    """Stands for a cluster: writes down which packets are dropped and which links are down; commands say nothing."""

    def __init__(self, topology: Topology, state: Path) -> None:
        self.topology, self.state, self.name = topology, state, "double"
        self.rules: set[DropRule] = set()
        self._numbers = itertools.count(1)

    def spawn(self, node: str, argv: Sequence[str], *, name: str, **_: Any) -> NoProcess:
        return NoProcess(name, node)

    def address(self, host: str, port: str = "primary") -> str:
        found = self.topology.host(host)
        return (found.primary if port == "primary" else found.port(port)).address

    def namespace(self, node: str) -> str:
        return f"ll-double-{node}"

    def drop_rule(self, node: str, *_: Any, direction: Any = "sent", **__: Any) -> DropRule:
        rule = DropRule(node, direction, next(self._numbers))
        self.rules.add(rule)
        return rule

    def remove_rule(self, rule: DropRule) -> None:
        self.rules.remove(rule)

    def dropped(self, rule: DropRule) -> int:
        assert rule in self.rules
        return 0

    def command(self, node: str, argv: Sequence[str], input: str | None = None) -> str:
        """As the kernel would answer: counters at 0, and the first way for whoever asks for a route."""
        if input is not None and input.startswith("route get"):
            port = next(port for port in self.topology.node(node).ports if self._up(port))
            return "".join(f"{line} dev {port.name}\n" for line in input.splitlines())
        if "qdisc" in argv:
            return "[]" if "-json" in argv else ""
        side = {"bytes": 0, "packets": 0, "dropped": 0, "errors": 0, "carrier_changes": 0}
        return json.dumps([{"stats64": {"rx": side, "tx": side}, "mtu": 1500, "flags": ["LOWER_UP"]}])

    def call_in(self, node: str, function: Callable[[], Any]) -> Any:
        return None

    def shape(self, *_: Any) -> None:
        raise AssertionError("a rate is held by a lever, not set")

    link_up = link_down = shape

    def _up(self, port: Any) -> bool:
        return self.topology.neighbour(port).node.startswith("spine")


@dataclass(slots=True)
class RecordingLab(RunningLab):
    """A double of a running lab: levers are held as in a real one, but what they apply is only written down."""

    applied: dict[tuple[str, ...], Any] = field(default_factory=dict)
    claims: dict[int, dict[tuple[str, ...], Any]] = field(default_factory=dict)

    def hold(self, lever: Lever, holder: object, value: Any) -> None:
        self.claims.setdefault(id(holder), {})[lever.key] = value
        self._levers.hold(self._written_down(lever), holder, value)

    def release(self, lever: Lever, holder: object) -> None:
        self.claims.get(id(holder), {}).pop(lever.key, None)
        self._levers.release(self._written_down(lever), holder)

    def _written_down(self, lever: Lever) -> Lever:
        return dataclasses.replace(lever, apply=lambda value: self.applied.__setitem__(lever.key, value))


@dataclass(slots=True)
class Job:
    """Stands for a training job: its ranks have ended, nothing was logged."""

    name: str
    ranks: list[RankProcess]
    storage: NoProcess

    def steps_done(self) -> list[tuple[int, int]]:
        return []

    def poll(self) -> dict[int, int | None]:
        return {one.rank: 0 for one in self.ranks}

    def stop(self) -> None:
        self.ranks = []


class Exporters:
    """Stands for a lab's telemetry: one real process that may be stopped is the exporter of every host."""

    def __init__(self) -> None:
        self._popen: subprocess.Popen[bytes] | None = None

    def exporter_pid(self, host: str) -> int:
        self._popen = self._popen or subprocess.Popen(["sleep", "600"])
        return self._popen.pid

    def end(self) -> None:
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()


@pytest.fixture(scope="module")
def exporters() -> Iterator[Exporters]:
    found = Exporters()
    yield found
    found.end()


def recording_lab(topology: Topology, state: Path, exporters: Exporters) -> RecordingLab:
    """Two jobs: one on all hosts, one on two."""
    lab = RecordingLab(RecordingCluster(topology, state), exporters)  # type: ignore[arg-type]
    for name, hosts in (("bert-1", topology.hosts), ("other-1", topology.hosts[:2])):
        (state / "jobs" / name).mkdir(parents=True)
        ranks = [
            RankProcess(
                rank, host.name, NoProcess(f"{name}-rank{rank}", host.name), host.gpus[0],
                state / "jobs" / name / f"rank{rank}.json", state / "jobs" / name / f"rank{rank}.log",
            )
            for rank, host in enumerate(hosts)
        ]  # fmt: skip
        lab.jobs[name] = Job(name, ranks, NoProcess(f"{name}-storage", topology.storage[0].name))  # type: ignore[assignment]
    return lab


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "WINDOW_S", 0.0)
    monkeypatch.setattr(signals, "STOPPED_S_MAX", 0.0)  # nothing is applied here, so nothing stops


@EVERY
def test_it_says_what_it_is_and_what_proves_it(kind: type[Fault]) -> None:
    assert (kind.__doc__ or "").strip()
    assert set(kind.workloads) <= set(WORKLOADS)
    assert set(kind.magnitudes) <= set(MAGNITUDES)
    assert {"small", "large"} <= set(kind.magnitudes), "besides the defaults, which are medium"


@EVERY
def test_small_medium_and_large_do_not_do_the_same(kind: type[Fault]) -> None:
    sizes = [parameters_of(of_magnitude(kind, magnitude)) for magnitude in MAGNITUDES]
    assert all(a != b for a, b in itertools.combinations(sizes, 2))


@EVERY
@pytest.mark.parametrize("magnitude", MAGNITUDES)
def test_it_can_befall_its_preset(kind: type[Fault], magnitude: Any) -> None:
    of_magnitude(kind, magnitude).check(PRESETS[kind.preset or "clos8"])


@EVERY
def test_the_seed_decides_and_what_it_chose_can_be_checked_and_named(
    kind: type[Fault], tmp_path: Path, exporters: Exporters
) -> None:
    lab = recording_lab(preset_of(kind), tmp_path, exporters)
    for magnitude in MAGNITUDES:
        fault, again = (of_magnitude(kind, magnitude).chosen(lab, random.Random(5)) for _ in range(2))
        assert parameters_of(fault) == parameters_of(again)
        assert fault.component(lab) == again.component(lab)
        fault.check(lab.cluster.topology)
        seen = dict(fault.seen(lab))
        # What is replayed shows on pages and in files that nobody writes here.
        told = kind.seen_in == "replay" or any(kind.signal in name for name in _names(seen))
        assert told, f"{kind.signal} proves it, and seen() has {seen}"


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.name)
def test_any_two_can_be_combined_and_neither_mends_the_other(
    kind: type[Fault], tmp_path: Path, exporters: Exporters
) -> None:
    labs = {name: recording_lab(topology, tmp_path / name, exporters) for name, topology in PRESETS.items()}
    chosen: dict[tuple[str, type[Fault]], Fault] = {}
    for other in FAULTS:
        topology = preset_of(kind, other)
        lab = labs[topology.name]
        for each in (kind, other):
            if (topology.name, each) not in chosen:
                chosen[topology.name, each] = each().chosen(lab, random.Random(3))
        for first_out in (0, 1):
            # Two of a kind are two faults: what one remembers is not the other's.
            pair = [copy.deepcopy(chosen[topology.name, each]) for each in (kind, other)]
            _together(lab, pair, first_out)


JOB_FAULTS = [kind for kind in FAULTS if issubclass(kind, JobFault)]


@pytest.mark.parametrize("kind", JOB_FAULTS, ids=lambda kind: kind.name)
def test_it_may_end_while_its_job_is_preempted(kind: type[Fault], tmp_path: Path, exporters: Exporters) -> None:
    lab = recording_lab(preset_of(kind), tmp_path, exporters)
    fault = kind().chosen(lab, random.Random(3))
    befallen = fault.component(lab)
    fault.start(lab)
    lab.preempt("bert-1")
    fault.seen(lab)
    assert fault.component(lab) == befallen
    fault.stop(lab)
    assert not {key for key, value in lab.applied.items() if value is not None}
    lab.resume("other-1")  # runs: nothing happens


def _together(lab: RecordingLab, pair: list[Fault], first_out: int) -> None:
    cluster: RecordingCluster = lab.cluster  # type: ignore[assignment]
    lab.applied.clear(), lab.claims.clear()
    started: list[set[DropRule]] = []
    try:
        for fault in pair:
            before = set(cluster.rules)
            fault.start(lab)
            started.append(cluster.rules - before)
    finally:
        pair[first_out].stop(lab)
    stays = pair[1 - first_out]
    told = f"{[each.name for each in pair]}, number {first_out} ends first"
    for key in lab.claims.get(id(stays), {}):
        assert lab.applied[key] is not None, f"{told}: {key} was given free although it is held"
    assert started[1 - first_out] <= cluster.rules, f"{told}: what the other drops is dropped no more"
    stays.stop(lab)
    held = {key: value for key, value in lab.applied.items() if value is not None}
    assert not held, f"{told}: still held in the end: {held}"
    assert not cluster.rules, f"{told}: packets are still dropped"


def _names(seen: Any) -> Iterator[str]:
    for name, value in seen.items():
        yield str(name)
        if isinstance(value, dict):
            yield from _names(value)


def test_what_keeps_a_replay_from_writing_its_later_lines_is_told_when_it_ends(
    tmp_path: Path, exporters: Exporters, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = recording_lab(PRESETS["clos8"], tmp_path, exporters)
    fault = BY_NAME["row-remaps"](job="bert-1", rank=0, every_s=0.01)  # type: ignore[call-arg]
    asked = threading.Event()

    def full(*_: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            asked.set()
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(kernel_log, "append_xid", full)
    fault.start(lab)
    assert asked.wait(30)
    with pytest.raises(OSError, match="No space left"):
        fault.stop(lab)
    assert not {key for key, value in lab.applied.items() if value is not None}


def _numbers(kind: type[Fault]) -> list[tuple[str, Any]]:
    """Parameters of a fault that are numbers, with their defaults; signed ones and those with a meaning at 0 apart."""
    return [
        (each.name, each.default)
        for each in dataclasses.fields(kind)
        if type(each.default) in (int, float) and not each.name.startswith("_")
    ]


@pytest.mark.parametrize("kind", [*FAULTS, *HARMLESS], ids=lambda kind: kind.name)
def test_a_number_that_makes_no_sense_is_refused_before_anything_starts(kind: type[Fault]) -> None:
    topology = PRESETS[kind.preset or "clos8"]
    for name, default in _numbers(kind):
        with pytest.raises(ConfigError, match=r"finite|expects"):
            fault_from(kind, {name: float("nan")}, "x.yaml, line 3")
        if name in ("step_s", "drift_ppm"):
            senseless = type(default)(0)
        elif name == "power_dbm":
            continue  # any power is one
        else:
            senseless = type(default)(-1)
        with pytest.raises(UsageError, match=name):
            kind(**{name: senseless}).check(topology)


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("flapping-link", {"down_s": 3.0, "period_s": 2.0}, "period_s must be longer than down_s, or it is never up"),
        ("exporter-hangs", {"hang_s": 5.0}, "every_s must be longer than hang_s, or hang_s 0"),
        ("stale-source", {"parts": "gpu,disk"}, "parts are gpu, ports, sys, with commas between; got 'disk'"),
        ("labels-missing", {"labels": "UUID,"}, "labels are names with commas between, got 'UUID,'"),
        ("lossy-link", {"loss_ratio": 5.0}, "loss_ratio must be over 0 and at most 1, got 5"),
        ("slow-link", {"rate_ratio": 0.0}, "rate_ratio must be over 0 and at most 1, got 0"),
    ],
)
def test_what_would_do_nothing_is_told(name: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        BY_NAME[name](**given).check(PRESETS["clos8"])
