"""Questions to every route, drawn by a seed: parameters of acme's real names, tokens that must not do, tricks.

openapi.json ──> routes ──┐
answers to acme ──> Names ┴─> draw(random) ──> Question: method, target, headers, body
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from evals.tenants.scene import ACME

# Keys of answers under which names for a parameter stand; others are found under the parameter's own name.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "a": ("entity", "job", "host", "rank"),
    "b": ("entity", "job", "host", "rank"),
    "src": ("entity", "host"),
    "dst": ("entity", "host"),
    "of": ("entity", "child", "parent"),
    "address": ("entity", "job"),
    "name": ("entity", "job", "name"),
    "match": ("entity", "job", "name"),
    "metric": ("name", "metric"),
}
TIMES = ("from", "to", "at")
ODD = (
    "",
    "'",
    '"',
    "%",
    "*",
    "_",
    "..",
    "\x00",
    "../../etc/passwd",
    "-1",
    "1e400",
    "NaN",
    "９",
    "\u202e",
    "a" * 1001,
    "' OR 1=1 --",
    "{{7*7}}",
    "default",
    "provider",
    ACME,
)
FORWARDED = (
    "x-forwarded-for",
    "forwarded",
    "x-real-ip",
    "x-original-url",
    "x-forwarded-host",
    "x-tenant",
    "x-http-method-override",
)


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, with its parameters: (name, in, schema)."""

    method: str
    path: str
    parameters: Sequence[tuple[str, str, Mapping[str, Any]]] = ()

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Question:
    """One request, as its bytes go over the wire."""

    route: str
    who: str  # name of the token, or why there is none that is good
    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def asked(self) -> str:
        """All of it as one text: what an answer may repeat."""
        return "\n".join((self.target, *(f"{k}: {v}" for k, v in self.headers), self.body.decode("utf-8", "replace")))


@dataclass(slots=True)
class Names:
    """Names for parameters, by the key under which they stood in answers."""

    by_key: dict[str, list[str]] = field(default_factory=dict)

    def take(self, answer: Any) -> None:
        """Keep all names and cursors of an answer."""
        for key, value in _leaves(answer):
            known = self.by_key.setdefault(key, [])
            if len(known) < 500 and value not in known:
                known.append(value)

    def draw(self, chance: random.Random, parameter: str) -> str:
        """A value for a parameter; empty if nothing was ever told."""
        keys = [key for key in (*ALIASES.get(parameter, ()), parameter, f"{parameter}s") if self.by_key.get(key)]
        if not keys or chance.random() < 0.05:
            keys = [key for key, known in self.by_key.items() if known]
        return chance.choice(self.by_key[chance.choice(keys)]) if keys else ""


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, str(name))
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, key)
    elif isinstance(value, str) and value and len(value) < 600:
        yield key, value


def routes_of(openapi: Mapping[str, Any]) -> list[Route]:
    """Every route that the server says it has, but those that follow for ever or sign out."""
    return [
        Route(
            method.upper(),
            path,
            tuple((each["name"], each["in"], each.get("schema", {})) for each in said.get("parameters", ())),
        )
        for path, methods in openapi["paths"].items()
        for method, said in methods.items()
        if path != "/api/v1/changes"
    ]


