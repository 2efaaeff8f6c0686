"""Two runs of bert-7 and one of bert-8 on four hosts, hand-made, in a store.

The first run of bert-7 takes 1.0 s a step with driver 535; the second, ten minutes later, 1.2 s with driver 550 and
another NCCL. bert-8 is as the first. Host h4 has a smaller MTU, and drops packets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leadline.model.tables import BY_NAME

S = 10**9
T0 = 1_750_000_000 * S
FIRST, SECOND, OTHER = T0, T0 + 1200 * S, T0 + 2400 * S
END = OTHER + 600 * S
HOSTS = ("h1", "h2", "h3", "h4", "h5")
STEPS = 120
SIZE = 1 << 20
WHOSE = {"tenant": "default", "cluster": "default"}


def row(table: str, **given: Any) -> dict[str, Any]:
    """A row with nothing in the columns that are not given."""
    empty = {column.name: None if column.nullable else 0 for column in BY_NAME[table].columns}
    texts = {"SYM": "", "STR": "", "MAP": {}, "U128": 0}
    blank = {
        column.name: texts.get(column.type.value, empty[column.name]) if not column.nullable else None
        for column in BY_NAME[table].columns
    }
    return {**blank, **WHOSE, **given}


def run_rows(job: str, begin: int, step_s: float, seed: int, nccl: str) -> dict[str, list[dict[str, Any]]]:
    """Steps, collectives and what its ranks say, of one run with a rank on each host."""
    rng = np.random.default_rng(seed)
    steps, collectives = [], []
    at = begin
    for step in range(STEPS):
        took = int(step_s * (1 + 0.02 * rng.normal()) * S)
        for rank, host in enumerate(HOSTS):
            on = {"host": host, "clock": f"{host}/1", "job": job, "rank": rank, "batch_row": step * 8 + rank}
            late = int(0.1 * S) if rank == 3 else 0
            steps.append(
                row(
                    "step",
                    **on,
                    step=step,
                    start_ns=at,
                    end_ns=at + took - rank,
                    tokens=512.0,
                    forward_ns=took // 4,
                    batch=seed,
                )
            )
            collectives.append(
                row(
                    "collective",
                    **on,
                    comm=f"{job}/0x1",
                    ranks=5,
                    seq=step,
                    op="all_reduce",
                    bytes=SIZE,
                    enqueued_ns=at + late,
                    state="finished",
                    finished_ns=at + int(0.2 * S * step_s),
                    batch=seed,
                )
            )
        at += took
    events = [
        row(
            "event",
            host=host,
            clock=f"{host}/1",
            time_ns=begin - S,
            entity_kind="rank",
            entity=f"rank:{job}/{rank}",
            kind="run-info",
            severity="info",
            batch=seed,
            batch_row=rank,
            attributes={"torch": "2.4", "nccl": nccl, "CUDA_VISIBLE_DEVICES": str(rank)},
        )
        for rank, host in enumerate(HOSTS)
    ]
    return {"step": steps, "collective": collectives, "event": events}


def metric_rows(begin: int, driver: str, first: int) -> dict[str, list[dict[str, Any]]]:
    """Ten minutes of GPU temperature, port MTU and drops of each host; streams are numbered from `first`."""
    rng = np.random.default_rng(first)
    series, samples = [], []
    for place, host in enumerate(HOSTS):
        mtu = 1500 if host == "h4" else 9000
        port = ("port", f"port:{host}/eth0")
        gpu = {"DCGM_FI_DRIVER_VERSION": driver, "UUID": str(place)}
        streams: tuple[tuple[str, str, str, str, dict[str, str], float], ...] = (
            ("DCGM_FI_DEV_GPU_TEMP", "gpu", f"gpu:GPU-{place}", "gauge", gpu, 60),
            ("node_network_mtu_bytes", *port, "gauge", {"device": "eth0"}, mtu),
            ("node_network_receive_drop_total", *port, "counter", {"device": "eth0"}, -1),
            ("node_uname_info", "host", f"host:{host}", "gauge", {"release": "6.8.0", "nodename": host}, 1),
        )
        for number, (name, kind, entity, kind_of, labels, value) in enumerate(streams):
            series_id = first + place * 10 + number
            series.append(
                row(
                    "series",
                    series=series_id,
                    name=name,
                    entity_kind=kind,
                    entity=entity,
                    labels=labels,
                    first_ns=begin,
                    last_ns=begin + 600 * S,
                    type=kind_of,
                    host=host,
                    source="agent",
                )
            )
            for at in range(0, 600, 15):
                drops = at * (40.0 if host == "h4" else 0.1)
                noise = rng.normal() if name == "DCGM_FI_DEV_GPU_TEMP" else 0.0
                samples.append(
                    row(
                        "metric_sample",
                        series=series_id,
                        time_ns=begin + at * S,
                        value=drops if value < 0 else value + noise,
                    )
                )
    return {"series": series, "metric_sample": samples}


def ledger_rows(job: str, begin: int, late_s: float) -> list[dict[str, Any]]:
    """Eleven windows of 10 s, in each of which the job waited so long for rank 3."""
    return [
        row("ledger", job=job, end_ns=begin + 10 * S * window, window_ns=10 * S, category=category, owner=owner,
            seconds=seconds, analysis="ledger", version=1)
        for window in range(1, 12)
        for category, owner, seconds in (("straggler", f"rank:{job}/3", late_s), ("compute", None, 10 - late_s))
    ]  # fmt: skip


def all_rows() -> dict[str, list[dict[str, Any]]]:
    """Everything."""
    parts = [
        run_rows("bert-7", FIRST, 1.0, 1, "2.20"),
        metric_rows(FIRST, "535", 1000),
        run_rows("bert-7", SECOND, 1.2, 2, "2.21"),
        metric_rows(SECOND, "550", 2000),
        run_rows("bert-8", OTHER, 1.0, 3, "2.21"),
        metric_rows(OTHER, "550", 3000),
    ]
    parts.append({"ledger": ledger_rows("bert-7", SECOND, 4.0) + ledger_rows("bert-8", OTHER, 1.0)})
    names = {name for part in parts for name in part}
    return {name: [each for part in parts for each in part.get(name, [])] for name in sorted(names)}
