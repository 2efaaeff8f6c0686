"""What the how-to pages tell people to write is taken."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.senders.running import RunningLeadline

from leadline.alerts.wire import signature
from leadline.server.config import load

HOWTO = Path(__file__).resolve().parents[3] / "docs" / "how-to"


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", (HOWTO / page).read_text(), re.S | re.M)
    assert found, f"{page} has no {language}"
    return found


@pytest.mark.parametrize("sql", blocks("query-with-sql.md", "sql"))
def test_statements_run(leadline: RunningLeadline, sql: str) -> None:
    leadline.sql(sql)


@pytest.mark.parametrize("page", ["connect-prometheus.md", "connect-dcgm-exporter.md"])
def test_settings_are_settings(tmp_path: Path, page: str) -> None:
    ours = [text for text in blocks(page, "yaml") if text.startswith("# leadline.yaml")]
    assert ours
    for text in ours:
        file = tmp_path / "leadline.yaml"
        file.write_text(text)
        assert load(file, {}).ingest.scrape[0].targets


@pytest.mark.parametrize("page", ["send-alerts.md", "explain-with-a-model.md"])
def test_settings_of_alerts_and_models_are_taken(tmp_path: Path, page: str) -> None:
    (text,) = (each for each in blocks(page, "yaml") if each.startswith("# leadline.yaml"))
    file = tmp_path / "leadline.yaml"
    file.write_text(text)
    config = load(file, {})
    assert config.explain.url if "explain" in page else len(config.alerts.receivers) == 3


def test_the_check_of_signatures_on_the_page_is_right() -> None:
    scope: dict[str, Any] = {}
    exec(blocks("send-alerts.md", "python")[0], scope)
    at = "1750000000"
    scope["time"] = SimpleNamespace(time=lambda: 1_750_000_100.0)
    header = f"t={at},v1={signature(b'body', at, b'key')}"
    assert scope["is_ours"](header, b"body", b"key")
    assert not scope["is_ours"](header, b"other", b"key")
    assert not scope["is_ours"](header.replace(at, "1"), b"body", b"key")
