"""The gpu_kernel_logs case: logs of real machines in, rows of `event` out."""

from __future__ import annotations

import json
from pathlib import Path

from leadline.wire.kernel_log.events import event_rows
from leadline.wire.kernel_log.kmsg import read_dmesg, read_kmsg

CASE = Path(__file__).parent / "gpu_kernel_logs"
BOOT_NS = 1_740_000_000 * 10**9


def test_events_of_both_logs() -> None:
    dmesg = read_dmesg((CASE / "dmesg-with-xid-119.log").read_bytes())
    kmsg = read_kmsg((CASE / "kmsg.1.log").read_bytes(), BOOT_NS)
    assert (len(dmesg.lines), dmesg.skipped) == (43, 0)
    assert (len(kmsg.lines), kmsg.skipped) == (46, 0)
    rows = event_rows([*dmesg.lines, *kmsg.lines], "n12", "n12/7f3a90b1", log_level_max=7)
    expected = [json.loads(line) for line in (CASE / "events.ndjson").read_text().splitlines()]
    of_kernel = [row for row in rows if row["kind"] != "log"]
    assert of_kernel == expected
    assert len(rows) - len(of_kernel) == 46, "human time stamps come without a level, so only records are logged"


def test_every_record_is_read_to_its_last_byte() -> None:
    data = (CASE / "kmsg.1.log").read_bytes()
    kmsg = read_kmsg(data, BOOT_NS)
    assert data[kmsg.consumed :] == data[data.rindex(b"\n") + 1 :], "an unfinished line is left for the next reading"
    whole = read_kmsg(data + b"\n", BOOT_NS)
    assert (whole.consumed, len(whole.lines)) == (len(data) + 1, 47)
    assert [line.sequence for line in whole.lines] == list(range(3964, 4011))
    first, last = whole.lines[0], whole.lines[-1]
    assert (first.time_ns, first.level, first.text) == (
        BOOT_NS + 206_764_307_000,
        6,
        "nvidia-nvswitch2: open (major=510)",
    )
    assert last.text == "IPv6: ADDRCONF(NETDEV_CHANGE): calic24dd7712a6: link becomes ready"
