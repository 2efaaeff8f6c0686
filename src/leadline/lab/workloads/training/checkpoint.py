"""Checkpoints of a training job on its storage host, and going on from the newest.

    checkpoint/step000049.pt         model, optimiser and place in the data, by rank 0
    checkpoint-rank3/step000049.pt   parameters that rank 3 alone has, where a task has such
    latest/step                      {"step": 49}, written last: what it names is there whole

The file that names the newest is Megatron's way (latest_checkpointed_iteration.txt). Jobs that share a storage
directory put a prefix of their own before each folder.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import torch

from leadline.lab.workloads.storage.client import StorageClient
from leadline.model.errors import DataError, WorldError


class Checkpoints:
    """The checkpoints of one job."""

    def __init__(self, storage: StorageClient, prefix: str = "") -> None:
        self._storage, self._prefix = storage, prefix
        self._latest = f"{prefix}latest/step"

    def name(self, step: int, rank: int | None = None) -> str:
        """The object of a step: the common one, or that of a rank's own parameters."""
        return f"{self._prefix}checkpoint{'' if rank is None else f'-rank{rank}'}/step{step:06d}.pt"

    def put(self, name: str, content: Mapping[str, Any]) -> int:
        """Write one, as `torch.save` does. Returns its bytes. Errors: WorldError."""
        body = io.BytesIO()
        torch.save(dict(content), body)
        data = body.getvalue()
        self._storage.put(name, data)
        return len(data)

    def get(self, name: str) -> dict[str, Any]:
        """A checkpoint. Errors: WorldError if it is not there, DataError if it is none of ours."""
        data = self._storage.get(name)
        try:
            # weights_only: nothing of what a storage host sends is run.
            content = torch.load(io.BytesIO(data), weights_only=True)
        except Exception as error:
            raise DataError(name, "a checkpoint as torch.save writes it", f"{len(data)} bytes: {error}") from error
        if not isinstance(content, dict):
            raise DataError(name, "a checkpoint with model and step", type(content).__name__)
        return content

    def tell_latest(self, step: int) -> None:
        """The checkpoint of this step is whole. Errors: WorldError."""
        self._storage.put(self._latest, json.dumps({"step": step}).encode())

    def latest(self) -> int | None:
        """The step of the newest checkpoint, None if there is none.

        Errors: WorldError if storage cannot be reached, DataError for a file that does not say a step.
        """
        try:
            said = self._storage.get(self._latest)
        except WorldError as error:
            if ": 404 " in str(error):
                return None
            raise
        try:
            return int(json.loads(said)["step"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(self._latest, '{"step": <number>}', repr(said[:80])) from error
