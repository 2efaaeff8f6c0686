"""Asks as bob and as nobody, looks for acme in the answers, and holds them against those of a server without acme."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from evals.tenants.canaries import canaries, not_asked
from evals.tenants.forging import Forger, names_of
from evals.tenants.place import Answer, Server, ndjson
from evals.tenants.questions import Asker, Names, Question, Route, routes_of
from evals.tenants.same import difference
from evals.tenants.scene import ACME, JOB, METRIC, NEIGHBOUR, STEM, Row
from evals.tenants.statements import Writer
from leadline.ingest.decode import NOT_BY_ROWS
from leadline.model.tables import BY_NAME, TABLES

GARBAGE = ("ll_000000000000_" + "A" * 43, "ll_", "null", "a" * 5000, "Bearer x")
TOLD_EVERY = 500
FILLED_ROWS = 10
SQL_SHARE = 0.3  # of all questions
TABLE_SHARE = 0.1
# Answers from which names for questions are taken, asked as acme and as bob.
ASKED_FIRST = (
    "/api/v1/jobs",
    "/api/v1/incidents",
    "/api/v1/entities?limit=300",
    "/api/v1/series?limit=300",
    "/api/v1/symptoms",
    "/api/v1/failures",
    "/api/v1/anomalies",
    "/api/v1/fleet",
    "/api/v1/senders",
    "/api/v1/rules",
    "/api/v1/sle",
    *(f"/api/v1/tables/{table.name}?limit=20" for table in TABLES),
)


@dataclass(slots=True)
class Leaks:
    """What was asked and what came out."""

    found: list[dict[str, Any]] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)  # by route
    reached: Counter[str] = field(default_factory=Counter)  # answered 200
    unsteady: list[dict[str, str]] = field(default_factory=list)  # answers that differ from themselves
    influenced: list[tuple[str, str, Row]] = field(default_factory=list)  # verdicts of bob that acme's rows change
    empty: list[str] = field(default_factory=list)  # tables in which acme has no rows: nothing of them could leak

    def not_reached(self) -> list[str]:
        """Routes that never answered 200 to bob or to nobody in particular."""
        return sorted(route for route in self.asked if not self.reached[route])


def leaks(
    one: Server, other: Server, span: tuple[int, int], seed: int, questions: int, told: Callable[[str], None]
) -> Leaks:
    """Ask both servers. `one` has acme's rows, `other` has not."""
    out = Leaks()
    chance = random.Random(seed)
    _mark(one)
    acme, bob = Names(), Names()
    for names, who in ((acme, "acme-read"), (bob, "bob-read")):
        for target in ASKED_FIRST:
            status, _, body = one.send("GET", target, who=who)
            if status == 200:
                names.take(json.loads(body))
    _fill(one, chance, span)
    out.empty = _empty(one)
    routes = routes_of(one.json("/openapi.json"))
    words = _words(acme) + _words(bob)[:20]
    writer = Writer(chance, BY_NAME, words)
    asker = Asker(chance, _secrets(one), acme, bob, span, list(BY_NAME), writer.statement)
    for number, question in enumerate(_drawn(chance, asker, routes, questions), 1):
        _ask(one, other, question, out)
        if number % TOLD_EVERY == 0:
            told(f"{number} of {questions} questions, {len(out.found)} leaks")
    _reach(one, other, routes, asker, out)
    _follow(one, asker, out)
    return out


def _secrets(server: Server) -> dict[str, str]:
    """Tokens with which nothing of acme's may be read: bob's, those that ended, and what is none."""
    mine = {
        name: secret
        for name, secret in server.secrets.items()
        if name.startswith(("bob", "acme-expired", "acme-revoked"))
    }
    mangled = server.secrets["acme-read"][:-1] + ("A" if server.secrets["acme-read"][-1] != "A" else "B")
    return {
        **mine,
        "none": "",
        "mangled": mangled,
        **{f"garbage-{number}": each for number, each in enumerate(GARBAGE)},
    }


def _mark(server: Server) -> None:
    """Have acme say something of an incident of its own, so that there is a mark."""
    for each in server.json("/api/v1/incidents", "acme-read")["incidents"][:1]:
        said = {"incident": each["incident"], "mark": "dismissed", "reason": f"{STEM}-reason"}
        server.json("/api/v1/marks", "acme-operate", said)


def _fill(server: Server, chance: random.Random, span: tuple[int, int]) -> None:
    """Some rows of acme in each table that the recording gives it none of, so that there is something to read."""
    relations = server.sql("SELECT child, parent, kind FROM relation", "acme-read")
    forger = Forger(chance, span, names_of({"relation": relations}), {})
    as_acme = [("leadline-tenant", ACME), ("leadline-role", "operator"), ("content-type", "application/x-ndjson")]
    for name in _empty(server):
        if name not in NOT_BY_ROWS:
            body = ndjson([forger.row(BY_NAME[name]) for _ in range(FILLED_ROWS)])
            server.send("POST", f"/api/v1/rows/{name}", as_acme, body, "root")


