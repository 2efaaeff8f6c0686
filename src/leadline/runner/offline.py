"""A bundle judged without a server: its rows in memory, every window of its span, the verdicts as tables.

The same loading rules, the same call and the same order as a live run, so the verdicts are the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from leadline.analysis import ANALYSES, Analysis
from leadline.model.errors import LeadlineError
from leadline.model.principal import DEFAULT_TENANT
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.runner.execute import Executor
from leadline.runner.judging import Judging, failures, rows_that_count
from leadline.runner.plan import concluded
from leadline.store.bundle import read_bundle


class JudgementError(LeadlineError):
    """An analysis failed on a window of a bundle."""


def judge_bundle(
    path: Path,
    analyses: Sequence[Analysis] = ANALYSES,
    executor: Executor | None = None,
    provider: str = DEFAULT_TENANT,
    progress: Callable[[float], None] | None = None,
) -> dict[str, pa.Table]:
    """The verdicts of all windows of a bundle, by table name, each in the order of its key; revision 0.

    Verdicts that the bundle has of tables which these analyses write are not read: they are concluded again. A window
    that an analysis fails on is a row of `analysis_run`; without such rows all was judged (`without_failures`).
    `progress`: called with the share (0 to 1) of the recording that is judged.
    Errors: DataError for a file that is no bundle, WorldError if it cannot be read.
    """
    with read_bundle(path) as bundle:
        again = concluded(analyses) | {ANALYSIS_RUN.name}
        tables = {
            table.name: pa.concat_tables(bundle.groups(table)) for table in bundle.tables if table.name not in again
        }
        span = bundle.manifest.from_ns, bundle.manifest.to_ns
    return judge_rows(tables, *span, analyses, executor, provider, progress)


def judge_rows(
    tables: Mapping[str, pa.Table],
    from_ns: int,
    to_ns: int,
    analyses: Sequence[Analysis],
    executor: Executor | None = None,
    provider: str = DEFAULT_TENANT,
    progress: Callable[[float], None] | None = None,
) -> dict[str, pa.Table]:
    """The same of all windows that cover [from_ns, to_ns), from rows by table name."""
    judging = Judging(analyses, from_ns, executor, provider)
    judging.add(rows_that_count(tables))

    farthest_ns = from_ns

    def reached(end_ns: int) -> None:
        nonlocal farthest_ns
        farthest_ns = max(farthest_ns, min(end_ns, to_ns))
        if progress is not None:
            progress((farthest_ns - from_ns) / (to_ns - from_ns))

    judging.until(to_ns, ended=True, reached=reached)
    return judging.told()


def without_failures(found: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The same verdicts. Errors: JudgementError if a window could not be judged."""
    for failure in failures(found):
        raise JudgementError(failure)
    return found
