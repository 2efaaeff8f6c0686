"""One stage of a small language model, cut by layers, and what it learns: to guess the next word of the lab's text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from leadline.lab.workloads.text import Language


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of the whole model."""

    vocabulary: int
    hidden: int = 96
    layers: int = 4
    heads: int = 4
    length: int = 48  # tokens of one sequence


class Stage(nn.Module):
    """Some layers of the model; the first stage has the embedding too, the last one the output and the loss.

    Norm first (Xiong et al. 2020), learned positions, next-word prediction. Embedding and output are two matrices:
    sharing them would need a reduction between the first and the last stage.
    """

    def __init__(self, config: Config, layers: range, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.is_first, self.is_last = is_first, is_last
        if is_first:
            self.words = nn.Embedding(config.vocabulary, config.hidden)
            self.positions = nn.Parameter(torch.zeros(config.length, config.hidden))
            nn.init.normal_(self.words.weight, std=0.05)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                config.hidden,
                config.heads,
                4 * config.hidden,
                0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in layers
        )
        if is_last:
            self.norm = nn.LayerNorm(config.hidden)
            self.output = nn.Linear(config.hidden, config.vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(config.length), persistent=False)

    def forward(self, given: Tensor, targets: Tensor | None = None) -> Tensor:
        """What goes to the next stage, or the loss.

        Inputs: tokens (B, L) int64 at the first stage, else activations (B, L, H); targets (B, L) at the last stage.
        Returns: (B, L, H), at the last stage the mean cross entropy ().
        """
        hidden = self.words(given) + self.positions[: given.shape[1]] if self.is_first else given
        mask = cast(Tensor, self.mask)
        for block in self.blocks:
            hidden = block(hidden, src_mask=mask, is_causal=True)
        if not self.is_last:
            return cast(Tensor, hidden)
        assert targets is not None, "the last stage is given the targets"
        return functional.cross_entropy(self.output(self.norm(hidden)).flatten(0, 1), targets.flatten())


def batches(language: Language, seed: int, shape: tuple[int, int, int], first: int, by: int) -> Iterator[Tensor]:
    """Batches (M, B, L + 1) of words without end, for shape (M, B, L): from the shards first, first + by, ...

    The same on every rank that asks for the same, so the first and the last stage need not tell each other.
    """
    micro_batches, batch, length = shape
    size = micro_batches * batch * (length + 1)
    number, rest = first, torch.empty(0, dtype=torch.int64)
    while True:
        while len(rest) < size:
            rest = torch.cat([rest, torch.tensor(language.tokens(language.shard(number, seed)))])
            number += by
        yield rest[:size].view(micro_batches, batch, length + 1)
        rest = rest[size:]
