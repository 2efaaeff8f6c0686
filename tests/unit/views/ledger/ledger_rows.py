"""Hand-made rows of the ledger: bert-1, 4 GPUs, five windows of which the fourth was not judged; failures beside it."""

from __future__ import annotations

from typing import Any

from leadline.model.accounts import TICK_S

S = 10**9
BEGIN = 1_750_000_000 * S
WINDOW = 10 * S
GPUS = 4
VERDICT = {"tenant": "acme", "cluster": "default", "analysis": "ledger", "version": 1, "revision": 0}
EDGE = "rank:bert-1/0>rank:bert-1/1"


def ticks(seconds: float) -> float:
    """Seconds as the ledger has them: whole ticks."""
    return round(seconds / TICK_S) * TICK_S


def row(
    window: int, category: str, owner: str | None, seconds: float, lost: float = 0.0, **more: Any
) -> dict[str, Any]:
    """A row of `ledger`; `window` counts from 0."""
    seconds, lost = ticks(seconds), ticks(lost)
    return {
        **VERDICT, "job": "bert-1", "end_ns": BEGIN + (window + 1) * WINDOW, "window_ns": WINDOW, "category": category,
        "owner": owner, "seconds": seconds, "gpu_seconds": seconds * GPUS, "lost_seconds": lost,
        "lost_gpu_seconds": lost * GPUS, "confidence": 0.8, "depth": "collectives", **more,
    }  # fmt: skip


def run(window: int, revision: int = 0, **more: Any) -> dict[str, Any]:
    """A row of `analysis_run`."""
    return {
        "tenant": "acme", "cluster": "default", "analysis": "ledger", "part": "bert-1", "version": 1,
        "end_ns": BEGIN + (window + 1) * WINDOW, "window_ns": WINDOW, "revision": revision, "state": "done",
        "rows_in": 9, "rows_out": 9, "digest": 1, "took_ns": 5, "error": "", **more,
    }  # fmt: skip


def failure(start_s: float, end_s: float | None, of: str, job: str | None = "bert-1", entity: str = "gpu:GPU-1",
            gpus: int | None = GPUS, **more: Any) -> dict[str, Any]:  # fmt: skip
    """A row of `failure`; times in s after BEGIN."""
    return {
        **VERDICT, "analysis": "failures", "entity_kind": entity.partition(":")[0], "entity": entity, "kind": "xid",
        "class": of, "job": job, "gpus": gpus, "start_ns": BEGIN + round(start_s * S),
        "end_ns": None if end_s is None else BEGIN + round(end_s * S), "seen_ns": BEGIN + 5 * WINDOW,
        "evidence": "NVRM: Xid 79", **more,
    }  # fmt: skip


def step(number: int, start_s: float, end_s: float, checkpoint_s: float | None = None) -> dict[str, Any]:
    """A row of `step` of rank 0."""
    return {
        "tenant": "acme", "cluster": "default", "host": "h1", "clock": "h1/1", "job": "bert-1", "rank": 0,
        "step": number, "start_ns": BEGIN + round(start_s * S), "end_ns": BEGIN + round(end_s * S),
        "data_ns": None, "forward_ns": None,
        "backward_ns": None, "optimizer_ns": None, "samples": None, "tokens": None, "loss": None, "metrics": {},
        "checkpoint_ns": None if checkpoint_s is None else round(checkpoint_s * S), "batch": 1, "batch_row": number,
    }  # fmt: skip


ROWS: dict[str, list[dict[str, Any]]] = {
    "analysis_run": [*(run(window) for window in (0, 2, 4)), run(1, revision=1), run(0, tenant="beta", part="bert-9")],
    "ledger": [
        *(row(0, *each) for each in (
            ("compute", None, 7.1), ("input", "rank:bert-1/2", 0.9, 0.5), ("communication", EDGE, 1.3, 0.25),
            ("communication", "rank:bert-1/1>rank:bert-1/2", 0.7))),
        row(1, "compute", None, 10.0),  # judged again since
        row(1, "compute", None, 4.0, revision=1), row(1, "straggler", "rank:bert-1/3", 6.0, 5.5, revision=1),
        row(2, "unknown", "no rows of step", 3.3, depth="none"), row(2, "restart", None, 6.7, 6.7, depth="events"),
        row(4, "compute", None, 9.2, 1.1, depth="steps"), row(4, "checkpoint", None, 0.8),
        row(0, "compute", None, 10.0, tenant="beta", job="bert-9"),
    ],
    "failure": [
        failure(20, 27, "gpu"), failure(33, None, "network", job=None, entity="port:h2/eth0", gpus=None),
        failure(5, 6, "operator", entity="rank:bert-1/0"),
    ],
    "step": [step(0, 0.5, 8), step(1, 8, 16, 1.0), step(2, 16, 19), step(3, 28, 38, 1.0), step(4, 38, 49)],
}  # fmt: skip
