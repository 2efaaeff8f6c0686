"""A small BERT for masked language modelling, in torch.nn, and the masking of its input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from leadline.lab.workloads.text import MASK, PAD, SPECIAL

IGNORED = -100  # target of a token that was not masked


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of the model. The defaults make 2.0 million parameters: 8 MB to reduce per step."""

    vocabulary: int
    hidden: int = 192
    layers: int = 4
    heads: int = 4
    length: int = 64  # tokens of one sequence
    dropout: float = 0.0


class Bert(nn.Module):
    """Encoder with learned positions; the output layer shares its weights with the embedding.

    Source: Devlin et al. 2018, without next-sentence prediction; norm first (Xiong et al. 2020), which trains
    without a long warm-up.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.hidden, padding_idx=PAD)
        self.positions = nn.Parameter(torch.zeros(config.length, config.hidden))
        layer = nn.TransformerEncoderLayer(
            config.hidden,
            config.heads,
            4 * config.hidden,
            config.dropout,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(config.hidden)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        nn.init.normal_(self.words.weight, std=0.05)
        nn.init.normal_(self.positions, std=0.05)

    def encoded(self, tokens: Tensor) -> Tensor:
        """What the encoder makes of (B, L) tokens: (B, L, H). Beyond the length of the model positions begin anew,
        as where several texts are packed into one sequence."""
        length = tokens.shape[1]
        positions = self.positions[:length]
        if length > len(positions):
            positions = self.positions[torch.arange(length) % len(positions)]
        hidden: Tensor = self.norm(self.encoder(self.words(tokens) + positions))
        return hidden

    def forward(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and logits.

        Inputs: tokens (B, L) int64; targets (B, L), IGNORED where nothing is asked.
        Returns: mean cross entropy over the asked tokens (), and logits (M, V) of these M tokens only: the others
        would cost a third of the step.
        """
        hidden = self.encoded(tokens)
        asked = targets != IGNORED
        logits = functional.linear(hidden[asked], self.words.weight, self.bias)
        return functional.cross_entropy(logits, targets[asked]), logits


def masked(tokens: Tensor, vocabulary: int, generator: torch.Generator, share: float = 0.15) -> tuple[Tensor, Tensor]:
    """Input and targets for masked language modelling.

    Inputs: tokens (B, L) int64. Of `share` of them, 8 in 10 become [MASK], 1 a random word, 1 stays; special tokens
    are left alone. At least one token per batch is asked. Returns: (B, L) and (B, L), IGNORED where not asked.
    Source: Devlin et al. 2018, section 3.1.
    """
    chance = torch.rand(tokens.shape, generator=generator)
    asked = (chance < share) & (tokens >= len(SPECIAL))
    if not asked.any():
        asked.view(-1)[int(tokens.argmax())] = True
    how = torch.rand(tokens.shape, generator=generator)
    words = torch.randint(len(SPECIAL), vocabulary, tokens.shape, generator=generator)
    shown = torch.where(asked & (how < 0.8), torch.full_like(tokens, MASK), tokens)
    shown = torch.where(asked & (how >= 0.9), words, shown)
    return shown, torch.where(asked, tokens, torch.full_like(tokens, IGNORED))
