"""How long one window of anomalies takes over 100,000 series.

    python -m bench.anomaly [--hosts N] [--every S] [--rounds N] [--json]

Made are the rows that a store hands over of hosts with 8 GPUs, 8 ports and node metrics (200 series a host, 500
hosts): the samples of a window of 5 s and of its look-back of 180 s, one each 10 s (and each second for
`seconds_1s`), in the order of the store and also shuffled. One GPU throttles and one port drops packets, and must come
out. The whole analysis judges the window: Arrow tables in, verdict columns out. Beside it, in the same process, stand a
plain aggregation of the same rows (`pyarrow.Table.group_by`: mean, deviation, largest) and n-sigma in numpy (mean and
standard deviation of each series, the newest value against them), neither of which knows counters, peers, spans or
onsets. All may use two threads.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.figures import Figure, conditions, tell
from bench.path import clear_peak, peak_mb
from leadline.analysis.anomaly.anomaly import LOOK_BACK_NS, anomalies
from leadline.analysis.anomaly.warm import warm_anomalies
from leadline.analysis.spec import Window
from leadline.model.tables import BY_NAME
from leadline.store.schema import ARROW_TYPES

S = 10**9
TO_NS = 1_767_225_600 * S
WINDOW = Window(TO_NS - 5 * S, TO_NS)
SECONDS_TARGET = 2.0
FULL_SERIES = 100_000
THREADS = 2
GPUS, PORTS = 8, 8
NSIGMA = 5.0

_GPU = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", 1980.0), ("DCGM_FI_DEV_MEM_CLOCK", "gauge", 2619.0),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", 61.0), ("DCGM_FI_DEV_POWER_USAGE", "gauge", 640.0),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", 97.0), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", 0.9),
    ("DCGM_FI_DEV_FB_USED", "gauge", 70_000.0), ("DCGM_FI_DEV_XID_ERRORS", "gauge", 0.0),
    ("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", 0.0), ("DCGM_FI_DEV_POWER_VIOLATION", "counter", 0.0),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", 0.0), ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", 9e9),
)  # fmt: skip
_PORT = (
    ("node_network_receive_bytes_total", "counter", 4e9), ("node_network_transmit_bytes_total", "counter", 4e9),
    ("node_network_receive_packets_total", "counter", 1e6), ("node_network_transmit_packets_total", "counter", 1e6),
    ("node_network_receive_drop_total", "counter", 0.0), ("node_network_receive_errs_total", "counter", 0.0),
    ("node_network_carrier", "gauge", 1.0), ("node_network_carrier_changes_total", "counter", 0.0),
)  # fmt: skip
_HOST = (
    ("node_load1", "gauge", 12.0), ("node_procs_running", "gauge", 10.0), ("node_procs_blocked", "gauge", 0.0),
    ("node_memory_MemAvailable_bytes", "gauge", 9e11), ("node_memory_Cached_bytes", "gauge", 1e11),
    ("node_context_switches_total", "counter", 5e4), ("node_pressure_cpu_waiting_seconds_total", "counter", 0.01),
    ("node_pressure_io_waiting_seconds_total", "counter", 0.0), ("node_netstat_Tcp_RetransSegs", "counter", 0.2),
    ("node_netstat_Tcp_InSegs", "counter", 2e5), ("container_oom_events_total", "counter", 0.0),
    ("container_cpu_cfs_throttled_seconds_total", "counter", 0.0),
)  # fmt: skip
_CPU_MODES = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")
_DISKS = 5
_DISK = (
    "node_disk_read_bytes_total",
    "node_disk_written_bytes_total",
    "node_disk_io_time_seconds_total",
    "node_disk_reads_completed_total",
)
PER_HOST = GPUS * len(_GPU) + PORTS * len(_PORT) + len(_HOST) + len(_CPU_MODES) + _DISKS * len(_DISK)


@dataclass(frozen=True, slots=True)
class Input:
    """The rows of one window, and what must come out of it."""

    series: pa.Table
    sample: pa.Table
    value_ST: np.ndarray  # the same values as a matrix, for n-sigma
    odd: tuple[tuple[str, str], ...]


def made(hosts: int, every_s: float, seed: int) -> Input:
    """Rows of so many hosts, each series sampled so often."""
    rng = np.random.default_rng(seed)
    told = [each for host in range(hosts) for each in _of_host(host)]
    count, samples = len(told), int((LOOK_BACK_NS + 5 * S) / (every_s * S))
    level_S = np.array([each[3] for each in told])
    is_counter_S = np.array([each[2] == "counter" for each in told])
    noise_ST = 1.0 + 0.01 * rng.standard_normal((count, samples))
    value_ST = level_S[:, None] * noise_ST
    newest = samples - int(20 / every_s)
    odd = ((f"gpu:GPU-{hosts // 3}-2", _GPU[0][0]), (f"port:n{hosts // 2}/mlx{1}", _PORT[4][0]))
    place = {(each[1], each[0]): at for at, each in enumerate(told)}
    value_ST[place[odd[0]], newest:] = 900.0
    value_ST[place[odd[1]], newest:] = 400.0
    value_ST[is_counter_S] = np.cumsum(np.maximum(value_ST[is_counter_S], 0.0) * every_s, axis=1)
    phase_S = rng.random(count) * every_s
    time_ST = TO_NS - (((samples - 1 - np.arange(samples)) * every_s + phase_S[:, None]) * S).astype(np.int64) - 1
    id_S = rng.bytes(16 * count)
    order_S = np.argsort(np.frombuffer(id_S, "S16"), kind="stable")  # the store's order
    ids = np.frombuffer(id_S, np.uint8).reshape(count, 16)[order_S]
    sample_ids = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), count * samples, [None, pa.py_buffer(np.repeat(ids, samples, axis=0).tobytes())]
    )
    sample = pa.table(
        {
            "tenant": _same("default", count * samples),
            "series": sample_ids,
            "time_ns": time_ST[order_S].ravel(),
            "value": value_ST[order_S].ravel(),
        }
    )
    return Input(_series([told[at] for at in order_S.tolist()], ids), sample, value_ST, odd)


def _of_host(host: int) -> list[tuple[str, str, str, float, dict[str, str]]]:
    """(name, entity, type, level, labels) of all series of one host."""
    name = f"n{host}"
    label = {"instance": f"{name}:9100"}
    found = [
        (metric, f"gpu:GPU-{host}-{gpu}", kind, level, {"UUID": f"GPU-{host}-{gpu}", **label})
        for gpu in range(GPUS)
        for metric, kind, level in _GPU
    ]
    found += [
        (metric, f"port:{name}/mlx{port}", kind, level, {"device": f"mlx{port}", **label})
        for port in range(PORTS)
        for metric, kind, level in _PORT
    ]
    found += [(metric, f"host:{name}", kind, level, label) for metric, kind, level in _HOST]
    found += [
        ("node_cpu_seconds_total", f"host:{name}", "counter", 10.0, {"mode": mode, **label}) for mode in _CPU_MODES
    ]
    found += [
        (metric, f"host:{name}", "counter", 0.3 if "seconds" in metric else 1e6, {"device": f"nvme{disk}n1", **label})
        for disk in range(_DISKS)
        for metric in _DISK
    ]
    return found


def _series(told: list[tuple[str, str, str, float, dict[str, str]]], ids: np.ndarray) -> pa.Table:
    def text(values: list[str]) -> pa.Array:
        return pa.array(values, pa.string()).dictionary_encode()

    count = len(told)
    labels = ARROW_TYPES[BY_NAME["series"].column("labels").type]
    return pa.table(
        {
            "tenant": _same("default", count),
            "series": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, pa.py_buffer(ids.tobytes())]),
            "name": text([each[0] for each in told]),
            "entity": text([each[1] for each in told]),
            "labels": pa.array([list(each[4].items()) for each in told], labels),
            "type": text([each[2] for each in told]),
            "host": text([each[4]["instance"].partition(":")[0] for each in told]),
            "first_ns": np.full(count, TO_NS - LOOK_BACK_NS),
        }
    )  # fmt: skip


def _same(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def _empty(name: str) -> pa.Table:
    columns = {each.name: pa.array([], ARROW_TYPES[each.type]) for each in BY_NAME[name].columns}
    return pa.table(columns | {"bound_ns": pa.array([], pa.int64())})


def judged(data: Input) -> list[tuple[str, str, float]]:
    """Judge the window with the whole analysis. Returns: entity, metric and score of all anomalies."""
    given = {"series": data.series, "metric_sample": data.sample}
    tables = [given.get(read.table.name, _empty(read.table.name)).select(list(read.names)) for read in anomalies.reads]
    found = anomalies(*tables, window=WINDOW)["anomaly"]
    told = list(zip(found["entity"], found["metric"], found["score"], strict=True))
    missed = set(data.odd) - {(entity, metric) for entity, metric, _ in told}
    assert not missed, f"of what is odd {missed} did not come out"
    return told


def aggregated(data: Input) -> pa.Table:
    """Mean, deviation and last value of each series: what an aggregation makes of the same rows."""
    keys = data.sample.select(["series", "value"])
    return keys.group_by("series").aggregate([("value", "mean"), ("value", "stddev"), ("value", "max")])


def nsigma(data: Input) -> int:
    """How many series have a newest value that is more than NSIGMA standard deviations from their mean."""
    past_ST = data.value_ST[:, :-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        z_S = np.abs(data.value_ST[:, -1] - past_ST.mean(axis=1)) / past_ST.std(axis=1)
    return int((z_S > NSIGMA).sum())


def shuffled(data: Input, seed: int) -> Input:
    """The same rows in another order."""
    rng = np.random.default_rng(seed)
    series, sample = (
        each.take(pa.array(rng.permutation(each.num_rows))) for each in (data.series, data.sample)
    )  # fmt: skip
    return Input(series, sample, data.value_ST, data.odd)


def _least(rounds: int, *calls: Callable[[], object]) -> list[tuple[float, float]]:
    """The least seconds of each, by the wall clock and of the processor; they take turns, to see the same machine."""
    took: list[list[tuple[float, float]]] = [[] for _ in calls]
    for _ in range(rounds):
        for place, call in enumerate(calls):
            began, cpu_began = time.perf_counter(), time.process_time()
            call()
            took[place].append((time.perf_counter() - began, time.process_time() - cpu_began))
    return [(min(wall for wall, _ in each), min(cpu for _, cpu in each)) for each in took]


def figures(given: argparse.Namespace) -> tuple[list[Figure], dict[str, object]]:
    """The least of `rounds` of each."""
    pa.set_cpu_count(THREADS)
    warm_anomalies()
    judged(made(4, given.every, given.seed))
    data = made(given.hosts, given.every, given.seed)
    count, rows = data.series.num_rows, data.sample.num_rows
    print(f"{count:,} series, {rows:,} samples made", file=sys.stderr, flush=True)
    since_kb = clear_peak()
    told = judged(data)
    peak = peak_mb(since_kb)
    mixed = shuffled(data, given.seed)
    assert judged(mixed) == told, "rows in another order gave other verdicts"
    (ours, cpu_s), (plain, _), (sigma, _), (other, _) = _least(
        given.rounds, lambda: judged(data), lambda: aggregated(data), lambda: nsigma(data), lambda: judged(mixed)
    )
    dense = made(given.hosts, 1.0, given.seed) if given.dense else None
    second = _least(1, lambda: judged(dense))[0][0] if dense is not None else None
    target = SECONDS_TARGET if count >= FULL_SERIES else None  # a small run proves nothing of it
    anchor = {"of": "pyarrow group_by of the same rows, s", "value": round(plain, 3)}
    found = [
        Figure("seconds_100k_series", round(ours, 3), "s", target, "lower", anchor),
        Figure("cpu_seconds", round(cpu_s, 3), "s", None, "lower"),
        Figure("seconds_shuffled", round(other, 3), "s", None, "lower"),
        Figure("seconds_nsigma", round(sigma, 3), "s", None, "lower"),
        Figure("seconds_1s", None if second is None else round(second, 3), "s", None, "lower",
               reason="not asked for" if second is None else None),
        Figure("series_per_second", round(count / ours), "1/s"),
        Figure("peak_memory_mb", round(peak), "MB", None, "lower"),
    ]  # fmt: skip
    about = {"series": count, "samples": rows, "every_s": given.every, "told": len(told), "nsigma_told": nsigma(data)}
    return found, about


def main(arguments: Sequence[str] | None = None) -> None:
    """Take the figures and tell them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--hosts", type=int, default=FULL_SERIES // PER_HOST)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between samples")
    parser.add_argument("--dense", action=argparse.BooleanOptionalAction, default=True, help="also one sample a second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    found, about = figures(given)
    tell("anomaly", conditions(given.seed, rounds=given.rounds, **about), found, given.json)


if __name__ == "__main__":
    main()
