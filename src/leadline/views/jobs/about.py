"""Who runs a job, for whom, and what its scheduler calls it: what its rank 0 said of its run when that began.

The hook takes it from the environment (`torch/run_info.py`); a job without the hook says nothing, and is told without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leadline.model.ids import EntityId
from leadline.model.tables.verdicts import EVENT
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.jobs.lives import Key
from leadline.views.rows import json_rows

# Name in `run-info`, and how it is told; in this order.
FACTS: tuple[tuple[str, str], ...] = (
    ("user", "user"), ("project", "project"), ("slurm_job", "Slurm job"), ("partition", "partition"),
    ("nodes", "nodes"), ("namespace", "namespace"), ("pod", "pod of rank 0"), ("node", "node of rank 0"),
    ("image", "image"), ("commit", "commit"), ("gpu_model", "GPU model"), ("torch", "torch"), ("nccl", "NCCL"),
    ("backend", "back end"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class About:
    """What a run said of itself, by name; empty where it said nothing."""

    told: Mapping[str, str]

    @property
    def user(self) -> str:
        """Who started it."""
        return self.told.get("user", "")

    @property
    def project(self) -> str:
        """For whom: Slurm's account."""
        return self.told.get("project", "")

    def facts(self) -> list[dict[str, str]]:
        """What is known, in the order in which it is told."""
        return [{"name": name, "value": self.told[key]} for key, name in FACTS if self.told.get(key)]


NOTHING = About({})


def about_of(store: Store, asked: Asked, jobs: Iterable[str]) -> dict[Key, About]:
    """What the newest run of each of these jobs, begun by `asked.at_ns`, said of itself."""
    ranks = sorted(f"rank:{job}/0" for job in set(jobs))
    if not ranks:
        return {}
    where = " AND ".join(
        [*asked.conditions(), "entity IN {ranks:Array(String)}", "kind = 'run-info'", f"time_ns <= {asked.at_ns}"]
    )
    sql = (
        "SELECT toString(tenant) AS whose, toString(cluster) AS place, toString(entity) AS rank, "
        f"argMax(attributes, time_ns) AS said FROM leadline.{EVENT.name} WHERE {where} GROUP BY whose, place, rank"
    )
    rows = json_rows(store.query(sql, {**asked.parameters(sql), "ranks": ranks}))
    return {(row["whose"], row["place"], EntityId.of(row["rank"]).job): About(row["said"]) for row in rows}
