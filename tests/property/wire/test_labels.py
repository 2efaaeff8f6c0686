"""Laws of the label kernels: what they sort, refuse and write is what a dict and `model.ids` say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.model.ids import canonical_labels
from leadline.wire import labels as kernels
from leadline.wire.labels import (
    FILLED_ONCE,
    LABELS_MAX,
    LATER_WINS,
    NAME_BYTES_MAX,
    NO_NAME,
    NO_SUFFIX,
    ONCE,
    TOO_LONG,
    TWICE,
)

Label = tuple[str, str]

names = st.one_of(
    st.sampled_from(["__name__", "__name__", "__name_", "__name___", "job", "instance", "instance_id", "A", "é", ""]),
    st.text("ab_é", min_size=1, max_size=20),
    st.sampled_from(["n" * NAME_BYTES_MAX, "n" * (NAME_BYTES_MAX + 1)]),
)
values = st.one_of(st.text(max_size=3), st.sampled_from(["", "v" * 100, "v" * 115, "v" * 121, "v" * 128, "v" * 16_400]))
several = st.lists(st.tuples(names, values), max_size=12)


def spans(given: list[Label], tail: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The labels one behind the other, then `tail`, and where each lies."""
    data = bytearray(b"?")
    pairs = np.zeros((LABELS_MAX, 4), np.int64)
    for row, label in enumerate(given):
        for column, text in enumerate(label):
            pairs[row, 2 * column] = len(data)
            data += text.encode()
            pairs[row, 2 * column + 1] = len(data)
    return np.frombuffer(bytes(data) + tail, np.uint8), pairs


def first_mistake(given: list[Label], twice: int) -> int:
    """What `in_order` says of labels that are no series; 0 if they are one."""
    seen: set[str] = set()
    for name, value in given:
        if not value and twice == FILLED_ONCE:
            continue
        if not name:
            return NO_NAME
        if len(name.encode()) > NAME_BYTES_MAX:
            return TOO_LONG
        if name in seen and twice != LATER_WINS:
            return TWICE
        seen.add(name)
    return 0 if "__name__" in seen else NO_NAME


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(several, st.sampled_from([FILLED_ONCE, ONCE, LATER_WINS]), st.booleans(), st.integers(0, 9), st.integers(0, 9))
@example([("__name__", "up"), ("b", "1"), ("a", "")], ONCE, False, 0, 0)
@example([("a", "1"), ("__name__", "up"), ("a", "")], LATER_WINS, False, 0, 0)
@example([("a", "1"), ("__name__", "up"), ("a", "")], FILLED_ONCE, True, 0, 0)
def test_agree_with_a_dict(given: list[Label], twice: int, suffixed: bool, spare: int, tail: int) -> None:
    data, pairs = spans(given, b"t" * tail)
    kept = kernels.in_order(data, pairs, len(given), twice)
    mistake = first_mistake(given, twice)
    assert min(kept, 0) == mistake
    if mistake:
        return
    expected = dict(given) if twice != FILLED_ONCE else {name: value for name, value in given if value}
    suffix = b"_bucket" if suffixed and expected["__name__"] else b""
    if suffix:
        expected["__name__"] += "_bucket"
    most = kernels.canonical_bytes_max(pairs, kept, len(suffix))
    out = np.full(most + 1 + spare, 0xEE, np.uint8)
    end = kernels.write_canonical(data, pairs, kept, np.frombuffer(suffix, np.uint8), out, 1)
    assert out[1:end].tobytes() == canonical_labels(expected)
    assert out[0] == 0xEE
    assert end <= most + 1


@pytest.mark.parametrize("suffix", [b"", b"s" * 24])
@pytest.mark.parametrize("name", ["a", "__name__", "n" * 127, "n" * 128, "n" * NAME_BYTES_MAX])
def test_never_writes_more_than_announced(name: str, suffix: bytes) -> None:
    """Around every length at which a varint takes a byte more."""
    turns = (90, 96, 100, 112, 124, 128, 248, 256, 16_256, 16_384, 2**21)
    for size in sorted({turn + by for turn in turns for by in range(-12, 13)}):
        if size > 20_000 and name != "__name__":
            continue
        data, pairs = spans([(name, "v" * size)], b"")
        most = kernels.canonical_bytes_max(pairs, 1, len(suffix))
        out = np.empty(most + 100, np.uint8)
        assert kernels.write_canonical(data, pairs, 1, np.frombuffer(suffix, np.uint8), out, 0) <= most


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=24), st.binary(max_size=24), st.integers(0, 24))
def test_order_is_that_of_bytes(left: bytes, right: bytes, shared: int) -> None:
    right = left[:shared] + right
    data = np.frombuffer(left + right, np.uint8)
    order = kernels.compare(data, 0, len(left), len(left), len(data))
    assert np.sign(order) == (left > right) - (left < right)


def test_the_most_labels_in_the_worst_order() -> None:
    given = [(f"l{number:03}", "x") for number in reversed(range(LABELS_MAX - 1))] + [("__name__", "up")]
    data, pairs = spans(given, b"")
    assert kernels.in_order(data, pairs, LABELS_MAX, ONCE) == LABELS_MAX
    out = np.empty(int(kernels.canonical_bytes_max(pairs, LABELS_MAX, 0)), np.uint8)
    end = kernels.write_canonical(data, pairs, LABELS_MAX, NO_SUFFIX, out, 0)
    assert out[:end].tobytes() == canonical_labels(given)
