"""`serve` on a realised cluster: one host serves, the other asks, and the tail of the latency shows what goes wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from tests.unit.torch.job import rows_of

from leadline.lab.realise.cluster import Cluster
from leadline.lab.topology import load
from leadline.lab.workloads.serve.job import Serve
from leadline.model.errors import UsageError

pytestmark = pytest.mark.slow

START_S = 120.0  # the server imports torch in 3 s, on a machine that does nothing else
END_S = 60.0


@pytest.fixture
def tiny(lab_name: str) -> Iterator[Cluster]:
    with Cluster(load("tiny"), lab_name) as cluster:
        yield cluster


def until(true: Callable[[], bool], serve: Serve, timeout_s: float = START_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert not any(serve.poll().values()), [one.log.read_text() for one in serve.ranks]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def p50_ms(serve: Serve) -> list[float]:
    return [each["latency_ms_p50"] for each in serve.windows()[1] if "latency_ms_p50" in each]


def test_latency_is_measured_and_a_slow_model_shows_in_it(tiny: Cluster) -> None:
    serve = Serve(rate_per_s=30.0, device_ms=8.0, seed=4)
    serve.start(tiny)
    until(lambda: serve.ready() and len(p50_ms(serve)) >= 3, serve)
    assert all(latency >= 8.0 for latency in p50_ms(serve))
    serve.tell(0, data_delay_s=0.25)
    until(lambda: p50_ms(serve)[-1] >= 250.0, serve, END_S)
    serve.tell(0)
    until(lambda: p50_ms(serve)[-1] < 250.0, serve, END_S)
    assert len(serve.steps_done()) >= 4
    ranks = serve.ranks
    for one in reversed(ranks):  # the client first
        one.process.popen.terminate()
        one.process.popen.wait(END_S)
    assert serve.wait(END_S) == {0: 0, 1: 0}
    server, client = serve.totals()[0], serve.totals()[1]
    assert server["answered"] >= client["answered"] > 60
    assert client["latency_ms_p99"] >= client["latency_ms_p50"] >= 8.0
    assert client["lost"] == {}

    rows = [rows_of(tiny.state / "hosts" / host / "ring") for host in ("h1", "h2")]
    for rank, found in enumerate(rows):
        told = [dict(row["metrics"]) for row in found["step"] if row["samples"]]
        assert told
        assert all(float(each["latency_ms_p99"]) >= float(each["latency_ms_p50"]) for each in told)
        assert all(("batch_size" in each) == (rank == 0) for each in told)
        edges = {(row["child"], row["kind"], row["parent"]) for row in found["relation"]}
        assert (f"rank:serve-1/{rank}", "in", "job:serve-1") in edges
    assert sum(row["samples"] for row in rows[1]["step"]) == client["answered"]
    assert {row["kind"] for row in rows[1]["relation"]} >= {"owns"}  # the flows of its connection
    serve.stop()


def test_a_job_of_which_nobody_asks_is_refused_before_anything_starts(tiny: Cluster) -> None:
    for wrong in ({"servers": 2}, {"servers": 0}, {"rate_per_s": 1e6}, {"rate_per_s": 0.0}):
        with pytest.raises(UsageError, match="workload serve-1"):
            Serve(**wrong).start(tiny)  # type: ignore[arg-type]
    assert not (tiny.state / "jobs" / "serve-1").exists()
