"""The incidents that come with Leadline: whole, small, and their telemetry shows what their truth says was done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from leadline.lab.faults import BY_NAME
from leadline.lab.incidents import incident, incidents
from leadline.lab.truth import Entry, read_truth
from leadline.model.tables import BY_NAME as TABLES
from leadline.store.bundle import Bundle, read_bundle

NAMES = ("demo", "gpu-throttle", "healthy", "neighbour-congestion", "oom-kill", "slow-loader")
TOTAL_BYTES_MAX = 20_000_000
Rows = list[dict[str, Any]]


def test_there_are_six_and_they_are_small() -> None:
    assert tuple(incidents()) == NAMES
    assert sum(path.stat().st_size for path in incidents().values()) < TOTAL_BYTES_MAX


@pytest.mark.parametrize("name", NAMES)
def test_every_incident_is_whole_and_has_its_truth(name: str) -> None:
    entries, _, scenario = read_truth(truth_of(incident(name)))
    assert scenario == name
    assert bool(entries) == (name != "healthy")
    with read_bundle(incident(name)) as bundle:
        rows = bundle.manifest.rows()
        assert {"step", "collective", "flow_sample", "metric_sample", "series", "relation", "event"} <= set(rows)
        for entry in entries:
            assert entry.fault in BY_NAME
            assert bundle.manifest.from_ns < entry.onset_ns < bundle.manifest.to_ns
        assert ranks_told(bundle) == set(range(8))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "healthy"])
def test_telemetry_shows_what_was_done(name: str) -> None:
    entries, _, _ = read_truth(truth_of(incident(name)))
    with read_bundle(incident(name)) as bundle:
        for entry in entries:
            SHOWN[entry.fault](bundle, entry)


def test_nothing_is_wrong_in_the_healthy_one() -> None:
    with read_bundle(incident("healthy")) as bundle:
        kinds = {row["kind"] for row in table(bundle, "event")}
        assert not kinds & {"link-down", "oom-kill", "xid", "rank-failed"}
        taken = sorted(row["end_ns"] - row["start_ns"] for row in table(bundle, "step"))
        assert taken[len(taken) * 9 // 10] < 3 * median(taken)


def _flaps(bundle: Bundle, entry: Entry) -> None:
    port = next(each for each in entry.component if each.startswith("port:"))
    told = [
        row for row in table(bundle, "event") if row["kind"] == "link-down" and within(row["time_ns"], entry, after_s=3)
    ]
    assert {row["entity"] for row in told} == {port}
    assert entry.seen is not None
    counted = {when: counters[port.removeprefix("port:")] for when, counters in entry.seen.items()}  # type: ignore[index]
    changes = counted["after"]["carrier_changes"] - counted["before"]["carrier_changes"]
    assert 2 * len(told) in (changes - 1, changes, changes + 1)  # one change is down, the next is up


def _throttled(bundle: Bundle, entry: Entry) -> None:
    assert arrives_last(bundle, entry) == rank_of(bundle, entry)


def _loader(bundle: Bundle, entry: Entry) -> None:
    waited: dict[int, list[int]] = defaultdict(list)
    for row in table(bundle, "step"):
        if within(row["start_ns"], entry):
            waited[row["rank"]].append(row["data_ns"])
    late = {rank for rank, values in waited.items() if median(values) > 0.5e9}
    assert late == {rank_of(bundle, entry)}
    assert arrives_last(bundle, entry) in late


def _oom(bundle: Bundle, entry: Entry) -> None:
    host = next(each for each in entry.component if each.startswith("host:"))
    after = [row for row in table(bundle, "event") if row["time_ns"] > entry.onset_ns]
    assert {row["entity"] for row in after if row["kind"] == "oom-kill"} <= {host, *entry.component}
    assert any(row["kind"] == "oom-kill" for row in after)
    ended = {row["entity"] for row in after if row["code"] == "signal/SIGKILL"}
    assert ended == {next(each for each in entry.component if each.startswith("rank:"))}


def _gpu(bundle: Bundle, entry: Entry) -> None:
    gpu = next(each for each in entry.component if each.startswith("gpu:"))
    streams = {row["series"]: row["entity"] for row in table(bundle, "series") if row["name"] == "DCGM_FI_DEV_SM_CLOCK"}
    clocks: dict[str, list[float]] = defaultdict(list)
    for row in table(bundle, "metric_sample"):
        if row["series"] in streams and within(row["time_ns"], entry, before_s=-8):  # a scrape every 5 s
            clocks[streams[row["series"]]].append(row["value"])
    slow = {entity for entity, values in clocks.items() if 345 < median(values) < 900}
    assert slow == {gpu}
    assert arrives_last(bundle, entry) == rank_of(bundle, entry)


def _neighbour(bundle: Bundle, entry: Entry) -> None:
    port = next(each for each in entry.component if each.startswith("swport:")).removeprefix("swport:")
    switch, _, out_port = port.partition("/")
    sampled: dict[str, list[int]] = {"before": [], "during": []}
    for row in table(bundle, "flow_sample"):
        if (row["switch"], row["out_port"]) == (switch, out_port):
            when = "during" if within(row["time_ns"], entry) else "before" if row["time_ns"] < entry.onset_ns else ""
            if when:
                sampled[when].append(row["rate"] * row["frame_bytes"])
    assert entry.end_ns is not None
    during_bps = 8e9 * sum(sampled["during"]) / (entry.end_ns - entry.onset_ns)
    assert during_bps > 200e6  # of 250 Mbit/s


SHOWN: dict[str, Callable[[Bundle, Entry], None]] = {
    "flapping-link": _flaps,
    "slow-worker": _throttled,
    "slow-loader": _loader,
    "oom-kill": _oom,
    "gpu-throttle": _gpu,
    "neighbour-congestion": _neighbour,
}


def truth_of(path: Path) -> Path:
    return path.with_suffix(".truth.json")


def table(bundle: Bundle, name: str) -> Iterable[dict[str, Any]]:
    for group in bundle.groups(TABLES[name]):
        yield from group.to_pylist()


def within(time_ns: int, entry: Entry, *, before_s: float = 0, after_s: float = 0) -> bool:
    """Whether a time is within the fault; a negative `before_s` leaves out its first seconds."""
    end_ns = entry.end_ns if entry.end_ns is not None else 2**62
    return entry.onset_ns - before_s * 1e9 <= time_ns <= end_ns + after_s * 1e9


def ranks_told(bundle: Bundle) -> set[int]:
    return {row["rank"] for row in table(bundle, "step") if row["job"] == "bert-1"}


def rank_of(bundle: Bundle, entry: Entry) -> int:
    """The rank that a fault is about: named, or the one on the host or GPU that is."""
    named = [each for each in entry.component if each.startswith("rank:")]
    if not named:
        stands_on = {row["child"] for row in table(bundle, "relation") if row["parent"] in entry.component}
        named = sorted(each for each in stands_on if each.startswith("rank:"))
    return int(named[0].rpartition("/")[2])


def arrives_last(bundle: Bundle, entry: Entry) -> int:
    """The rank whose median lateness in the collectives during the fault is the largest."""
    first: dict[tuple[str, int, str], int] = {}
    rows: Rows = []
    for row in table(bundle, "collective"):
        if row["job"] == "bert-1" and row["state"] == "finished" and within(row["enqueued_ns"], entry):
            key = (row["comm"], row["seq"], row["op"])
            first[key] = min(first.get(key, row["enqueued_ns"]), row["enqueued_ns"])
            rows.append(row)
    late: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        late[row["rank"]].append(row["enqueued_ns"] - first[row["comm"], row["seq"], row["op"]])
    return max(late, key=lambda rank: median(late[rank]))
