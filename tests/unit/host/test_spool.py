"""The spool: first in first out, bounded, whole across processes."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from pathlib import Path

import pytest

from leadline.host import spool as spool_module
from leadline.host.frames import ITEM_BYTES_MAX, MAGIC, MAGIC_1, Item, frames, to_frame
from leadline.host.spool import OUT_MAX, Spool
from leadline.model.errors import WorldError

BOUND = 16 * 64 * 1024  # files of 64 KiB


def item(number: int, size: int = 10, mark: str = "", at: str = "") -> Item:
    marks = ((mark, at),) if mark else ()
    return Item("/v1/metrics", "text/plain", b"%0*d" % (size, number), number.to_bytes(16, "big"), 2, marks)


class Lost(dict[str, int]):
    def __call__(self, reason: str, rows: int) -> None:
        self[reason] = self.get(reason, 0) + rows


def opened(directory: Path, lost: Lost | None = None, bound: int = BOUND) -> Spool:
    return Spool(directory, bound, lost if lost is not None else Lost())


def drained(spool: Spool) -> list[int]:
    numbers = []
    while (first := spool.first()) is not None:
        numbers.append(int.from_bytes(first.batch, "big"))
        spool.done(first)
    return numbers


def test_in_order_and_the_first_stays_until_done(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(5):
        assert spool.append(item(number))
    assert spool.first() == item(0)
    assert spool.first() is spool.first()
    assert spool.waiting()[1] == 10
    assert drained(spool) == [0, 1, 2, 3, 4]
    assert spool.waiting() == (0, 0)
    assert spool.first() is None


def test_what_was_not_done_is_there_after_a_restart_and_what_was_is_not(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(100):
        spool.append(item(number, 4000))  # six files
    for _ in range(40):
        first = spool.first()
        assert first is not None
        spool.done(first)
    spool.close()
    again = opened(tmp_path)
    again.append(item(100))
    assert drained(again) == list(range(40, 101))
    assert list(tmp_path.glob("*.spool")) == [] or again.waiting() == (0, 0)
    again.close()


def test_a_kill_without_a_close_loses_nothing(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(30):
        spool.append(item(number, 4000))
    spool.done(spool.first() or item(-1))
    os.close(spool._guard)  # as the kernel does at kill -9; nothing else is written
    assert drained(opened(tmp_path)) == list(range(1, 30))


def test_the_oldest_go_when_it_is_full_and_are_counted(tmp_path: Path) -> None:
    lost = Lost()
    spool = opened(tmp_path, lost)
    for number in range(600):
        spool.append(item(number, 4000))
    left = drained(spool)
    assert left == list(range(600 - len(left), 600))
    assert lost == {"spool_full": 2 * (600 - len(left))}
    assert BOUND * 0.9 < len(left) * 4000 <= BOUND


def test_an_item_that_was_dropped_while_it_was_sent_is_not_taken_off_twice(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(item(0, 4000))
    sent = spool.first()
    assert sent is not None
    for number in range(1, 600):
        spool.append(item(number, 4000))
    before = spool.waiting()
    spool.done(sent)
    assert spool.waiting() == before


def test_marks_are_those_of_what_was_kept(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(item(0, mark="kmsg", at="7"))
    spool.append(item(1, mark="ring/a", at="100"))
    spool.append(item(2, mark="kmsg", at="8"))
    os.close(spool._guard)
    again = opened(tmp_path)
    assert (again.mark("kmsg"), again.mark("ring/a"), again.mark("none")) == ("8", "100", "")
    assert drained(again) == [0, 1, 2]
    again.forget("ring/a")
    again.close()
    last = opened(tmp_path)  # their items are gone, they are not
    assert (last.mark("kmsg"), last.mark("ring/a")) == ("8", "")
    last.close()


def test_a_torn_end_is_cut_and_the_rest_goes_on(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(item(0))
    spool.append(item(1))
    spool.close()
    (file,) = tmp_path.glob("*.spool")
    file.write_bytes(file.read_bytes()[:-3])
    again = opened(tmp_path)
    again.append(item(2))
    assert drained(again) == [0, 2]
    again.close()


def test_a_file_that_is_spoilt_later_is_counted_and_passed_over(tmp_path: Path) -> None:
    lost = Lost()
    spool = opened(tmp_path, lost)
    for number in range(40):
        spool.append(item(number, 4000))
    first = sorted(tmp_path.glob("*.spool"))[0]
    data = bytearray(first.read_bytes())
    data[len(MAGIC) + 100] ^= 0xFF
    first.write_bytes(data)
    left = drained(spool)
    assert left == list(range(40 - len(left), 40))
    assert lost == {"spool_failed": 2 * (40 - len(left))}


def test_a_full_disk_loses_the_item_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Lost()
    spool = opened(tmp_path, lost)
    spool.append(item(0))
    real = os.write

    def full(handle: int, data: bytes) -> int:
        if len(data) > 3000:
            real(handle, data[:100])  # what fits
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data)

    monkeypatch.setattr(spool_module.os, "write", full)
    assert not spool.append(item(1, 4000))
    assert spool.append(item(2))  # in a file of its own: the other one ends in half an item
    assert lost == {"spool_failed": 2}
    assert drained(spool) == [0, 2]


def test_a_disk_that_stays_full_gets_no_file_for_each_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Lost()
    spool = opened(tmp_path, lost)
    spool.append(item(0))

    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(spool_module.os, "write", full)
        assert not any(spool.append(item(number)) for number in range(1, 50))
    assert len(list(tmp_path.glob("*.spool"))) == 1
    assert lost == {"spool_failed": 98}
    assert spool.append(item(50))
    assert drained(spool) == [0, 50]


def test_a_kill_before_the_last_file_is_removed_sends_it_no_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = opened(tmp_path)
    spool.append(item(0, 64 * 1024))  # a file full
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # killed here
    assert drained(spool) == [0]
    monkeypatch.undo()
    os.close(spool._guard)
    assert len(list(tmp_path.glob("*.spool"))) == 1
    again = opened(tmp_path)
    again.append(item(1))
    assert drained(again) == [1]
    again.close()


def test_a_mark_may_be_the_name_of_any_file(tmp_path: Path) -> None:
    name = os.fsdecode(b"ring/\xff.ring")
    spool = opened(tmp_path)
    spool.append(item(0, mark=name, at="7"))
    os.close(spool._guard)
    assert opened(tmp_path).mark(name) == "7"


def test_what_no_server_would_take_is_not_kept(tmp_path: Path) -> None:
    lost = Lost()
    assert not opened(tmp_path, lost).append(item(1, ITEM_BYTES_MAX + 1))
    assert lost == {"too_large": 2}


def test_two_agents_on_one_spool(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    with pytest.raises(WorldError, match="another agent uses it"):
        opened(tmp_path)
    spool.close()
    opened(tmp_path).close()


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorldError, match="--spool"):
        opened(tmp_path / "file" / "spool")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"file": 5, "position": "x", "marks": 3}', '{"position": -7}'])
def test_a_position_that_is_nonsense_means_that_all_is_sent_again(tmp_path: Path, text: str) -> None:
    spool = opened(tmp_path)
    spool.append(item(0))
    spool.append(item(1))
    spool.close()
    (tmp_path / "position").write_text(text)
    assert drained(opened(tmp_path)) == [0, 1]


def test_frames_of_what_they_are_made_of() -> None:
    items = [item(n, n) for n in range(1, 20)]
    data = MAGIC + b"".join(map(to_frame, items))
    assert [found.item for found in frames(data)] == items


def frame_of_version_1(number: int, mark: str, at: str) -> bytes:
    """As agents wrote them until November 2026."""
    texts = [text.encode() for text in ("/v1/metrics", "text/plain", mark, at)]
    head = struct.pack("<16sIHHHI", number.to_bytes(16, "big"), 2, *map(len, texts))
    payload = b"".join((head, *texts, b"%010d" % number))
    return struct.pack("<II", len(payload), zlib.crc32(payload)) + payload


def test_a_file_of_the_former_version_is_delivered_and_its_marks_hold(tmp_path: Path) -> None:
    parts = [frame_of_version_1(0, "kmsg", "7"), frame_of_version_1(1, "", ""), frame_of_version_1(2, "kmsg", "9")]
    (tmp_path / f"{3:016d}.spool").write_bytes(MAGIC_1 + b"".join(parts) + b"torn")
    position = f'{{"file": "{3:016d}.spool", "position": {8 + len(parts[0])}, "marks": {{"kmsg": "7"}}}}'
    (tmp_path / "position").write_text(position)
    spool = opened(tmp_path)
    assert spool.mark("kmsg") == "9"
    assert spool.after_ns() == 0  # nobody knows how far their data had come
    assert spool.first() == item(1)
    spool.append(item(3))
    assert drained(spool) == [1, 2, 3]
    spool.close()


def test_a_file_of_an_earlier_process_is_drained_before_and_after_the_next_one_begins(tmp_path: Path) -> None:
    for appended_first in (True, False):
        spool = opened(tmp_path)
        spool.append(item(0))
        os.close(spool._guard)
        again = opened(tmp_path)
        if appended_first:
            again.append(item(1))
            assert drained(again) == [0, 1]
        else:
            assert drained(again) == [0]
            again.append(item(1))
            assert drained(again) == [1]
        assert again.waiting() == (0, 0)
        again.close()


def test_all_marks_of_an_item_are_kept_with_it_or_none(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(item(0)._replace(marks=(("ring/a", "5"), ("ring/b", "6"))))
    spool.append(item(1)._replace(marks=(("ring/a", "7"), ("ring/b", "8"))))
    os.close(spool._guard)
    (file,) = tmp_path.glob("*.spool")
    file.write_bytes(file.read_bytes()[:-1])  # killed in the second write
    again = opened(tmp_path)
    assert (again.mark("ring/a"), again.mark("ring/b")) == ("5", "6")
    again.close()


def test_several_are_out_and_are_taken_off_up_to_the_first_that_is_not_done(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(4):
        spool.append(item(number)._replace(after_ns=10 * number))
    first, second, third = (spool.take() for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert spool.after_ns() == 0
    spool.done(second)
    spool.done(third)
    assert (spool.after_ns(), spool.waiting()[1]) == (0, 8)  # the first may still fail
    os.close(spool._guard)
    again = opened(tmp_path)  # killed now: what was not taken off is sent again, and the server knows it
    assert again.waiting()[1] == 8
    os.close(again._guard)
    spool.done(first)
    assert (spool.after_ns(), spool.waiting()[1]) == (30, 2)
    assert drained(spool) == [3]
    assert spool.after_ns() is None


def test_no_more_are_held_in_memory_than_the_bound(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(OUT_MAX + 2):
        spool.append(item(number))
    first, *out = [spool.take() for _ in range(OUT_MAX)]
    assert first is not None
    for each in out:
        assert each is not None
        spool.done(each)
    assert spool.take() is None
    spool.done(first)
    assert spool.take() == item(OUT_MAX)


def test_an_item_that_the_bound_dropped_is_held_no_longer(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(item(0, 4000))
    sent = spool.take()
    assert sent is not None
    assert spool.holds(sent)
    for number in range(1, 600):
        spool.append(item(number, 4000))
    assert not spool.holds(sent)
    later = spool.take()
    assert later is not None
    assert later.batch > item(100).batch


def test_what_the_caller_has_still_is_not_counted_as_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Lost()
    spool = opened(tmp_path, lost)

    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(spool_module.os, "write", full)
        assert not spool.append(item(0, mark="ring/a", at="5"), is_last_chance=False)
    assert sum(lost.values()) == 0
    assert spool.mark("ring/a") == ""


def test_nobody_else_may_look_into_it(tmp_path: Path) -> None:
    (tmp_path / "lane").mkdir(mode=0o755)
    opened(tmp_path / "lane").close()
    assert (tmp_path / "lane").stat().st_mode & 0o777 == 0o700
