"""Telling one receiver: what is due is sent, the rest waits; failures are tried again, further and further apart.

Each receiver has a task of its own, so that one that is slow or gone holds up nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from leadline.alerts.config import AlertsConfig, Receiver
from leadline.alerts.due import Rhythm, current, due, late
from leadline.alerts.notice import Key, Notice
from leadline.alerts.secrets import checked_url, secret, without_password
from leadline.alerts.sent import Sent, Told
from leadline.alerts.wire import Letter, alertmanager, cloudevents, webhook
from leadline.model.counters import Counter, counter
from leadline.model.units import S
from leadline.views.incidents.facts import one_line

log = logging.getLogger(__name__)

BATCH_MAX = 64  # alerts in one POST to an Alertmanager: about 5 kB each, and its limit is a proxy's, often 1 MB
ANSWER_BYTES_MAX = 2000  # read of what a receiver answers: enough for its words of an error
SAID_MAX = 300  # characters of it that are told
FIRST_RETRY_S = 1.0
LASTS_RESENDS = 4  # as Prometheus: an alert ends by itself after so many re-sendings did not come
NEVER = frozenset({400, 413, 422})
"""Statuses that speak of this body: the same again would be refused again. All others may pass (401: a new token)."""
Count = Callable[[Counter, int], None]


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """How one receiver does, for people."""

    name: str
    kind: str
    url: str
    state: str  # ok, failing
    waiting: int  # news that it has not taken yet
    sent: int  # since the start
    last_sent_ns: int | None
    last_error: str
    next_try_s: float | None  # while it fails


class _Failed(Exception):
    """A request that came to nothing. `again`: whether the same may be sent again; `wait_s`: what the receiver asks."""

    def __init__(self, reason: str, text: str, again: bool = True, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.reason, self.again, self.wait_s = reason, again, wait_s


class Delivery:
    """One receiver. Built inert; `run` tells it what is due until cancelled."""

    def __init__(
        self,
        receiver: Receiver,
        config: AlertsConfig,
        link: str,
        environ: Mapping[str, str],
        sent: Sent,
        count: Count,
        now_ns: Callable[[], int],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`link`: base of Leadline's own API, for links. Errors: ConfigError for its address or secrets."""
        what = f"alerts.receivers, {receiver.name}"
        self.receiver = receiver
        self._config, self._link, self._sent, self._count, self._now_ns = config, link, sent, count, now_ns
        self._jitter = jitter
        url = checked_url(receiver.url, f"{what}: url")
        self._resends = receiver.kind == "alertmanager"
        self._url = f"{url.removesuffix('/api/v2/alerts')}/api/v2/alerts" if self._resends else url
        self._secret = secret(receiver.secret_file, receiver.secret_env, environ, f"{what}: secret").encode()
        self._token = secret(receiver.token_file, receiver.token_env, environ, f"{what}: token")
        self._headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        self.rhythm = Rhythm.of(config, resends=self._resends)
        self.told: dict[Key, Told] = {}
        self._began_ns = now_ns()
        self._tries, self._taken, self._last_error = 0, 0, ""
        self._last_sent_ns: int | None = None
        self._waiting, self._next_try_s = 0, 0.0

    def restore(self) -> None:
        """Learn what it was told before. Errors: sqlite3.Error."""
        self.told = self._sent.all_of(self.receiver.name)

    def wants(self, each: Notice) -> bool:
        """Whether incidents of this tenant are for it."""
        return not self.receiver.tenants or each.key[0] in self.receiver.tenants

    def done(self, each: Notice, now_ns: int) -> bool:
        """Whether there is nothing more to tell it of an incident that is no alert any more."""
        told = self.told.get(each.key)
        if not self.wants(each) or late(each, told, self.rhythm, now_ns):
            return True
        return told.state == each.state if told is not None else not due(each, told, self.rhythm, now_ns)

    def state(self) -> ReceiverState:
        """How it does."""
        failing = self._tries > 0
        return ReceiverState(
            self.receiver.name, self.receiver.kind, without_password(self._url), "failing" if failing else "ok",
            self._waiting, self._taken, self._last_sent_ns, self._last_error, self._next_try_s if failing else None,
        )  # fmt: skip

    async def run(self, board: Mapping[Key, Notice]) -> None:
        """Tell what is due of the board, which others keep up to date, until cancelled."""
        timeout = httpx.Timeout(self.receiver.timeout_s)
        # No redirects: a body signed for one address is not for another. Proxies of the environment are not for us.
        async with httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=timeout) as client:
            while True:
                await asyncio.sleep(await self.tell(client, board))

    async def tell(self, client: httpx.AsyncClient, board: Mapping[Key, Notice]) -> float:
        """One look at the board: send what is due. Returns: s until the next look."""
        news = self._news(board)
        self._waiting = len(news)
        while news:
            batch, news = news[: self._batch], news[self._batch :]
            try:
                await self._send(client, batch)
            except _Failed as failure:
                if failure.again:
                    return self._failed(failure)
                await self._refused(client, batch, failure)
            self._waiting = len(news)
        return self._config.every_s

    @property
    def _batch(self) -> int:
        return BATCH_MAX if self._resends else 1

    def _news(self, board: Mapping[Key, Notice]) -> list[Notice]:
        now_ns = self._now_ns()
        wanted = [
            current(each, self.rhythm, now_ns, self._began_ns) for each in list(board.values()) if self.wants(each)
        ]
        found = [each for each in wanted if due(each, self.told.get(each.key), self.rhythm, now_ns)]
        return sorted(found, key=lambda each: (each.reported_ns, each.key))

    async def _send(self, client: httpx.AsyncClient, batch: Sequence[Notice]) -> None:
        """Errors: _Failed."""
        await self._post(client, self._letter(batch))
        self._tries, self._last_error = 0, ""
        self._taken += len(batch)
        self._last_sent_ns = self._now_ns()
        self._count(counter("alert_accepted", "alerts"), len(batch))
        await self._keep(batch)

    def _letter(self, batch: Sequence[Notice]) -> Letter:
        now_ns = self._now_ns()
        if self.receiver.kind == "alertmanager":
            ends_ns = now_ns + round(LASTS_RESENDS * max(self._config.resend_s, self._config.every_s) * S)
            before = [self.told.get(each.key) for each in batch]
            pairs = [(each, told.labels if told else None) for each, told in zip(batch, before, strict=True)]
            return alertmanager(pairs, now_ns, ends_ns, self._link)
        (only,) = batch
        make = webhook if self.receiver.kind == "webhook" else cloudevents
        return make(only, now_ns, self._secret)

    async def _post(self, client: httpx.AsyncClient, letter: Letter) -> None:
        """Errors: _Failed."""
        try:
            async with asyncio.timeout(self.receiver.timeout_s):
                status, headers, text = await self._answer(client, letter)
        except (httpx.HTTPError, TimeoutError, OSError, ValueError) as error:
            raise _Failed("unreachable", f"{type(error).__name__}: {error}".rstrip(": ")) from error
        if 200 <= status < 300:
            return
        said = f"status {status}: {self._without_secrets(text)}".rstrip(": ")
        raise _Failed("refused" if status in NEVER else "status", said, status not in NEVER, _retry_after(headers))

    async def _answer(self, client: httpx.AsyncClient, letter: Letter) -> tuple[int, Any, str]:
        headers = {**letter.headers, **self._headers}
        async with client.stream("POST", self._url, content=letter.body, headers=headers) as answer:
            text = b""
            if answer.status_code >= 300:
                async for piece in answer.aiter_bytes():
                    text += piece
                    if len(text) >= ANSWER_BYTES_MAX:
                        break
            return answer.status_code, answer.headers, text[:ANSWER_BYTES_MAX].decode(errors="replace")

    def _without_secrets(self, text: str) -> str:
        """What a receiver answers, in a line; some repeat the token."""
        for hidden in (self._token, self._secret.decode()):
            text = text.replace(hidden, "***") if hidden else text
        return one_line(text, SAID_MAX)

    def _failed(self, failure: _Failed) -> float:
        """Count and wait: 1 s, 2 s, 4 s ... up to `retry_s_max`, a random half of it off so that many do not come at
        once; or what the receiver asks for."""
        self._tries += 1
        self._count(counter("alert_failed", failure.reason), 1)
        longest_s = self._config.retry_s_max
        wait_s = min(FIRST_RETRY_S * 2.0 ** min(self._tries - 1, 30), longest_s) * (0.5 + 0.5 * self._jitter())
        self._next_try_s = max(wait_s, min(failure.wait_s, longest_s))
        self._say(failure)
        return self._next_try_s

    def _say(self, failure: _Failed) -> None:
        text = str(failure)
        if text != self._last_error:
            log.error("alerts: %s (%s): %s", self.receiver.name, without_password(self._url), text)
        self._last_error = text

    async def _refused(self, client: httpx.AsyncClient, batch: Sequence[Notice], failure: _Failed) -> None:
        """Of a batch each is tried by itself, so that one does not take the others with it; one alone is given up."""
        if len(batch) == 1:
            self._count(counter("alert_failed", "refused"), 1)
            self._say(failure)
            await self._keep(batch)
            return
        for each in batch:
            try:
                await self._send(client, [each])
            except _Failed as alone:
                if alone.again:
                    self._count(counter("alert_failed", alone.reason), 1)
                    continue  # it is still due and comes with the next look
                await self._refused(client, [each], alone)

    async def _keep(self, batch: Sequence[Notice]) -> None:
        """Remember what it was told, in memory and on disk."""
        now_ns = self._now_ns()
        told = {each.key: Told(each.state, each.version, dict(each.labels), now_ns) for each in batch}
        self.told.update(told)
        try:
            await asyncio.to_thread(self._sent.save, self.receiver.name, told, now_ns)
        except sqlite3.Error as error:
            self._count(counter("alert_failed", "state"), 1)
            log.error("alerts: cannot save what was sent to %s: %s", self.receiver.name, error)

    def forget(self, keys: Sequence[Key]) -> None:
        """Let go of what is over and off the board."""
        for key in keys:
            self.told.pop(key, None)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a receiver asks to wait; 0 where it does not, or says it as a date."""
    text = headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) < 8 else 0.0
