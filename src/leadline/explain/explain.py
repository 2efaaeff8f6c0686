"""The explanation of an incident: the text of the verdict, and, where asked for, a language model's wording of it.

    incident ──> facts, text ─────────────────────────────────────────────> answer
                   └─ budget ─> redact ─> model ─> restore ─> check ─> sentences that hold ─┘

The first line never depends on the second. A model that is not set, away, out of budget or talks nonsense leaves the
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leadline.alerts.secrets import checked_url, secret
from leadline.analysis.cause.rules import BY_NAME
from leadline.explain.budget import BYTES_PER_TOKEN, Budget, Cost, cost
from leadline.explain.check import Checked, checked
from leadline.explain.config import ExplainConfig
from leadline.explain.model import Answer, Model, ModelError
from leadline.explain.prompt import messages
from leadline.explain.redact import Redactor
from leadline.model.counters import Counter, counter
from leadline.model.errors import ConfigError
from leadline.views.incidents.facts import Explanation, Sentence, explanation
from leadline.views.incidents.incident import Incident

log = logging.getLogger(__name__)

STATE_FILE = "explain.sqlite"
AT_ONCE_MAX = 2  # questions; each holds a thread of those that answer requests
KEPT_MAX = 256  # answers, about 3 kB each
OK, OFF, FAILED, NOTHING = "ok", "off", "failed", "nothing"
"""ok: sentences that hold; off: not asked for, or none set; failed: no answer, and why; nothing: no sentence held."""


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
        self._kept: OrderedDict[str, Worded] = OrderedDict()

    def explain(self, incident: Incident, *, with_model: bool, tenants: Iterable[str] = ()) -> dict[str, Any]:
        """The explanation of an incident, as the API tells it.

        `tenants`: names of all tenants there are; none of them is told to a model. Never raises for the model's sake.
        """
        told = explanation(incident)
        worded = self._worded(told, tenants) if with_model else Worded(OFF, "not asked for")
        return {**told.as_json(), "model": asdict(worded)}

    def _worded(self, told: Explanation, tenants: Iterable[str]) -> Worded:
        if self._model is None:
            return Worded(OFF, "no model is set (explain.url)")
        redactor = Redactor(tenants)
        asked = messages(told.facts, redactor.hide)
        # With the names as they are: two questions may differ in nothing else.
        facts = [(each.said, each.quoted) for each in told.facts]
        digest = hashlib.sha256(json.dumps([asked, facts]).encode()).hexdigest()
        kept = self._of(digest)
        if kept is None:
            kept = self._asked(self._model, told, asked, redactor)
            if kept.state in (OK, NOTHING):
                self._keep(digest, kept)
        return kept

    def _of(self, digest: str) -> Worded | None:
        with self._lock:
            return self._kept.get(digest)

    def _keep(self, digest: str, worded: Worded) -> None:
        """The same question is answered from memory: it costs nothing, and says the same."""
        with self._lock:
            self._kept[digest] = worded
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)

    def _asked(self, model: Model, told: Explanation, asked: list[dict[str, str]], redactor: Redactor) -> Worded:
        if not self._turns.acquire(blocking=False):
            return self._failed("busy", f"{AT_ONCE_MAX} questions are being answered; ask again")
        try:
            return self._within_budget(model, told, asked, redactor)
        finally:
            self._turns.release()

    def _within_budget(
        self, model: Model, told: Explanation, asked: list[dict[str, str]], redactor: Redactor
    ) -> Worded:
        now_ns = self._now_ns()
        tokens_in = round(len(json.dumps(asked, ensure_ascii=False).encode()) / BYTES_PER_TOKEN)
        # Twice: a server that refuses the first dialect is asked again.
        most = cost(self._config, 2 * tokens_in, 2 * self._config.tokens_max)
        try:
            if not self._budget.reserve(most, now_ns):
                return self._failed("budget", "the budget of this day is spent (explain.tokens_per_day, money_per_day)")
            answer = model.ask(asked)
            taken = self._taken(answer, tokens_in)
            self._budget.settle(most, taken, now_ns)
        except (sqlite3.Error, OSError) as error:
            log.error("explain: what a model costs cannot be kept, so none is asked: %s", error)
            return self._failed("state", f"what it costs cannot be kept: {error}")
        except ModelError as error:
            return self._failed(error.reason, str(error))
        return self._told(_restored(answer.content, redactor), told, taken)

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

    def _failed(self, reason: str, why: str) -> Worded:
        self._count(counter("explain_failed", reason), 1)
        return Worded(FAILED, why, self._config.model)


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
