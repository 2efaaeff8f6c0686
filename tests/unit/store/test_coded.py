"""Coded texts: the same answers as with the texts written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.store.coded import distinct, is_one_of, own_words

TEXTS = st.lists(st.lists(st.sampled_from(["", "a", "b", "host:h3", "é", None]), max_size=6), max_size=4)
CODED = pa.dictionary(pa.int32(), pa.string())


def column(pieces: list[list[str | None]], coded: bool = True) -> pa.ChunkedArray:
    """Each piece with words of its own, one of them never used."""
    if not coded:
        return pa.chunked_array([pa.array(each, pa.string()) for each in pieces], pa.string())
    chunks = []
    for each in pieces:
        words = ["never", *dict.fromkeys(text for text in each if text is not None)]
        codes = pa.array([None if text is None else words.index(text) for text in each], pa.int32())
        chunks.append(pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string())))
    return pa.chunked_array(chunks, CODED)


@given(TEXTS, st.lists(st.sampled_from(["a", "host:h3", "never", "other"]), min_size=1, max_size=3), st.booleans())
def test_texts_are_compared_as_if_they_were_written_out(pieces: list[Any], words: list[str], coded: bool) -> None:
    texts = [text for piece in pieces for text in piece]
    found = is_one_of(column(pieces, coded), words)
    if found is None:
        assert all(text in words for text in texts)
    else:
        assert pc.fill_null(found, False).to_pylist() == [text in words for text in texts]


def test_where_all_are_wanted_nothing_has_to_be_looked_at() -> None:
    codes = pa.array(np.zeros(5, np.int32))
    one = pa.chunked_array([pa.DictionaryArray.from_arrays(codes, pa.array(["default"]))] * 2)
    assert is_one_of(one, ["default", "other"]) is None
    assert is_one_of(one, ["other"]).to_pylist() == [False] * 10


@given(TEXTS)
def test_words_that_no_row_has_are_gone_and_the_rows_are_the_same(pieces: list[Any]) -> None:
    texts = [text for piece in pieces for text in piece]
    rows = pa.table({"text": column(pieces), "number": pa.array(range(len(texts)), pa.int64())})
    kept = own_words(rows)
    assert kept.schema == rows.schema
    assert kept.to_pylist() == rows.to_pylist()
    assert kept["text"].num_chunks <= 1
    words = kept["text"].chunk(0).dictionary.to_pylist() if kept["text"].num_chunks else []
    assert sorted(words) == sorted({text for text in texts if text is not None})


@given(st.lists(st.tuples(*[st.sampled_from(["", "a", "b", None])] * 2), max_size=20), st.booleans())
def test_combinations_are_those_that_occur_and_each_row_has_its_own(pairs: list[Any], coded: bool) -> None:
    halves = [pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]]
    rows = pa.table({
        name: column([[pair[place] for pair in half] for half in halves], coded) for place, name in enumerate("xy")
    })  # fmt: skip
    found, which = distinct(rows, ("x", "y"))
    assert sorted(found, key=str) == sorted(set(pairs), key=str)
    assert [found[each] for each in which.tolist()] == pairs


@pytest.mark.parametrize("rows", [3, 400])
def test_many_words_and_few_rows_are_sorted_instead_of_counted(rows: int) -> None:
    texts = [f"w{number % 300}" for number in range(rows)]
    codes = pa.array([number % 300 for number in range(rows)], pa.int32())
    wide = pa.chunked_array([pa.DictionaryArray.from_arrays(codes, pa.array([f"w{n}" for n in range(300)]))])
    found, which = distinct(pa.table({"x": wide, "y": wide}), ("x", "y"))
    assert [found[each] for each in which.tolist()] == [(text, text) for text in texts]


def test_a_word_that_stands_twice_is_one_text() -> None:
    twice = pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "a", "b"]))]
    )
    found, which = distinct(pa.table({"x": twice}), ("x",))
    assert sorted(found) == [("a",), ("b",)]
    assert [found[each] for each in which.tolist()] == [("a",), ("a",), ("b",)]
