"""What a serving host computes: a small network from bytes to bytes, a batch at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Scorer(nn.Module):
    """Three layers over the bytes of a request, cut or filled up to `request_bytes`."""

    def __init__(self, request_bytes: int, response_bytes: int, hidden: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.request_bytes = request_bytes
        self.layers = nn.Sequential(
            nn.Linear(request_bytes, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(),
            nn.Linear(hidden, response_bytes), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, requests: Tensor) -> Tensor:
        """(B, request_bytes) uint8 to (B, response_bytes) uint8."""
        out: Tensor = self.layers(requests.float() / 255.0)
        return (out * 255.0).to(torch.uint8)

    def answer(self, payloads: Sequence[bytes]) -> list[bytes]:
        """A reply to each payload."""
        size = self.request_bytes
        together = bytearray().join(each[:size].ljust(size, b"\0") for each in payloads)
        requests = torch.frombuffer(together, dtype=torch.uint8).view(len(payloads), size)
        with torch.inference_mode():
            return [bytes(row.tolist()) for row in self(requests)]
