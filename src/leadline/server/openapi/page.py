"""`/docs/api`: every operation of the API on one page, without scripts and without anything from another site.

OpenAPI document + rights of routes ──> groups of operations, shapes of answers ──> api.html.jinja2 ──> text/html

Made when it is first asked for, and kept: the document does not change while the server runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from leadline.model.principal import MARK, OPERATE, READ, WRITE
from leadline.server.page import FRESH

if TYPE_CHECKING:
    from jinja2 import Template

PATH = "/docs/api"
TEMPLATE = Path(__file__).with_name("api.html.jinja2")
EXAMPLE_URL = "http://127.0.0.1:8440"  # of a server with the default settings
# What each right is called on the page; roles: docs/how-to/connect-from-another-host.md.
NEEDS = {"": "anyone", READ: "read", WRITE: "write", MARK: "mark", OPERATE: "operate"}
WRITES = NEEDS[WRITE]
Answer = tuple[str, str, str, tuple[str, ...]]  # status, meaning, type, shapes
_EXAMPLES = {"from": "-1h", "job": "bert-1", "src": "h1", "dst": "h2", "window": "24h"}  # of query parameters


@dataclass(frozen=True, slots=True)
class Value:
    """A parameter, or a field of a shape. `links`: shapes that its type names, by their names."""

    name: str
    type: str
    links: tuple[str, ...]
    note: str
    where: str = ""  # of a parameter: path, query
    required: bool = False
    default: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as it is shown."""

    method: str
    path: str
    summary: str
    text: str
    needs: str
    example: str
    parameters: tuple[Value, ...]
    takes: tuple[tuple[str, str, tuple[str, ...]], ...]  # of a body: content type, type, shapes
    answers: tuple[Answer, ...]

    @property
    def id(self) -> str:
        """Its anchor."""
        return f"{self.method} {self.path}".lower().replace("/", "-").replace(" ", "").replace("{", "").replace("}", "")


def serve_api_page(api: FastAPI) -> None:
    """Serve the page of an API that describes itself."""
    kept: list[str] = []

    @api.get(PATH, include_in_schema=False)
    def api_page() -> Response:
        if not kept:
            kept.append(page(api.openapi()))
        return HTMLResponse(kept[0], headers=FRESH)


def page(document: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document."""
    by_tag: dict[str, list[Operation]] = {tag["name"]: [] for tag in document["tags"]}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            by_tag[operation["tags"][0]].append(_operation(method.upper(), path, operation))
    for some in by_tag.values():
        some.sort(key=lambda one: (one.path, one.method))
    groups = [(tag["name"], tag["description"], by_tag[tag["name"]]) for tag in document["tags"]]
    schemas = document["components"]["schemas"]
    shapes = [(name, schema.get("description", ""), _fields(schema)) for name, schema in sorted(schemas.items())]
    return _template().render(
        info=document["info"], groups=[each for each in groups if each[2]], shapes=shapes,
        count=sum(len(each[2]) for each in groups),
    )  # fmt: skip


@cache
def _template() -> Template:
    import jinja2  # not before the page is asked for: a start is quicker

    engine = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    return engine.from_string(TEMPLATE.read_text())


def _operation(method: str, path: str, told: Mapping[str, Any]) -> Operation:
    parameters = tuple(_parameter(each) for each in told.get("parameters", ()))
    body = told.get("requestBody", {}).get("content", {})
    return Operation(
        method, path, told["summary"], _rest(told), _needs(method, path),
        _example(method, path, parameters, tuple(body)), parameters,
        tuple((kind, *_type(content["schema"])) for kind, content in body.items()),
        _joined([_answer(status, answer) for status, answer in told["responses"].items()]),
    )  # fmt: skip


def _rest(told: Mapping[str, Any]) -> str:
    """The description, unless the summary says all of it."""
    text = " ".join(told.get("description", "").split())
    return "" if text.rstrip(".") == told["summary"] else text


def _needs(method: str, path: str) -> str:
    from leadline.server.tokens.rights import RIGHTS  # which needs what this module is part of

    by_path = {(verb, route.replace(":path}", "}")): right for (verb, route), right in RIGHTS.items()}
    return NEEDS[by_path[method, path]] if (method, path) in by_path else WRITES


def _parameter(told: Mapping[str, Any]) -> Value:
    schema = told["schema"]
    default = schema.get("default")
    kind, links = _type(schema)
    return Value(
        told["name"], kind, links, told.get("description", ""), told["in"], bool(told.get("required")),
        "" if default in (None, "") else str(default),
    )  # fmt: skip


def _answer(status: str, told: Mapping[str, Any]) -> Answer:
    content = told.get("content", {})
    kinds = [_type(each["schema"]) for each in content.values() if each.get("schema")]
    shown = " or ".join(dict.fromkeys(kind for kind, _ in kinds)) or ", ".join(content)
    usual = ("Successful Response", HTTPStatus(int(status)).phrase)
    meaning = told.get("description", "")
    return status, "" if meaning in usual else meaning, shown, tuple(kinds[0][1]) if kinds else ()


def _joined(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Answers that differ in their status alone as one."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for status, *rest in sorted(answers):
        found.setdefault(tuple(rest), []).append(status)
    return tuple((", ".join(statuses), *rest) for rest, statuses in found.items())


def _fields(schema: Mapping[str, Any]) -> tuple[Value, ...]:
    required = set(schema.get("required", ()))
    return tuple(
        Value(name, *_type(each), each.get("description", ""), required=name in required)
        for name, each in schema.get("properties", {}).items()
    )


def _type(schema: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """A schema in words, and the shapes that it names."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return name, (name,)
    for joint in ("anyOf", "oneOf", "allOf"):
        if joint in schema:
            parts = [_type(each) for each in schema[joint]]
            return " or ".join(part for part, _ in parts), _links(parts)
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"])), ()
    kind = schema.get("type", "any")
    if kind == "array":
        inner, links = _type(schema.get("items", {}))
        return f"list of {inner}", links
    extra = schema.get("additionalProperties")
    if kind == "object" and isinstance(extra, Mapping) and extra:
        inner, links = _type(extra)
        return f"map of {inner}", links
    return str(kind), ()


def _links(parts: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(link for _, links in parts for link in links))


def _example(method: str, path: str, parameters: Sequence[Value], bodies: Sequence[str]) -> str:
    """A command that asks it, with what it requires and a span where it takes one."""
    asked = {
        each.name: _EXAMPLES.get(each.name, each.default or each.name.upper())
        for each in parameters
        if each.where == "query" and (each.required or each.name == "from")
    }
    url = f"{EXAMPLE_URL}{path}".replace("{", "").replace("}", "")
    for each in parameters:
        if each.where == "path":
            url = url.replace(f"/{each.name}", f"/{each.name.upper()}", 1)
    query = f"?{urlencode(asked)}" if asked else ""
    verb = "" if method == "GET" else f"-X {method} "
    body = f" -H 'content-type: {bodies[0]}' --data-binary @BODY" if bodies else ""
    return f"curl {verb}'{url}{query}'{body}"
