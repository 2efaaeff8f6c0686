"""Which calls judge a window: the jobs, or the clusters and tenants, that have rows in it."""

from __future__ import annotations

from dataclasses import replace

from leadline.analysis.spec import Analysis, Part, Read, Window
from leadline.model.tables import Identity
from leadline.model.tables.fabric import RELATION
from leadline.runner.clock.clocks import FIT_AGE_NS, Margins, is_clocked, margins
from leadline.runner.load import INT64_MAX, Rows, choice, ends_windows, fits_of


def calls(analysis: Analysis, from_ns: int, to_ns: int, rows: Rows, provider: str) -> list[Window]:
    """The calls that judge one window: one for each job that has rows in it, or for each cluster and tenant, the
    provider first; none without rows.

    What holds for a while (`valid`) is no reason to judge a window, unless the analysis reads nothing else; nor, of
    a job, what was concluded of it: a job that ended has rows of that for as long as anything looks back. But spans of
    a job that `calls` are (`goes_on`): a job that stalls tells nothing, and still stalls.
    `provider`: whose verdicts on a cluster are, but for those on what is a tenant's; where the provider has no rows,
    verdicts on a cluster are each tenant's own. No tenant's rows decide on how another is judged.
    """
    plain = _of_jobs(analysis) if analysis.part is Part.JOB else _calling(analysis)
    everyone = Window(from_ns, to_ns, cluster="", provider=provider)
    margin = margins(fits_of(analysis, everyone, rows))
    owners = {
        owner
        for read in plain
        for owner in rows.owners(choice(read, everyone, ("tenant", "cluster", *_job(read)), margin))
    }
    if analysis.part is Part.JOB:
        return [Window(from_ns, to_ns, *owner, provider=provider) for owner in sorted(owners) if owner[2]]
    tenants: dict[str, set[str]] = {}
    for tenant, cluster, _ in owners:
        tenants.setdefault(cluster, set()).add(tenant)
    return [
        window
        for cluster, whose in sorted(tenants.items())
        for window in _of_cluster(analysis, Window(from_ns, to_ns, provider, cluster, provider=provider), whose, rows)
    ]


def _of_cluster(analysis: Analysis, window: Window, whose: set[str], rows: Rows) -> list[Window]:
    """The calls that judge a cluster in which these tenants have rows; `window` is the provider's."""
    others = sorted(whose - {window.provider})
    first = [window] if window.provider in whose else []
    if analysis.joint and others and (first or _describes(window, rows)):
        return first
    return [*first, *(replace(window, tenant=window.tenant if first else each, own=each) for each in others)]


def _describes(window: Window, rows: Rows) -> bool:
    """Whether the provider says of anything in a cluster where it is: then what all share is its alone to tell."""
    found = rows.owners(choice(Read(RELATION, valid=True), window, ("tenant", "cluster"), Margins()))
    return any(tenant == window.provider for tenant, *_ in found)


def _calling(analysis: Analysis) -> list[Read]:
    """The reads whose rows are a reason to judge a window."""
    calling = [read for read in analysis.reads if read.calls]
    return [read for read in calling if not read.valid] or calling


def _of_jobs(analysis: Analysis) -> list[Read]:
    """The reads whose rows make a job one that is judged."""
    named = [read for read in analysis.reads if "job" in read.names and read.calls]
    told = [read for read in named if read.table.identity is not Identity.REVISION and not read.valid] or named[:1]
    return [*told, *(read for read in named if goes_on(read) and read not in told)]


def goes_on(read: Read) -> bool:
    """Whether what was concluded and still holds is a reason to judge a job of which nothing else is heard."""
    return read.valid and read.calls and bool(read.table.newest) and "job" in read.names


def next_row_ns(analysis: Analysis, from_ns: int, rows: Rows) -> int | None:
    """The earliest time from which a window may have rows, if those up to `from_ns` have none; None: no window has.

    Host clocks are taken to be as far off as they are in the next hour.
    """
    plain = _calling(analysis)
    soon = Window(from_ns, min(from_ns + FIT_AGE_NS, INT64_MAX), cluster="")
    margin = margins(fits_of(analysis, soon, rows))
    found = []
    for read in plain:
        near = margin if is_clocked(read.table) else Margins()
        by_end = ends_windows(read.table)  # verdicts on a window that ends at t belong to the one that ends there
        at_ns = rows.next_ns(read.table, max(from_ns + by_end + near.low_ns, -INT64_MAX))
        if at_ns is not None:
            found.append(max(at_ns - by_end - near.high_ns, from_ns))
    return min(found, default=None)


def _job(read: Read) -> tuple[str, ...]:
    return ("job",) if any(column.name == "job" for column in read.table.columns) else ()
