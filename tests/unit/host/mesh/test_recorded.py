"""Files of raw stamps."""

from __future__ import annotations

import pytest

from leadline.host.mesh.recorded import HEAD, RECORD, Probe, parse_recorded
from leadline.model.errors import DataError

PROBE = Probe(1, 2, 3, 46, 1, 1, 1 << 60, -5, 1795869221716266569, 7)


def test_records_are_read_and_a_torn_end_is_left_out() -> None:
    data = HEAD.pack(b"LLPR", 1, RECORD.size) + RECORD.pack(*PROBE) * 2
    assert list(parse_recorded(data)) == [PROBE, PROBE]
    assert list(parse_recorded(data[:-1])) == [PROBE]


@pytest.mark.parametrize(
    "data", [b"", b"LLPR", HEAD.pack(b"LLPX", 1, 52), HEAD.pack(b"LLPR", 2, 52), HEAD.pack(b"LLPR", 1, 51)]
)
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(DataError):
        list(parse_recorded(data))
