"""The hook as the training program holds it: one `Watch` per process."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from leadline.torch.announce import Announcer
from leadline.torch.collectives import Collectives
from leadline.torch.debugger import Debugger
from leadline.torch.identity import Identity, identity_from
from leadline.torch.rings import Rings, ring_directory
from leadline.torch.steps import Step, Steps
from leadline.torch.uncaught import Uncaught

log = logging.getLogger("leadline.torch")

T = TypeVar("T")

_current: Watch | None = None


def watch(
    *,
    job: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    gpu: str | None = None,
    directory: str | None = None,
    collectives: bool = True,
    optimizers: bool = True,
) -> Watch:
    """Watch this process from now on; the same `Watch` if it is watched already.

    Who it is comes from the environment (see `identity`); arguments win. `directory` is where the rings go
    (default: LEADLINE_RING_DIR, else the first usual one). `collectives` and `optimizers` say whether
    torch.distributed and torch.optim are hooked.
    Never raises for anything that is not a programming error: without a place for rings it says so in one log line,
    and everything else does nothing.
    """
    global _current
    if _current is None or _current.closed:
        try:
            name = socket.gethostname()
            identity = identity_from(os.environ, name, job=job, rank=rank, world_size=world_size, gpu=gpu)
            place = ring_directory(directory or os.environ.get("LEADLINE_RING_DIR"))
        except Exception as error:
            log.warning("leadline: training is not watched: %s: %s", type(error).__name__, error)
            identity, place = Identity("local", 0, 1, 0, "", "", 0), None
        _current = Watch(identity, Rings(place, identity))
        _current.start(collectives=collectives, optimizers=optimizers)
    return _current


class Watch:
    """Steps, collectives and what this rank stands on, written to event rings. Every method is safe to call always."""

    def __init__(self, identity: Identity, rings: Rings) -> None:
        self.identity = identity
        self.closed = False
        self.errors: dict[str, int] = {}  # what went wrong inside Leadline, by reason
        self._rings = rings
        self._pid = os.getpid()
        self._steps = Steps(rings, self._count)
        self._collectives = Collectives(rings, identity, self._count)
        self._announcer = Announcer(rings, identity, self._count)
        self._debugger = Debugger(self.event)
        self._uncaught = Uncaught(self.event)
        self._handles: list[Any] = []
        self.sees_optimizers = False  # through hooks of its own

    def start(self, *, collectives: bool = True, optimizers: bool = True) -> None:
        """Put the hooks in and announce the rank. Does nothing if rings cannot be written."""
        if not self._rings.is_on:
            return
        self._steps.guard(self._start, collectives, optimizers)

    def _start(self, collectives: bool, optimizers: bool) -> None:
        if collectives:
            self._collectives.attach()
        if optimizers:
            self.sees_optimizers = True
            self._handles = [
                register_optimizer_step_pre_hook(self.optimizer_begins),
                register_optimizer_step_post_hook(self.optimizer_ended),
            ]
        self._debugger.attach()
        self._uncaught.attach()
        self._announcer.start()
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.close)

    # -- the training loop ------------------------------------------------------------------------------------

    def step(self, number: int | None = None) -> Step:
        """One step of the loop, for `with`: its phases, samples, tokens, loss and metrics are set on it."""
        return self._steps.step(number)

    def data(self, batches: Iterable[T]) -> Iterator[T]:
        """The same batches; how long each took to come is the data phase of its step."""
        return self._steps.watched(batches)

    def fetched(self, fetch: Callable[[], T]) -> T:
        """What `fetch` returns, a batch; the time it took is the data phase of its step. For loaders that are iterated
        elsewhere."""
        return self._steps.fetched(fetch)

    def optimizer_begins(self, *_: object) -> None:
        """Before the step of any optimiser: a hook of torch.optim."""
        self._steps.optimizer_begins()

    def optimizer_ended(self, *_: object) -> None:
        """After it: a hook of torch.optim. Ends the step of a loop that does not mark its steps."""
        self._steps.optimizer_ended()

    def model(self, model: Any) -> None:
        """For a DistributedDataParallel that was made before `watch()`: lets its reductions be seen."""
        self._steps.guard(self._collectives.model, model)

    def event(
        self,
        kind: str,
        message: str = "",
        *,
        severity: str = "info",
        code: str = "",
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Something happened on this rank: a checkpoint, an evaluation, a restart."""
        self._steps.guard(self._event, kind, message, severity, code, attributes)

    def _event(self, kind: str, message: str, severity: str, code: str, attributes: Mapping[str, str] | None) -> None:
        self._rings.of_thread().event(
            kind,
            time.time_ns(),
            message,
            severity=severity,
            code=code,
            entity=self.identity.rank_entity,
            attributes=attributes,
        )

    @contextlib.contextmanager
    def span(self, kind: str, message: str = "") -> Iterator[None]:
        """Something outside of steps that takes time, as two events: `<kind>_begin` and `<kind>_end`."""
        self.event(f"{kind}-begin", message)
        began = time.monotonic()
        try:
            yield
        except BaseException as error:
            self.event(f"{kind}-end", f"ended by {type(error).__name__}", severity="error")
            raise
        self.event(f"{kind}-end", message, attributes={"seconds": f"{time.monotonic() - began:.6f}"})

    # -- the end ----------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> int:
        """Records that could not be written."""
        return self._rings.dropped

    def close(self) -> None:
        """Take the hooks out, close the edges, say in the rings that nothing more comes. Also done at exit."""
        if self.closed or os.getpid() != self._pid:
            return
        self.closed = True
        atexit.unregister(self.close)
        for part in (self._take_out, self._announcer.stop, self._rings.close):
            self._steps.guard(part)
        if self.errors:
            told = ", ".join(f"{reason} {count}" for reason, count in sorted(self.errors.items()))
            log.warning("leadline: while watching: %s", told)

    def _take_out(self) -> None:
        self._collectives.detach()
        self._debugger.detach()
        self._uncaught.detach()
        for handle in self._handles:
            handle.remove()

    def _forked(self) -> None:
        """In a child (a loader's worker): the rings are the parent's. Off, for good."""
        self.closed = True
        self._rings.abandon()
        self._steps.guard(self._take_out)

    def _count(self, reason: str) -> None:
        self.errors[reason] = self.errors.get(reason, 0) + 1
