"""A classifier on the encoder of `bert.model.Bert`, most of it frozen, and the labels of its texts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from leadline.lab.workloads.bert.model import Bert
from leadline.lab.workloads.text import TOPICS, Language

THAWED_LAYERS = 1


class Classifier(nn.Module):
    """Mean over the words, one linear layer. Only that, the last layer of the encoder and its norm are trained."""

    def __init__(self, base: Bert, hidden: int) -> None:
        super().__init__()
        self.base = base
        self.head = nn.Linear(hidden, TOPICS)
        for one in base.parameters():
            one.requires_grad_(False)
        for part in [*list(base.encoder.layers)[-THAWED_LAYERS:], base.norm]:
            for one in part.parameters():
                one.requires_grad_(True)

    def forward(self, tokens: Tensor, topics: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs: tokens (B, L), topics (B,). Returns: mean cross entropy (), logits (B, TOPICS)."""
        logits = self.head(self.base.encoded(tokens).mean(1))
        return functional.cross_entropy(logits, topics), logits


def topics_of_words(language: Language) -> Tensor:
    """For each word of the vocabulary which topic it tells of: (V, TOPICS), 1 or 0; only nouns tell of one."""
    told = torch.zeros(len(language.vocabulary), TOPICS)
    for topic, classes in enumerate(language.nouns):
        for noun in (noun for nouns in classes for noun in nouns):
            told[language.vocabulary[noun], topic] = 1.0
    return told


def topics_of(tokens: Tensor, told: Tensor) -> Tensor:
    """The topic that most nouns of each text (B, L) tell of: (B,)."""
    return told[tokens].sum(1).argmax(1)
