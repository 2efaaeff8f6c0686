"""`bench.ingest`: what it sends, how it counts disk, and what becomes of a round that fails."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import cramjam
import numpy as np
import pytest
from bench import ingest
from bench.ingest_parts.measure import Run, Sending
from bench.peers import Leadline, NotInstalledError, Peer, free_port, leadline
from bench.remote_write_bodies import STEP_NS, Load

from leadline.model.ids import series_id
from leadline.wire.remote_write.requests import decode_remote_write
from leadline.wire.samples import Samples, read_canonical_labels

BEGIN_NS = 1_790_000_000 * 10**9


def sent(load: Load) -> list[list[Samples]]:
    """What a receiver reads of a load, by connection and body."""
    return [
        [decode_remote_write(bytes(cramjam.snappy.decompress_raw(body)), 1) for _, body in shard.bodies(BEGIN_NS)]
        for shard in load.senders()
    ]


def ids_of(samples: Samples) -> list[int]:
    low, high = (samples.ids[samples.sample_series, half].tolist() for half in (0, 1))
    return [high << 64 | low for low, high in zip(low, high, strict=True)]


def test_every_stream_has_one_sample_a_step_in_order() -> None:
    load = Load(series=50, steps=7, body_samples=30, connections=3, seed=1)
    values = set()
    for bodies in sent(load):
        assert {len(body.value) for body in bodies[:-1]} <= {30}
        streams = [stream for body in bodies for stream in ids_of(body)]
        times = np.concatenate([body.time_ns for body in bodies])
        share = len(streams) // load.steps
        assert streams == streams[:share] * load.steps
        assert times.tolist() == [BEGIN_NS + step * STEP_NS for step in range(load.steps) for _ in range(share)]
        values |= {value for body in bodies for value in body.value.tolist()}
    assert sum(len(body.value) for bodies in sent(load) for body in bodies) == load.samples == 350
    assert load.series_ever == 50
    assert len(values) > 200  # counters and gauges move


def test_the_labels_that_are_sent_are_canonical() -> None:
    (body, *_), *_ = sent(Load(series=20, steps=1, body_samples=20, connections=1, seed=1))
    for stream, (start, end) in enumerate(zip(body.label_start, body.label_end, strict=True)):
        labels = read_canonical_labels(body.label_bytes[start:end].tobytes())
        assert labels["job"] == "gpu-hosts"
        assert series_id(labels) == int(body.ids[stream, 1]) << 64 | int(body.ids[stream, 0])


def test_a_twentieth_of_the_streams_ends_each_minute() -> None:
    load = Load(series=400, steps=13, body_samples=100, connections=2, seed=1, churn=0.05)
    for bodies in sent(load):
        streams = np.array([stream for body in bodies for stream in ids_of(body)], object).reshape(13, 200)
        new = [len(set(now) - set(before)) for before, now in pairwise(streams)]
        assert new == [0, 0, 0, 10] * 3
        assert all(len(set(row)) == 200 for row in streams)
    everybody = {stream for bodies in sent(load) for body in bodies for stream in ids_of(body)}
    assert len(everybody) == load.series_ever == 400 + 3 * 20


def test_bodies_made_while_they_are_sent_are_those_made_before() -> None:
    load = Load(series=40, steps=5, body_samples=16, connections=2, seed=3, churn=0.5)
    kept, streamed = Sending(load), Sending(load, streamed=True)
    for begin_ns in (BEGIN_NS, BEGIN_NS):  # every system is sent the same
        made = [list(bodies) for bodies in streamed.bodies(kept.begin_ns())]
        assert made == [list(bodies) for bodies in kept.bodies(begin_ns)]


def test_files_that_vanish_while_disk_is_added_up_count_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = leadline(tmp_path)
    assert isinstance(peer, Leadline)
    parts = peer.data / "store" / "parts"
    parts.mkdir(parents=True)
    for name in ("a", "b"):
        (parts / name).write_bytes(b"x" * 8192)
    (peer.data / "log.txt").write_bytes(b"x" * 8192)
    (peer.data / "store" / "ballast").write_bytes(b"x" * 8192)
    assert peer.disk_bytes() == 2 * 8192
    real = Path.lstat

    def vanishing(path: Path) -> object:
        if path.name == "a":
            path.unlink(missing_ok=True)
        return real(path)

    monkeypatch.setattr(Path, "lstat", vanishing)
    assert peer.disk_bytes() == 8192


def test_judging_is_off_beside_the_others(tmp_path: Path) -> None:
    switch = "LEADLINE_RUNNER__ENABLED"
    assert ingest.SYSTEMS["leadline"](tmp_path).environ[switch] == "false"
    assert switch not in ingest.SYSTEMS[ingest.JUDGED](tmp_path).environ


def ends_at_once(root: Path) -> Peer:
    return Leadline("ends", [sys.executable, "-c", "print('no disk')"], 1, "/", "/", root / "data")


def vanishes(root: Path) -> Peer:
    raise NotInstalledError("vanishes is not installed")


def loses_a_file(root: Path) -> Peer:
    peer = ends_at_once(root)
    peer.command = ["/nowhere/at-all"]
    peer.environ = {}

    def start() -> float:
        raise FileNotFoundError("a part that was merged away")

    peer.start = start  # type: ignore[method-assign]
    return peer


@pytest.mark.parametrize(("make", "said"), [(ends_at_once, "no disk"), (loses_a_file, "a part that was merged away")])
def test_a_round_that_fails_is_named_and_is_no_reason_for_a_missing_peer(
    make: Callable[[Path], Peer], said: str
) -> None:
    sending = Sending(Load(series=2, steps=1, body_samples=2, connections=1, seed=1))
    outcome = ingest.rounds("main", {"victoriametrics": vanishes, "leadline": make}, sending, 2)
    assert outcome.missing == {"victoriametrics": "vanishes is not installed"}
    assert [line.partition(": ")[0] for line in outcome.failed] == [f"main, round {n}, leadline" for n in (1, 2)]
    assert all(said in line for line in outcome.failed)
    assert not outcome.runs


def test_a_round_that_fails_fails_the_bench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ingest, "SYSTEMS", {"leadline": ends_at_once})
    monkeypatch.setattr(ingest, "_compile", lambda: None)  # minutes on a fresh machine, for a server that never starts
    monkeypatch.setattr(ingest, "_OF_PART", {"churn": ("leadline",)})
    arguments = ["--part", "churn", "--series", "10", "--samples", "100", "--rounds", "1", "--json"]
    monkeypatch.setattr(sys, "argv", ["ingest", *arguments])
    assert ingest.main() == 1
    assert "failed: churn, round 1, leadline: RuntimeError: ends did not become ready" in capsys.readouterr().err


def takes_nothing(root: Path) -> Peer:
    """A web server that knows no remote-write."""
    port = free_port()
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(root), str(port)]
    return Leadline("takes nothing", command, port, "/api/v1/write", "/", root / "data")


def test_a_body_that_is_refused_fails_the_round_and_nothing_goes_on() -> None:
    before = set(threading.enumerate())
    sending = Sending(Load(series=2, steps=1, body_samples=2, connections=1, seed=1))
    outcome = ingest.rounds("main", {"leadline": takes_nothing}, sending, 1)
    (line,) = outcome.failed
    assert "takes nothing did not take a body" in line
    assert "status 501" in line
    assert not set(threading.enumerate()) - before


def run(cpu_s: float) -> Run:
    return Run(100, 1.0, cpu_s, cpu_s, 1, None, 10**6, 0, 0.0)


def test_ratios_are_of_the_same_round() -> None:
    """Ours failed in the first round, theirs in the third: only the second has both."""
    part = ingest.Outcome({"leadline": {2: run(1.0), 3: run(5.0)}, "victoriametrics": {1: run(100.0), 2: run(4.0)}})
    found = {figure.figure: figure for figure in ingest.figures({"main": part, "churn": part, "million": part})}
    assert found["cpu_ratio_victoriametrics"].value == 4.0
    assert found["churn_ratio_victoriametrics"].value == 4.0
    assert found["million_series_mb_ratio_victoriametrics"].value == 1.0
    assert found["cpu_ratio_prometheus"].value is None
    assert found["cpu_ratio_prometheus"].reason == "no round in which it was measured"
    assert found["disk_ratio_victoriametrics"].reason == "not settled (--no-settle)"
    assert set(ingest.GOALS) <= set(found)
