"""Which links the edges of jobs go over, and what others send there: from `flow_path` and `flow_volume`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import codes, floats, ids, ints

S = 10**9
OTHERS_MIN = 0.25
"""Share of a link's bytes from which on others may slow a job: a ring that shares a link evenly with one other flow has
half; below a quarter what is left is more than jobs in the lab used of an uncongested port."""
MORE_MIN = 2.0  # times as many bytes of others as before the symptom: what was there before has not begun to hurt


@dataclass(frozen=True, slots=True)
class Others:
    """What others than a job send over a link while it hurts."""

    link: str
    jobs: tuple[str, ...]  # names of those that are known
    share: float  # of the link's bytes since then
    bps: float
    since_ns: int


@dataclass(slots=True)
class Traffic:
    """Ways of jobs: `job` as `job:J`, ranks as `rank:J/3`."""

    ports_of: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # job -> NIC ports in use
    links_of: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # job, rank -> links
    links_between: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    ports_between: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    volume_L: list[tuple[str, str, int, int, float]] = field(default_factory=list)  # link, job, from, to, bytes

    def others(self, job: str, start_ns: int) -> list[Others]:
        """Links of a job on which others send much, and much more than before it hurt."""
        sums: dict[str, dict[tuple[str, bool], float]] = defaultdict(lambda: defaultdict(float))
        length: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
        for link, whose, from_ns, to_ns, amount in self.volume_L:
            during = to_ns > start_ns + (to_ns - from_ns) // 2
            sums[link][whose, during] += amount
            length[during].add((from_ns, to_ns))
        seconds = {during: sum(to - begin for begin, to in spans) / S for during, spans in length.items()}
        found = []
        for link, by in sorted(sums.items()):
            if link in self.links_of.get(job, ()) and seconds[True]:
                one = _of_link(link, job.partition(":")[2], by, seconds, start_ns)
                found += [one] if one else []
        return found


def _of_link(
    link: str, job: str, by: dict[tuple[str, bool], float], seconds: dict[bool, float], start_ns: int
) -> Others | None:
    whole = sum(amount for (_, during), amount in by.items() if during)
    theirs = {whose: amount for (whose, during), amount in by.items() if during and whose != job and amount > 0}
    before = sum(amount for (whose, during), amount in by.items() if not during and whose != job)
    bps = sum(theirs.values()) * 8 / seconds[True]
    before_bps = before * 8 / seconds[False] if seconds[False] else 0.0
    share = sum(theirs.values()) / whose_all if (whose_all := whole) else 0.0
    if share < OTHERS_MIN or bps < MORE_MIN * before_bps:
        return None
    named = sorted((name for name in theirs if name), key=lambda name: (-theirs[name], name))
    return Others(link, tuple(named), share, bps, start_ns)


def traffic_of(flow_path: pa.Table, flow_volume: pa.Table) -> Traffic:
    """Ways and volumes. Loops over distinct (job, ranks, ports) and (link, job, window), not over flows."""
    found = Traffic()
    columns = [codes(flow_path, name) for name in ("job", "src_rank", "dst_rank", "src", "dst")]
    flow_N, path_N = _flow_numbers(flow_volume, flow_path)
    link, whose = codes(flow_volume, "link"), codes(flow_volume, "job")
    key_U5 = (
        np.unique(np.column_stack([each.code_N for each in columns]), axis=0) if len(flow_path) else np.zeros((0, 5))
    )
    for row in key_U5.astype(int).tolist():
        job, src, dst, out, into = (
            each.names[code] if code >= 0 else "" for each, code in zip(columns, row, strict=True)
        )
        ports = {port for port in (out, into) if port}
        if job:
            found.ports_of[f"job:{job}"] |= ports
        if src and dst:
            found.ports_between[src, dst] |= ports
    _put_links(found, flow_path, flow_N, path_N, link.names, link.code_N)
    _put_volumes(found, flow_volume, link.names, link.code_N, whose.names, whose.code_N)
    return found


def _flow_numbers(flow_volume: pa.Table, flow_path: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Number of the flow of each row of both tables."""
    both_N2 = np.concatenate([ids(flow_volume, "flow"), ids(flow_path, "flow")])
    if not len(both_N2):
        empty = np.zeros(0, np.int64)
        return empty, empty
    whole_N = both_N2[:, 0] ^ (both_N2[:, 1] * np.uint64(0x9E3779B97F4A7C15))  # a hash of a hash: 64 bits suffice
    number_N = np.unique(whole_N, return_inverse=True)[1]
    return number_N[: len(flow_volume)], number_N[len(flow_volume) :]


def _put_links(
    found: Traffic,
    flow_path: pa.Table,
    flow_N: np.ndarray,
    path_N: np.ndarray,
    links: list[str],
    link_N: np.ndarray,
) -> None:
    job, src, dst = (codes(flow_path, name) for name in ("job", "src_rank", "dst_rank"))
    place_of_flow = np.full(int(max(flow_N.max(initial=-1), path_N.max(initial=-1))) + 1, -1, np.int64)
    place_of_flow[path_N] = np.arange(len(path_N))
    place_N = place_of_flow[flow_N]
    keep_N = (place_N >= 0) & (link_N >= 0)
    place_N, link_N = place_N[keep_N], link_N[keep_N]
    key_U4 = np.unique(np.column_stack([job.code_N[place_N], src.code_N[place_N], dst.code_N[place_N], link_N]), axis=0)
    for whose, sender, receiver, at in key_U4.astype(int).tolist():
        link = links[at]
        if whose >= 0:
            found.links_of[f"job:{job.names[whose]}"].add(link)
        if sender >= 0 and receiver >= 0:
            one, other = src.names[sender], dst.names[receiver]
            found.links_between[one, other].add(link)
            found.links_of[one].add(link)
            found.links_of[other].add(link)


def _put_volumes(
    found: Traffic,
    flow_volume: pa.Table,
    links: list[str],
    link_N: np.ndarray,
    jobs: list[str],
    job_N: np.ndarray,
) -> None:
    if not len(flow_volume):
        return
    end_N, length_N = ints(flow_volume, "end_ns"), ints(flow_volume, "window_ns")
    key_U4, group_N = np.unique(np.column_stack([link_N, job_N, end_N, length_N]), axis=0, return_inverse=True)
    # Whole bytes: the sum of floats would depend on the order of rows.
    whole_N = (
        np.nan_to_num(floats(flow_volume, "bytes"), nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1e15).astype(np.int64)
    )
    sum_U = np.zeros(len(key_U4), np.int64)
    np.add.at(sum_U, group_N.ravel(), whole_N)
    for (link, job, end_ns, length_ns), amount in zip(key_U4.tolist(), sum_U.tolist(), strict=True):
        if link >= 0:
            name = jobs[job] if job >= 0 else ""
            found.volume_L.append((links[link], name, end_ns - length_ns, end_ns, float(amount)))
