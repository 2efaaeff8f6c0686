"""The site of the docs as it is served: to whoever asks, beside routes of our own, and what is said without it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from leadline.server.docs import mount_docs


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "how-to" / "diagnose").mkdir(parents=True)
    (tmp_path / "index.html").write_text("<title>Docs</title>")
    (tmp_path / "404.html").write_text("<title>No such page</title>")
    (tmp_path / "how-to" / "diagnose" / "index.html").write_text("<title>Diagnose</title>")
    return tmp_path


def get(built: Path, path: str) -> httpx.Response:
    api = FastAPI(docs_url=None)
    api.add_api_route("/docs/api", lambda: "reference")
    mount_docs(api, built)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", follow_redirects=True) as client:
            return await client.get(path)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/docs", "Docs"),
        ("/docs/", "Docs"),
        ("/docs/how-to/diagnose", "Diagnose"),
        ("/docs/how-to/diagnose/", "Diagnose"),
    ],
)
def test_a_page_is_found_with_and_without_its_slash(built: Path, path: str, title: str) -> None:
    answer = get(built, path)
    assert (answer.status_code, answer.text) == (200, f"<title>{title}</title>")


def test_nothing_comes_from_elsewhere_and_a_new_version_is_seen(built: Path) -> None:
    headers = get(built, "/docs/").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-cache"
    assert headers["etag"]


@pytest.mark.parametrize("path", ["/docs/gone", "/docs/../api.py", "/docs/..%2f..%2fapi.py"])
def test_what_is_no_page_is_not_found(built: Path, path: str) -> None:
    answer = get(built, path)
    assert answer.status_code == 404
    assert "def " not in answer.text


def test_a_route_under_docs_comes_first(built: Path) -> None:
    assert get(built, "/docs/api").json() == "reference"


@pytest.mark.parametrize("path", ["/docs", "/docs/how-to/diagnose"])
def test_without_a_build_it_says_how_to_get_one(tmp_path: Path, path: str) -> None:
    answer = get(tmp_path, path)
    assert answer.status_code == 404
    assert "scripts/build-docs" in answer.text
