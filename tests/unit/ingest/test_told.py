"""What senders say about metric names: the newest, bounded, handed on once."""

from __future__ import annotations

import pytest

from leadline.ingest import told as module
from leadline.ingest.told import NEWS_MAX, Told
from leadline.wire.samples import Metadata

COUNTER, GAUGE = Metadata("counter"), Metadata("gauge", "seconds")


def test_what_is_said_of_a_family_is_said_of_its_streams() -> None:
    told = Told()
    told.hear({"latency": Metadata("histogram"), "latency_count": GAUGE})
    assert told.about("latency_bucket").type == "histogram"
    assert told.about("latency_count") == GAUGE, "its own name comes first"
    assert told.about("other") == Metadata()


def test_news_is_told_until_it_is_used() -> None:
    told = Told()
    told.hear({"a": COUNTER, "help_only": Metadata(help="text")})
    news = told.news()
    assert news == told.news() == {"a": COUNTER}
    told.hear({"a": GAUGE})
    told.used(news)
    assert told.news() == {"a": GAUGE}, "what was said meanwhile is still news"
    told.used(told.news())
    told.hear({"a": GAUGE})
    assert told.news() == {}


def test_news_comes_in_bounded_portions_and_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NAMES_MAX", 500)
    told = Told()
    told.hear({f"m{n}": COUNTER for n in range(1000)})
    seen = 0
    while news := told.news():
        assert len(news) <= NEWS_MAX
        seen += len(news)
        told.used(news)
    assert seen == 500
    assert told.about("m999") == Metadata()
    told.hear({"m0": GAUGE})
    assert told.about("m0") == GAUGE
