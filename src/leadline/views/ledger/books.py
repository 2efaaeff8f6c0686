"""Rows of the ledger of one job, as somebody may see them: sums by owner, timeline, what nobody judged.

Sums are made by the engine over the rows of each window that count; they are exact, as seconds are multiples of
2**-20 s.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.model.principal import OPERATE
from leadline.model.tables.accounts import FAILURE, LEDGER
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import STEP
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked, time_text
from leadline.views.jobs.rows import owner
from leadline.views.near import near_jobs
from leadline.views.rows import json_rows, rows_where

SPAN_NS = 24 * 3600 * S  # looked at, where nothing else is asked for
SPAN_NS_MAX = 400 * 24 * 3600 * S
SETTLE_NS = 30 * S  # what ran so lately may not be judged yet, and is not called missing
BINS_MAX = 360  # of the timeline: more than a picture can show
SUMS = ("seconds", "gpu_seconds", "lost_seconds", "lost_gpu_seconds")


@dataclass(frozen=True, slots=True)
class Span:
    """What is looked at: windows of `window_ns` that end in (from_ns, to_ns]."""

    from_ns: int
    to_ns: int
    window_ns: int


class Books:
    """Rows of the ledger of one job, as somebody may see them."""

    def __init__(self, store: Store, asked: Asked, job: str) -> None:
        self._store, self.asked, self._job = store, asked, job
        self.tenant, self.note = owner(store, asked, job)

    def _query(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        every = {"job": self._job, "tenant": self.tenant, "cluster": self.asked.cluster, **parameters}
        return json_rows(self._store.query(sql, {name: each for name, each in every.items() if f"{{{name}:" in sql}))

    def _mine(self) -> str:
        cluster = " AND cluster = {cluster:String}" if self.asked.cluster else ""
        return f"job = {{job:String}} AND tenant = {{tenant:String}}{cluster}"

    def last_ns(self) -> int | None:
        """End of the newest window of the job by the time asked for."""
        sql = (
            f"SELECT max(end_ns) AS last, count() AS n FROM leadline.{LEDGER.name} "
            f"WHERE {self._mine()} AND end_ns <= {{at_ns:Int64}}"
        )
        found = self._query(sql, at_ns=self.asked.at_ns)[0]
        return int(found["last"]) if found["n"] else None

    def _first_ns(self) -> int | None:
        """End of the first window of the job at all."""
        sql = f"SELECT min(end_ns) AS first, count() AS n FROM leadline.{LEDGER.name} WHERE {self._mine()}"
        found = self._query(sql)[0]
        return int(found["first"]) if found["n"] else None

    def span(self, from_ns: int | None) -> Span | None:
        """The windows to look at: between the first and the last sign of the job; None where there is none."""
        to_ns = self.asked.at_ns
        from_ns = max(to_ns - SPAN_NS if from_ns is None else from_ns, to_ns - SPAN_NS_MAX)
        rows = self._query(
            f"SELECT window_ns, min(end_ns) AS first, max(end_ns) AS last, count() AS n FROM leadline.{LEDGER.name} "
            f"WHERE {self._mine()} AND end_ns - window_ns >= {{from_ns:Int64}} AND end_ns <= {{to_ns:Int64}} "
            "GROUP BY window_ns ORDER BY n DESC, window_ns LIMIT 1",
            from_ns=from_ns, to_ns=to_ns,
        )  # fmt: skip
        if not rows:
            return None
        window_ns = int(rows[0]["window_ns"])
        begin_ns, end_ns = int(rows[0]["first"]) - window_ns, int(rows[0]["last"])
        seen = self._query(
            f"SELECT min(start_ns) AS first, max(end_ns) AS last, count() AS n FROM leadline.{STEP.name} WHERE "
            f"{self._mine()} AND start_ns >= {{from_ns:Int64}} AND end_ns <= {{to_ns:Int64}} SETTINGS final = 0",
            from_ns=from_ns, to_ns=to_ns,
        )[0]  # fmt: skip
        if seen["n"]:  # steps in windows that were not judged: whole windows of them
            begin_ns = min(begin_ns, -(-int(seen["first"]) // window_ns) * window_ns)
            end_ns = max(end_ns, min(int(seen["last"]), to_ns - SETTLE_NS) // window_ns * window_ns)
        return Span(begin_ns, end_ns, window_ns)

    def _rows(self, span: Span) -> str:
        where = (
            f"{self._mine()} AND window_ns = {span.window_ns} AND end_ns > {span.from_ns} AND end_ns <= {span.to_ns}"
        )
        return f"({rows_where(LEDGER, where)})"

    def sums(self, span: Span) -> list[dict[str, Any]]:
        """Sums by category, owner and depth, with the first and last window in which something was lost to it."""
        sums = ", ".join(f"sum({name}) AS sum_{name}" for name in SUMS)
        rows = self._query(
            f"SELECT toString(category) AS category, if(isNull(owner), NULL, toString(owner)) AS owner_name, "
            f"toString(depth) AS depth, {sums}, sum(confidence * gpu_seconds) AS sure, "
            "minIf(end_ns, lost_gpu_seconds > 0) AS first, maxIf(end_ns, lost_gpu_seconds > 0) AS last, "
            "countIf(lost_gpu_seconds > 0) AS n "
            f"FROM {self._rows(span)} GROUP BY category, owner_name, depth ORDER BY category, owner_name, depth"
        )
        return [
            {
                **row,
                **{name: float(row[f"sum_{name}"]) for name in SUMS},
                "since_ns": int(row["first"]) - span.window_ns if row["n"] else None,
                "until_ns": int(row["last"]) if row["n"] else None,
            }
            for row in rows
        ]

    def gaps(self, span: Span) -> list[tuple[int, int]]:
        """Spans within a span that nobody judged, (from, to) in ns."""
        # Neighbours are held against each other by the engine: a month has 259,200 windows, and few gaps.
        ends = (
            f"SELECT DISTINCT end_ns FROM {self._rows(span)} UNION ALL "
            f"SELECT toInt64(end_ns) FROM (SELECT arrayJoin([{span.from_ns}, {span.to_ns + span.window_ns}]) AS end_ns)"
        )
        rows = self._query(
            f"SELECT before, end_ns - {span.window_ns} AS until FROM (SELECT end_ns, "
            "lagInFrame(end_ns, 1, end_ns) OVER (ORDER BY end_ns ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS before "
            f"FROM ({ends})) WHERE end_ns - before > {span.window_ns} ORDER BY end_ns"
        )
        return [(int(row["before"]), int(row["until"])) for row in rows]

    def timeline(
        self, span: Span, gaps: Sequence[tuple[int, int]], takers: Sequence[tuple[str, str]] = ()
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Seconds by category in at most BINS_MAX bins of whole windows, and of each how much nobody judged; and what
        was lost to each of some (category, owner) in these bins.

        What is left of the first and last bin is time in which the job was not there.
        """
        windows = (span.to_ns - span.from_ns) // span.window_ns
        bin_ns = -(-windows // BINS_MAX) * span.window_ns
        rows = self._query(
            f"SELECT intDiv(end_ns - {span.window_ns} - {span.from_ns}, {bin_ns}) AS bin, "
            "toString(category) AS category, if(has({takers:Array(String)}, ifNull(toString(owner), '')), "
            "ifNull(toString(owner), ''), '') AS taker, sum(seconds) AS whole, sum(lost_seconds) AS lost "
            f"FROM {self._rows(span)} GROUP BY bin, category, taker ORDER BY bin, category, taker",
            takers=sorted({owner for _, owner in takers}),
        )
        bins: list[dict[str, Any]] = [
            {
                "from_ns": begin_ns,
                "to_ns": min(begin_ns + bin_ns, span.to_ns),
                "seconds": {},
                "lost": {},
                "missing": 0.0,
            }
            for begin_ns in range(span.from_ns, span.to_ns, bin_ns)
        ]
        taken = {taker: [0.0] * len(bins) for taker in takers}
        for row in rows:
            one, category = bins[int(row["bin"])], row["category"]
            one["seconds"][category] = one["seconds"].get(category, 0.0) + float(row["whole"])
            one["lost"][category] = one["lost"].get(category, 0.0) + float(row["lost"])
            if (category, row["taker"]) in taken:
                taken[category, row["taker"]][int(row["bin"])] = float(row["lost"])
        for from_ns, to_ns in gaps:
            for place in range((from_ns - span.from_ns) // bin_ns, -(-(to_ns - span.from_ns) // bin_ns)):
                one = bins[place]
                one["missing"] += (min(to_ns, one["to_ns"]) - max(from_ns, one["from_ns"])) / S
        return bins, [
            {"category": category, "owner": owner, "lost_seconds": lost} for (category, owner), lost in taken.items()
        ]

    def failures(self, span: Span) -> list[dict[str, Any]]:
        """Failures that stopped the job within the span, the first first."""
        cluster = " AND cluster = {cluster:String}" if self.asked.cluster else ""
        tenant = "" if self.asked.principal.may(OPERATE) else " AND tenant = {tenant:String}"
        where = f"job = {{job:String}} AND start_ns >= {span.from_ns} AND start_ns < {span.to_ns}{tenant}{cluster}"
        return self._query(
            "SELECT toString(entity) AS entity, toString(kind) AS kind, toString(`class`) AS `class`, gpus, start_ns, "
            f"end_ns, evidence FROM ({rows_where(FAILURE, where)}) ORDER BY start_ns, entity"
        )

    def hosts(self, span: Span, ranks: Collection[str]) -> dict[str, str]:
        """The host on which each of these ranks ran last in the span, as far as it is told."""
        if not ranks:
            return {}
        cluster = " AND cluster = {cluster:String}" if self.asked.cluster else ""
        rows = self._query(
            "SELECT toString(child) AS rank, toString(argMax(parent, from_ns)) AS host "
            f"FROM leadline.{RELATION.name} WHERE kind = 'runs-on' AND child IN {{ranks:Array(String)}} "
            f"AND startsWith(parent, 'host:') AND tenant = {{tenant:String}}{cluster} AND from_ns < {span.to_ns} "
            "GROUP BY rank ORDER BY rank",
            ranks=sorted(ranks),
        )
        return {row["rank"]: row["host"] for row in rows}

    def checkpoints(self, span: Span) -> dict[str, Any]:
        """Steps with a checkpoint: how many, the mean time between them and of writing one (its slowest rank), s."""
        rows = self._query(
            "SELECT count() AS n, min(at) AS first, max(at) AS last, avg(wrote) AS wrote FROM (SELECT step, "
            f"min(start_ns) AS at, max(checkpoint_ns) AS wrote FROM leadline.{STEP.name} WHERE {self._mine()} "
            f"AND checkpoint_ns > 0 AND start_ns >= {span.from_ns} AND start_ns < {span.to_ns} GROUP BY step)"
        )[0]
        count = int(rows["n"])
        apart_s = (int(rows["last"]) - int(rows["first"])) / S / (count - 1) if count > 1 else None
        return {"count": count, "interval_s": apart_s, "write_s": float(rows["wrote"]) / S if count else None}

    def why_none(self) -> str:
        """Why there is no data."""
        last_ns = self.last_ns()
        if last_ns is None:
            first_ns = self._first_ns()
            if first_ns is not None:
                return f"nothing of {self._job} by then: its first window ended at {time_text(first_ns)}"
            near = near_jobs(self._store, self.asked, self._job, LEDGER)
            return (
                f"no second of {self._job} is in the ledger: does it report steps (`leadline show tables step`), "
                f"does the analysis `ledger` run (`leadline doctor`), and is the name right{near or '?'}"
            )
        return f"nothing of {self._job} in this span; its newest window ended at {time_text(last_ns)}: use `to` or `at`"
