"""Tables that are written as they come: nothing but their rows gets into the file."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.tables import BY_NAME
from leadline.store.bundle_parquet import TableWriter, distinct
from leadline.store.schema import arrow_schema

NAMES = ["a", "bb", "a long name that fills the page", "d"]


def coded(index: Sequence[int | None], names: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), pa.array(names, pa.string()))


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=9), st.data())
def test_a_dictionary_names_nothing_twice(names: list[str], data: st.DataObject) -> None:
    index = data.draw(st.lists(st.none() | st.integers(0, len(names) - 1), min_size=1, max_size=20))
    rows = pa.table({"comm": coded(index, names), "number": pa.array(range(len(index)))})
    mended = distinct(rows)
    assert mended.to_pylist() == rows.to_pylist()
    (chunk,) = mended["comm"].chunks
    assert len(set(chunk.dictionary.to_pylist())) == len(chunk.dictionary)


def test_repeated_names_leave_no_memory_of_the_process_in_the_file() -> None:
    table = BY_NAME["collective"]
    count, repeats = 60, 20
    index = np.arange(count) % repeats
    columns = [
        coded(index.tolist(), ["job-1/0x1"] * repeats)
        if field.name == "comm"
        else pa.array([bytes(16)] * count, field.type)
        if pa.types.is_fixed_size_binary(field.type)
        else coded([0] * count, ["x"])
        if pa.types.is_dictionary(field.type)
        else pa.array([0] * count, field.type)
        for field in arrow_schema(table)
    ]
    file = io.BytesIO()
    writer = TableWriter(table, file, coded=True)
    writer.write(pa.Table.from_arrays(columns, names=arrow_schema(table).names))
    writer.close()
    group = pq.ParquetFile(file).metadata.row_group(0)
    column = next(group.column(n) for n in range(group.num_columns) if group.column(n).path_in_schema == "comm")
    # A dictionary of one name and codes of no bits; before, every value was written out after a page too long.
    assert "RLE_DICTIONARY" in column.encodings
    assert column.total_uncompressed_size < 100
    assert pq.read_table(file)["comm"].to_pylist() == ["job-1/0x1"] * count
