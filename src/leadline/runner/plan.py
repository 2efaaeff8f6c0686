"""What follows from the declarations of all analyses together: who reads whom, and when windows may close."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.spec import Analysis
from leadline.runner.windows import Rhythm


def concluded(analyses: Sequence[Analysis]) -> set[str]:
    """Names of the tables that analyses write."""
    return {table.name for analysis in analyses for table in analysis.writes}


def rhythms(analyses: Sequence[Analysis]) -> list[Rhythm]:
    """The times of each analysis.

    One that reads another's verdicts closes its windows no earlier than that one: otherwise it would be judged without
    them and again right afterwards, and a replay (which closes many windows at once) would make other revisions. Not so
    for reads that do not wait.
    """
    grace_of: dict[str, int] = {}  # table -> largest grace of those that write it
    out = []
    for analysis in analyses:
        awaited = [read.table.name for read in analysis.reads if read.waits]
        grace_ns = max([analysis.grace_ns, *(grace_of.get(name, 0) for name in awaited)])
        for table in analysis.writes:
            grace_of[table.name] = max(grace_of.get(table.name, 0), grace_ns)
        out.append(Rhythm(analysis.window_ns, grace_ns, max(analysis.late_ns, grace_ns)))
    return out


def upstream(analyses: Sequence[Analysis]) -> list[list[int]]:
    """For each analysis the places of those whose verdicts it reads; itself is not among them."""
    out = []
    for place, analysis in enumerate(analyses):
        wanted = {read.table.name for read in analysis.reads}
        writers = [at for at, each in enumerate(analyses) if wanted & {table.name for table in each.writes}]
        out.append([at for at in writers if at != place])
    return out


def beside(analyses: Sequence[Analysis]) -> list[list[int]]:
    """For each analysis the places of those whose verdicts it takes as they are: it reads them without waiting, and
    their windows are longer than its own."""
    out = []
    for analysis, above in zip(analyses, upstream(analyses), strict=True):
        awaited = {read.table.name for read in analysis.reads if read.waits}
        longer = [at for at in above if analyses[at].window_ns > analysis.window_ns]
        out.append([at for at in longer if not awaited & {table.name for table in analyses[at].writes}])
    return out
