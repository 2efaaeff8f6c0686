"""Scores: the normal quantile, what names say, medians of others, tails."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from leadline.analysis.anomaly.grid_kernels import of_others, pasts, rates, tails
from leadline.analysis.anomaly.kinds import KINDS, Way, metric_kind
from leadline.analysis.anomaly.scores import deviations, normal_of


def test_the_quantile_of_a_surprise_is_that_of_the_normal_distribution() -> None:
    surprise = np.array([0.8, 3.0, 10.0, 15.0, 30.0, 300.0, 600.0])
    expected = norm.isf(np.exp(-surprise) / 2)
    assert np.allclose(normal_of(surprise), expected, atol=1e-3)
    assert np.isfinite(normal_of(np.array([1e12])))[0]


@pytest.mark.parametrize(
    ("name", "way", "side"),
    [
        ("node_infiniband_link_downed_total", Way.RARE, 1),
        ("node_network_carrier_changes_total", Way.RARE, 1),
        ("container_oom_events_total", Way.RARE, 1),
        ("node_network_receive_errs_total", Way.COUNT, 1),
        ("ifOutDiscards", Way.COUNT, 1),
        ("node_infiniband_local_ack_timeout_err_total", Way.COUNT, 1),
        ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", Way.COUNT, 1),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", Way.COUNT, 1),
        ("node_netstat_Tcp_RetransSegs", Way.COUNT, 1),
        ("container_cpu_cfs_throttled_seconds_total", Way.HARM, 1),
        ("DCGM_FI_DEV_THERMAL_VIOLATION", Way.HARM, 1),
        ("node_pressure_memory_stalled_seconds_total", Way.HARM, 1),
        ("node_memory_MemAvailable_bytes", Way.HARM, -1),
        ("step.data_seconds", Way.HARM, 1),
        ("DCGM_FI_DEV_GPU_TEMP", Way.HARM, 1),
        ("DCGM_FI_DEV_SM_CLOCK", Way.LOAD, -1),
        ("node_network_transmit_bytes_total", Way.LOAD, 0),
        ("process.cpu.time", Way.LOAD, 0),
        ("ifOperStatus", Way.STATE, 1),
        ("up", Way.STATE, -1),
        ("DCGM_FI_DEV_XID_ERRORS", Way.STATE, 1),
        ("some_counter_of_somebody_total", Way.LOAD, 0),
    ],
)
def test_what_a_name_says(name: str, way: Way, side: int) -> None:
    kind = metric_kind(name)
    assert kind is not None
    assert (kind.way, kind.side) == (way, side)


@pytest.mark.parametrize(
    "name",
    [
        "node_boot_time_seconds",
        "leadline_agent_info",
        "node_load15",
        "ifDirection",
        "node_network_transmit_queue_length",
    ],
)
def test_what_says_nothing_of_health_is_not_judged(name: str) -> None:
    assert metric_kind(name) is None


def test_kinds_with_a_healthy_value_look_at_the_other_side_of_it() -> None:
    assert all(kind.side == 1 for kind in KINDS if kind.healthy == 0.0)


def test_the_median_of_others_leaves_oneself_out() -> None:
    rng = np.random.default_rng(3)
    grid = rng.normal(0, 1, (9, 4))
    grid[2, 1] = np.nan
    begin = np.array([0, 3, 9])
    found = of_others(begin, grid, 2)
    for group in (range(3), range(3, 9)):
        for row in group:
            for column in range(4):
                others = [grid[each, column] for each in group if each != row and not np.isnan(grid[each, column])]
                if np.isnan(grid[row, column]) or len(others) < 2:
                    assert np.isnan(found[row, column])
                elif len(others) == 2:
                    assert found[row, column] == min(others, key=lambda one: abs(one - grid[row, column]))
                else:
                    assert found[row, column] == pytest.approx(float(np.median(others)))


def test_rates_of_counters_skip_first_samples_resets_and_long_gaps() -> None:
    second = 10**9
    time = np.array([0, 5, 10, 15, 300]) * second
    value = np.array([100.0, 110.0, 5.0, 10.0, 400.0])
    x, since = rates(np.array([0, 5]), time, value, np.array([True]), 100 * second)
    assert x[[1, 3]].tolist() == [2.0, 1.0]
    assert np.isnan(x[[0, 2, 4]]).all()
    assert since.tolist() == [0, 0, 5 * second, 10 * second, 15 * second]


def test_a_count_is_measured_beside_the_noise_of_counting() -> None:
    one = np.ones(1)
    value, expected = np.array([[8.0]]), np.array([[0.8]])  # a second, of bins of 5 s: 40 beside 4
    z = deviations(value, expected, 0 * one, 0 * one, 0 * one, 4 * one, 5 * one, one)
    assert z[0, 0] == pytest.approx(36 / np.sqrt(4 + 4))
    assert deviations(value, expected, np.full(1, np.nan), 0 * one, 0 * one, 4 * one, 5 * one, -one)[0, 0] == 0


def test_the_tail_leaves_out_the_few_that_are_out_now() -> None:
    z = np.zeros((5, 40))
    z[:4] = np.tile(np.arange(40) / 40, (4, 1))
    z[4] = 100.0
    q, beyond, count = tails(np.array([0, 5]), z, np.array([False] * 4 + [True]), 0, 0.05)
    assert count[0] == 160
    assert q[0] == pytest.approx(37 / 40)
    assert beyond[0] == pytest.approx(np.mean([38, 38, 38, 38, 39, 39, 39, 39]) / 40 - 37 / 40)
    level, scale, many = pasts(z, 4)
    assert (many == 36).all()
    assert scale[4] == 0
    assert level[4] == 100
