"""The line that a run ends with: what its probes measured."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.cli.demo.measured import measured, words
from leadline.model.errors import WorldError

CLOCK: dict[str, Any] = {"clocks": [{}, {}, {}], "islands": 1, "worst_bound_ns": 320, "why": ""}
MESH: dict[str, Any] = {
    "hosts": ["host:h1", "host:h2", "host:h3"], "why": "",
    "values": [[None, 2_000, 1_200_000], [2_100, None, None], [9_000, None, None]],
    "bounds_ns": [[None, 400, 450], [400, None, None], [None, None, None]],
}  # fmt: skip


def flow(src: str | None, dst: str | None) -> dict[str, Any]:
    return {"src": src, "dst": dst}


FLOWS = [
    flow("port:h1/eth0", "port:h2/eth1"), flow("port:h3/eth0", "port:h1/eth0"), flow("port:h2/eth0", "port:h3/eth0"),
    flow("port:h1/eth0", "port:h3/eth0"), flow(None, "port:h1/eth0"), flow("port:h1/lo", "port:h1/lo"),
]  # fmt: skip


def test_a_flow_counts_where_the_delay_between_its_hosts_is_known_with_its_bound() -> None:
    assert words(CLOCK, MESH, "bert-1", FLOWS) == (
        "Probes: clocks of 3 hosts right within 320 ns; slowest pair h1 to h3, 1.2 ms (p99) ±450 ns; "
        "delay known of 2 of 4 flows of bert-1 (50%)."
    )
    assert words({**CLOCK, "islands": 2}, MESH, "bert-1", []).startswith("Probes: clocks of 3 hosts on 2 islands right")
    assert words(CLOCK, MESH, "bert-1", []).endswith("; no flow of bert-1 was seen.")


def test_where_nothing_was_measured_it_says_why() -> None:
    nothing = {**CLOCK, "clocks": [], "why": "No clock was fitted"}
    assert words(nothing, MESH, "bert-1", FLOWS) == "Probes measured nothing: No clock was fitted."
    assert words(CLOCK, {**MESH, "hosts": [], "values": [], "why": "nobody probes"}, "bert-1", FLOWS).endswith(
        "nobody probes."
    )
    unknown = {**CLOCK, "worst_bound_ns": None}
    assert "clocks of 3 hosts are not known" in words(unknown, MESH, "bert-1", FLOWS)


def test_a_server_that_does_not_answer_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        def get(self, *_: object, **__: object) -> dict[str, Any]:
            raise WorldError("it is away")

    assert measured(Away(), "bert-1", 5) == "What probes measured is not known: it is away"  # type: ignore[arg-type]
