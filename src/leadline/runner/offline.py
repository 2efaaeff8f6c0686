"""A bundle judged without a server: its rows in memory, every window of its span, the verdicts as tables.

The same loading rules and the same call as a live run, so the verdicts are the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from leadline.analysis import ANALYSES, Analysis
from leadline.model.errors import LeadlineError
from leadline.model.principal import DEFAULT_TENANT
from leadline.model.tables import BY_NAME, Identity
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.runner.execute import Executor, InProcess
from leadline.runner.judge import judge
from leadline.runner.load import HeldRows, next_row_ns
from leadline.runner.plan import concluded, rhythms, upstream
from leadline.runner.verdicts import latest_rows
from leadline.runner.windows import Due, Schedule
from leadline.store.bundle import read_bundle
from leadline.store.bundle_rows import in_order


class JudgementError(LeadlineError):
    """An analysis failed on a window of a bundle."""


def judge_bundle(
    path: Path,
    analyses: Sequence[Analysis] = ANALYSES,
    executor: Executor | None = None,
    provider: str = DEFAULT_TENANT,
) -> dict[str, pa.Table]:
    """The verdicts of all windows of a bundle, by table name, each in the order of its key; revision 0.

    Verdicts that the bundle has of tables which these analyses write are not read: they are concluded again.
    Errors: DataError for a file that is no bundle, WorldError if it cannot be read, JudgementError.
    """
    with read_bundle(path) as bundle:
        again = concluded(analyses) | {ANALYSIS_RUN.name}
        tables = {
            table.name: pa.concat_tables(bundle.groups(table)) for table in bundle.tables if table.name not in again
        }
        span = bundle.manifest.from_ns, bundle.manifest.to_ns
    return judge_rows(tables, *span, analyses, executor or InProcess(), provider)


def judge_rows(
    tables: Mapping[str, pa.Table],
    from_ns: int,
    to_ns: int,
    analyses: Sequence[Analysis],
    executor: Executor,
    provider: str = DEFAULT_TENANT,
) -> dict[str, pa.Table]:
    """The verdicts of all windows that cover [from_ns, to_ns), from rows by table name. Errors: JudgementError."""
    told = {
        name: latest_rows(BY_NAME[name], rows) if BY_NAME[name].identity is Identity.REVISION else rows
        for name, rows in tables.items()
    }
    rows = HeldRows(told)
    schedules = [Schedule(rhythm, from_ns, settle_ns=0) for rhythm in rhythms(analyses)]
    above = upstream(analyses)
    found: dict[str, list[pa.Table]] = {}
    while (chosen := _next(schedules, to_ns)) is not None:
        place, due = chosen
        analysis = analyses[place]
        any_rows = False
        for judged in judge(analysis, due.end_ns, rows, executor, provider):
            any_rows = True
            if judged.outcome.error:
                raise JudgementError(f"{analysis.name}, window that ends at {due.end_ns} ns: {judged.outcome.error}")
            for name, verdicts in judged.outcome.tables.items():
                found.setdefault(name, []).append(verdicts)
                rows.add(BY_NAME[name], verdicts)
        if any_rows:
            schedules[place].done(due, to_ns)
        else:
            known_ns = [schedules[at].judged_to_ns for at in above[place]]
            known_ns.append(schedules[place].rhythm.closed(to_ns, to_ns))
            schedules[place].empty(due, next_row_ns(analysis, due.end_ns, rows), to_ns, min(known_ns))
    return {name: _together(name, parts) for name, parts in sorted(found.items())}


def _next(schedules: Sequence[Schedule], to_ns: int) -> tuple[int, Due] | None:
    """The oldest window that is left, of the analysis that comes first."""
    left = [(due, place) for place, each in enumerate(schedules) if (due := each.next(to_ns, to_ns)) is not None]
    if not left:
        return None
    due, place = min(left)
    return place, due


def _together(name: str, parts: list[pa.Table]) -> pa.Table:
    table, rows = BY_NAME[name], pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    return in_order(table, latest_rows(table, rows) if table.newest else rows)  # many windows tell the same span
