"""Small rings in memory, for tests."""

from __future__ import annotations

from typing import Any

from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes

T = 1_750_000_000 * 10**9
BOOT = bytes.fromhex("7f3a90b1000000000000000000000001")


def fresh(records: int = 64, strings_bytes: int = 4096, **more: Any) -> bytearray:
    """A formatted, empty ring."""
    ring = bytearray(ring_bytes(records, strings_bytes))
    about: dict[str, Any] = {
        "host": "n12", "job": "bert-7", "rank": 3, "world_size": 8, "source": "torch-hook", "pid": 41, "tid": 42,
        "boot_id": BOOT, "start_ns": T, "start_monotonic_ns": 5, "gpu": "gpu:GPU-1", "strings_bytes": strings_bytes,
    }  # fmt: skip
    format_ring(ring, **(about | more))
    return ring


def everything(ring: RingWriter) -> None:
    """One call of every method: 20 records."""
    ring.collective_begin("bert-7/0x9c", 5, "all_reduce", "float32", 4096, 8, T + 1)
    ring.collective_start("bert-7/0x9c", 5, "all_reduce", "float32", 4096, 8, T + 1, T + 2, algo="ring")
    ring.collective_end("bert-7/0x9c", 5, "all_reduce", "float32", 4096, 8, T + 1, T + 9, T + 2, "ring")
    ring.collective_end("bert-7/0x9c", 6, "broadcast", "int64", 8, 8, T + 10, T + 11, failed=True)
    ring.message_begin("bert-7/0x9c", 1, 5, 2, "send", 4, 512, T + 3)
    ring.message_end("bert-7/0x9c", 1, 5, 2, "send", 4, 512, T + 3, T + 4, "00112233445566778899aabbccddeeff")
    ring.message_end("bert-7/0x9c", 1, 5, 2, "recv", 2, 512, T + 3, T + 5)
    ring.step_begin(100, T)
    ring.step(100, T, T + 20, data_ns=1, forward_ns=0, checkpoint_ns=7, tokens=512.0, loss=float("inf"),
              metrics={"accuracy": 0.5, "é": 1, "grad_norm": 2.5, "lr": 1e-3})  # fmt: skip
    ring.event("checkpoint", T + 6, "saved " + "é" * 40, severity="warning", entity="rank:bert-7/3", code="7",
               attributes={"path": "/ckpt/" + "x" * 60, "empty": ""})  # fmt: skip
    ring.relation("rank:bert-7/3", "runs-on", "gpu:GPU-1", T)
    ring.relation("rank:bert-7/3", "runs-on", "host:n12", T, T + 30, 0.5)
    ring.clock_pair(T, 5)
