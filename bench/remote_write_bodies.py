"""Remote-write bodies as a Prometheus would send them: the same to every system.

Labels are nine tenths of a body and stay; of a scrape only the values and one time are new. So the streams of a
connection are written once, as bytes, and each scrape is that with its values and time put in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cramjam
import numpy as np
from numpy.typing import NDArray

from leadline.model.ids import canonical_labels

STEP_NS = 15 * 10**9
HOST_STREAMS = 80  # of a host: ten metrics of each of its eight GPUs
STEPS_A_MINUTE = 60 * 10**9 // STEP_NS
_TIME_BYTES = 6  # of a varint: milliseconds since 1970 from 2004 to 2109

# What a GPU host's exporters tell: counters that grow by uneven steps, gauges that wander, states that hardly move.
_METRICS = (
    ("DCGM_FI_DEV_GPU_UTIL", "gauge"),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge"),
    ("DCGM_FI_DEV_FB_USED", "state"),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge"),
    ("DCGM_FI_DEV_XID_ERRORS", "state"),
    ("node_infiniband_port_data_transmitted_bytes_total", "counter"),
    ("node_infiniband_port_packets_received_total", "counter"),
    ("node_network_receive_bytes_total", "counter"),
    ("node_cpu_seconds_total", "counter"),
    ("node_memory_MemAvailable_bytes", "gauge"),
)


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent: `series` streams at a time, one sample each 15 s, `steps` of them, from `connections` senders.

    `churn`: the share of the streams that end each minute, each with a new one in its place, longest there first.
    `first`: number of the first stream. `step_ns`: from one sample to the next, another only without churn.
    """

    series: int
    steps: int
    body_samples: int
    connections: int
    seed: int
    churn: float = 0.0
    first: int = 0
    step_ns: int = STEP_NS

    @property
    def samples(self) -> int:
        """All of them."""
        return self.series * self.steps

    @property
    def series_ever(self) -> int:
        """Streams that are sent at all."""
        shares = [len(share) for share in self._shares()]
        return self.series + sum(self._replaced(n, step) for n in shares for step in range(1, self.steps))

    def _shares(self) -> list[NDArray[np.int64]]:
        return np.array_split(np.arange(self.first, self.first + self.series), self.connections)

    def _replaced(self, streams: int, step: int) -> int:
        """How many of a connection's streams end before a step: those of its minute, at the begin of it."""
        if step % STEPS_A_MINUTE:
            return 0
        minute = step // STEPS_A_MINUTE
        return int(streams * self.churn * minute) - int(streams * self.churn * (minute - 1))

    def senders(self) -> list[Shard]:
        """What each connection sends."""
        return [
            Shard(self, share, np.random.default_rng((self.seed, number)))
            for number, share in enumerate(self._shares())
            if len(share)
        ]


class Shard:
    """The streams of one connection (a shard of Prometheus' queue), in the order in which they are scraped."""

    def __init__(self, load: Load, numbers: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._load = load
        self._first = numbers
        self._value = _values(rng, numbers, load.steps)
        self._template = _Template(numbers) if not load.churn else None  # streams that stay are written once

    def bodies(self, begin_ns: int) -> Iterator[tuple[int, bytes]]:
        """(step, body) in turn, the first step scraped at `begin_ns`: the step is that of the body's last sample.

        A body has `body_samples` samples (the last one fewer), each with all labels of its stream.
        """
        parts: list[bytes] = []
        room = self._load.body_samples
        numbers = self._first.copy()
        template, oldest = self._template, 0
        for step in range(self._load.steps):
            ended = self._load._replaced(len(numbers), step) if step else 0
            if ended:
                places = np.arange(oldest, oldest + ended) % len(numbers)
                numbers[places] += -(-self._load.series // len(_METRICS)) * len(_METRICS)  # of the same metric
                oldest, template = oldest + ended, None
            template = template or _Template(numbers)
            scrape = template.filled(self._value[:, step], (begin_ns + step * self._load.step_ns) // 10**6)
            begin = 0
            while begin < len(numbers):
                end = min(begin + room, len(numbers))
                parts.append(scrape[template.start[begin] : template.start[end]])
                room -= end - begin
                begin = end
                if not room:
                    yield step, _compressed(parts)
                    parts, room = [], self._load.body_samples
        if parts:
            yield self._load.steps - 1, _compressed(parts)


class _Template:
    """Streams with a sample each as fields of a WriteRequest message, and where values and times stand in them."""

    def __init__(self, numbers: NDArray[np.int64]) -> None:
        sample_bytes = 1 + 8 + 1 + _TIME_BYTES
        heads: list[bytes] = []
        for number in numbers.tolist():
            labels = stream_labels(number)
            heads.append(b"\x0a" + varint(len(labels) + 2 + sample_bytes) + labels + b"\x12" + varint(sample_bytes))
        sample = b"\x09" + bytes(8) + b"\x10" + bytes(_TIME_BYTES)
        self._raw = np.frombuffer(b"".join(head + sample for head in heads), np.uint8).copy()
        size = np.array([len(head) + sample_bytes for head in heads], np.int64)
        self.start = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
        self._value_at = self.start[1:] - sample_bytes + 1

    def filled(self, value: NDArray[np.float64], time_ms: int) -> bytes:
        """The same with these values (S,), of this time."""
        time = np.frombuffer(varint(time_ms), np.uint8)
        assert len(time) == _TIME_BYTES, "a time of this century"
        at = self._value_at[:, None]
        self._raw[at + np.arange(8)] = np.ascontiguousarray(value, "<f8").view(np.uint8).reshape(-1, 8)
        self._raw[at + 9 + np.arange(_TIME_BYTES)] = time
        return self._raw.tobytes()


def _compressed(parts: list[bytes]) -> bytes:
    return bytes(cramjam.snappy.compress_raw(b"".join(parts)))


def stream_labels(number: int) -> bytes:
    """Labels of a stream as its fields of a TimeSeries message."""
    return canonical_labels(labels_of(number))


def labels_of(number: int) -> dict[str, str]:
    """Labels of a stream: HOST_STREAMS numbers are the metrics of a host's eight GPUs."""
    host, gpu = number // HOST_STREAMS, number // len(_METRICS) % 8
    return {
        "__name__": _METRICS[number % len(_METRICS)][0],
        "Hostname": f"gpu-host-{host:04d}.pod{host // 32}.example",
        "UUID": f"GPU-{host:08x}-{gpu:04x}-4e1d-9c3a-5f2b7d8e{number % 10000:04d}",
        "device": f"mlx5_{gpu}",
        "instance": f"10.{host // 250}.{host % 250}.7:9400",
        "job": "gpu-hosts",
        "modelName": "NVIDIA H200",
        "namespace": "training",
    }


def _values(rng: np.random.Generator, numbers: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    """Values (S, T) of streams by their numbers."""
    value_ST = np.empty((len(numbers), steps))
    kind = np.array([kind for _, kind in _METRICS])[numbers % len(_METRICS)]
    counters, gauges, states = (kind == each for each in ("counter", "gauge", "state"))
    size = int(counters.sum())
    total = np.cumsum(rng.integers(0, 50_000, (size, steps)), axis=1) + rng.integers(0, 10**12, (size, 1))
    value_ST[counters] = total
    value_ST[gauges] = np.round(300 + np.cumsum(rng.normal(0, 3, (int(gauges.sum()), steps)), axis=1), 1)
    value_ST[states] = rng.integers(0, 80_000, (int(states.sum()), 1))
    return value_ST


def varint(value: int) -> bytes:
    """A whole number as Protocol Buffers write it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
