"""Canonical label bytes back into labels."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.errors import DataError
from leadline.model.ids import canonical_labels
from leadline.wire.samples import read_canonical_labels

# Around the lengths whose varints take a second byte: 122 and 128 bytes, of the label and of its parts.
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=140)


@given(st.dictionaries(TEXTS, TEXTS, max_size=6))
def test_labels_of_any_length_are_read_as_they_were_written(labels: dict[str, str]) -> None:
    assert read_canonical_labels(canonical_labels(labels)) == labels


@pytest.mark.parametrize("size", [121, 122, 123, 127, 128, 129, 16_384])
def test_a_length_of_two_bytes_is_read(size: int) -> None:
    labels = {"__name__": "up", "x": "v" * size, "y" * size: "w"}
    assert read_canonical_labels(canonical_labels(labels)) == labels


@pytest.mark.parametrize("at", range(8))
def test_what_is_no_label_is_refused(at: int) -> None:
    raw = canonical_labels({"job": "n"})
    wrong = bytearray(raw)
    wrong[at] ^= 0x40
    try:
        read = read_canonical_labels(bytes(wrong))
    except DataError:
        return
    # Only the outer length, which says nothing that the inner ones do not, and the text itself are not looked at.
    assert at in (1, 4, 5, 6)
    assert len(read) == 1


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with contextlib.suppress(DataError):
        assert all(isinstance(text, str) for pair in read_canonical_labels(raw).items() for text in pair)
