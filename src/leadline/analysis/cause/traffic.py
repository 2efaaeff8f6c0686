"""Which links the edges of jobs go over, and what others send there: from `flow_path` and `flow_volume`.

A large job has a million rows of flows on links. They stay as they are, in columns; each question is one look at
them, and only jobs with symptoms and owners that are blamed ask.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Ints, ids, ints
from leadline.model.ids import kind_of, name_of
from leadline.model.units import S

# Share of a link's bytes from which on others may slow a job: a ring that shares a link evenly with one other flow has
# half; below a quarter what is left is more than jobs of the lab used of an uncongested port. Source: recordings
# (docs/analyses/cause.md).
OTHERS_MIN = 0.25
# Times as many bytes of others as before the symptom, since what was there before did not slow the job. Source:
# recordings (with OTHERS_MIN).
MORE_MIN = 2.0

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Others:
    """What others than a job send over a link during its symptom."""

    link: str
    jobs: tuple[str, ...]  # names of those that are known
    share: float  # of the link's bytes since then
    bps: float
    since_ns: int


@dataclass(frozen=True, slots=True)
class Texts:
    """A column of texts by number, in the order of its dictionary; -1 is null."""

    names: list[str]
    code_N: Ints

    def where(self, name: str) -> Bools:
        """Rows with this text."""
        place = self.names.index(name) if name in self.names else -2
        rows: Bools = self.code_N == place
        return rows

    def of(self, rows: Bools) -> frozenset[str]:
        """The texts of some rows."""
        return frozenset(self.names[code] for code in np.unique(self.code_N[rows]).tolist() if code >= 0)


@dataclass(slots=True)
class Traffic:
    """Ways and volumes. Jobs are `job:J`, ranks `rank:J/3`."""

    flow_P: Hashes  # P = rows of flow_path
    job_P: Texts
    src_rank_P: Texts
    dst_rank_P: Texts
    src_P: Texts
    dst_P: Texts
    flow_V: Hashes  # V = rows of flow_volume
    link_V: Texts
    job_V: Texts
    end_V: Ints
    window_V: Ints
    bytes_V: Ints
    _known: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)

    def jobs(self) -> frozenset[str]:
        """Names of all jobs with flows."""
        return frozenset(name for name in self.job_V.names if name)

    def ports_of(self, job: str) -> frozenset[str]:
        """NIC ports that a job's flows use."""
        return self._ask(("ports", job))

    def links_of(self, user: str) -> frozenset[str]:
        """Links that the flows of a job or a rank go over."""
        return self._ask(("links", user))

    def links_between(self, one: str, other: str) -> frozenset[str]:
        """Links that flows between two ranks go over, either way."""
        return self._ask(("between", *sorted((one, other))))

    def jobs_on(self, links: frozenset[str]) -> frozenset[str]:
        """Names of the jobs whose flows cross any of these links."""
        wanted = [place for place, name in enumerate(self.link_V.names) if name in links]
        return self.job_V.of(np.isin(self.link_V.code_N, wanted)) if wanted else frozenset()

    def _ask(self, question: tuple[str, ...]) -> frozenset[str]:
        if question not in self._known:
            self._known[question] = self._answer(*question)
        return self._known[question]

    def _answer(self, what: str, *who: str) -> frozenset[str]:
        job = name_of(who[0])
        if what == "ports":
            mine = self.job_P.where(job)
            return self.src_P.of(mine) | self.dst_P.of(mine)
        if what == "links" and kind_of(who[0]) == "job":
            return self.link_V.of(self.job_V.where(job))
        if what == "links":
            return self._links(self.src_rank_P.where(who[0]) | self.dst_rank_P.where(who[0]))
        one, other = who
        there = self.src_rank_P.where(one) & self.dst_rank_P.where(other)
        return self._links(there | (self.src_rank_P.where(other) & self.dst_rank_P.where(one)))

    def _links(self, rows_P: Bools) -> frozenset[str]:
        """Links of the flows of some rows of `flow_path`."""
        wanted = np.unique(self.flow_P[rows_P])
        if not len(wanted):
            return frozenset()
        place_V = np.minimum(np.searchsorted(wanted, self.flow_V), len(wanted) - 1)
        return self.link_V.of(wanted[place_V] == self.flow_V)

    def others(self, job: str, start_ns: int) -> list[Others]:
        """Links of a job on which others send much, and much more than before its symptom."""
        own_V = self.job_V.where(name_of(job))
        during_V = self.end_V > start_ns + self.window_V // 2
        links = len(self.link_V.names)
        told_V = self.link_V.code_N >= 0
        # L = links; whole bytes, so that sums do not depend on the order of rows
        theirs_L, before_L, mine_L = (
            _sums(self.link_V.code_N, self.bytes_V, rows_V & told_V, links)
            for rows_V in (~own_V & during_V, ~own_V & ~during_V, own_V & during_V)
        )
        seconds, before_s = (self._seconds(rows_V) for rows_V in (during_V, ~during_V))
        own_links = np.zeros(links, bool)
        own_links[self.link_V.code_N[own_V & told_V]] = True
        whole_L = np.maximum(theirs_L + mine_L, 1)
        much_L = own_links & (theirs_L >= OTHERS_MIN * whole_L) & (theirs_L > 0)
        found = []
        for place in np.flatnonzero(much_L).tolist() if seconds else []:
            bps, before_bps = theirs_L[place] * 8 / seconds, before_L[place] * 8 / before_s if before_s else 0.0
            if bps >= MORE_MIN * before_bps:
                jobs = self._jobs(place, ~own_V & during_V)
                share = float(theirs_L[place] / whole_L[place])
                found.append(Others(self.link_V.names[place], jobs, share, float(bps), start_ns))
        return sorted(found, key=lambda each: each.link)

    def _jobs(self, link: int, rows_V: Bools) -> tuple[str, ...]:
        """Other jobs on a link by what they send, most first."""
        rows = rows_V & (self.link_V.code_N == link) & (self.job_V.code_N >= 0)
        sums = _sums(self.job_V.code_N, self.bytes_V, rows, len(self.job_V.names))
        named = [(-int(amount), name) for amount, name in zip(sums, self.job_V.names, strict=True) if amount > 0]
        return tuple(name for _, name in sorted(named))

    def _seconds(self, rows_V: Bools) -> float:
        """Length of the windows of some rows together."""
        spans = np.unique(self.end_V[rows_V] * 64 + self.window_V[rows_V] % 64, return_index=True)[1]
        return float(self.window_V[rows_V][spans].sum() / S)


