"""Training steps and their phases, as the training loop says them, or as the optimiser and the loader show them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

import torch

from leadline.torch.rings import Rings

T = TypeVar("T")

PHASES = ("data", "forward", "backward", "optimizer", "checkpoint")
METRICS_MAX = 64  # values of one step

_now = time.perf_counter_ns  # lengths; the begin of a step is CLOCK_REALTIME


class Phase:
    """Adds the time spent inside `with` to one phase of a step."""

    __slots__ = ("_began", "_name", "_spent")

    def __init__(self, spent: dict[str, int], name: str) -> None:
        self._spent, self._name, self._began = spent, name, 0

    def __enter__(self) -> None:
        self._began = _now()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._spent[self._name] = self._spent.get(self._name, 0) + _now() - self._began


class Step:
    """One step of the training loop: a context manager. Nothing in it raises but the user's own code."""

    def __init__(self, steps: Steps, number: int) -> None:
        self._steps = steps
        self.number = number
        self.samples: float | None = None
        self.tokens: float | None = None
        self.loss: Any = None  # a number, or a tensor of one element
        self.spent: dict[str, int] = {}
        self._metrics: dict[str, float] = {}

    def data(self) -> Phase:
        """Waiting for the next batch."""
        return Phase(self.spent, "data")

    def forward(self) -> Phase:
        """The forward pass."""
        return Phase(self.spent, "forward")

    def backward(self) -> Phase:
        """The backward pass, with the communication that it overlaps."""
        return Phase(self.spent, "backward")

    def optimizer(self) -> Phase:
        """The optimiser. Without it the time of `Optimizer.step()` is taken."""
        return Phase(self.spent, "optimizer")

    def checkpoint(self) -> Phase:
        """Writing a checkpoint."""
        return Phase(self.spent, "checkpoint")

    def metrics(self, values: Mapping[str, Any]) -> None:
        """Values by name, e.g. `MetricCollection.compute()`: numbers or tensors of one element; others are counted."""
        self._steps.guard(self._add_metrics, values)

    def _add_metrics(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            number = self._steps.number_of(value)
            if number is not None and len(self._metrics) < METRICS_MAX:
                self._metrics[str(name)] = number

    def __enter__(self) -> Step:
        self._steps.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._steps.end(self, failed=error is not None)


class Steps:
    """Writes steps into the ring of the training loop's thread. One loop per process."""

    def __init__(self, rings: Rings, count: Callable[[str], None]) -> None:
        self._rings = rings
        self._count = count
        self._open: Step | None = None
        self._next_number = 0
        # A batch fetched before its step opened belongs to the step that opens next.
        self._fetched_ns = 0
        self._is_fetching = False
        self._began_ns = 0  # CLOCK_REALTIME, 0: nothing has begun
        self._began = 0  # same moment, for lengths
        self._optimizer_began = 0
        self._optimizer_ns = 0
        self.explicit = False  # the loop says its steps itself; the optimiser then only fills in its phase

    # -- said by the loop -------------------------------------------------------------------------------------

    def step(self, number: int | None = None) -> Step:
        """A step to be used in `with`; without a number they are counted from 0."""
        return Step(self, self._next_number if number is None else number)

    def begin(self, step: Step) -> None:
        """A step opens: it began with the fetch of its batch, if that came before."""
        self.guard(self._begin, step)

    def _begin(self, step: Step) -> None:
        self.explicit = True
        self._open = step
        if not self._fetched_ns:
            self._mark()
        else:
            step.spent["data"] = self._fetched_ns
        self._fetched_ns = self._optimizer_ns = 0
        self._rings.of_thread().step_begin(step.number, self._began_ns)

    def end(self, step: Step, failed: bool) -> None:
        """A step closes. One that ended in an exception is not written: its begin stays visible, without an end."""
        self.guard(self._end, step, failed)

    def _end(self, step: Step, failed: bool) -> None:
        self._open = None
        self._next_number = step.number + 1
        if not failed:
            if self._optimizer_ns:
                step.spent.setdefault("optimizer", self._optimizer_ns)
            if self._fetched_ns:  # a watched loader that was read inside the step
                step.spent.setdefault("data", self._fetched_ns)
            self._write(step)
        self._began_ns = self._fetched_ns = 0

    # -- shown by loader and optimiser ------------------------------------------------------------------------

    def watched(self, batches: Iterable[T]) -> Iterator[T]:
        """The same batches; the time that each took to come is the data phase of the step it is for."""
        iterator = iter(batches)
        while True:
            try:
                batch = self.fetched(lambda: next(iterator))
            except StopIteration:
                return
            yield batch

    def fetched(self, fetch: Callable[[], T]) -> T:
        """What `fetch` returns; the time it took is the data phase of the step that the batch is for.

        A loader that fetches by another one, or is watched twice, counts once. Errors: those of `fetch`; StopIteration
        ends the epoch.
        """
        if self._is_fetching:
            return fetch()
        self.guard(self._mark_if_new)
        began, self._is_fetching = _now(), True
        try:
            batch = fetch()
        except StopIteration:
            self._fetched_ns = 0
            if not self.explicit:
                self._began_ns = 0  # what comes between two epochs is nobody's step
            raise
        finally:
            self._is_fetching = False
        self._fetched_ns += _now() - began
        return batch

    def optimizer_begins(self, *_: object) -> None:
        """Hook of torch.optim: before the step of any optimiser."""
        self._optimizer_began = _now()

    def optimizer_ended(self, *_: object) -> None:
        """Hook of torch.optim: after it. Ends the step of a loop that does not say its steps."""
        if self._optimizer_began:
            self._optimizer_ns += _now() - self._optimizer_began
            self._optimizer_began = 0
        if not self.explicit:
            self.guard(self._end_implied)

    def _end_implied(self) -> None:
        if self._began_ns:
            step = Step(self, self._next_number)
            if self._fetched_ns:
                step.spent["data"] = self._fetched_ns
            step.spent["optimizer"] = self._optimizer_ns
            self._write(step)
            self._next_number += 1
        self._fetched_ns = self._optimizer_ns = 0
        self._mark()  # the next one begins here; before the first, nobody knows when it began

    # -- both -------------------------------------------------------------------------------------------------

    def _mark_if_new(self) -> None:
        if not self._began_ns or (self.explicit and self._open is None and not self._fetched_ns):
            self._mark()

    def _mark(self) -> None:
        self._began_ns, self._began = time.time_ns(), _now()

    def _write(self, step: Step) -> None:
        lengths = {f"{name}_ns": step.spent.get(name) for name in PHASES}
        self._rings.of_thread().step(
            step.number,
            self._began_ns,
            self._began_ns + _now() - self._began,
            samples=step.samples,
            tokens=step.tokens,
            loss=self.number_of(step.loss),
            metrics=step._metrics,
            **lengths,
        )

    def number_of(self, value: Any) -> float | None:
        """A number, or None, counted, for what is none.

        A tensor on a device is not read: that would wait for the device. Give `loss.item()` where the loop reads
        it anyway.
        """
        if value is None:
            return None
        try:
            if isinstance(value, torch.Tensor):
                if not value.is_cpu:
                    self._count("device_value")
                    return None
                value = value.detach()
            return float(value)  # nan and infinity too: they are what one looks for
        except Exception:
            self._count("not_a_number")
            return None

    def guard(self, function: Callable[..., None], *arguments: object) -> None:
        """Call one of ours; an error of it is counted and never reaches the training loop."""
        try:
            function(*arguments)
        except Exception:
            self._count("hook_error")
