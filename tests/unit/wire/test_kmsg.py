"""Kernel log lines in every form they come in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.wire.kernel_log.events import event_rows
from leadline.wire.kernel_log.kmsg import TEXT_CHARS_MAX, kmsg_record, read_dmesg, read_kmsg

S = 10**9
BOOT = 1_700_000_000 * S
T = 1_740_327_858 * S  # Sun Feb 23 16:24:18 2025 UTC


def test_a_record_has_its_time_level_number_and_fields() -> None:
    data = (
        b"30,3973,227986636,-;systemd[1]: started \\xc3\\xa9\\x5c\n"
        b"4,3974,5,c,caller=T12;part\n SUBSYSTEM=pci\n DEVICE=+pci:0000:9b:00.0\n"
    )
    lines, consumed, skipped = read_kmsg(data, BOOT)
    assert (consumed, skipped) == (len(data), 0)
    assert lines[0] == (BOOT + 227_986_636_000, 6, "systemd[1]: started é\\", 3973, {})
    assert lines[1] == (BOOT + 5_000, 4, "part", 3974, {"SUBSYSTEM": "pci", "DEVICE": "+pci:0000:9b:00.0"})


def test_what_is_no_record_is_skipped_and_counted() -> None:
    data = b" DEVICE=of nothing\nhello\n\n1,2;short\n6,1,2,-;good\n no equals\n6,2,3,-;unfin"
    lines, consumed, skipped = read_kmsg(data, 0)
    assert [line.text for line in lines] == ["good"]
    assert skipped == 4, "an empty line is nothing"
    assert data[consumed:] == b"6,2,3,-;unfin"


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200), level=st.integers(0, 7))
def test_what_is_written_is_read(text: str, level: int) -> None:
    (line,) = read_kmsg(kmsg_record(level, 7, 12, text, facility=3), 0).lines
    assert (line.text, line.level, line.sequence, line.time_ns) == (text, level, 7, 12_000)


@pytest.mark.parametrize(
    ("line", "time_ns", "level", "text"),
    [
        ("[  227.986636] eth0: up", BOOT + 227_986_636_000, -1, "eth0: up"),
        ("<28>[    0.000001] x", BOOT + 1_000, 4, "x"),
        ("kern  :err   : [12345.5] x", BOOT + 12_345_500_000_000, 3, "x"),
        ("daemon:info  : [Sun Feb 23 16:24:18 2025] x", T, 6, "x"),
        ("[Sun Feb  2 16:24:18 2025] x\r", T - 21 * 86_400 * S, -1, "x"),
        ("2025-02-23T17:24:18,123456+01:00 x y", T + 123_456_000, -1, "x y"),
        ("2025-02-23T16:24:18.5Z x", T + S // 2, -1, "x"),
    ],
)
def test_every_form_of_dmesg(line: str, time_ns: int, level: int, text: str) -> None:
    lines, _, skipped = read_dmesg(line.encode() + b"\n", BOOT)
    assert [tuple(line)[:3] for line in lines] == [(time_ns, level, text)]
    assert skipped == 0


def test_human_times_are_those_of_the_machine() -> None:
    data = b"[Sun Feb 23 17:24:18 2025] x\n"
    assert read_dmesg(data, utc_offset_s=3600).lines[0].time_ns == T


@pytest.mark.parametrize(
    "line", ["nothing", "[Sun Foo 23 16:24:18 2025] x", "[Sun Feb 31 16:24:18 2025] x", "2025-99-23T16:24:18,1Z x", "["]
)
def test_lines_in_no_form_are_counted(line: str) -> None:
    assert read_dmesg(line.encode() + b"\n\n") == ([], len(line) + 2, 1)


@given(data=st.binary(max_size=300) | st.text("[]<>0123456789.:; ,-=\\xabcSunFeb\n", max_size=300).map(str.encode))
def test_any_bytes_are_lines_or_counted(data: bytes) -> None:
    for read in (read_kmsg, read_dmesg):
        lines, consumed, skipped = read(data, BOOT)
        assert consumed == data.rfind(b"\n") + 1
        assert len(lines) + skipped <= data.count(b"\n")
        assert all(len(line.text) <= TEXT_CHARS_MAX and line.level in range(-1, 8) for line in lines)
        event_rows(lines, "n1", "n1/1", log_level_max=7)


def test_a_line_without_end_is_bounded() -> None:
    (line,) = read_kmsg(b"6,1,1,-;" + b"x" * 10**6 + b"\n", 0).lines
    assert len(line.text) == TEXT_CHARS_MAX
