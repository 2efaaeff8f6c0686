"""Simulated probe traces have the delays that were measured, and tell their truth."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.simulator.oscillators import NORMAL, S_NS, Oscillators
from leadline.simulator.probes import HEAVY, MEASURED, Conditions, Lie, Load, Pause, Traces, regular_edges, traces


def made(how: Conditions, seconds: float = 20.0, hosts: int = 8, seed: int = 1) -> tuple[Oscillators, Traces]:
    clocks = Oscillators(hosts, seconds + 2, NORMAL, seed)
    return clocks, traces(clocks, *regular_edges(hosts, 10, seed), seconds, how, seed)


def delays(told: Traces) -> np.ndarray:
    return told.true_rx_ns_N - told.true_tx_ns_N


@pytest.mark.parametrize(
    ("how", "expected"),
    [  # least, 10 %, median, 90 %, 99 % as measured on virtual Ethernet
        (Conditions(), (2_133, 2_334, 4_376, 8_398, 17_888)),
        (Conditions(load=MEASURED), (2_084, 2_453, 6_620, 1.6e6, 4.7e6)),
        (Conditions(user=True), (6_710, 12_779, 23_785, 48_292, 247_724)),
    ],
)
def test_delays_are_as_measured(how: Conditions, expected: tuple[float, ...]) -> None:
    _, told = made(how)
    found = np.percentile(delays(told), [0, 10, 50, 90, 99])
    assert found == pytest.approx(expected, rel=0.2)


def test_first_packets_are_slow_and_second_ones_fast() -> None:
    _, told = made(Conditions())
    near = [(delays(told)[told.position_N == position] < 2_284).mean() for position in (0, 1)]
    assert near[0] < 0.01
    assert 0.14 < near[1] < 0.22


@pytest.mark.parametrize("load", [MEASURED, HEAVY, Load(0.9, 900_000.0)])
def test_ports_are_busy_for_their_share_of_time(load: Load) -> None:
    _, told = made(Conditions(load=load), seconds=40.0)
    _, idle = made(Conditions(), seconds=40.0)
    assert (delays(told) > np.percentile(delays(idle), 99.9)).mean() == pytest.approx(load.busy_ratio, abs=0.08)


def test_stamps_are_readings_of_the_clocks() -> None:
    clocks, told = made(Conditions(jitter_ns=0.0), seconds=3.0)
    src = np.where(told.forward_N, told.src_E[told.edge_N], told.dst_E[told.edge_N])
    assert (told.tx_ns_N == clocks.shown(src, told.true_tx_ns_N)).all()
    assert (np.diff(told.true_rx_ns_N[: told.start_N[1]]) >= 0).all()
    assert told.start_N[-1] == len(told.tx_ns_N)


def test_what_befalls_traces() -> None:
    how = Conditions(
        late_ratio=0.01, biased_ratio=0.5, lost_ratio=0.1, jitter_ns=0.0,
        pauses=(Pause(1, 4.0, 0.1),), lies=(Lie(2, 5.0, 10_000),),
    )  # fmt: skip
    clocks, told = made(how, seconds=8.0)
    src = np.where(told.forward_N, told.src_E[told.edge_N], told.dst_E[told.edge_N])
    dst = np.where(told.forward_N, told.dst_E[told.edge_N], told.src_E[told.edge_N])
    sent_s, got_s = ((each - clocks.start_ns) / S_NS for each in (told.true_tx_ns_N, told.true_rx_ns_N))
    assert len(src) == pytest.approx(0.9 * 28 * 2 * 8 * 100, rel=0.02)
    assert not ((src == 1) & (sent_s > 4.0) & (sent_s < 4.1)).any()
    assert not ((dst == 1) & (got_s > 4.0) & (got_s < 4.1)).any()
    wrong = told.tx_ns_N - clocks.shown(src, told.true_tx_ns_N)
    assert (wrong[(src == 2) & (sent_s > 5.0)] >= 10_000).all()
    assert (wrong[src != 2] > 0).mean() == pytest.approx(0.01, abs=0.004)
    two_way = np.array([
        delays(told)[told.start_N[2 * e] : told.start_N[2 * e + 1]].min()
        - delays(told)[told.start_N[2 * e + 1] : told.start_N[2 * e + 2]].min() for e in range(28)
    ])  # fmt: skip
    assert (np.abs(two_way) > 1_500).tolist() == told.biased_E.tolist()


@pytest.mark.parametrize(("hosts", "degree"), [(8, 10), (16, 10), (33, 10), (500, 10)])
def test_graphs_are_connected_and_of_their_degree(hosts: int, degree: int) -> None:
    src, dst = regular_edges(hosts, degree, 5)
    count = np.bincount(np.concatenate([src, dst]), minlength=hosts)
    assert (src != dst).all()
    assert count.mean() == pytest.approx(min(degree, hosts - 1), rel=0.05)
    assert len({(min(a, b), max(a, b)) for a, b in zip(src.tolist(), dst.tolist(), strict=True)}) == len(src)
