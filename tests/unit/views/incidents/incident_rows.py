"""Hand-made rows of incidents: bert-1 of acme slowed by a link that flaps and then by a worker; others beside it.

- FLAP: open, known: port:h3/eth0 is named, h6 and the job were considered.
- WORKER: over since 100 s, known: gpu:GPU-6 of host h6.
- THIN: resnet-2 of beta stalls, unknown for want of collectives.
- QUIET: moe-3 of acme, suppressed by maintenance.
"""

from __future__ import annotations

import json
from typing import Any

S = 10**9
NOW = 1_750_000_000 * S
FLAP, WORKER, THIN, QUIET = ("bert-1-slow-1", "bert-1-slow-0", "resnet-2-stall-1", "moe-3-slow-1")
VERDICT = {"tenant": "acme", "cluster": "default", "version": 1, "revision": 0}


def evidence(entity: str, after_s: float, start_s: float, bound_s: float | None, text: str,
             what: str = "link-down") -> dict[str, Any]:  # fmt: skip
    """One reference to a row, `after_s` after the first lost second at `start_s` (relative to NOW)."""
    return {
        "table": "event", "entity": entity, "what": what, "time_ns": NOW + round((start_s + after_s) * S),
        "bound_ns": None if bound_s is None else round(bound_s * S), "text": text,
    }  # fmt: skip


def incident(name: str, job: str, start_s: float, **more: Any) -> dict[str, Any]:
    """A row of `incident`; times in s after NOW."""
    start_ns = NOW + round(start_s * S)
    told = {"entity": f"job:{job}", "symptom": more.get("symptom", "slow"), "start_ns": start_ns,
            "lost_gpu_seconds": more.get("lost_gpu_seconds", 100.0)}  # fmt: skip
    return {
        **VERDICT, "analysis": "cause", "incident": name, "entity": f"job:{job}", "job": job, "jobs": [job],
        "symptom": "slow", "start_ns": start_ns, "end_ns": None, "bound_ns": 0, "reported_ns": start_ns + 8 * S,
        "state": "open", "verdict": "known", "missing": None, "lost_gpu_seconds": 100.0, "suppressed": None,
        "symptoms": json.dumps([told]), "seen_ns": NOW, **more,
    }  # fmt: skip


def cause(name: str, position: int, entity: str, rule: str, probability: float, start_s: float,
          **more: Any) -> dict[str, Any]:  # fmt: skip
    """A row of `cause`."""
    return {
        **VERDICT, "analysis": "cause", "incident": name, "position": position, "entity": entity, "rule": rule,
        "chosen": position == 1, "layer": "nic", "class": "transient", "probability": probability,
        "start_ns": NOW + round(start_s * S), "score": json.dumps({"prior": -2.0, "events": 4.6}), "evidence": "[]",
        "action": "CHECK_CABLE", "action_cost": 0.0, "saves": 5400.0, "waiting_cost": 900.0,
        "text": f"{entity}: {rule}", "seen_ns": NOW, **more,
    }  # fmt: skip


def symptom(job: str, start_s: float, **more: Any) -> dict[str, Any]:
    """A row of `symptom`."""
    return {
        **VERDICT, "analysis": "slowdowns", "entity": f"job:{job}", "job": job, "symptom": "slow",
        "start_ns": NOW + round(start_s * S), "end_ns": None, "bound_ns": 0, "reported_ns": NOW,
        "lost_gpu_seconds": 100.0, "lost_share": 0.5,
        "blamed": json.dumps([{"owner": "port:h3/eth0", "category": "communication"}]),
        "missing": None, "evidence": "[]", "seen_ns": NOW, **more,
    }  # fmt: skip


def anomaly(start_ns: int, seen_ns: int, **more: Any) -> dict[str, Any]:
    """A row of `anomaly`; times in ns."""
    return {
        **VERDICT, "analysis": "anomaly", "entity_kind": "host", "entity": "host:h3", "metric": "node_load1",
        "label": None, "start_ns": start_ns, "earliest_ns": start_ns - S, "end_ns": None, "bound_ns": None,
        "score": 9.0, "share": 1.0, "direction": "high", "witness": "past", "expected": 1.0, "seen": 9.0,
        "reported_ns": start_ns + S, "seen_ns": seen_ns, **more,
    }  # fmt: skip


FLAP_EVIDENCE = [
    evidence("port:h3/eth0", -0.4, -48, 0.001, "h3/eth0 lost its carrier 5 times in 30 s"),
    evidence("rank:bert-1/2", 3.0, -48, 0.001, "rank 2 arrives last, by 900 ms", "late"),
    evidence("swport:leaf1/Ethernet3", -0.3, -48, None, "the other end went down too"),
]


