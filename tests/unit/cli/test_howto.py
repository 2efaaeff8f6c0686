"""What the how-to pages tell people to write is taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.senders.running import RunningLeadline

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
