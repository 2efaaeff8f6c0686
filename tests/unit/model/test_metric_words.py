"""Readings in words: units, shares of time, and codes that are never magnitudes."""

from __future__ import annotations

import re

import pytest

from leadline.analysis.anomaly.kinds import KINDS, Way
from leadline.model.metric_words import clock_reasons, codes_of, in_words, is_state, metric_words, rank_of, value_words


@pytest.mark.parametrize(
    ("metric", "seen", "expected", "witness", "words"),
    [
        ("DCGM_FI_DEV_SM_CLOCK", 792.0, 1980.0, "past", "SM clock 792 MHz, usually 1,980 MHz"),
        ("DCGM_FI_DEV_GPU_TEMP", 85.0, 48.0, "peers", "GPU temperature 85 °C, peers 48 °C"),
        ("DCGM_FI_DEV_THERMAL_VIOLATION", 1.001e9, 0.0, "past", "slowed by heat 100 % of the time, usually 0 %"),
        (
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 32.0, 0.0, "past",
            "clocks held down by software thermal slowdown, usually nothing",
        ),
        (
            "DCGM_FI_DEV_XID_ERRORS", 79.0, 0.0, "past",
            "last error of the GPU: XID 79 (GPU has fallen off the bus), usually none",
        ),
        ("ifOperStatus", 2.0, 1.0, "peers", "port is down, peers up"),
        ("node_network_up", 0.0, 1.0, "past", "port is down, usually up"),
        ("node_infiniband_state_id", 2.0, 4.0, "peers", "InfiniBand port is initialising, peers active"),
        ("node_network_receive_bytes_total", 3.4e8, 1e6, "past",
         "node_network_receive_bytes_total 340 MB/s, usually 1 MB/s"),
        ("node_pressure_memory_stalled_seconds_total", 0.2, 0.001, "past",
         "tasks wait for memory 20 % of the time, usually 0.1 %"),
        ("step.forward_seconds", 0.31, 0.12, "peers", "forward pass 310 ms, peers 120 ms"),
        ("something_new", 3.0, None, "past", "something_new 3, usually unknown"),
    ],
)  # fmt: skip
def test_a_reading_in_words(metric: str, seen: float, expected: float | None, witness: str, words: str) -> None:
    assert metric_words(metric, seen, expected, witness) == words


def test_bits_are_named_one_by_one() -> None:
    assert clock_reasons(0x20 | 0x80) == "software thermal slowdown and hardware power brake"
    assert clock_reasons(0) == "nothing"
    assert clock_reasons(0x20 | 0x1000) == "software thermal slowdown and bits 0x1000"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 2.5, 2.0**60, 0x7FFFFFFFFFFFFFF0 * 1.0, 12345.0])
@pytest.mark.parametrize("metric", ["DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "ifOperStatus"])
def test_nonsense_of_a_code_is_told_and_raises_nothing(metric: str, value: float) -> None:
    assert re.fullmatch(r"unknown|code .+|XID \d+|bits 0x\w+|.+ and bits 0x\w+", value_words(metric, value)) or (
        metric == "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
    )


def test_what_people_understand_goes_before_codes() -> None:
    assert rank_of("DCGM_FI_DEV_SM_CLOCK") < rank_of("DCGM_FI_DEV_THERMAL_VIOLATION")
    assert rank_of("DCGM_FI_DEV_THERMAL_VIOLATION") < rank_of("DCGM_FI_DEV_CLOCKS_EVENT_REASONS")


NAMES = (
    "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "ifOperStatus",
    "node_network_up", "node_network_carrier", "up",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_the_detector_takes_for_a_state_is_told_as_one(name: str) -> None:
    kind = next(each for each in KINDS if re.fullmatch(each.name, name, re.IGNORECASE))
    assert kind.way is Way.STATE
    assert is_state(name)


def test_codes_are_named_for_the_axis_of_a_plot_and_amounts_have_none() -> None:
    assert codes_of("node_network_up") == {0: "down", 1: "up"}
    assert codes_of("DCGM_FI_DEV_CLOCKS_EVENT_REASONS")[0x20] == "software thermal slowdown"
    assert codes_of("DCGM_FI_DEV_SM_CLOCK") == {}


def test_metrics_in_a_sentence_are_called_by_their_names_and_plain_words_stay() -> None:
    told = in_words("DCGM_FI_DEV_SM_CLOCK is up, my_own_metric above 2 times its peers")
    assert told == "SM clock is up, my_own_metric above 2 times its peers"
