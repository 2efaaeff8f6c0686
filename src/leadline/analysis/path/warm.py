"""The analysis on two hosts and a leaf: it compiles, or loads from the cache, all kernels."""

from __future__ import annotations

import pyarrow as pa

from leadline.analysis.path.paths import paths
from leadline.analysis.spec import S, Verdicts, Window


def warm_paths() -> Verdicts:
    """Verdicts on one sampled packet."""
    sample = {
        "tenant": "", "switch": "leaf1", "in_port": "1", "out_port": "2", "dropped": None,
        "src_ip": "10.0.0.1", "dst_ip": "10.0.0.2",
    }  # fmt: skip
    numbers = {"time_ns": 1, "protocol": 6, "src_port": 1, "dst_port": 2, "dst_qp": None}
    sampled = pa.table(
        {name: pa.array([value], pa.string()) for name, value in sample.items()}
        | {name: pa.array([value], pa.int64()) for name, value in numbers.items()}
        | {name: pa.array([1500], pa.uint64()) for name in ("rate", "frame_bytes")}
        | {"flow": pa.array([b"0123456789abcdef"], pa.binary(16))}
    )
    told = [
        ("port:h1/eth0", "linked", "swport:leaf1/1"), ("port:h2/eth0", "linked", "swport:leaf1/2"),
        ("address:10.0.0.1", "in", "port:h1/eth0"), ("address:10.0.0.2", "in", "port:h2/eth0"),
    ]  # fmt: skip
    relation = pa.table(
        {name: [row[place] for row in told] for place, name in enumerate(("child", "kind", "parent"))}
        | {"tenant": [""] * len(told), "source": [""] * len(told), "confidence": [1.0] * len(told)}
        | {"from_ns": [0] * len(told), "to_ns": pa.nulls(len(told), pa.int64())}
    )
    return paths(sampled, relation, window=Window(0, 10 * S))
