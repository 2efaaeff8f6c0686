"""Settings of the ledger: what an hour of a GPU costs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """What a GPU costs. Without a price the ledger is told in GPU-hours only."""

    gpu_hour_price: float | None = field(
        default=None,
        metadata={
            "doc": "price of a GPU for an hour; null: costs are shown in GPU-hours only",
            "unit": "currency",
            "min": 0.0,
        },
    )
    currency: str = field(default="EUR", metadata={"doc": "currency shown with prices"})
