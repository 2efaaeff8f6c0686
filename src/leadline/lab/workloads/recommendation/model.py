"""Click prediction: sparse features whose tables lie on different ranks, and the dense part that every rank has.

A text is read as the history of a user who takes one word after the other. Asked is whether a candidate is what came
next, or a word that came next elsewhere.

    each rank   ids of its samples, by table ----all to all----> the ranks that have the tables
    their rows  <---------------------------all to all---------- looked up there
    the rows' gradients go the first way once more
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

HASHED_ROWS = 8192
# Each has a table of its own; a pair of words is hashed into its rows. "history" has an id for each of its words.
WORDS = ("candidate", "history", "last", "before_last")
PAIRS = ("last_candidate", "before_last_candidate", "first_candidate", "two_last_candidate")
FEATURES = (*WORDS, *PAIRS)


def features_of(history: Tensor, candidate: Tensor) -> dict[str, Tensor]:
    """Ids by feature. Inputs: (B, L) with L >= 2 and (B,), int64. Returns (B, L) for the history, (B,) for others."""
    first, before_last, last = history[:, 0], history[:, -2], history[:, -1]
    return {
        "candidate": candidate,
        "history": history,
        "last": last,
        "before_last": before_last,
        "last_candidate": hashed(last, candidate),
        "before_last_candidate": hashed(before_last, candidate),
        "first_candidate": hashed(first, candidate),
        "two_last_candidate": hashed(before_last * 7919 + last, candidate),
    }


def hashed(first: Tensor, second: Tensor) -> Tensor:
    """A row for each pair of ids. Source: Knuth's multiplicative hashing."""
    mixed = (first * 40_503 + second) * 2_654_435_761
    return (mixed & 0xFFFF_FFFF) % HASHED_ROWS


class Tables(nn.Module):
    """The tables that one rank has: those of every n-th feature. `lookup` brings the rows of all features."""

    def __init__(self, rank: int, ranks: int, vocabulary: int, width: int) -> None:
        super().__init__()
        self._ranks, self._width = ranks, width
        self._at = [FEATURES[owner::ranks] for owner in range(ranks)]  # by rank
        self.tables = nn.ModuleDict(
            {name: nn.Embedding(vocabulary if name in WORDS else HASHED_ROWS, width) for name in self._at[rank]}
        )
        self._mine = self._at[rank]
        for table in self.tables.values():
            nn.init.normal_(table.weight, std=0.05)  # type: ignore[arg-type]

    def lookup(self, ids: dict[str, Tensor]) -> dict[str, Tensor]:
        """The rows of this rank's ids: shape of the ids and width. All ranks call it together, with one batch size.

        Histories may be of another length on each rank: the lengths are told first.
        """
        size, length = ids["history"].shape
        lengths = _exchanged_lengths(length, self._ranks)
        send = [sum(ids[name].numel() for name in names) for names in self._at]
        sizes = [[size * of if name == "history" else size for name in self._mine] for of in lengths]
        receive = [sum(each) for each in sizes]
        asked = torch.empty(sum(receive), dtype=torch.int64)
        dist.all_to_all_single(
            asked, torch.cat([ids[name].reshape(-1) for names in self._at for name in names]), receive, send
        )
        rows = self._rows(asked, sizes)
        if torch.is_grad_enabled() and not rows.requires_grad:
            rows.requires_grad_()  # a rank without a table takes part in the way back, too
        found: Tensor = _Exchange.apply(rows, receive, send)  # type: ignore[no-untyped-call]
        names = [name for names in self._at for name in names]
        parts = torch.split(found, [ids[name].numel() for name in names])
        return {name: part.view(*ids[name].shape, self._width) for name, part in zip(names, parts, strict=True)}

    def _rows(self, asked: Tensor, sizes: Sequence[Sequence[int]]) -> Tensor:
        """The rows that others asked for, in their order: by rank, then by table."""
        parts = torch.split(asked, [count for each in sizes for count in each])
        names = list(self._mine) * len(sizes)
        rows = [self.tables[name](part) for name, part in zip(names, parts, strict=True)]
        return torch.cat(rows) if rows else torch.empty(0, self._width)


class _Exchange(torch.autograd.Function):
    """All to all of rows; the gradients go back the same way, as a mean over the ranks like those that DDP reduces."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, send: list[int], receive: list[int]) -> Tensor:
        ctx.send, ctx.receive = send, receive
        return _all_to_all(rows, send, receive)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        back = _all_to_all(gradients[0], ctx.receive, ctx.send)
        return back / dist.get_world_size(), None, None


def _all_to_all(rows: Tensor, send: list[int], receive: list[int]) -> Tensor:
    out = torch.empty(sum(receive), rows.shape[1])
    dist.all_to_all_single(out, rows.contiguous(), receive, send)
    return out


def _exchanged_lengths(length: int, ranks: int) -> list[int]:
    """How long the histories of each rank are."""
    told = torch.empty(ranks, dtype=torch.int64)
    dist.all_to_all_single(told, torch.full((ranks,), length, dtype=torch.int64))
    return [int(each) for each in told]


class Ranker(nn.Module):
    """The dense part: attention of the candidate over the history, then a tower over all features.

    Source: Naumov et al. 2019 (DLRM) for the tables, Zhou et al. 2018 (DIN) for the history.
    """

    def __init__(self, width: int, hidden: int = 256) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.Linear(3 * width, hidden), nn.GELU(),
            nn.Linear(hidden, hidden // 2), nn.GELU(), nn.Linear(hidden // 2, 1),
        )  # fmt: skip
        self.tower = nn.Sequential(
            nn.LayerNorm(len(FEATURES) * width), nn.Linear(len(FEATURES) * width, 2 * hidden), nn.GELU(),
            nn.LayerNorm(2 * hidden), nn.Linear(2 * hidden, hidden), nn.GELU(), nn.Linear(hidden, 1),
        )  # fmt: skip

    def forward(self, rows: dict[str, Tensor], labels: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs: rows by feature, (B, W), of the history (B, L, W); labels (B,) 0 or 1.

        Returns: mean binary cross entropy (), probabilities (B,).
        """
        history, candidate = rows["history"], rows["candidate"]
        asked = candidate.unsqueeze(1).expand_as(history)
        weights = self.weigh(torch.cat([history, asked, history * asked], 2)).softmax(1)  # (B, L, 1)
        pooled = (weights * history).sum(1)
        others = [rows[name] for name in FEATURES if name != "history"]
        logits = self.tower(torch.cat([pooled, *others], 1)).squeeze(1)
        return functional.binary_cross_entropy_with_logits(logits, labels.float()), logits.sigmoid()
