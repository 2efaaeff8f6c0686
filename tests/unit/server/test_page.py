"""The built page as it is served: every view's address, headers, and what is said where it was not built."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request

from leadline.server.page import VIEWS, mount_page, not_found_page

ROUTES = Path(__file__).parents[3] / "web" / "src" / "routes.ts"
HTML = {"accept": "text/html,application/xhtml+xml"}
HELLO = "Leadline answers here\n"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "page").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>Leadline</title>")
    (tmp_path / "page" / "index-ab12.js").write_text("let at = 1;")
    (tmp_path / "page" / "icon.svg").write_text("<svg/>")
    return tmp_path


def get(built: Path, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
    api = FastAPI()
    mount_page(api, HELLO, built)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://localhost") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())


def test_views_are_those_of_the_page() -> None:
    told = re.findall(r'path: "/([a-z]*)"', ROUTES.read_text())
    assert sorted(told) == sorted(["", *VIEWS])


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/bert-7", "/incidents/a%2Fb?from=1", "/fleet?at=host:h3"])
def test_every_view_is_the_page(built: Path, path: str) -> None:
    answer = get(built, path, HTML)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "<title>Leadline" in answer.text
    assert answer.headers["cache-control"] == "no-cache"


def test_what_is_no_view_is_not_found(built: Path) -> None:
    assert get(built, "/jobsx", HTML).status_code == 404
    assert get(built, "/page/../index.html", HTML).status_code == 404
    assert get(built, "/page/gone-ab12.js").status_code == 404
    assert get(built, "/page/..%2f..%2fapi.py").status_code == 404


@pytest.mark.parametrize(
    ("path", "headers", "is_page"),
    [
        ("/jobsx", HTML, True),
        ("/jobsx", {"accept": "*/*"}, False),
        ("/api/v1/jobsx", HTML, False),
        ("/page/gone-ab12.js", HTML, False),
    ],
)
def test_a_browser_that_looks_for_no_view_gets_the_page_that_says_so(
    built: Path, path: str, headers: dict[str, str], is_page: bool
) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "headers": pairs, "query_string": b"", "server": ("l", 80)}
    found = not_found_page(Request(scope), built)
    assert (found is not None) == is_page
    assert found is None or found.status_code == 404
    assert not_found_page(Request(scope), built / "page") is None


def test_who_asks_for_no_page_is_told_what_answers(built: Path) -> None:
    answer = get(built, "/", {"accept": "*/*"})
    assert (answer.status_code, answer.text) == (200, HELLO)
    assert answer.headers["vary"] == "accept"


def test_nothing_comes_from_elsewhere_and_nobody_frames_it(built: Path) -> None:
    for path in ("/", "/page/index-ab12.js"):
        headers = get(built, path, HTML).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_files_are_kept_as_long_as_their_name_holds(built: Path) -> None:
    assert "immutable" in get(built, "/page/index-ab12.js").headers["cache-control"]
    assert "immutable" not in get(built, "/page/icon.svg").headers["cache-control"]


def test_without_a_build_it_says_how_to_make_one(tmp_path: Path) -> None:
    answer = get(tmp_path, "/jobs/bert-7", HTML)
    assert answer.status_code == 200
    assert answer.text.startswith(HELLO)
    assert "make up" in answer.text
