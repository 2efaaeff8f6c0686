"""A small residual network, and images made from the bytes of a shard: noise that came over the front end, with a
pattern in it that tells the class."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 10
COLOURS = 3
PATTERN_SIDE = 5  # of the coarse pattern, before it is made as large as the image
CONTRAST = 0.4  # of the pattern, where the noise reaches from -1 to 1
WRONG = 10  # one image in so many is labelled wrongly: so the loss has a floor, which only learning by heart goes below


class Block(nn.Module):
    """Two convolutions with a way past them; `stride` 2 halves the image."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        # One group: layer norm over channels and pixels. Batch norm would tie a sample to its rank's batch.
        self.norms = nn.ModuleList(nn.GroupNorm(1, outputs) for _ in range(2))
        self.past = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, image: Tensor) -> Tensor:
        """(B, inputs, S, S) to (B, outputs, S / stride, S / stride)."""
        hidden = functional.gelu(self.norms[0](self.first(image)))
        return functional.gelu(self.norms[1](self.second(hidden)) + self.past(image))


class ResNet(nn.Module):
    """Three stages and a mean over the pixels, so images of any size from 4 pixels do.

    Source: He et al. 2016, with group norm (Wu and He 2018).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(COLOURS, width, 3, 1, 1)
        self.stages = nn.Sequential(Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2))
        self.head = nn.Linear(4 * width, CLASSES)

    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs: images (B, 3, S, S) float, labels (B,) int64. Returns: mean cross entropy (), logits (B, CLASSES)."""
        logits = self.head(self.stages(self.stem(images)).mean((2, 3)))
        return functional.cross_entropy(logits, labels), logits


def patterns(side: int, seed: int) -> Tensor:
    """What each class looks like: (CLASSES, 3, side, side), the same for the same seed."""
    chance = torch.Generator().manual_seed(seed)
    coarse = torch.randn(CLASSES, COLOURS, PATTERN_SIDE, PATTERN_SIDE, generator=chance)
    return functional.interpolate(coarse, (side, side), mode="bilinear", align_corners=True)


def images_of(octets: Tensor, looks: Tensor) -> tuple[Tensor, Tensor]:
    """Images and labels from bytes.

    Inputs: octets (B, side * side) int64, 0 to 255; looks as `patterns` gives them.
    Returns: images (B, 3, side, side), mean about 0; labels (B,). The bytes' sum decides on the class and whether the
    label is wrong. The pattern is moved around by other bytes, so its place says nothing.
    """
    side, total = looks.shape[-1], octets.sum(1)
    shown = total % CLASSES
    labels = torch.where(total // CLASSES % WRONG == 0, (shown + 1 + total // (CLASSES * WRONG)) % CLASSES, shown)
    noise = ((octets * 73 + 29) % 256).float().view(-1, 1, side, side) / 128 - 1  # letters lie close together
    moved = [
        torch.roll(looks[label], (int(row[0]) % side, int(row[1]) % side), (1, 2))
        for label, row in zip(shown.tolist(), octets[:, :2].tolist(), strict=True)
    ]
    return torch.stack(moved) * CONTRAST + noise, labels


def resized(images: Tensor, factor: float) -> Tensor:
    """Images of `factor` times as many pixels, at least 4 by 4."""
    side = max(4, round(images.shape[-1] * factor**0.5))
    if side == images.shape[-1]:
        return images
    return functional.interpolate(images, (side, side), mode="bilinear", align_corners=False)