@dataclass(frozen=True, slots=True)
class Asker:
    """Draws questions as bob's; deterministic in `chance`."""

    chance: random.Random
    secrets: Mapping[str, str]  # by the name of the token: bob's good ones, and those that ended
    acme: Names
    bob: Names
    span: tuple[int, int]
    tables: Sequence[str]
    statement: Callable[[], str]  # random SQL

    def question(self, route: Route) -> Question:
        """One question to a route."""
        who, headers = self._who()
        target = self._target(route)
        body = b""
        if route.method == "POST":
            headers.append(("content-type", "application/json"))
            body = json.dumps(self._body(route.path)).encode()
        headers += self._tricks()
        if self.chance.random() < 0.05:
            target = self._odd_path(target)
        return Question(route.name, who, route.method, target, tuple(headers), body)

    def _who(self) -> tuple[str, list[tuple[str, str]]]:
        names = list(self.secrets)
        # Mostly as somebody who may ask: what is refused at the gate asks the routes nothing.
        who = self.chance.choices(
            names, [12 if each == "bob-read" else 4 if each == "bob-operate" else 1 for each in names]
        )[0]
        secret = self.secrets[who]
        if not secret:
            return who, []
        if self.chance.random() < 0.05:
            return f"{who} as cookie", [("cookie", f"leadline-token={secret}")]
        return who, [("authorization", f"Bearer {secret}")]

    def _value(self, name: str, schema: Mapping[str, Any]) -> str:
        chance = self.chance
        if name in TIMES:
            return self._time()
        if name == "table":
            return chance.choice(self.tables)
        if name == "tenant":
            return chance.choice((ACME, "bob", "provider", "", "*"))
        if name == "cluster":
            return chance.choice(("", "", "", "default", "default", ACME, "%"))
        if "enum" in schema:
            return str(chance.choice(schema["enum"]))
        if schema.get("type") == "integer":
            return str(chance.choice((1, 2, 10, schema.get("maximum", 100), schema.get("maximum", 100))))
        if schema.get("type") == "boolean":
            return chance.choice(("true", "false"))
        roll = chance.random()
        if roll < 0.1:
            return chance.choice(ODD)
        return (self.acme if roll < 0.6 else self.bob).draw(chance, name)

    def _time(self) -> str:
        chance = self.chance
        at = chance.randrange(self.span[0], self.span[1])
        return chance.choice((str(at), str(self.span[0]), str(self.span[1]), "-1h", "-10m", "-2d", "", ""))

    def _target(self, route: Route) -> str:
        path, asked = route.path, []
        for name, where, schema in route.parameters:
            if where == "path":
                path = path.replace(
                    "{" + name + "}", quote(self._value(name, schema) or "-", safe=self.chance.choice(("", "/:")))
                )
            elif where == "query" and (self.chance.random() < 0.5 or name in ("job", "a", "b", "metric", "entity")):
                asked.append(f"{name}={quote(self._value(name, schema))}")
        if self.chance.random() < 0.1:
            asked.append(f"{self.chance.choice(('tenant', 'role', 'leadline-tenant', 'token', 'principal'))}={ACME}")
        return path + ("?" + "&".join(asked) if asked else "")

    def _body(self, path: str) -> dict[str, Any]:
        chance = self.chance
        if path.endswith("/sql"):
            return {"sql": self.statement()}
        if path.endswith("/marks"):
            return {
                "incident": (self.acme if chance.random() < 0.8 else self.bob).draw(chance, "incident"),
                "mark": chance.choice(("right", "wrong", "dismissed")),
                "entity": self.acme.draw(chance, "entity") if chance.random() < 0.5 else "",
            }
        if path.endswith("/backfill"):
            return {"from_ns": self.span[0], "to_ns": self.span[1]}
        if path.endswith("/session"):
            return {"token": chance.choice(list(self.secrets.values()))}
        return {}

    def _tricks(self) -> list[tuple[str, str]]:
        """Headers that say that somebody else asks."""
        chance, out = self.chance, []
        if chance.random() < 0.1:
            out.append(
                (
                    chance.choice(("Leadline-Tenant", "leadline-tenant", "LEADLINE-TENANT")),
                    chance.choice((ACME, "provider", "default", "bob", "bob, acme", "*")),
                )
            )
        if chance.random() < 0.05:
            out.append(("Leadline-Role", chance.choice(("operator", "admin", "tenant-write", "provider"))))
        if chance.random() < 0.05:
            out.append(("Leadline-Cluster", chance.choice((ACME, "default", "other"))))
        if chance.random() < 0.05:
            out.append(("host", chance.choice((ACME, f"{ACME}.localhost", "localhost:1", "evil.example", "[::1]"))))
        if chance.random() < 0.05:
            out.append(
                (chance.choice(FORWARDED), chance.choice(("127.0.0.1", "for=127.0.0.1", "/api/v1/config", "GET", ACME)))
            )
        if chance.random() < 0.02:
            out.append(("authorization", f"Bearer {chance.choice(list(self.secrets.values()))}"))
        if chance.random() < 0.05:
            out.append(("accept-encoding", "gzip"))
        return out

    def _odd_path(self, target: str) -> str:
        chance = self.chance
        path, mark, rest = target.partition("?")
        odd = chance.choice(
            (
                f"/{path}",
                f"{path}/",
                f"/health/..{path}",
                f"/health/%2e%2e{path}",
                f"/incidents/..%2f{path}",
                f"{path}%00",
                f"{path};tenant={ACME}",
                path.upper(),
                path.replace("/api", "/%61pi"),
                f"http://{ACME}{path}",
                f"{path}.json",
                f"{path}%20",
            )
        )
        return odd + mark + rest
