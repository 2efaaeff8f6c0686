"""Watches a script that knows nothing of Leadline, from the moment it begins to train.

    process group is there ──┐
    first optimiser step   ──┴──> watch(), and the loaders of that thread

Importing torch is not training: launchers, loaders' workers and helpers import it too, and would be taken for ranks.
`leadline run` has every Python of a job call `install` once torch is imported (`inject/sitecustomize.py`).
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from leadline.torch.hook import Watch, watch

INIT = "init_process_group"


def install() -> None:
    """Wait for training to begin. Nothing is watched before."""
    waiting = Waiting()
    # For good: torch goes through its hooks while it calls them, so that none may be added or taken out by one.
    register_optimizer_step_pre_hook(waiting.optimizer_begins)
    register_optimizer_step_post_hook(waiting.optimizer_ended)
    if dist.is_available():
        _after_init(lambda: waiting.begin(rank=dist.get_rank(), world_size=dist.get_world_size()))


class Waiting:
    """Begins to watch when there is something to see."""

    def __init__(self) -> None:
        self._seen: Watch | None = None

    def begin(self, rank: int | None = None, world_size: int | None = None) -> Watch:
        """Watch this process, and the loaders that this thread reads; the same `Watch` each time."""
        if self._seen is None or self._seen.closed:
            # A script that calls `watch()` by itself has one with hooks of its own.
            self._seen = watch(rank=rank, world_size=world_size, optimizers=False)
            _watch_loaders(self._seen, threading.get_ident())
        return self._seen

    def optimizer_begins(self, *_: object) -> None:
        """Hook of torch.optim."""
        seen = self._seen if self._seen is not None else self.begin()
        if not seen.sees_optimizers:
            seen.optimizer_begins()

    def optimizer_ended(self, *_: object) -> None:
        """Hook of torch.optim."""
        if self._seen is not None and not self._seen.sees_optimizers:
            self._seen.optimizer_ended()


def _after_init(then: Callable[[], object]) -> None:
    """Call `then` whenever a process group was made, by whatever name the function goes: torch's own modules and
    libraries import it by name."""
    original = getattr(dist, INIT)

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        then()
        return made

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and getattr(module, INIT, None) is original:
            setattr(module, INIT, init)


def _watch_loaders(seen: Watch, thread: int) -> None:
    """Time each batch that this thread waits for. What other threads fetch ahead is not the loop's wait."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    original: Any = _BaseDataLoaderIter.__next__
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def next_batch(self: Any) -> Any:
        if threading.get_ident() != thread or seen.closed:
            return original(self)
        return seen.fetched(lambda: original(self))

    setattr(_BaseDataLoaderIter, "__next__", next_batch)  # noqa: B010 (mypy: a method is not to be assigned)
