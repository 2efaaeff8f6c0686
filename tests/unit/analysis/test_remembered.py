"""What is remembered between windows: no more than there is room for, and never for other rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from leadline.analysis.anomaly.peers import Roles
from leadline.analysis.remembered import Remembered, fingerprint


def test_a_value_is_made_once_and_the_one_asked_for_longest_ago_makes_room() -> None:
    made: list[int] = []
    known: Remembered[int] = Remembered(2)

    def of(number: int) -> int:
        return known.of(number, lambda: made.append(number) or 10 * number)

    assert [of(1), of(2), of(1), of(3), of(1), of(2)] == [10, 20, 10, 30, 10, 20]
    assert made == [1, 2, 3, 2]


def test_what_fails_is_not_remembered() -> None:
    known: Remembered[int] = Remembered(2)
    with pytest.raises(ZeroDivisionError):
        known.of("a", lambda: 1 // 0)
    assert known.of("a", lambda: 1) == 1


TEXT = pa.dictionary(pa.int32(), pa.string())


def rows(*parents: str | None, at_ns: int | None = 5) -> pa.Table:
    return pa.table({"parent": pa.array(parents, TEXT), "from_ns": pa.array([at_ns] * len(parents), pa.int64())})


@pytest.mark.parametrize(
    "other",
    [rows("a", "b", at_ns=6), rows("a", "c"), rows("a"), rows("a", None), rows("b", "a"), rows("a", "b", at_ns=None),
     rows("a", "b").rename_columns(["child", "from_ns"]), rows("ab", "")],
)  # fmt: skip
def test_other_rows_have_another_fingerprint(other: pa.Table) -> None:
    assert fingerprint(rows("a", "b")) == fingerprint(rows("a", "b"))
    assert fingerprint(other) != fingerprint(rows("a", "b"))


def test_a_part_of_a_table_has_another_fingerprint_than_the_whole() -> None:
    whole = rows("a", "b", "c")
    assert len({fingerprint(each) for each in (whole, whole.slice(0, 2), whole.slice(1, 2))}) == 3


def placed(*on: tuple[str, str]) -> pa.Table:
    """Ranks that run on GPUs of a host."""
    told = [("gpu:h1/0", "host:h1", "in"), *((f"rank:{job}/0", gpu, "runs-on") for job, gpu in on)]
    columns = {
        "child": pa.array([child for child, _, _ in told], TEXT),
        "parent": pa.array([parent for _, parent, _ in told], TEXT),
        "kind": pa.array([kind for _, _, kind in told], TEXT),
        "from_ns": pa.array([0] * len(told), pa.int64()),
        "to_ns": pa.array([None] * len(told), pa.int64()),
    }
    return pa.table(columns)


def test_roles_follow_the_relations_and_not_those_of_the_window_before() -> None:
    before, after = placed(("bert", "gpu:h1/0")), placed(("llama", "gpu:h1/0"))
    for relation, job in ((before, "bert"), (after, "llama"), (before, "bert")):
        assert Roles.of(relation, []).jobs("gpu:h1/0") == frozenset([job])
        assert Roles.of(relation, []).role("gpu:h1/0") == f"gpu {job}"
    assert Roles.of(before, []) is Roles.of(placed(("bert", "gpu:h1/0")), [])
    assert Roles.of(before, [("t5", "h1")]).jobs("host:h1") == frozenset(["t5"])
