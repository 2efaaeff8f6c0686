"""An executor whose calls are answered when the test says so, in any order."""

from __future__ import annotations

import random
from concurrent.futures import Future

from leadline.runner.execute import Task
from leadline.runner.worker import CRASHED, TIMEOUT, Outcome, judged


class ShuffledCalls:
    """Calls in this process, each answered when it is drawn. A share of them crash or hang until they are stopped."""

    def __init__(self, random_: random.Random, share: float = 0.0, slow: str = "") -> None:
        """`slow`: an analysis whose calls are drawn ten times as seldom."""
        self._random, self.share, self.slow, self.failed = random_, share, slow, 0
        self._open: list[tuple[Task, Future[Outcome]]] = []
        self.most = 0  # calls that were open at one time
        self.answered: list[str] = []  # analyses in the order in which their calls were answered

    @property
    def open(self) -> list[str]:
        """Names of the analyses whose calls wait."""
        return [task.analysis.name for task, _ in self._open]

    def start(self) -> None:
        """See `Executor`."""

    def submit(self, task: Task) -> Future[Outcome]:
        """See `Executor`."""
        done: Future[Outcome] = Future()
        self._open.append((task, done))
        self.most = max(self.most, len(self._open))
        return done

    def answer(self, name: str = "") -> bool:
        """Answer one of the calls, of an analysis if that is named. Returns: whether there was one."""
        found = [each for each in self._open if name in ("", each[0].analysis.name)]
        if not found:
            return False
        weights = [0.1 if each[0].analysis.name == self.slow else 1.0 for each in found]
        task, done = chosen = self._random.choices(found, weights)[0]
        self._open.remove(chosen)
        self.answered.append(task.analysis.name)
        if self._random.random() < self.share:
            self.failed += 1
            done.set_result(Outcome(self._random.choice([CRASHED, TIMEOUT]), {}, error="simulated"))
        else:
            done.set_result(judged(task.analysis, task.window, task.tables))
        return True

    def close(self) -> None:
        """See `Executor`."""
        for _, done in self._open:
            done.set_result(Outcome(CRASHED, {}, error="the workers were stopped"))
        self._open.clear()
