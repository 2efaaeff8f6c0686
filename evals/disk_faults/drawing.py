"""Which fault a run suffers: drawn by a seed, each site in turn. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass

from evals.disk_faults.control import EVERY, Call, Fault, Kind, Site, Stage

SPAN_S = (1.0, 10.0)  # of a fault that lasts
ONCE_S_MAX = 6.0  # so long a fault that strikes once waits for its call; then another is drawn
SKIP_MAX = 3  # calls that may pass before
ANYWHERE = 0.2  # share of runs in which every call at every site fails for a time: the disk is full for a moment
LASTS = 0.35  # share of the others that last
KILLED = 0.25  # share of restarts by SIGKILL

REFUSALS = (Fault.FULL, Fault.IO_ERROR, Fault.SHORT, Fault.SHORT_THEN_FULL)  # a stall is drawn by no one: `overload`
_PARTS = (Stage.INSERT, Stage.MERGE)
_WRITTEN = (Kind.DATA, Kind.MARKS, Kind.PRIMARY, Kind.CHECKSUMS, Kind.SMALL)

# Where the engine was seen to call; the eval tells what it saw and struck.
SITES: tuple[Site, ...] = (
    *(Site(call, stage, kind) for stage in _PARTS for call in (Call.WRITE, Call.CREATE) for kind in _WRITTEN),
    *(Site(call, stage, Kind.DIRECTORY) for stage in _PARTS for call in (Call.RENAME, Call.MKDIR)),
    *(Site(Call.SYNC, Stage.INSERT, kind) for kind in (Kind.DATA, Kind.DIRECTORY)),
    Site(Call.WRITE, Stage.METADATA, Kind.SMALL),
    Site(Call.CREATE, Stage.METADATA, Kind.SMALL),
    Site(Call.RENAME, Stage.METADATA, Kind.SMALL),
    Site(Call.WRITE, Stage.OTHER, Kind.SMALL),
    Site(Call.CREATE, Stage.OTHER, Kind.SMALL),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """One fault, and what the engine is brought to do meanwhile."""

    site: Site | None  # None: every call below the directory
    fault: Fault
    skip: int
    strikes: int  # EVERY: as long as it lasts
    seconds: float
    wide: bool  # parts with a file for each column, as large ones have; else one file for all
    fsync: bool
    kill: bool  # the restart: SIGKILL, or in order

    @property
    def lasts(self) -> bool:
        return self.strikes == EVERY

    def __str__(self) -> str:
        when = f"for {self.seconds:.1f} s" if self.lasts else f"once, after {self.skip}"
        options = [name for name in ("wide", "fsync", "kill") if getattr(self, name)]
        return f"{self.fault.name.lower()} at {self.site or 'every call'}, {when} {' '.join(options)}".rstrip()


def drawn(seed: int, number: int, again: int = 0) -> Drawn:
    """The fault of run `number`; `again`: how many drawn for it struck nothing.

    Sites come in an order of the seed's, one after the other, so that as many runs as there are sites meet them all.
    """
    rng = random.Random(f"{seed}-{number}-{again}")
    order = random.Random(seed).sample(SITES, len(SITES))
    site: Site | None = order[number % len(order)] if not again else rng.choice(SITES)
    if rng.random() < ANYWHERE and not (site and site.call is Call.SYNC):
        site = None
    faults = list(REFUSALS) if site and site.call is Call.WRITE else [Fault.FULL, Fault.IO_ERROR]
    fault = rng.choice(faults)
    lasts = site is None or rng.random() < LASTS
    return Drawn(
        site,
        fault,
        skip=0 if lasts else rng.randint(0, SKIP_MAX),
        strikes=EVERY if lasts else 1,
        seconds=rng.uniform(*SPAN_S) if lasts else ONCE_S_MAX,
        wide=rng.random() < 0.5,
        fsync=site is not None and site.call is Call.SYNC,
        kill=rng.random() < KILLED,
    )
