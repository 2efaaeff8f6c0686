"""Readings as people read them: what a metric is called, and a value of it with its unit or what it stands for.

    DCGM_FI_DEV_SM_CLOCK 792          SM clock 792 MHz
    DCGM_FI_DEV_CLOCKS_EVENT_REASONS 32    clocks held down by software thermal slowdown
    DCGM_FI_DEV_THERMAL_VIOLATION 1.001e+09 (ns a second)    slowed by heat 100 % of the time
    ifOperStatus 2                    port is down

Enums and sets of bits are decoded and never told as magnitudes. What has no name here keeps the sender's: a name that
we invent cannot be looked up. Values of counters are what they grow by a second, as `anomaly` tells them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from leadline.model.hardware_codes import (
    CLOCK_REASONS,
    IB_PHYSICAL_STATE,
    IB_PORT_STATE,
    IF_OPER_STATUS,
    NO_OR_YES,
    UP_OR_DOWN,
    xid_words,
)
from leadline.model.metric_units import unit_of
from leadline.model.units import BPS, BYTES, BYTES_PER_SECOND, CELSIUS, COUNT, NS, RATIO, SECONDS

EACH_SECOND, OF_TIME = " a second", " of the time"
LARGEST = 2.0**53  # codes above it are no integers any more

Told = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a metric is told. `name`: empty: the sender's own. `rank`: what people understand at once comes first."""

    name: str = ""
    told: Told | None = None  # None: the number with its unit
    rank: int = 1
    state: bool = False  # a code: how far two of them are apart means nothing
    codes: Mapping[int, str] = field(default_factory=dict)  # what each code, or each bit, stands for


def metric_name(metric: str) -> str:
    """What a metric is called: `SM clock`, or the sender's own name."""
    return reading_of(metric).name or metric


def value_words(metric: str, value: float | None) -> str:
    """A value with its unit, or what it stands for: `1,980 MHz`, `100 % of the time`, `down`."""
    if value is None or not math.isfinite(value):
        return "unknown"
    told = reading_of(metric).told
    return _number(metric, value) if told is None else told(value)


def metric_words(metric: str, seen: float | None, expected: float | None, witness: str) -> str:
    """What was seen of a metric against what is usual: `SM clock 792 MHz, usually 1,980 MHz`.

    `witness`: `past` (its own) or `peers`, as `anomaly` tells it.
    """
    than = "peers" if witness == "peers" else "usually"
    now, usual = value_words(metric, seen), value_words(metric, expected)
    for per in (EACH_SECOND, OF_TIME):  # said once
        usual = usual.removesuffix(per) if now.endswith(per) else usual
    return f"{metric_name(metric)} {now}, {than} {usual}"


def is_state(metric: str) -> bool:
    """Whether its values are codes, so that how far one is from another means nothing."""
    return reading_of(metric).state


def codes_of(metric: str) -> Mapping[int, str]:
    """What the values of an enumeration, or its bits, stand for: `{0: "down", 1: "up"}`; empty of other metrics."""
    return reading_of(metric).codes


def in_words(text: str) -> str:
    """A sentence with the metrics in it as they are called; names that nobody gave stay."""
    return _METRIC.sub(lambda found: metric_name(found[0]), text)


def rank_of(metric: str) -> int:
    """Evidence of a lower rank is understood at once: 0 clocks and degrees, 1 most, 2 codes and raw counters."""
    return reading_of(metric).rank


@lru_cache(maxsize=8192)  # names, not streams
def reading_of(metric: str) -> Reading:
    """How a metric is told, by its name. Dots are read as underscores."""
    name = metric.replace(".", "_")
    return next((reading for pattern, reading in _READINGS if pattern.fullmatch(name)), Reading())


