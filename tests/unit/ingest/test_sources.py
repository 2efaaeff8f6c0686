"""Who sends: totals, bounds, what is remembered of errors."""

from __future__ import annotations

import threading

from leadline.ingest.counts import Counts
from leadline.ingest.sources import ERROR_CHARS_MAX, TELLS_MAX, Sender, Sources
from leadline.model.counters import COUNTERS, counter, refused

A, B, C = (Sender("default", "scrape", name) for name in "abc")


def test_totals_of_a_sender() -> None:
    sources = Sources(Counts())
    sources.heard(A, 100, samples=3, newest_ns=90)
    sources.heard(A, 200, samples=4, newest_ns=80)
    sources.heard(A, 300, rows=2)
    (source,) = sources.all()
    assert (source.first_ns, source.last_ns, source.newest_ns) == (100, 300, 90)
    assert (source.requests, source.samples, source.rows) == (3, 7, 2)


def test_refusals_are_counted_for_the_sender_and_in_total() -> None:
    counts = Counts()
    sources = Sources(counts)
    sources.refuse(A, 5, refused("too_old"), 3, "x" * 1000)
    sources.refuse(B, 6, refused("too_old"), 1)
    first, second = sources.all()
    assert (first.refused, second.refused) == ({"too_old": 3}, {"too_old": 1})
    assert (first.last_error, first.last_error_ns) == ("x" * ERROR_CHARS_MAX, 5)
    assert (second.last_error, second.requests) == ("", 0)
    assert counts.totals()[refused("too_old")] == 4


def test_the_one_heard_from_longest_ago_makes_room_and_is_counted() -> None:
    counts = Counts()
    sources = Sources(counts, sources_max=2)
    for at, sender in enumerate((A, B, A, C)):
        sources.heard(sender, at)
    assert [source.sender for source in sources.all()] == [A, C]
    assert counts.totals()[counter("source_overflow", "sources")] == 1


def test_what_a_sender_tells_is_bounded() -> None:
    sources = Sources(Counts())
    sources.tells(A, 1, {f"kind-{n:03}" for n in range(100)})
    sources.tells(A, 2, {"another"})
    assert len(sources.all()[0].tells) == TELLS_MAX


def test_what_is_handed_out_is_a_copy() -> None:
    sources = Sources(Counts())
    sources.tells(A, 1, {"node_exporter"})
    source = sources.all()[0]
    source.tells.add("changed")
    source.refused["x"] = 1
    assert sources.all()[0].tells == {"node_exporter"}
    assert not sources.all()[0].refused


def test_counts_of_many_threads_are_all_there() -> None:
    counts = Counts()
    threads = [threading.Thread(target=lambda: [counts.add(refused("span")) for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    totals = counts.totals()
    assert totals[refused("span")] == 8000
    assert list(totals) == list(COUNTERS), "all declared counters are told, zeros included"
