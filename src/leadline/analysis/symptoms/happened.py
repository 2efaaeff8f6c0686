"""What events tell of a job: how its ranks ended, which of its processes stand still, and what it is busy with.

process-exit, rank-failed, job-end ──> ends, complaints
process-stopped .. process-continued ─> frozen
evaluation-begin .. evaluation-end ───> pauses (any kind that begins and ends so), checkpoints by their length
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.complaints import FAILED, is_of_peers
from leadline.analysis.spec import S
from leadline.analysis.symptoms.job_ranks import JobRanks, rank_number
from leadline.analysis.symptoms.spans import NEAR_NS, Evidence
from leadline.model.ids import EntityId

EXIT = "process-exit"
ENDS = (EXIT, "job-end")
ASKED = frozenset({"signal/SIGTERM", "signal/SIGINT", "signal/SIGUSR1", "exit/143", "exit/130", "exit/138"})
PAUSES = frozenset({"checkpoint", "recompilation"})  # told when they are over, with their length
DEBUGGER = "debugger"  # somebody holds the job on purpose, for as long as it pleases
# Seconds of a pause that is believed at most: one that claims more than an hour is nonsense. Source: bound.
PAUSE_S_MAX = 3600.0
# Ends of ranks this near the first are one crash, because launchers and time-outs end the others within a minute; so is
# an end this soon after the rank said why. Source: judgement.
TOGETHER_NS = 60 * S
TEXT_MAX = 240  # characters of an event's text that are told, since log lines may be long. Source: bound.
# What befalls parts that ranks stand on, and may be why they stop.
PARTS = frozenset(
    {"oom-kill", "xid", "sxid", "gpu-lost", "link-down", "link-up", "host-not-ready", "tx-timeout", "hung-task", "mce",
     "storage-error", "preemption", "maintenance"}
)  # fmt: skip
BACK = frozenset({"link-up"})
BROKEN = frozenset({"oom-kill", "xid", "sxid", "gpu-lost", "host-not-ready", "hung-task", "mce", "storage-error"})


@dataclass(frozen=True, slots=True)
class End:
    """How a process of a job ended."""

    time_ns: int
    rank: int
    code: str
    failed: bool
    reason: str
    message: str
    bound_ns: int | None
    told_by: str = EXIT  # kind of the event

    @property
    def asked(self) -> bool:
        """Somebody asked for it."""
        return self.code in ASKED

    @property
    def by_signal(self) -> bool:
        """The kernel ended it for what it did, or somebody killed it."""
        return self.code.startswith("signal/") and not self.asked


class Complaint(NamedTuple):
    """A rank says that it gives up, and why; its process ends soon after."""

    time_ns: int
    rank: int
    words: str
    code: str  # class of its exception; empty: a program said it in its own words
    where: str  # line of the program; empty if not told

    @property
    def of_peers(self) -> bool:
        """It gave up because of others."""
        return is_of_peers(self.words, self.code)


@dataclass(frozen=True, slots=True)
class Part:
    """Something that befell a host, GPU or port that ranks of the job stand on."""

    time_ns: int
    entity: str
    kind: str
    ranks: tuple[int, ...]
    evidence: Evidence


@dataclass(slots=True)
class Happened:
    """Events of one job before a time."""

    ends: list[End] = field(default_factory=list)
    complaints: list[Complaint] = field(default_factory=list)
    frozen: dict[int, int] = field(default_factory=dict)  # rank -> since when its process stands still
    stood: list[tuple[int, int, int]] = field(default_factory=list)  # rank, since when it stood still, until when
    pauses: dict[int, tuple[int, str]] = field(default_factory=dict)  # rank -> since when it is in which phase
    paused_s: dict[str, float] = field(default_factory=dict)  # kind of phase -> the longest that was seen, s
    parts: list[Part] = field(default_factory=list)
    asked_ns: int | None = None  # the job was preempted, or told to end

    def frozen_at(self, at_ns: int) -> frozenset[int]:
        """Ranks whose processes stood still at a time, also of those that ended since."""
        return frozenset(rank for rank, since_ns, until_ns in self.stood if since_ns <= at_ns < until_ns)

    def cut_since(self, from_ns: int) -> dict[int, str]:
        """Ranks of hosts of which a port lost its carrier since then, with words for it."""
        found: dict[int, str] = {}
        for part in sorted(self.parts, key=lambda each: (each.time_ns, each.entity)):
            if part.kind == "link-down" and part.time_ns >= from_ns:
                for rank in part.ranks:
                    found.setdefault(rank, f"{part.entity} lost its carrier")
        return found

    def complaints_near(self, at_ns: int) -> list[Complaint]:
        """Those of the crash of that time, in order of time."""
        return [each for each in self.complaints if abs(each.time_ns - at_ns) <= TOGETHER_NS]

    def longest_pause_s(self) -> float:
        """The longest pause of any kind that was seen, s; 0: none was."""
        return max(self.paused_s.values(), default=0.0)


def happened_of(event: pa.Table, places: JobRanks, job: str, to_ns: int) -> Happened:
    """What events tell of a job, as of `to_ns`."""
    found = Happened()
    began: dict[tuple[int, str], int] = {}
    for row in _rows(event, job, to_ns):
        rank = rank_number(str(row["entity"]), job)
        if rank is not None:
            _of_rank(found, began, rank, row)
        elif row["kind"] in PARTS:
            _of_part(found, places, job, row)
    _end_with_their_words(found)
    ended = {each.rank: each.time_ns for each in found.ends}  # the last: a rank that is begun anew counts again
    found.stood += [(rank, at_ns, ended.get(rank, NEAR_NS)) for rank, at_ns in found.frozen.items()]
    for (rank, kind), since_ns in sorted(began.items()):
        if since_ns > ended.get(rank, 0):
            found.pauses[rank] = (since_ns, kind)
    found.frozen = {rank: at for rank, at in found.frozen.items() if at > ended.get(rank, 0)}
    return found


def _end_with_their_words(found: Happened) -> None:
    """A rank that failed of its own ended when it said so: how long its process then took tells nothing, nor does a
    launcher that killed it meanwhile, and an agent that came later did not see it end."""
    for said in found.complaints:
        if said.of_peers:
            continue
        seen = next((each for each in found.ends if each.rank == said.rank
                     and 0 <= each.time_ns - said.time_ns <= TOGETHER_NS), None)  # fmt: skip
        if seen is not None and not (seen.failed and (not seen.asked or seen.code.startswith("signal/"))):
            continue
        who = f"rank {said.rank} failed" if seen is None or seen.asked else seen.message
        words = f"{who}: {said.words}"[:TEXT_MAX] + (f" ({said.where})" if said.where else "")
        if seen is None or seen.asked:
            told = End(said.time_ns, said.rank, "", True, "", words, seen.bound_ns if seen else None, FAILED)
        else:
            told = replace(seen, time_ns=said.time_ns, message=words, told_by=FAILED)
        found.ends = [each for each in found.ends if each is not seen] + [told]
    found.ends.sort(key=lambda each: each.time_ns)


def held_spans(event: pa.Table, job: str, to_ns: int) -> list[tuple[int, int]]:
    """When a debugger held ranks of a job, as of `to_ns`: spans that do not overlap, in order, ns."""
    kind, entity = (event[name].cast(pa.string()) for name in ("kind", "entity"))
    mine = pc.and_(pc.starts_with(entity, f"rank:{job}/"), pc.starts_with(kind, f"{DEBUGGER}-"))
    rows = event.filter(pc.fill_null(mine, False)).select(["time_ns", "entity", "kind"]).to_pylist()
    began: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for row in sorted(rows, key=lambda row: (row["time_ns"], row["kind"], row["entity"])):
        if not 0 < row["time_ns"] < to_ns:
            continue
        if row["kind"].endswith("-begin"):
            began.setdefault(row["entity"], row["time_ns"])
        elif row["entity"] in began:
            spans.append((began.pop(row["entity"]), row["time_ns"]))
    spans += [(begin_ns, to_ns) for begin_ns in began.values()]
    found: list[tuple[int, int]] = []
    for begin_ns, end_ns in sorted(spans):
        if found and begin_ns <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end_ns))
        else:
            found.append((begin_ns, end_ns))
    return found


def _rows(event: pa.Table, job: str, to_ns: int) -> list[dict[str, object]]:
    """The rows that may matter, in order of time, then as texts."""
    kind, entity = (event[name].cast(pa.string()) for name in ("kind", "entity"))
    of_rank = pc.starts_with(entity, f"rank:{job}/")
    of_part = pc.is_in(kind, pa.array(sorted(PARTS)))
    in_time = pc.and_(pc.less(event["time_ns"], to_ns), pc.greater(event["time_ns"], 0))
    rows = event.filter(pc.fill_null(pc.and_(pc.or_(of_rank, of_part), in_time), False)).to_pylist()
    for row in rows:
        row["attributes"] = dict(row["attributes"] or ())
    return sorted(rows, key=lambda row: (row["time_ns"], row["entity"], row["kind"], str(row["code"]), row["message"],
                                         sorted(row["attributes"].items(), key=str), str(row["bound_ns"])))  # fmt: skip


def _of_rank(found: Happened, began: dict[tuple[int, str], int], rank: int, row: Mapping[str, object]) -> None:
    kind, at_ns, message = str(row["kind"]), int(row["time_ns"]), str(row["message"])  # type: ignore[call-overload]
    attributes: Mapping[str, str] = row["attributes"]  # type: ignore[assignment]
    if kind in ENDS:
        code = str(row["code"] or "")
        failed = row["severity"] in ("error", "fatal") or bool(code and code != "exit/0")
        bound = row["bound_ns"]
        found.ends.append(End(at_ns, rank, code, failed, str(attributes.get("reason") or ""), message[:TEXT_MAX],
                              bound if isinstance(bound, int) else None))  # fmt: skip
    elif kind == FAILED:
        code, where = str(row["code"] or ""), str(attributes.get("where") or "")
        found.complaints.append(Complaint(at_ns, rank, message, code, where))
    elif kind == "process-stopped":
        found.frozen.setdefault(rank, at_ns)
    elif kind == "process-continued":
        since_ns = found.frozen.pop(rank, None)
        found.stood += [(rank, since_ns, at_ns)] if since_ns is not None else []
    elif kind.endswith("-begin"):
        began[rank, kind.removesuffix("-begin")] = at_ns
    elif kind.endswith("-end"):
        name = kind.removesuffix("-end")
        began_ns = began.pop((rank, name), None)
        if began_ns is not None:
            found.paused_s[name] = max(found.paused_s.get(name, 0.0), (at_ns - began_ns) / S)
    elif kind in PAUSES:
        found.paused_s[kind] = max(found.paused_s.get(kind, 0.0), _seconds(attributes))
    elif kind == "preemption":
        found.asked_ns = at_ns


def _seconds(attributes: Mapping[str, str]) -> float:
    try:
        value = float(attributes.get("seconds") or 0.0)
    except ValueError:
        return 0.0
    return value if 0 < value <= PAUSE_S_MAX else 0.0


def _of_part(found: Happened, places: JobRanks, job: str, row: Mapping[str, object]) -> None:
    entity, kind, at_ns = str(row["entity"]), str(row["kind"]), int(row["time_ns"])  # type: ignore[call-overload]
    of, name = EntityId.of(entity)
    if entity == f"job:{job}":
        if kind == "preemption":
            found.asked_ns = at_ns
        return
    if of == "gpu":
        ranks = sorted(rank for rank, gpus in places.gpus_of.items() if entity in gpus)
    else:
        ranks = places.on_host(name if of == "host" else name.rpartition("/")[0], at_ns)
    if ranks and abs(at_ns) < NEAR_NS:
        bound = row["bound_ns"]
        evidence = Evidence("event", entity, kind, at_ns, bound if isinstance(bound, int) else None,
                            str(row["message"])[:TEXT_MAX])  # fmt: skip
        found.parts.append(Part(at_ns, entity, kind, tuple(ranks), evidence))