def figures(value: float) -> str:
    """Three figures, four from a thousand on, thousands apart: `0.31`, `85`, `1,980`; no exponent up to a billion."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e9 or size < 1e-4:
        return f"{value:.3g}"
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


# --- values -------------------------------------------------------------------------------------------------------


def _number(metric: str, value: float) -> str:
    unit = unit_of(metric)
    each_second = EACH_SECOND if _counts(metric) else ""
    if unit in (SECONDS, NS) and each_second:
        return _share(value * (1e-9 if unit == NS else 1.0))
    if unit == RATIO:
        return f"{figures(value * 100)} %"
    if unit == SECONDS:
        return _duration(value)
    if unit == CELSIUS:
        return f"{figures(value)} °C"
    if unit in (BYTES, BYTES_PER_SECOND):
        return f"{_scaled(value, 'B')}{'/s' if unit == BYTES_PER_SECOND or each_second else ''}"
    if unit == BPS:
        return f"{_scaled(value, 'bit')}/s"
    plain = "" if unit in (None, COUNT) else f" {unit}"
    return f"{figures(value)}{plain}{each_second}"


def _counts(metric: str) -> bool:
    """Whether a metric counts on for ever, so that what it grows by a second is told."""
    return metric.endswith("_total") or _COUNTS.fullmatch(metric) is not None


def _share(value: float) -> str:
    """Seconds a second, of which a reading may be a little above one."""
    return f"{figures(round(min(value, 1.0) if value < 1.1 else value, 3) * 100)} %{OF_TIME}"


def _duration(seconds: float) -> str:
    size = abs(seconds)
    if 0 < size < 1e-3:
        return f"{figures(seconds * 1e6)} µs"
    return f"{figures(seconds * 1e3)} ms" if 0 < size < 1 else f"{figures(seconds)} s"


def _scaled(value: float, unit: str) -> str:
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{figures(value / factor)} {prefix}{unit}"
    return f"{figures(value)} {unit}"


def _ns_share(value: float) -> str:
    return _share(value / 1e9)


def _code(value: float) -> int | None:
    """A whole number that is no blank of DCGM; None for anything else."""
    return int(value) if 0 <= value < LARGEST and value == int(value) else None


def _named(names: Mapping[int, str]) -> Told:
    def told(value: float) -> str:
        code = _code(value)
        return f"code {figures(value)}" if code is None else names.get(code, f"code {code}")

    return told


def _state(name: str, names: Mapping[int, str], rank: int = 1) -> Reading:
    return Reading(name, _named(names), rank, True, names)


def clock_reasons(value: float) -> str:
    """Bits of the reasons why clocks are held down, in words: `software thermal slowdown`; `nothing` of none."""
    code = _code(value)
    if code is None:
        return f"code {figures(value)}"
    known = [words for bit, words in CLOCK_REASONS.items() if code & bit]
    rest = code & ~sum(CLOCK_REASONS)
    return " and ".join([*known, *([f"bits {rest:#x}"] if rest else [])]) or "nothing"


def _xid(value: float) -> str:
    code = _code(value)
    return "none" if code == 0 else f"code {figures(value)}" if code is None else xid_words(str(code))


# --- names --------------------------------------------------------------------------------------------------------

_METRIC = re.compile(
    r"\b[A-Za-z]\w*_\w+\b"
)  # in a sentence: with an underscore, so that no plain word is taken for one
_COUNTS = re.compile(r"DCGM_FI_DEV_.*_(?:VIOLATION|COUNTER|COUNT)|if(?:In|Out)\w+")
_STATE = 2  # rank of codes and raw counters
_PLAIN = 0
_NAMED: tuple[tuple[str, Reading], ...] = (
    (r"DCGM_FI_DEV_SM_CLOCK", Reading("SM clock", rank=_PLAIN)),
    (r"DCGM_FI_DEV_MEM_CLOCK", Reading("memory clock", rank=_PLAIN)),
    (r"DCGM_FI_DEV_GPU_TEMP", Reading("GPU temperature", rank=_PLAIN)),
    (r"DCGM_FI_DEV_MEMORY_TEMP", Reading("temperature of GPU memory", rank=_PLAIN)),
    (r"DCGM_FI_DEV_POWER_USAGE(?:_INSTANT)?", Reading("GPU power", rank=_PLAIN)),
    (r"DCGM_FI_DEV_GPU_UTIL", Reading("GPU busy", rank=_PLAIN)),
    (r"DCGM_FI_DEV_THERMAL_VIOLATION", Reading("slowed by heat", _ns_share)),
    (r"DCGM_FI_DEV_POWER_VIOLATION", Reading("slowed by its power limit", _ns_share)),
    (r"DCGM_FI_DEV_SYNC_BOOST_VIOLATION", Reading("slowed by sync boost", _ns_share)),
    (r"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", Reading("slowed by the limit of its board", _ns_share)),
    (r"DCGM_FI_DEV_LOW_UTIL_VIOLATION", Reading("slowed for want of work", _ns_share)),
    (r"DCGM_FI_DEV_RELIABILITY_VIOLATION", Reading("slowed by its reliability limit", _ns_share)),
    (r"DCGM_FI_DEV_CLOCKS?_(?:EVENT|THROTTLE)_REASONS",
     Reading("clocks held down by", clock_reasons, _STATE, True, {0: "nothing", **CLOCK_REASONS})),
    (r"DCGM_FI_DEV_XID_ERRORS", Reading("last error of the GPU:", _xid, _STATE, state=True)),
    (r"DCGM_FI_DEV_ROW_REMAP_(?:FAILURE|PENDING)",
     _state("", NO_OR_YES, _STATE)),
    (r"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", Reading("transfers repeated on PCIe")),
    (r"ifOperStatus", _state("port is", IF_OPER_STATUS)),
    (r"node_network_(?:up|carrier)", _state("port is", UP_OR_DOWN)),
    (r"node_infiniband_state_id", _state("InfiniBand port is", IB_PORT_STATE)),
    (r"node_infiniband_physical_state_id", _state("InfiniBand link is", IB_PHYSICAL_STATE)),
    # Source: Linux, Documentation/ABI/stable/sysfs-class-infiniband; mlx5 counters.
    (r"node_infiniband_local_ack_timeout_err_total", Reading("RDMA acknowledgements that timed out")),
    (r"node_infiniband_out_of_sequence_total", Reading("RDMA packets out of sequence")),
    (r"node_infiniband_packet_seq_err_total", Reading("RDMA packets that the other end missed")),
    (r"node_infiniband_rnr_nak_retry_err_total", Reading("RDMA retries for a receiver that is not ready")),
    (r"node_infiniband_np_cnp_sent_total", Reading("congestion notifications sent")),
    (r"node_infiniband_rp_cnp_handled_total", Reading("congestion notifications handled")),
    (r"node_infiniband_symbol_error_total", Reading("symbol errors")),
    (r"node_infiniband_link_downed_total", Reading("times that the link went down", rank=_STATE)),
    (r"node_infiniband_port_(?:rcv|receive)_packets_total|node_infiniband_port_packets_received_total",
     Reading("packets received")),
    (r"up|leadline_agent_source_up", _state("source is", UP_OR_DOWN, _STATE)),
    (r"node_network_carrier(?:_down|_up)?_changes_total", Reading("changes of the carrier", rank=_STATE)),
    (r"container_cpu_cfs_throttled_periods_total", Reading("CPU quota used up")),
    (r"container_cpu_cfs_periods_total", Reading("CPU quota period")),
    (r"container_cpu_cfs_throttled_seconds_total", Reading("held back by its CPU quota")),
    (r"node_pressure_cpu_waiting_seconds_total", Reading("tasks wait for a CPU")),
    (r"node_pressure_memory_(?:waiting|stalled)_seconds_total", Reading("tasks wait for memory")),
    (r"node_pressure_io_(?:waiting|stalled)_seconds_total", Reading("tasks wait for disks")),
    (r"process_cpu_time", Reading("process computes", _share)),
    (r"telemetry_silent", Reading("nothing heard for", _duration)),
    (r"step_(?:data|input)_seconds", Reading("waits for data in a step", rank=_PLAIN)),
    (r"step_forward_seconds", Reading("forward pass", rank=_PLAIN)),
    (r"step_backward_seconds", Reading("backward pass", rank=_PLAIN)),
    (r"step_compute_seconds", Reading("computes in a step", rank=_PLAIN)),
    (r"step_optimizer_seconds", Reading("optimizer in a step", rank=_PLAIN)),
    (r"step_checkpoint_seconds", Reading("checkpoint", rank=_PLAIN)),
    (r"step_seconds", Reading("step", rank=_PLAIN)),
    (r"step_tokens", Reading("tokens in a step", rank=_PLAIN)),
    (r"step_samples", Reading("samples in a step", rank=_PLAIN)),
    (r"collective_lateness_seconds", Reading("late at collectives by", rank=_PLAIN)),
)  # fmt: skip
_READINGS = tuple((re.compile(pattern), reading) for pattern, reading in _NAMED)
