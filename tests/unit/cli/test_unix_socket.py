"""`unix:PATH` as the address of a server: every verb and way in, also from a network of its own."""

from __future__ import annotations

import gc
import os
import signal
import stat
from pathlib import Path

import httpx
import pytest
from tests.senders.running import RunningLeadline, wait_for
from tests.unit.wire.rings import everything, fresh

from leadline.cli.client import Client
from leadline.model.errors import UsageError, WorldError
from leadline.wire.ring.format import read_segment
from leadline.wire.ring.writer import RingWriter

from .conftest import Run


@pytest.mark.parametrize("address", ["unix:", "unix://"])
def test_an_address_without_a_path_is_none(address: str) -> None:
    with pytest.raises(UsageError, match="unix:PATH"):
        Client(address)


# httpcore leaves the socket of a failed connection to the garbage collector, which warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_socket_that_nobody_listens_at_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="no Leadline answers at unix:"):
        Client(f"unix:{tmp_path}/none").get("/api/v1/doctor")
    gc.collect()


def test_a_server_at_a_path(tmp_path: Path, leadline_cli: Run) -> None:
    """Every verb and way in over the socket; after kill -9 the supervisor's next server takes it over."""
    path = tmp_path / "leadline.sock"
    with RunningLeadline(tmp_path, {"LEADLINE_SERVER__SOCKET": str(path)}) as leadline:
        wait_for("the path to be told", lambda: path.name in leadline.said())
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        ring = fresh(128)
        everything(RingWriter(ring))
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as http:
            answer = http.post("/api/v1/ring", content=read_segment(ring, 0).segment)
            assert answer.status_code == 200, answer.text
            first = http.get("/ready").json()["pid"]
        for verb in (("show", "tables"), ("sql", "SELECT count() AS n FROM step")):
            ran = leadline_cli(*verb, "--server", f"unix:{path}")
            assert ran.code == 0, ran.err
        os.kill(first, signal.SIGKILL)
        leadline.wait_ready(other_than=first)
        assert leadline_cli("show", "tables", "--server", f"unix://{path}").code == 0
        assert leadline.stop() == 0
    assert not path.exists()