def _sums(code_N: Ints, amount_N: Ints, rows_N: Bools, count: int) -> Ints:
    out = np.zeros(count, np.int64)
    np.add.at(out, code_N[rows_N], amount_N[rows_N])
    return out


def traffic_of(flow_path: pa.Table, flow_volume: pa.Table) -> Traffic:
    """Columns of flows, texts by number."""
    whole = np.nan_to_num(flow_volume["bytes"].to_numpy(), nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1e15)
    job, src_rank, dst_rank, src, dst = (
        _texts(flow_path, name) for name in ("job", "src_rank", "dst_rank", "src", "dst")
    )
    return Traffic(
        flow_P=_hashed(flow_path),
        job_P=job,
        src_rank_P=src_rank,
        dst_rank_P=dst_rank,
        src_P=src,
        dst_P=dst,
        flow_V=_hashed(flow_volume),
        link_V=_texts(flow_volume, "link"),
        job_V=_texts(flow_volume, "job"),
        end_V=ints(flow_volume, "end_ns"),
        window_V=ints(flow_volume, "window_ns").clip(0, 2**40),
        bytes_V=whole.astype(np.int64),
    )


def _hashed(rows: pa.Table) -> Hashes:
    """Flows as 64 bits: their ids are hashes already."""
    flow_N2 = ids(rows, "flow")
    return flow_N2[:, 0] ^ (flow_N2[:, 1] * np.uint64(0x9E3779B97F4A7C15))


def _texts(rows: pa.Table, name: str) -> Texts:
    column = rows[name]
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = column.unify_dictionaries().chunks
    if not chunks:
        return Texts([], np.zeros(0, np.int64))
    codes = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in chunks]
    return Texts(chunks[0].dictionary.to_pylist(), np.concatenate(codes).astype(np.int64))
