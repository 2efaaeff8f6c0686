"""The server's socket from another network namespace: a path reaches across, loopback does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.senders.running import RunningLeadline

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root (CAP_SYS_ADMIN) to make a network namespace"),
]


def test_a_client_without_any_network_reaches_the_server(tmp_path: Path) -> None:
    path = tmp_path / "leadline.sock"
    alone = ["unshare", "--net", sys.executable, "-m", "leadline.cli.main", "show", "tables", "--server"]
    with RunningLeadline(tmp_path, {"LEADLINE_SERVER__SOCKET": str(path)}) as leadline:
        over_loopback, over_path = (
            subprocess.run([*alone, address], capture_output=True, text=True, timeout=60, check=False)
            for address in (leadline.url, f"unix:{path}")
        )
    assert "no Leadline answers" in over_loopback.stderr, "it has a network of its own, without our loopback"
    assert over_path.returncode == 0, over_path.stderr
    assert "message_end" in over_path.stdout
