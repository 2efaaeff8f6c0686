"""What is said where there is no Ray cluster, or no Ray."""

from __future__ import annotations

import re
import socket

import pytest

from leadline.model.errors import UsageError, WorldError
from leadline.runner.calls.ray_driver import Judge
from leadline.runner.calls.ray_executor import RayExecutor
from leadline.runner.worker import REGISTRY


def test_a_cluster_that_does_not_answer_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"  # nobody listens there
        executor = RayExecutor(address)
        with pytest.raises(
            WorldError, match=f"expected a Ray cluster that answers at {re.escape(address)}, got: .*refused"
        ):
            executor.start()
        executor.close()


@pytest.mark.parametrize("address", ["", "local"])
def test_leadline_starts_no_cluster(address: str) -> None:
    with pytest.raises(UsageError, match="Leadline starts none"):
        RayExecutor(address)


def test_ray_that_is_not_installed_is_told_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"Ray is not installed here; run `pip install 'leadline\[ray\]'`"):
        RayExecutor("auto")


def test_a_node_with_another_leadline_judges_nothing() -> None:
    with pytest.raises(RuntimeError, match=r"has Leadline .*, the server 0\.0\.0; install the same on all nodes"):
        Judge(REGISTRY, "0.0.0")
