"""How long the spool lasts without the server is told before anybody needs it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from leadline.host.agent import METRICS_PATH, Agent
from leadline.host.frames import Item, to_frame
from leadline.host.spool import FILES, RATE_S_MIN, Spool

from .conftest import site_with

ITEM = Item(METRICS_PATH, "application/x-protobuf", b"x" * 10_000, bytes(16), 5)


def test_at_the_rate_since_it_was_opened_one_file_less_than_the_bound(tmp_path: Path) -> None:
    bound = 4 * 2**20
    spool = Spool(tmp_path, bound, lambda *_: None)
    spool.append(ITEM)
    assert spool.lasts_s() is None  # too early to tell
    spool._opened_at -= RATE_S_MIN
    size = len(to_frame(ITEM))
    assert spool.lasts_s() == pytest.approx((bound - bound // FILES - size) / size * RATE_S_MIN, rel=0.01)
    while spool.waiting()[0] < bound * (FILES - 1) // FILES:
        spool.append(ITEM)
    assert spool.lasts_s() == 0
    spool.close()


def test_less_than_a_day_is_said_once_with_the_size_that_would_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = site_with(spool=tmp_path / "spool", ring_dir=tmp_path / "ring", server="http://127.0.0.1:1")
    agent = Agent(site.config, site)
    with caplog.at_level(logging.WARNING):
        agent.own_samples(5)
        assert not caplog.records
        agent.lanes["metrics"].spool.append(ITEM)
        agent.lanes["metrics"].spool._opened_at -= RATE_S_MIN
        agent.lanes["metrics"].spool._kept_bytes = 2_000_000  # 24 MB an hour
        (lasts,) = (each for each in agent.own_samples(5) if each.stream.name == "leadline_agent_spool_lasts")
        agent.own_samples(5)
    assert lasts.value / 3600 == pytest.approx(0.65, abs=0.02)
    (said,) = caplog.messages
    assert "lasts for 0.7 h without the server, then the oldest of lane metrics is dropped" in said
    assert "agent.spool_bytes_max of 23" in said  # MiB: the metrics have a quarter of it
    agent.close()
