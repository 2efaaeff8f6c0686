"""Scores of paths and volumes: verdicts beside the truth, one flow in one window at a time, then shares.

A flow is *right* if it is said where it goes (state known, or moved) and alternative 0 is the path it took last in the
window; *wrong* if another path is said, or one path of a flow whose packets were sprayed over several; *unknown* in all
other states. `probability` is judged wherever a path is told, so also of ambiguous flows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evals.path.truth import Flow, Path, Truth
from evals.statistics import Share, share_of

SURE = ("known", "moved")
MANY_SAMPLES = 200  # from so many on a path is expected to be right
EDGES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)


@dataclass(frozen=True, slots=True)
class FlowScore:
    """One flow in one window."""

    samples: int
    state: str  # as told; "none" without a verdict
    probability: float
    told: bool  # a path is told
    right: bool  # and it is the path taken last
    sprayed: bool  # in truth
    moved: bool  # in truth
    job: str | None
    true_job: str | None

    @property
    def verdict(self) -> str:
        """right, wrong or unknown."""
        if self.state not in SURE or not self.told:
            return "unknown"
        return "right" if self.right and not self.sprayed else "wrong"


@dataclass(frozen=True, slots=True)
class VolumeScore:
    """One flow over one link in one window; bytes."""

    true: float
    estimate: float
    low: float
    high: float

    @property
    def covered(self) -> bool:
        """Whether the interval has the truth. A byte is forgiven: the truth is told in whole ones."""
        return self.low - 1 <= self.true <= self.high + 1


@dataclass(frozen=True, slots=True)
class Scores:
    """All of one condition, or of several together."""

    flows: Sequence[FlowScore]
    volumes: Sequence[VolumeScore]
    without_truth: int = 0  # flows that were sampled and of which nothing is known: not scored

    @staticmethod
    def sum(several: Sequence[Scores]) -> Scores:
        """Several together."""
        return Scores(
            [flow for each in several for flow in each.flows],
            [volume for each in several for volume in each.volumes],
            sum(each.without_truth for each in several),
        )

    @property
    def right(self) -> Share:
        """Of flows with many samples that have one path at a time: how many are right."""
        return share_of([each.verdict == "right" for each in self.flows if self._counts(each)])

    @property
    def wrong(self) -> Share:
        """Of all flows seen."""
        return share_of([each.verdict == "wrong" for each in self.flows])

    @property
    def wrong_of_sure(self) -> Share:
        """Of the flows of which a path is said for certain."""
        return share_of([each.verdict == "wrong" for each in self.flows if each.verdict != "unknown"])

    @property
    def unknown(self) -> Share:
        """Of all flows seen that have one path at a time."""
        return share_of([each.verdict == "unknown" for each in self.flows if not each.sprayed])

    @property
    def sprayed_told(self) -> Share:
        """Of flows with many samples that were sprayed: how many are said to be."""
        many = [each for each in self.flows if each.sprayed and each.samples >= MANY_SAMPLES]
        return share_of([each.state == "sprayed" for each in many])

    @property
    def moved_told(self) -> Share:
        """Of flows with many samples that moved within the window: how many are said to have."""
        many = [each for each in self.flows if each.moved and each.samples >= MANY_SAMPLES]
        return share_of([each.state == "moved" for each in many])

    @property
    def owner_right(self) -> Share:
        """Of flows of a job: how many are told to be this job's."""
        return share_of([each.job == each.true_job for each in self.flows if each.true_job is not None])

    @property
    def covered(self) -> Share:
        """Of the volumes told: how many intervals have the truth."""
        return share_of([each.covered for each in self.volumes])

    @property
    def width_ratios(self) -> list[float]:
        """Widths of the intervals, as shares of the truth, where there is any."""
        return [(each.high - each.low) / each.true for each in self.volumes if each.true > 0]

    @property
    def brier(self) -> float | None:
        """Mean squared distance of the stated probability and what came; 0 is best. Source: Brier, MWR 78 (1950)."""
        judged = [(each.probability - each.right) ** 2 for each in self.flows if _stated(each)]
        return sum(judged) / len(judged) if judged else None

    @staticmethod
    def _counts(each: FlowScore) -> bool:
        return not each.sprayed and each.samples >= MANY_SAMPLES


@dataclass(frozen=True, slots=True)
class Bin:
    """Flows whose stated probability lies from `low` to `high`."""

    low: float
    high: float
    stated: float  # mean
    right: Share

    @property
    def overconfident(self) -> bool:
        """Whether fewer are right than was stated, beyond what chance explains."""
        return self.right.count > 0 and self.right.interval[1] < self.stated


