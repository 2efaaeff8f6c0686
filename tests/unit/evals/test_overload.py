"""The tools of the eval: a process that is slowed, a disk that hangs, and what counts as told."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from bench.peers import cpu_s
from evals.overload.__main__ import Seen
from evals.overload.seeing import Seeing
from evals.overload.slowed import slowed


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """A process that takes all the CPU it gets, for a minute at most."""
    loop = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    with subprocess.Popen([sys.executable, "-c", loop]) as process:
        yield process
        process.kill()


def test_a_process_takes_its_share_and_no_more_and_goes_on_afterwards(busy: subprocess.Popen[bytes]) -> None:
    before_s, began = cpu_s([busy.pid]), time.monotonic()
    with slowed(lambda: [busy.pid], 0.1):
        time.sleep(3.0)
    # A tenth of a core and what it took between two looks; a busy machine may give it less.
    assert cpu_s([busy.pid]) - before_s <= 0.1 * (time.monotonic() - began) + 0.3
    before_s, end = cpu_s([busy.pid]), time.monotonic() + 20
    while cpu_s([busy.pid]) <= before_s:
        assert time.monotonic() < end, "it was left stopped"
        time.sleep(0.05)


def test_the_worst_lag_is_of_causes_or_of_all_others_within_a_time() -> None:
    seeing = Seeing("")
    seeing.lags_s = {"cause": [(1.0, 90.0), (5.0, 2.0)], "stalls": [(5.0, 3.0)], "anomaly": [(5.0, 40.0), (6.0, 50.0)]}
    assert seeing.worst_lag_s(True, 4.0, 9.0) == 3.0
    assert seeing.worst_lag_s(False, 4.0, 9.0) == 50.0
    assert seeing.worst_lag_s(True, 7.0, 9.0) is None


def test_what_was_refused_is_told_and_what_was_accepted_is_not() -> None:
    seeing = Seeing("")
    refused, failed = ("leadline_ingest_refused_total", "queue_full"), ("leadline_store_failed_total", "append")
    seeing.counts = {refused: 7.0, failed: 0.0, ("leadline_ingest_accepted_total", "rows"): 9.0, ("leadline_up", ""): 1}
    assert seeing.counted() == {"ingest_refused queue_full": 7.0}


@pytest.mark.parametrize(
    ("lag_s", "said", "untold"),
    [
        (12.0, [], False),
        (300.0, [], True),
        (300.0, ["the clock is off"], True),
        (300.0, ["analyses are behind"], False),
    ],
)
def test_untold_is_what_is_late_and_nobody_was_told_of(lag_s: float | None, said: list[str], untold: bool) -> None:
    assert Seen("load", refinements_lag_s=lag_s, said=said).untold is untold


@pytest.mark.parametrize(
    ("counted", "datagrams", "uncounted"),
    [
        ({}, 50.0, 4),
        ({"ingest_refused queue_full": 3.0}, 50.0, 1),
        ({"ingest_refused queue_full": 3.0, "connection_closed idle": 9.0}, 50.0, 1),
        ({"ingest_refused queue_full": 3.0, "connection_closed body_slow": 1.0}, 50.0, 0),
        ({"ingest_refused queue_full": 9.0}, 42.0, 8),
        ({"ingest_refused queue_full": 9.0, "sflow_lost kernel": 6.0, "sflow_lost queue": 2.0}, 42.0, 0),
    ],
)
def test_uncounted_is_what_was_refused_or_lost_beyond_what_counters_tell_of(
    counted: dict[str, float], datagrams: float, uncounted: int
) -> None:
    status = {"/api/v1/ring 200": 9, "/api/v1/ring 429": 3, "/v1/metrics 0": 2}
    sent = {"status": status, "datagrams": 50}
    assert Seen("load", refused=1, sent=sent, counted=counted, datagrams=datagrams).uncounted == uncounted
