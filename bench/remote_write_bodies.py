"""Remote-write bodies as a Prometheus would send them, made once and sent to every system alike."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import cramjam
import numpy as np

from leadline.model.ids import canonical_labels

STEP_NS = 15 * 10**9

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
class Bodies:
    """Compressed bodies by connection; within a connection the times of a stream only grow."""

    by_connection: list[list[bytes]]
    samples: int
    series: int
    raw_bytes: int

    @property
    def sent_bytes(self) -> int:
        """Bytes of all bodies, compressed."""
        return sum(len(body) for bodies in self.by_connection for body in bodies)


def make_bodies(series: int, steps: int, body_samples: int, connections: int, end_ns: int, seed: int) -> Bodies:
    """`series` streams with one sample each 15 s, `steps` of them, ending at `end_ns`.

    As Prometheus' queue sends them: each connection (its shard) has its own share of the streams, and sends their
    samples in the order they were scraped, `body_samples` in a body, every sample with all labels of its stream.
    """
    rng = np.random.default_rng(seed)
    labels = [stream_labels(number) for number in range(series)]
    values = np.stack([_values(rng, _METRICS[number % len(_METRICS)][1], steps) for number in range(series)])
    times_ms = [(end_ns - (steps - 1 - step) * STEP_NS) // 10**6 for step in range(steps)]
    by_connection: list[list[bytes]] = []
    raw_bytes = 0
    for share in np.array_split(np.arange(series), connections):
        bodies: list[bytes] = []
        for begin in range(0, len(share) * steps, body_samples):
            raw = bytearray()
            for place in range(begin, min(begin + body_samples, len(share) * steps)):
                step, number = place // len(share), int(share[place % len(share)])
                sample = b"\x09" + struct.pack("<d", values[number, step]) + b"\x10" + varint(times_ms[step])
                stream = labels[number] + b"\x12" + varint(len(sample)) + sample
                raw += b"\x0a" + varint(len(stream)) + stream
            raw_bytes += len(raw)
            bodies.append(bytes(cramjam.snappy.compress_raw(bytes(raw))))
        by_connection.append(bodies)
    return Bodies(by_connection, series * steps, series, raw_bytes)


def stream_labels(number: int) -> bytes:
    """Labels of a stream as its fields of a TimeSeries message: 80 numbers are the metrics of a host's eight GPUs."""
    host, gpu = number // 80, number // len(_METRICS) % 8
    name = _METRICS[number % len(_METRICS)][0]
    return canonical_labels(
        {
            "__name__": name,
            "Hostname": f"gpu-host-{host:04d}.pod{host // 32}.example",
            "UUID": f"GPU-{host:08x}-{gpu:04x}-4e1d-9c3a-5f2b7d8e{number % 10000:04d}",
            "device": f"mlx5_{gpu}",
            "instance": f"10.{host // 250}.{host % 250}.7:9400",
            "job": "gpu-hosts",
            "modelName": "NVIDIA H200",
            "namespace": "training",
        }
    )


def _values(rng: np.random.Generator, kind: str, steps: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if kind == "counter":
        return np.cumsum(rng.integers(0, 50_000, steps)).astype(np.float64) + float(rng.integers(0, 10**12))
    if kind == "gauge":
        return np.round(300 + np.cumsum(rng.normal(0, 3, steps)), 1)
    return np.full(steps, float(rng.integers(0, 80_000)))


def varint(value: int) -> bytes:
    """A whole number as Protocol Buffers write it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
