"""The ledger as it is told: however its seconds fall, owners and categories are the whole to the last bit."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leadline.model.accounts import TICK_S, Category
from leadline.views.ledger.books import SUMS
from leadline.views.ledger.config import LedgerConfig
from leadline.views.ledger.view import OWNERS_MAX, _categories, _owners, goodput

GPUS = 4096


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Sums by category, owner and depth, as the store gives them."""
    keys = draw(
        st.lists(
            st.tuples(st.sampled_from(list(Category)), st.integers(0, 2 * OWNERS_MAX), st.sampled_from(("a", "b"))),
            unique=True, max_size=60,
        )
    )  # fmt: skip
    found = []
    for category, owner, depth in keys:
        ticks = draw(st.integers(0, 86_400 << 20))
        lost = draw(st.integers(0, ticks))
        told = dict(zip(SUMS, (ticks, ticks * GPUS, lost, lost * GPUS), strict=True))
        found.append(
            {"category": category.value, "owner_name": f"rank:j/{owner}" if owner else None, "depth": depth,
             **{name: count * TICK_S for name, count in told.items()}, "sure": 0.5 * ticks * GPUS * TICK_S,
             "since_ns": 5 if lost else None, "until_ns": 9 if lost else None}
        )  # fmt: skip
    return found


@given(rows())
def test_owners_and_categories_are_the_whole(some: list[dict[str, Any]]) -> None:
    total = {name: sum(row[name] for row in some) for name in SUMS}
    for parts in (_categories(some, total), _owners(some, total, LedgerConfig(1.5))):
        for name in SUMS:
            assert sum(part[name] for part in parts) == total[name]
        assert all(0 <= part["share"] <= 1 and 0 <= part["confidence"] <= 1 for part in parts)


@given(rows(), st.floats(0, 1e6))
def test_goodput_is_a_share_and_what_is_not_known_can_only_make_it_better(
    some: list[dict[str, Any]], missing: float
) -> None:
    told = goodput(some, missing)
    if told["ratio"] is not None:
        assert 0 <= told["ratio"] <= told["ratio_max"] <= 1
        assert told["held_gpu_seconds"] >= told["productive_gpu_seconds"]


def test_owners_that_are_too_many_to_tell_are_told_as_one() -> None:
    some = [
        {"category": "straggler", "owner_name": f"rank:j/{rank}", "depth": "steps", "seconds": 1.0, "gpu_seconds": 8.0,
         "lost_seconds": 0.5, "lost_gpu_seconds": 4.0 + rank, "sure": 4.0, "since_ns": 5, "until_ns": 9}
        for rank in range(OWNERS_MAX + 50)
    ]  # fmt: skip
    total = {name: sum(row[name] for row in some) for name in SUMS}
    told = _owners(some, total, LedgerConfig())
    assert len(told) == OWNERS_MAX
    assert (told[0]["owner"], told[-1]["owner"]) == (f"rank:j/{OWNERS_MAX + 49}", "51 more")
    assert told[-1]["depths"] == {"steps": 51.0}
    for name in SUMS:
        assert sum(part[name] for part in told) == total[name]
