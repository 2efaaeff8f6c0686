"""Laws of anomalies: constants are not odd, names do not matter, a larger deviation is not less odd."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.anomalies import WINDOW, Said, counted, since, tables, wavy
from tests.common.analysis_laws import judged

from leadline.analysis.anomaly.anomaly import anomalies

METRICS = st.sampled_from(
    [
        ("node_load1", "gauge"), ("DCGM_FI_DEV_SM_CLOCK", "gauge"), ("somebody_says", "gauge"), ("up", "gauge"),
        ("node_network_receive_drop_total", "counter"), ("node_network_transmit_bytes_total", "counter"),
        ("node_pressure_io_waiting_seconds_total", "counter"), ("node_memory_MemAvailable_bytes", "gauge"),
    ]
)  # fmt: skip
LEVELS = st.one_of(st.just(0.0), st.floats(1e-6, 1e12))


def scores(said: list[Said], from_s: float = -180) -> dict[tuple[str, str], float]:
    """Score by entity and witness."""
    found: Any = judged(anomalies, tables(said, from_s=from_s), WINDOW).get("anomaly", {})
    return dict(zip(zip(found["entity"], found["witness"], strict=True), found["score"], strict=True)) if found else {}


@settings(deadline=None, max_examples=15)
@given(metric=METRICS, level=LEVELS, hosts=st.integers(1, 9), back_s=st.sampled_from([-180, -40, -10]))
def test_what_never_changes_and_is_alike_is_not_odd(
    metric: tuple[str, str], level: float, hosts: int, back_s: int
) -> None:
    name, kind = metric
    value = (lambda at: level * (at + 200)) if kind == "counter" else (lambda at: level)
    assert scores([Said(name, f"host:h{host}", value, kind) for host in range(hosts)], back_s) == {}


@settings(deadline=None, max_examples=15)
@given(odd=st.integers(0, 7), names=st.permutations(range(8)))
def test_names_do_not_matter(odd: int, names: list[int]) -> None:
    def site(name_of: list[int]) -> list[Said]:
        return [
            Said("node_procs_blocked", f"host:h{name_of[host]}",
                 since(-12, 90.0, 1.0) if host == odd else wavy(1, 0.5, host))
            for host in range(8)
        ]  # fmt: skip

    plain = {(entity, witness): score for (entity, witness), score in scores(site(list(range(8)))).items()}
    other = scores(site(names))
    assert plain.keys() >= {(f"host:h{odd}", "past"), (f"host:h{odd}", "peers")}
    assert {(f"host:h{names[int(entity[6:])]}", witness): score for (entity, witness), score in plain.items()} == other


@settings(deadline=None, max_examples=15)
@given(small=st.floats(20, 400), times=st.floats(1.5, 50))
def test_more_errors_are_not_less_odd(small: float, times: float) -> None:
    def worst(rate: float) -> float:
        dropped = [
            Said("node_network_receive_drop_total", f"port:h{host}/eth0",
                 counted(since(-8, rate if host == 2 else 0.0, 0.0)), "counter")
            for host in range(8)
        ]  # fmt: skip
        found = scores(dropped)
        assert {entity for entity, _ in found} == {"port:h2/eth0"}
        return max(found.values())

    assert worst(small) < worst(small * times)
