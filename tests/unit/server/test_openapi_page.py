"""The description of the API, and the page that shows it: whole, grouped, and without anything from elsewhere."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest

from leadline.ingest.http import PATHS
from leadline.server.config import load
from leadline.server.main import ServerProcess
from leadline.server.openapi.document import TAGS
from leadline.server.openapi.page import EXAMPLE_URL, page
from leadline.server.page import POLICY


@pytest.fixture(scope="module")
def server() -> ServerProcess:
    return ServerProcess(load(None, {}, []))


@pytest.fixture(scope="module")
def document(server: ServerProcess) -> dict[str, Any]:
    return dict(server.api.openapi())


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{method} {path}", told) for path, item in document["paths"].items() for method, told in item.items()]


def test_every_operation_has_a_group_and_says_what_it_does(document: dict[str, Any]) -> None:
    for name, told in operations(document):
        assert len(told["tags"]) == 1, name
        assert told["tags"][0] in TAGS, name
        assert " " in told["summary"], f"{name}: {told['summary']}"
        assert told["description"], name
    used = {told["tags"][0] for _, told in operations(document)}
    assert used == TAGS.keys(), "a group without operations"
    assert [tag["name"] for tag in document["tags"]] == list(TAGS)
    assert len({told["operationId"] for _, told in operations(document)}) == len(operations(document))


def test_every_parameter_is_described(document: dict[str, Any]) -> None:
    parameters = [
        (name, each["name"], each.get("description", ""))
        for name, told in operations(document)
        for each in told.get("parameters", ())
    ]
    assert len(parameters) > 100
    assert [each for each in parameters if len(each[2]) < 5] == []


def test_every_way_in_is_described(document: dict[str, Any]) -> None:
    for path in PATHS:
        assert "post" in document["paths"][path.replace("TABLE", "{table}")], path


def test_the_page_shows_all_of_it_and_needs_nothing_else(document: dict[str, Any]) -> None:
    text = page(document)
    for name, told in operations(document):
        method, path = name.split(" ")
        assert f"<code>{path}</code>" in text
        assert f'id="{method}{path}"'.replace("/", "-").replace("{", "").replace("}", "") in text.lower()
        assert all(f"<code>{each['name']}</code>" in text for each in told.get("parameters", ()))
    ids = re.findall(r'id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids), "a link to a shape that is not there"
    assert "<script" not in text
    assert set(re.findall(r"https?://[^/'\"]+", text)) == {EXAMPLE_URL}
    assert not re.search(r'(src|href)="(?!#|/)', text), "nothing of another site"
    assert "`" not in re.sub(r"<[^>]+>", "", text), "what was between backticks is code"


def test_the_page_escapes_what_it_shows(document: dict[str, Any]) -> None:
    told = {"tags": ["now"], "summary": "<b>x</b> `<i>`", "description": "a & b", "responses": {}}
    text = page({**document, "tags": [{"name": "now", "description": "-"}], "paths": {"/x": {"get": told}}})
    assert "&lt;b&gt;x&lt;/b&gt; <code>&lt;i&gt;</code>" in text
    assert "a &amp; b" in text


def test_it_is_served_to_anyone(server: ServerProcess) -> None:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(server.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8440") as client:
            return await client.get("/docs/api")

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-security-policy"] == POLICY
    assert "/api/v1/incidents" in answer.text