def _empty(server: Server) -> list[str]:
    """Tables without rows of acme."""
    counts = {name: server.sql(f"SELECT count() AS n FROM {name}", "acme-read")[0]["n"] for name in BY_NAME}
    return sorted(name for name, count in counts.items() if not int(count))


def _words(names: Names) -> list[str]:
    return sorted({each for known in names.by_key.values() for each in known[:30] if len(each) < 80})


def _drawn(chance: random.Random, asker: Asker, routes: list[Route], count: int) -> Iterator[Question]:
    """Questions: every route at first, then by chance, SQL and tables more often than others."""
    sql = next(each for each in routes if each.path == "/api/v1/sql")
    table = next(each for each in routes if each.path == "/api/v1/tables/{table}")
    for number in range(count):
        roll = chance.random()
        route = sql if roll < SQL_SHARE else table if roll < SQL_SHARE + TABLE_SHARE else routes[number % len(routes)]
        yield asker.question(route)


def _ask(one: Server, other: Server, question: Question, out: Leaks) -> int:
    mine = one.ask(question)
    out.asked[question.route] += 1
    out.reached[question.route] += mine[0] == 200
    held = not_asked(canaries(_whole(mine)), question.asked())
    if held:
        out.found.append(_found(question, mine, f"holds {sorted(held)[:10]}"))
        return mine[0]
    theirs = other.ask(question)
    path = question.target.partition("?")[0]
    differs = difference((mine[0], mine[2]), (theirs[0], theirs[2]), path)
    if differs:
        again, theirs_again = one.ask(question), other.ask(question)
        by_itself = difference((mine[0], mine[2]), (again[0], again[2]), path) or difference(
            (theirs[0], theirs[2]), (theirs_again[0], theirs_again[2]), path
        )
        if by_itself:
            out.unsteady.append({"route": question.route, "target": question.target[:200], "differs": by_itself[:300]})
        else:
            out.found.append(_found(question, mine, f"differs: {differs}"))
    return mine[0]


def _whole(answer: Answer) -> bytes:
    """Headers and body, as one; the body alone where it is packed."""
    head = "\n".join(f"{name}: {value}" for name, value in answer[1].items()).encode()
    packed = answer[2][:2] == b"\x1f\x8b" or answer[2][257:262] == b"ustar"
    return answer[2] if packed else head + b"\n\n" + answer[2]


def _found(question: Question, answer: Answer, why: str) -> dict[str, Any]:
    return {
        "route": question.route,
        "who": question.who,
        "asked": question.asked()[:600].replace("\n", " | "),
        "status": answer[0],
        "why": why[:1200],
    }


def _reach(one: Server, other: Server, routes: list[Route], asker: Asker, out: Leaks) -> None:
    """Ask each route that never answered 200 what bob may well ask, and after that as an operator what it needs: who
    hits no route tries none."""
    incident = next(iter(asker.bob.by_key.get("incident", ())), "")
    plain = {
        "job": NEIGHBOUR,
        "a": f"rank:{NEIGHBOUR}/0",
        "b": f"rank:{NEIGHBOUR}/1",
        "src": "h3",
        "dst": "h8",
        "metric": "bobs_loss",
        "entity": f"job:{NEIGHBOUR}",
        "name": NEIGHBOUR,
        "expectation": "step-time",
        "incident": incident,
        "table": "step",
    }
    for route in [each for each in routes if each.name in out.not_reached()]:
        path, asked = route.path, []
        for name, where, _ in route.parameters:
            if where == "path":
                path = path.replace("{" + name + "}", quote(plain.get(name, "-"), safe=""))
            elif name in plain:
                asked.append(f"{name}={quote(plain[name])}")
        for who in ("bob-read", "bob-operate"):
            headers = (("authorization", f"Bearer {one.secrets[who]}"),)
            _ask(
                one,
                other,
                Question(route.name, who, route.method, path + "?" * bool(asked) + "&".join(asked), headers),
                out,
            )


def _follow(one: Server, asker: Asker, out: Leaks) -> None:
    """The stream of changes, while acme sends."""
    for who in ("bob-read", "none", "acme-revoked"):
        secret = asker.secrets[who]
        headers = [("authorization", f"Bearer {secret}")] if secret else []
        one.send("POST", "/api/v1/rows/event", [("content-type", "application/x-ndjson")], _line(), "acme-write")
        answer = one.follow(headers)
        question = Question("GET /api/v1/changes", who, "GET", "/api/v1/changes", tuple(headers))
        out.asked[question.route] += 1
        out.reached[question.route] += answer[0] == 200
        if held := canaries(answer[2]):
            out.found.append(_found(question, answer, f"holds {sorted(held)[:10]}"))


def _line() -> bytes:
    import time

    row = {
        "time_ns": time.time_ns(),
        "entity_kind": "job",
        "entity": f"job:{JOB}",
        "kind": "log",
        "severity": "info",
        "code": None,
        "message": f"{STEM}-now {METRIC}",
        "attributes": {},
        "source": STEM,
    }
    return json.dumps(row).encode()
