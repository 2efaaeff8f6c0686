"""The explanation of an incident: the text of the verdict, and, where asked for, a language model's wording of it and
its second opinion.

    incident ──> facts, text ──────────────────────────────────────────────> answer
        │          └─ budget ─> redact ─> model ─> restore ─> check ─> sentences that hold ─┤
        └──> candidates ─ the same, a question of its own ─> the one that it would name ─────┘

The first line never depends on the others. A model that is not set, away, out of budget or talks nonsense leaves the
answer as it is without one, and says why.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from leadline.alerts.secrets import checked_url, secret
from leadline.analysis.cause.rules import BY_NAME
from leadline.explain.budget import BYTES_PER_TOKEN, Budget, Cost, cost
from leadline.explain.check import Checked, checked
from leadline.explain.config import ExplainConfig
from leadline.explain.model import Answer, Model, ModelError, Question
from leadline.explain.opinion import Opinion
from leadline.explain.opinion import asked as asked_of
from leadline.explain.prompt import SCHEMA, messages
from leadline.explain.redact import Redactor
from leadline.explain.states import FAILED, NOTHING, OFF, OK
from leadline.model.counters import Counter, counter
from leadline.model.errors import ConfigError
from leadline.views.incidents.facts import Explanation, Fact, Sentence, explanation
from leadline.views.incidents.incident import Incident

log = logging.getLogger(__name__)

STATE_FILE = "explain.sqlite"
AT_ONCE_MAX = 2  # questions; each holds a thread of those that answer requests
KEPT_MAX = 256  # answers, about 3 kB each
NOT_ASKED, NO_MODEL = "not asked for", "no model is set (explain.url)"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Worded:
    """What came of asking a model."""

    state: str
    why: str = ""
    model: str = ""
    sentences: tuple[Sentence, ...] = ()
    dropped: tuple[str, ...] = ()
    tokens: int = 0
    money: float = 0.0


class _NoAnswer(Exception):
    """A model gave no answer; the text says why."""


class Explainer:
    """Explains incidents. Thread-safe; built inert."""

    def __init__(
        self,
        config: ExplainConfig,
        directory: Path,
        count: Callable[[Counter, int], None],
        environ: Mapping[str, str] = os.environ,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`directory`: of the file of what was spent, unless the settings name one. Errors: ConfigError."""
        self._config, self._count, self._now_ns = config, count, now_ns
        self._model: Model | None = None
        if config.url:
            if not config.model:
                raise ConfigError("explain.url is set and explain.model is not; name the model, or remove explain.url")
            key = config.api_key or secret(config.api_key_file, "", environ, "explain.api_key_file")
            self._model = Model(config, checked_url(config.url, "explain.url"), key)
        self._budget = Budget(config, Path(config.state) if config.state else directory / STATE_FILE)
        self._turns = threading.BoundedSemaphore(AT_ONCE_MAX)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, object] = OrderedDict()

    def explain(
        self, incident: Incident, *, with_model: bool = False, with_opinion: bool = False, tenants: Iterable[str] = ()
    ) -> dict[str, Any]:
        """The explanation of an incident, as the API tells it.

        `with_model`: also in a model's words; `with_opinion`: also which candidate it would name, a further question.
        `tenants`: names of all tenants there are; none of them is told to a model. Never raises for the model's sake.
        """
        told = explanation(incident)
        worded, opinion = Worded(OFF, NOT_ASKED), Opinion(OFF, NOT_ASKED)
        names = tuple(tenants)
        if with_model:
            worded = self._worded(told, Redactor(names))
        if with_opinion:
            opinion = self._opinion(incident, Redactor(names))
        return {**told.as_json(), "model": asdict(worded), "opinion": asdict(opinion)}

    def _worded(self, told: Explanation, redactor: Redactor) -> Worded:
        if self._model is None:
            return Worded(OFF, NO_MODEL)
        question = Question("explanation", messages(told.facts, redactor.hide), SCHEMA)

        def ask() -> Worded:
            content, taken = self._reply(question)
            return self._told(_restored(content, redactor), told, taken)

        try:
            return self._once(question, told.facts, ask)
        except _NoAnswer as error:
            return Worded(FAILED, str(error), self._config.model)

    def _opinion(self, incident: Incident, redactor: Redactor) -> Opinion:
        if self._model is None:
            return Opinion(OFF, NO_MODEL)
        asked = asked_of(incident)
        if asked is None:
            return Opinion(NOTHING, "nobody is a candidate")
        question = asked.question(redactor.hide)

        def ask() -> Opinion:
            content, _ = self._reply(question)
            if isinstance(content, dict) and isinstance(content.get("reason"), str):
                content = {**content, "reason": redactor.restore(content["reason"])}
            found = replace(asked.opinion(content, BY_NAME), model=self._config.model)
            said = "nothing" if found.agrees is None else "agrees" if found.agrees else "differs"
            self._count(counter("explain_opinion", said), 1)
            return found

        try:
            return self._once(question, asked.facts, ask)
        except _NoAnswer as error:
            return Opinion(FAILED, str(error), self._config.model)

    def _once(self, question: Question, facts: Iterable[Fact], ask: Callable[[], T]) -> T:
        """What comes of asking; the same question is answered from memory: it costs nothing, and says the same. Errors:
        _NoAnswer, which is not kept."""
        # With the names as they are: two questions may differ in nothing else.
        quoted = [(each.said, each.quoted) for each in facts]
        digest = hashlib.sha256(json.dumps([question.name, question.messages, quoted]).encode()).hexdigest()
        with self._lock:
            if digest in self._kept:
                return self._kept[digest]  # type: ignore[return-value]  # a question has one kind of answer
        found = ask()
        with self._lock:
            self._kept[digest] = found
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return found

    def _reply(self, question: Question) -> tuple[Any, Cost]:
        """What a model says, JSON of any shape, and what that cost. Errors: _NoAnswer."""
        if not self._turns.acquire(blocking=False):
            raise self._failed("busy", f"{AT_ONCE_MAX} questions are being answered; ask again")
        try:
            return self._within_budget(question)
        finally:
            self._turns.release()

    def _within_budget(self, question: Question) -> tuple[Any, Cost]:
        assert self._model is not None  # those who ask looked
        now_ns = self._now_ns()
        size = len(json.dumps(list(question.messages), ensure_ascii=False).encode())
        tokens_in = round(size / BYTES_PER_TOKEN)
        # Twice: a server that refuses the first dialect is asked again.
        most = cost(self._config, 2 * tokens_in, 2 * self._config.tokens_max)
        try:
            if not self._budget.reserve(most, now_ns):
                why = "the budget of this day is spent (explain.tokens_per_day, money_per_day)"
                raise self._failed("budget", why)
            answer = self._model.ask(question)
            taken = self._taken(answer, tokens_in)
            self._budget.settle(most, taken, now_ns)
        except (sqlite3.Error, OSError) as error:
            log.error("explain: what a model costs cannot be kept, so none is asked: %s", error)
            raise self._failed("state", f"what it costs cannot be kept: {error}") from error
        except ModelError as error:
            raise self._failed(error.reason, str(error)) from error
        return answer.content, taken

    def _taken(self, answer: Answer, tokens_in: int) -> Cost:
        """By what the model says it took; where it does not say, or says less than half of what we counted, by us."""
        took_in = max(answer.tokens_in or tokens_in, tokens_in // 2)
        took_out = self._config.tokens_max if answer.tokens_out is None else answer.tokens_out
        return cost(self._config, took_in, took_out)

    def _told(self, content: Any, told: Explanation, taken: Cost) -> Worded:
        left: Checked = checked(content, told.facts, BY_NAME)
        self._count(counter("explain_dropped", "sentences"), len(left.dropped))
        if left.sentences:
            self._count(counter("explain_accepted", "answers"), 1)
        return Worded(
            OK if left.sentences else NOTHING, "" if left.sentences else "no sentence of the model held",
            self._config.model, left.sentences, left.dropped, taken.tokens, taken.money,
        )  # fmt: skip

    def _failed(self, reason: str, why: str) -> _NoAnswer:
        self._count(counter("explain_failed", reason), 1)
        return _NoAnswer(why)


def _restored(content: Any, redactor: Redactor) -> Any:
    """The answer with the names of tenants in its texts; whatever else stands there stays."""
    found = content.get("sentences") if isinstance(content, dict) else None
    if not isinstance(found, list):
        return content
    return {
        "sentences": [
            {**each, "text": redactor.restore(each["text"])}
            if isinstance(each, dict) and isinstance(each.get("text"), str)
            else each
            for each in found
        ]
    }
