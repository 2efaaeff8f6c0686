"""Results of a sweep as nccl-tests prints them, and as JSON. Pure: results in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

HEAD = """\
# {op} over {transport}: {ranks} ranks, {channels} channels, {iterations} iterations, {warmup} warm-up
#                                                          in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"""


@dataclass(frozen=True, slots=True)
class Result:
    """One size of one collective. Times are means over ranks and iterations, as nccl-tests' `-a 1`."""

    op: str
    size_bytes: int
    count: int
    dtype: str
    redop: str
    root: int
    time_s: float
    time_s_p50: float  # of the iterations; each one's time is the slowest rank's
    time_s_max: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    wrong: int | None  # None: not checked


def head(op: str, transport: str, ranks: int, channels: int, iterations: int, warmup: int) -> str:
    """The lines above the results of one collective."""
    return HEAD.format(op=op, transport=transport, ranks=ranks, channels=channels, iterations=iterations, warmup=warmup)


def line(result: Result) -> str:
    """One size. Below 1 GB/s three digits say little, so the bandwidths have four."""
    wrong = "N/A" if result.wrong is None else str(result.wrong)
    return (
        f"{result.size_bytes:12d}  {result.count:12d}  {result.dtype:>8s}  {result.redop:>6s}  {result.root:6d}"
        f"  {result.time_s * 1e6:7.0f}  {result.algbw_bytes_per_s / 1e9:6.4f}  {result.busbw_bytes_per_s / 1e9:6.4f}"
        f" {wrong:>6s}"
    )


def foot(results: Sequence[Result]) -> str:
    """The last lines, with nccl-tests' average."""
    wrong = sum(result.wrong or 0 for result in results)
    average = sum(result.busbw_bytes_per_s for result in results) / len(results) / 1e9 if results else 0.0
    return f"# Out of bounds values : {wrong} {'OK' if not wrong else 'FAILED'}\n# Avg bus bandwidth    : {average:.6g}"


def as_json(results: Sequence[Result], about: dict[str, Any]) -> dict[str, Any]:
    """One object: what was run, and each result."""
    return {**about, "results": [asdict(result) for result in results]}