def reliability(flows: Iterable[FlowScore], edges: Sequence[float] = EDGES) -> list[Bin]:
    """Stated probability against the share that is right, by bins; bins without flows are left out.

    A flow that is sprayed is left out unless a path is said of it for certain: the probability of alternative 0 is
    then a share of its traffic.
    """
    held: dict[int, list[FlowScore]] = defaultdict(list)
    for each in flows:
        if _stated(each):
            held[_bin(each.probability, edges)].append(each)
    return [
        Bin(
            edges[place],
            edges[place + 1],
            sum(each.probability for each in found) / len(found),
            share_of([each.right and not each.sprayed for each in found]),
        )
        for place, found in sorted(held.items())
    ]


def _stated(each: FlowScore) -> bool:
    return each.told and each.state != "sprayed" and (not each.sprayed or each.state in SURE)


def _bin(probability: float, edges: Sequence[float]) -> int:
    inner = edges[1:-1]
    return sum(probability >= edge for edge in inner)


def scored(
    verdicts: Mapping[str, pa.Table],
    samples: pa.Table,
    truth: Truth,
    window_ns: int,
    job_of: Mapping[Flow, str] | None = None,
    only_of_jobs: bool = True,
) -> Scores:
    """Verdicts (`flow_path`, `path_hop`, `flow_volume`) beside the truth.

    Inputs: `samples`: the rows of `flow_sample` that were judged, so that a flow without a verdict is seen as unknown.
    `only_of_jobs`: volumes of flows that no job owns are left out.
    """
    told = _paths_told(verdicts["path_hop"])
    rows = {(row["flow"], row["end_ns"]): row for row in _rows(verdicts["flow_path"], _FLOW_PATH)}
    flows, unscored = [], 0
    for key, count in _seen(samples, window_ns).items():
        true = truth.paths.get(key)
        if true is None or not (true.last or true.sprayed):
            unscored += 1
            continue
        row, path = rows.get(key), told.get(key, ())
        flows.append(
            FlowScore(
                count,
                row["state"] if row else "none",
                float(row["probability"]) if row else 0.0,
                bool(path),
                bool(path) and path == true.last,
                true.sprayed,
                true.moved,
                row["job"] if row else None,
                job_of.get(key[0]) if job_of else None,
            )
        )
    return Scores(flows, _volumes(verdicts["flow_volume"], truth, only_of_jobs), unscored)


_FLOW_PATH = ("flow", "end_ns", "state", "probability", "job")


def _rows(table: pa.Table, names: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.select(list(names)).to_pylist()
    return rows


def _paths_told(path_hop: pa.Table) -> dict[tuple[Flow, int], Path]:
    """Links of alternative 0, in the order of its hops."""
    first = path_hop.filter(pc.field("alternative") == 0)
    hops: dict[tuple[Flow, int], list[tuple[int, str]]] = defaultdict(list)
    for row in _rows(first, ("flow", "end_ns", "hop", "link")):
        hops[row["flow"], row["end_ns"]].append((row["hop"], row["link"]))
    return {key: tuple(link for _, link in sorted(each)) for key, each in hops.items()}


def _seen(samples: pa.Table, window_ns: int) -> Counter[tuple[Flow, int]]:
    """Samples of each flow in each window, by its end."""
    at_ns = samples.column("time_ns").to_numpy()
    plain = pa.table({"flow": samples.column("flow"), "end_ns": (at_ns // window_ns + 1) * window_ns})
    counted = plain.group_by(["flow", "end_ns"]).aggregate([([], "count_all")])
    rows = _rows(counted, ("flow", "end_ns", "count_all"))
    return Counter({(row["flow"], row["end_ns"]): row["count_all"] for row in rows})


def _volumes(table: pa.Table, truth: Truth, only_of_jobs: bool) -> list[VolumeScore]:
    """Every volume told of a flow whose truth is known."""
    found = []
    for row in _rows(table, ("flow", "end_ns", "link", "job", "bytes", "low", "high")):
        if (row["flow"], row["end_ns"]) in truth.paths and (row["job"] is not None or not only_of_jobs):
            true = truth.crossed(row["flow"], row["end_ns"], row["link"])
            found.append(VolumeScore(true, row["bytes"], row["low"], row["high"]))
    return found
