"""The analysis `sle`: good, bad and missing seconds of every expectation, and what the bad ones are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints, floats, ints
from leadline.analysis.sle.expectations import DEFAULTS, Expectation, parse
from leadline.analysis.sle.judging import Account, accounts
from leadline.analysis.sle.readings import EVENT_LOOK_BACK_S, LOOK_BACK_S, Readings, wanted_metrics
from leadline.analysis.sle.scope import Entities, lives, scope_of
from leadline.analysis.sle.seconds import NS_MIN
from leadline.analysis.sle.streams import Streams, metric_streams, ranks_of, streams_of
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.accounts import EVERYWHERE
from leadline.model.errors import UsageError
from leadline.model.tables.accounts import EXPECTATION, FAILURE, LEDGER, SLE, SLE_LOSS
from leadline.model.tables.fabric import CLOCK_FIT, RELATION
from leadline.model.tables.metrics import METRIC_SAMPLE, SERIES
from leadline.model.tables.paths import ECMP_GROUP
from leadline.model.tables.spec import Table
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.tables.verdicts import EVENT
from leadline.model.units import S

WINDOW_S = 60
BACK_NS = LOOK_BACK_S * S
EVENT_BACK_NS = EVENT_LOOK_BACK_S * S
# A tenant may ask for so much, the latest first, each of so many characters (the longest default has 1,000): one call
# judges everybody. 32 documents of this size and nothing but bounds are read in 2.4 s; what was read is kept.
OWN_MAX = 32
OWN_SPEC_MAX = 4096
TICKS = 2.0**20  # of the ledger in a second

Row = dict[str, Any]


@analysis(
    name="sle",
    version=1,
    reads=(
        Read(EXPECTATION, valid=True),
        Read(
            SERIES,
            columns=("tenant", "series", "name", "entity_kind", "entity", "labels", "first_ns", "type", "host"),
            valid=True,
        ),
        Read(METRIC_SAMPLE, columns=("tenant", "series", "time_ns", "value"), look_back_ns=BACK_NS),
        Read(EVENT, columns=("tenant", "time_ns", "entity", "kind"), look_back_ns=EVENT_BACK_NS),
        Read(
            FAILURE,
            columns=("tenant", "entity", "kind", "start_ns", "end_ns"),
            look_back_ns=EVENT_BACK_NS,
            valid=True,
        ),
        Read(STEP, look_back_ns=BACK_NS),
        Read(
            COLLECTIVE,
            columns=("tenant", "job", "comm", "rank", "seq", "enqueued_ns", "finished_ns"),
            look_back_ns=BACK_NS,
        ),
        Read(
            LEDGER,
            columns=(
                "tenant", "job", "end_ns", "window_ns", "category", "owner", "seconds", "lost_seconds",
                "lost_gpu_seconds",
            ),
            look_back_ns=WINDOW_S * S,
        ),
        Read(CLOCK_FIT, columns=("tenant", "host", "end_ns", "offset_ns", "bound_ns"), look_back_ns=BACK_NS),
        Read(
            ECMP_GROUP,
            columns=("tenant", "switch", "end_ns", "window_ns", "links", "flows", "efficiency"),
            look_back_ns=WINDOW_S * S,
        ),
        Read(
            RELATION,
            columns=("tenant", "child", "parent", "kind", "from_ns", "to_ns"),
            look_back_ns=BACK_NS,
            valid=True,
        ),
    ),
    writes=(SLE, SLE_LOSS),
    window_s=WINDOW_S,
)  # fmt: skip
def sles(
    expectation: pa.Table,
    series: pa.Table,
    metric_sample: pa.Table,
    event: pa.Table,
    failure: pa.Table,
    step: pa.Table,
    collective: pa.Table,
    ledger: pa.Table,
    clock_fit: pa.Table,
    ecmp_group: pa.Table,
    relation: pa.Table,
    *,
    window: Window,
) -> Verdicts:
    """Good, bad and missing seconds of every expectation of every entity, and what made the bad ones bad.

    Whole seconds, so sums are exact: `good_s + bad_s + missing_s` are the seconds of the window in which the entity
    was there, and the classifiers of `sle_loss` add up to `bad_s`.
    Source: SLI, SLO and error budget as in Beyer et al., Site Reliability Engineering, chapter 4.
    """
    promised = promises(expectation, window)
    tables = {
        "event": event, "failure": failure, "step": step, "collective": collective, "ledger": ledger,
        "clock_fit": clock_fit, "ecmp_group": ecmp_group,
    }  # fmt: skip
    readings = _readings([one for _, one in promised], tables, series, metric_sample, relation, window)
    lost = _lost_gpu_seconds(ledger, readings.scope.entities, window)
    own = {(tenant, one.name) for tenant, one in promised if tenant}
    held: list[Row] = []
    losses: list[Row] = []
    for tenant, one in promised:
        for entity, account in accounts(one, tenant, readings).items():
            whose = readings.scope.entities.tenants[entity]
            if not tenant and (whose, one.name) in own:
                continue  # a tenant's own expectation of a name stands for everybody's
            base = {"tenant": whose, "entity": readings.scope.entities.names[entity], "expectation": one.name,
                    "layer": str(one.layer), "end_ns": window.to_ns, "window_ns": window.window_ns}  # fmt: skip
            held.append({**base, **_seconds(account, one), "lost_gpu_seconds": lost.get(entity, 0.0)})
            losses += [{**base, **each} for each in _losses(account, readings)]
    return {"sle": _columns(SLE, held), "sle_loss": _columns(SLE_LOSS, losses)}


def promises(expectation: pa.Table, window: Window) -> list[tuple[str, Expectation]]:
    """The expectations that hold at the end of the window, with the tenant that each holds; empty: everybody.

    Those told for every cluster, which only an operator can, and those of the window's own tenant hold everybody. Of
    several of one name and tenant the latest counts; one that cannot be read is left out (whoever stored it was told),
    and so is what a tenant asks for beyond OWN_MAX.
    Without any that holds everybody, the defaults do: what a tenant asks for itself takes nothing from others.
    """
    newest: dict[tuple[str, str], Expectation] = {}
    asked: Counter[str] = Counter()
    for row in sorted(expectation.to_pylist(), key=lambda row: (row["from_ns"], row["spec"]), reverse=True):
        if row["from_ns"] > window.to_ns or (row["to_ns"] is not None and row["to_ns"] <= window.to_ns):
            continue
        everybody = row["cluster"] == EVERYWHERE or row["tenant"] == window.tenant
        asked[row["tenant"]] += 1
        if not everybody and (asked[row["tenant"]] > OWN_MAX or len(row["spec"]) > OWN_SPEC_MAX):
            continue
        try:
            found = _read(row["spec"], row["expectation"])
        except UsageError:
            continue
        newest = {("" if everybody else row["tenant"], one.name): one for one in found} | newest
    if all(tenant for tenant, _ in newest):
        newest |= {("", one.name): one for one in DEFAULTS}
    return [(tenant, newest[tenant, name]) for tenant, name in sorted(newest)]


@lru_cache(maxsize=1024)
def _read(text: str, where: str) -> tuple[Expectation, ...]:
    """`parse`, remembered: the same documents come with every window."""
    return parse(text, where)


def _readings(
    promised: list[Expectation], tables: dict[str, pa.Table], series: pa.Table, sample: pa.Table, relation: pa.Table,
    window: Window,
) -> Readings:  # fmt: skip
    entities = Entities()
    wanted = wanted_metrics(promised)
    metrics = metric_streams(series, sample, entities, wanted, window.from_ns - BACK_NS, window.to_ns)
    scope = scope_of(entities, relation, window.from_ns, window.tenant)
    ranks = {name: ranks_of(tables[name], entities) for name in ("step", "collective")}
    seen = _seen(tables, ranks)
    found = lives(scope, relation, tables["event"], seen)
    pulse = _pulse(tables, ranks)
    return Readings(window, scope, metrics, tables, ranks, found, pulse)


def _begins(tables: dict[str, pa.Table], ranks: dict[str, Ints]) -> tuple[Ints, Ints]:
    """Ranks, and when they began something."""
    begin_N = np.concatenate([ints(tables["step"], "start_ns"), ints(tables["collective"], "enqueued_ns")])
    return np.concatenate([ranks["step"], ranks["collective"]]), begin_N


def _seen(tables: dict[str, pa.Table], ranks: dict[str, Ints]) -> dict[int, tuple[int, int]]:
    """Of each rank the first and the last begin of a step or collective."""
    rank_N, begin_N = _begins(tables, ranks)
    order_N = np.lexsort((begin_N, rank_N))
    rank_R, first_R, count_R = np.unique(rank_N[order_N], return_index=True, return_counts=True)
    begin_N = begin_N[order_N]
    bounds = zip(rank_R.tolist(), begin_N[first_R].tolist(), begin_N[first_R + count_R - 1].tolist(), strict=True)
    return {rank: (first, last) for rank, first, last in bounds if rank >= 0}


def _pulse(tables: dict[str, pa.Table], ranks: dict[str, Ints]) -> Streams:
    """When each rank began or ended something."""
    rank_N, begin_N = _begins(tables, ranks)
    end_N = np.concatenate([ints(tables["step"], "end_ns"), ints(tables["collective"], "finished_ns", NS_MIN)])
    both_N = np.concatenate([begin_N, end_N])
    return streams_of(np.concatenate([rank_N, rank_N]), "pulse", both_N, both_N, np.zeros(len(both_N)))


def _lost_gpu_seconds(ledger: pa.Table, entities: Entities, window: Window) -> dict[int, float]:
    """GPU time lost to each owner in the window, and of each job in all, by the ledger."""
    job_N, owner_N = entities.numbers(ledger, "job", "job:"), entities.numbers(ledger, "owner")
    end_N = ints(ledger, "end_ns")
    inside_N = (end_N > window.from_ns) & (end_N <= window.to_ns)
    lost_N = np.nan_to_num(np.clip(floats(ledger, "lost_gpu_seconds"), 0.0, 1e9))
    ticks_N = np.where(inside_N, np.rint(lost_N * TICKS), 0).astype(np.int64)
    total_E = np.zeros(len(entities.names), np.int64)
    np.add.at(total_E, job_N[job_N >= 0], ticks_N[job_N >= 0])
    other_N = (owner_N >= 0) & (owner_N != job_N)
    np.add.at(total_E, owner_N[other_N], ticks_N[other_N])
    return {int(place): float(total_E[place] / TICKS) for place in np.flatnonzero(total_E)}


def _seconds(account: Account, one: Expectation) -> Row:
    return {
        "good_s": float(account.good), "bad_s": float(account.bad), "missing_s": float(account.missing),
        "objective": one.objective, "why_missing": account.why or None,
    }  # fmt: skip


def _losses(account: Account, readings: Readings) -> Iterable[Row]:
    """One row for each classifier, metric and culprit."""
    entities = readings.scope.entities
    summed: dict[tuple[str, str, str, str], int] = {}
    for loss, count in account.losses:
        key = (loss.bound.classifier, loss.metric, entities.names[loss.culprit], loss.bound.test.threshold.kind)
        summed[key] = summed.get(key, 0) + count
    for (classifier, metric, culprit, bound), count in sorted(summed.items()):
        yield {"classifier": classifier, "metric": metric, "culprit": culprit, "bound": bound, "seconds": float(count)}


def _columns(table: Table, rows: list[Row]) -> dict[str, list[Any]]:
    """Rows as columns of their table; what the runner fills in is left to it."""
    names = [column.name for column in table.own]
    return {name: [row[name] for row in rows] for name in ("tenant", *names)}
