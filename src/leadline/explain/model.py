"""Asking a language model over an OpenAI-compatible API: one question, one answer, within a time and a size.

Source: OpenAI API reference, Create chat completion; `response_format` of type json_schema (structured outputs).
Servers differ in what they take: where one refuses the request itself (400, 422), it is asked once more, more plainly.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from leadline.explain.config import ExplainConfig

ANSWER_BYTES_MAX = 262_144  # 700 tokens are some 3 kB; thoughts of a reasoning model may come along
_FULL, _PLAIN = 0, 1


class ModelError(Exception):
    """No answer that can be used. `reason`: unreachable, status, malformed (counters of `explain_failed`)."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Question:
    """Messages of a chat, and the JSON schema that its answer is to obey, under a name."""

    name: str
    messages: Sequence[Mapping[str, str]]
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said: parsed JSON of any shape, and the tokens it says that took; None where it does not say."""

    content: Any
    tokens_in: int | None
    tokens_out: int | None


class Model:
    """One model. Thread-safe: it keeps nothing but which dialect was understood."""

    def __init__(self, config: ExplainConfig, url: str, key: str) -> None:
        self._config, self._url, self._key = config, url, key
        self._dialect = _FULL

    def ask(self, question: Question) -> Answer:
        """Ask, and wait no longer than `explain.timeout_s` in all. Errors: ModelError."""
        return asyncio.run(self._within(question))

    async def _within(self, question: Question) -> Answer:
        limit_s = self._config.timeout_s
        try:
            # Of the whole exchange: a server that sends a byte now and then would outlast any limit of a read.
            async with asyncio.timeout(limit_s):
                return await self._asked(question)
        except TimeoutError:
            raise ModelError("unreachable", f"no answer within explain.timeout_s, {limit_s:g} s") from None
        except (httpx.HTTPError, OSError) as error:
            raise ModelError("unreachable", f"{type(error).__name__}: {error}".rstrip(": ")) from error

    async def _asked(self, question: Question) -> Answer:
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        timeout = httpx.Timeout(self._config.timeout_s)
        async with httpx.AsyncClient(
            trust_env=False, follow_redirects=False, timeout=timeout, headers=headers
        ) as client:
            status, raw = await self._post(client, question)
            if status in (400, 422) and self._dialect == _FULL:
                self._dialect = _PLAIN
                status, raw = await self._post(client, question)
                if not 200 <= status < 300:
                    self._dialect = _FULL  # it was not the dialect
        if not 200 <= status < 300:
            raise ModelError("status", f"status {status}: {self._said(raw)}")
        return parsed(raw)

    def _said(self, raw: bytes) -> str:
        """An error of the API in its words; some repeat the key."""
        text = raw[:2000].decode(errors="replace")
        text = text.replace(self._key, "***") if self._key else text
        return "".join(each if each.isprintable() else " " for each in text)[:300]

    async def _post(self, client: httpx.AsyncClient, question: Question) -> tuple[int, bytes]:
        body = self._body(question)
        async with client.stream("POST", f"{self._url}/chat/completions", json=body) as answer:
            raw = b""
            async for piece in answer.aiter_bytes():
                raw += piece
                if len(raw) > ANSWER_BYTES_MAX:
                    raise ModelError("malformed", f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
            return answer.status_code, raw

    def _body(self, question: Question) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._config.model, "messages": list(question.messages)}
        if self._dialect == _PLAIN:  # what models that think first take, and servers that know no schemas
            return {**body, "max_completion_tokens": self._config.tokens_max}
        schema = {"name": question.name, "strict": True, "schema": question.schema}
        return {
            **body, "max_tokens": self._config.tokens_max, "temperature": 0, "seed": 1,
            "response_format": {"type": "json_schema", "json_schema": schema},
        }  # fmt: skip


def parsed(raw: bytes) -> Answer:
    """The answer in the body of a response. Errors: ModelError."""
    body = _json(raw.decode(errors="replace"), "the response")
    try:
        content = body["choices"][0]["message"]["content"]
    except (TypeError, KeyError, IndexError):
        raise ModelError("malformed", "the response has no choices[0].message.content") from None
    if not isinstance(content, str) or not content.strip():
        raise ModelError("malformed", "the model returned nothing")
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Answer(
        _json(_unfenced(content), "what the model returned"),
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
    )


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ModelError("malformed", f"{what} is no JSON") from None


def _unfenced(text: str) -> str:
    """JSON that a model put between ``` marks, as many do without a schema."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```") and "\n" in bare:
        return bare[bare.index("\n") : -3]
    return bare


def _count(given: Any) -> int | None:
    return given if type(given) is int and 0 <= given < 10**9 else None