def step(job: str, number: int, start_s: float, rank: int = 0, tenant: str = "acme") -> dict[str, Any]:
    """A row of `step` of 2 s."""
    empty = dict.fromkeys(("data_ns", "forward_ns", "backward_ns", "optimizer_ns", "checkpoint_ns", "samples", "tokens",
                           "loss"))  # fmt: skip
    return {
        **empty, "tenant": tenant, "cluster": "default", "host": "h1", "clock": "h1/1", "job": job, "rank": rank,
        "step": number, "start_ns": NOW + round(start_s * S), "end_ns": NOW + round((start_s + 2) * S), "metrics": {},
        "batch": 1, "batch_row": number * 16 + rank,
    }  # fmt: skip


def run(analysis: str, end_s: float, part: str = "bert-1") -> dict[str, Any]:
    """A row of `analysis_run`."""
    return {
        "tenant": "acme", "cluster": "default", "analysis": analysis, "part": part, "version": 1,
        "end_ns": NOW + round(end_s * S), "window_ns": 2 * S, "revision": 0, "state": "done", "rows_in": 1,
        "rows_out": 0, "digest": 1, "took_ns": 1, "error": "",
    }  # fmt: skip


ROWS: dict[str, list[dict[str, Any]]] = {
    "incident": [
        incident(FLAP, "bert-1", -48, seen_ns=NOW - 2 * S, lost_gpu_seconds=90.0),  # an earlier window
        incident(FLAP, "bert-1", -48, lost_gpu_seconds=105.0),
        incident(WORKER, "bert-1", -300, end_ns=NOW - 100 * S, state="over", seen_ns=NOW - 98 * S),
        incident(THIN, "resnet-2", -20, tenant="beta", symptom="stall", verdict="unknown", lost_gpu_seconds=200.0,
                 missing="collectives of resnet-2", bound_ns=None),
        incident(QUIET, "moe-3", -200, suppressed="maintenance", lost_gpu_seconds=10.0),
    ],
    "cause": [
        cause(FLAP, 1, "host:h6", "cpu-throttled", 0.7, -48, seen_ns=NOW - 2 * S),  # thought so before
        cause(FLAP, 4, "host:h7", "cpu-throttled", 0.1, -48, seen_ns=NOW - 2 * S),  # ... in a place that is gone
        cause(FLAP, 1, "port:h3/eth0", "link-down", 0.93, -48.4, evidence=json.dumps(FLAP_EVIDENCE)),
        cause(FLAP, 2, "host:h6", "cpu-throttled", 0.04, -40, layer="host",
              text="host:h6 was considered and rejected: throttled only 8 s after"),
        cause(FLAP, 3, "job:bert-1", "imbalance", 0.01, -48, layer="application"),
        cause(WORKER, 1, "gpu:GPU-6", "slow-gpu", 0.8, -301, layer="gpu", action="DRAIN", seen_ns=NOW - 98 * S,
              evidence="no JSON", score="[]", saves=None, action_cost=None, **{"class": "gray"}),
        cause(THIN, 1, "host:h9", "cpu-throttled", 0.4, -21, tenant="beta", seen_ns=NOW - 2 * S),  # before
        cause(QUIET, 1, "host:h2", "maintenance", 0.9, -201, action="NONE", layer="host"),
    ],
    "symptom": [symptom("bert-1", -48), symptom("resnet-2", -20, tenant="beta", symptom="stall", blamed="[]",
                                                missing="collectives of resnet-2", bound_ns=None)],
    "step": [
        *(step("bert-1", number, -100 + 2 * number, rank) for number in range(49) for rank in range(8)),
        *(step("resnet-2", number, -60 + 2 * number, rank, "beta") for number in range(20) for rank in range(2)),
        *(step("calm-4", number, -40 + 2 * number) for number in range(19)),
        *(step("gone-5", number, -3000 + 2 * number) for number in range(3)),
    ],
    "relation": [
        {"tenant": "acme", "cluster": "default", "child": "gpu:GPU-6", "parent": "host:h6", "kind": "in",
         "from_ns": NOW - 900 * S, "to_ns": None, "source": "agent", "confidence": 1.0},
    ],
    "analysis_run": [run(name, -2, job) for name in ("stalls", "slowdowns") for job in ("bert-1", "calm-4", "gone-5")],
}  # fmt: skip


def newest(table: str) -> list[dict[str, Any]]:
    """The rows of a table that count: of incidents those of the newest window."""
    return [row for row in ROWS[table] if table != "incident" or row["lost_gpu_seconds"] != 90.0]
