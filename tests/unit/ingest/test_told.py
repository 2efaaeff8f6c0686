"""Metadata that comes apart from its samples."""

from __future__ import annotations

from leadline.ingest.told import NAMES_MAX, NEWS_MAX, Told
from leadline.wire.samples import Metadata

GAUGE, COUNTER = Metadata("gauge"), Metadata("counter")


def test_news_until_it_is_used_and_again_when_it_changes() -> None:
    told = Told()
    told.hear({"a": GAUGE, "b": Metadata(help="says nothing of type or unit")})
    assert told.news() == {"a": GAUGE}
    told.used(told.news())
    told.hear({"a": GAUGE})
    assert told.news() == {}
    told.hear({"a": COUNTER})
    assert told.news() == {"a": COUNTER}
    told.used({"a": GAUGE})  # a store of the older word does not use up the newer one
    assert told.news() == {"a": COUNTER}


def test_families_tell_of_their_parts_and_a_name_of_its_own_goes_first() -> None:
    told = Told()
    told.hear({"x": Metadata("histogram", "seconds"), "x_count": COUNTER})
    assert told.about("x_bucket") == Metadata("histogram", "seconds")
    assert told.about("x_count") == COUNTER
    assert told.about("y") == Metadata()


def test_bounded() -> None:
    told = Told()
    told.hear({f"m{number}": GAUGE for number in range(NAMES_MAX + 10)})
    assert told.about(f"m{NAMES_MAX - 1}") == GAUGE
    assert told.about(f"m{NAMES_MAX}") == Metadata()
    assert len(told.news()) == NEWS_MAX
