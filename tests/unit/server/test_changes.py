"""What pages are told of changes: which tables, never whose, and the end when the server ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.senders.running import RunningLeadline, ndjson

from leadline.model.errors import BusyError
from leadline.model.principal import Principal, Role
from leadline.server import changes as module
from leadline.server.changes import Changes

OPERATOR = Principal()
TENANT = Principal(tenant="a", role=Role.TENANT_READ)
OTHER = Principal(tenant="b", role=Role.TENANT_READ)


class Written:
    """A double of the parts that `Changes` reads: how often tables were written, and the time."""

    def __init__(self) -> None:
        self.store, self.counts, self.at_ns = self, {"step": 1}, 10**18

    def written(self, table: str) -> int:
        return self.counts.get(table, 0)

    def now_ns(self) -> int:
        return self.at_ns


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    return Written()


def data(event: str) -> dict[str, Any]:
    assert event.startswith("data: ")
    assert event.endswith("\n\n")
    told = json.loads(event[6:])
    assert isinstance(told, dict)
    return told


def test_first_everything_then_what_changed(parts: Any) -> None:
    async def follow() -> list[dict[str, Any]]:
        stream = Changes(parts).events(OPERATOR)
        told = [data(await anext(stream))]
        parts.counts["step"] = 2
        told += [data(await anext(stream)), data(await anext(stream))]
        await stream.aclose()  # type: ignore[attr-defined]
        return told

    first, second, third = asyncio.run(follow())
    assert first["tables"]["step"] == 1
    assert len(first["tables"]) > 20
    assert second["tables"] == {"step": 2}
    assert third == {"now_ns": 10**18, "tables": {}}


def test_a_tenant_does_not_learn_when_others_write(parts: Any) -> None:
    changes = Changes(parts)
    before = changes.versions(TENANT)
    parts.counts["step"] = 99
    assert changes.versions(TENANT) == before
    parts.at_ns += 2 * 10**9
    assert all(changes.versions(TENANT)[table] != before[table] for table in before)


def test_streams_are_bounded_and_free_their_place(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTENERS_MAX", 1)

    async def follow() -> None:
        changes = Changes(parts)
        one = changes.events(OPERATOR)
        await anext(one)
        with pytest.raises(BusyError, match="close some"):
            await anext(changes.events(OPERATOR))
        await one.aclose()  # type: ignore[attr-defined]
        await anext(changes.events(OPERATOR))

    asyncio.run(follow())


def test_one_tenant_takes_neither_the_places_of_others_nor_those_of_the_operator(
    parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LISTENERS_MAX", 4)
    monkeypatch.setattr(module, "TENANTS_LISTENERS_MAX", 3)
    monkeypatch.setattr(module, "TENANT_LISTENERS_MAX", 2)

    async def follow() -> None:
        changes = Changes(parts)
        held = []
        for principal, full in (
            (TENANT, False),
            (TENANT, False),
            (TENANT, True),
            (OTHER, False),
            (OTHER, True),
            (OPERATOR, False),
        ):
            stream = changes.events(principal)
            if full:
                with pytest.raises(BusyError):
                    await anext(stream)
            else:
                await anext(stream)
                held.append(stream)
        for stream in held:
            await stream.aclose()  # type: ignore[attr-defined]
        await anext(changes.events(TENANT))

    asyncio.run(follow())


def test_closing_ends_every_stream(parts: Any) -> None:
    async def follow() -> list[str]:
        changes = Changes(parts)
        stream = changes.events(OPERATOR)
        await anext(stream)
        changes.close()
        return [event async for event in stream]

    assert asyncio.run(follow()) == []


@pytest.fixture
def leadline(tmp_path: Path) -> Iterator[RunningLeadline]:
    with RunningLeadline(tmp_path) as server:
        yield server


def test_rows_that_come_are_told_and_a_page_that_follows_does_not_hold_the_server(leadline: RunningLeadline) -> None:
    with httpx.stream("GET", f"{leadline.url}/api/v1/changes", timeout=30) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = (line for line in answer.iter_lines() if line)
        before = data(next(lines) + "\n\n")["tables"]["step"]
        now = time.time_ns()
        httpx.post(
            f"{leadline.url}/api/v1/rows/step",
            content=ndjson([{"job": "j", "rank": 0, "step": 1, "start_ns": now, "end_ns": now + 10**9, "metrics": {}}]),
            headers={"content-type": "application/x-ndjson"},
        ).raise_for_status()
        seen = (data(line + "\n\n")["tables"].get("step", before) for line in lines)
        assert any(version != before for version, _ in zip(seen, range(20), strict=False))
        assert leadline.stop() == 0
        assert [line for line in lines if not line.startswith("data: ")] == []  # it ended; it was not torn off
