"""What each operation of a training step waits for: the dependency graph of one replica of the model, all stages.

    stage 0   F0 ---> F1 ---> F2 -------------> B0 ---> B1 ...    operations of a worker, in the order of their launch
              | \\      \\                      ^
              |  send   send            recv --'                    four streams: forward and backward, send and receive
              v    |     |               ^
    stage 1        recv > F0 ...  B0 > send                         a send and its receive end together

Steps and data-parallel ranks share the graph, as they share the schedule; collectives over the data-parallel ranks are
marked. Method: Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025,
section 3 (dependency model), and its artifact, which tells what a profiler records beyond it: sends and receives that
were never launched, at either end of a step and, with virtual stages, at either end of the model.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.ledger.operations import kinds

# Begin and end of operations of one worker are compared with this much slack, because profilers round their times.
# Source: paper: the artifact of Lin et al., OSDI 2025.
CLOCK_SLACK_NS = 50_000


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of the template: a step of one replica of the model. Times in ns from the step's begin."""

    place: int
    stage: int
    kind: str
    seq: int  # order within worker and kind
    begin: float
    end: float
    chunk: int = 0  # model chunk in the stage (virtual stage)


class Graph(NamedTuple):
    """O operations, G groups that meet. Compressed rows: what row i holds is at first[i] to first[i + 1].

    order_O: operations so that each comes after all it waits for. wait_first, wait: operations that one waits for.
    group_O: group of an operation, or -1. member_first, member: operations of a group. replicas_G: it meets with the
    same group of all data-parallel ranks. peer_O: the other end of a transfer, or -1.
    """

    order_O: Ints
    wait_first: Ints
    wait: Ints
    group_O: Ints
    member_first: Ints
    member: Ints
    replicas_G: Bools
    peer_O: Ints


@dataclass(slots=True)
class _Building:
    nodes: Sequence[Node]
    at: dict[tuple[int, str], list[Node]] = field(default_factory=dict)  # by stage and kind, in order of seq
    wait: list[set[int]] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)
    stages: list[int] = field(default_factory=list)
    pp: int = 0  # pipeline stages
    chunks: int = 1  # model chunks (virtual stages) in a stage

    def of(self, stage: int, kind: str) -> list[Node]:
        return self.at.get((stage, kind), [])

    def chain(self, nodes: Iterable[Node], after: Iterable[Node] = ()) -> None:
        """Each of `nodes` waits for the one before it; the first for all of `after`."""
        last = [node.place for node in after]
        for node in nodes:
            self.wait[node.place].update(last)
            last = [node.place]


def graph_of(nodes: Sequence[Node]) -> Graph | None:
    """The graph of the operations of a step; None if what they wait for contradicts itself (a damaged trace).

    Source: see the head of this file. We depart from it where it stops on traces with parts missing: what is not there
    is not waited for, and a send whose receive is missing takes its own length.
    """
    found = _Building(nodes, wait=[set() for _ in nodes])
    found.stages = sorted({node.stage for node in nodes})
    found.pp = max(found.stages, default=-1) + 1
    found.chunks = max((node.chunk for node in nodes), default=0) + 1
    for node in sorted(nodes, key=lambda node: node.seq):
        found.at.setdefault((node.stage, node.kind), []).append(node)
    alone = _sends_and_receives(found)
    for stage in found.stages:
        _worker(found, stage)
    _groups(found, alone)
    return _packed(found)


def _launched(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: (node.begin, node.seq, node.kind))


def _computations(found: _Building, stage: int) -> list[Node]:
    return _launched([*found.of(stage, kinds.FORWARD), *found.of(stage, kinds.BACKWARD)])


def _worker(found: _Building, stage: int) -> None:
    """What operations of one worker wait for on it: the order of its streams, and the end of the step."""
    computations = _computations(found, stage)
    found.chain(computations)
    for kind in sorted(kinds.BETWEEN_STAGES):
        found.chain(_launched(found.of(stage, kind)))
    _first_backward(found, stage, computations)
    found.chain(_launched([*found.of(stage, kinds.PARAMS), *found.of(stage, kinds.GRADS)]))
    _parameters(found, stage, computations)
    _end_of_step(found, stage, computations)


def _first_backward(found: _Building, stage: int, computations: list[Node]) -> None:
    """The first backward send and receive are posted after the last but one computation before the first backward."""
    first = next((at for at, node in enumerate(computations) if node.kind == kinds.BACKWARD), 0)
    if first < 2:
        return
    for kind in (kinds.BACKWARD_RECV, kinds.BACKWARD_SEND):
        found.chain(found.of(stage, kind)[:1], after=[computations[first - 2]])


def _parameters(found: _Building, stage: int, computations: list[Node]) -> None:
    """The first forward of a model chunk waits for the last gathering of the chunk's parameters."""
    last = {node.chunk: node for node in found.of(stage, kinds.PARAMS)}
    for chunk, gathered in last.items():
        forwards = (node for node in computations if node.kind == kinds.FORWARD and node.chunk == chunk)
        found.chain([first] if (first := next(forwards, None)) else [], after=[gathered])


def _end_of_step(found: _Building, stage: int, computations: list[Node]) -> None:
    """What follows the last backward, one after the other."""
    last = [max(computations, key=lambda node: node.end)] if computations else []
    scattered = found.of(stage, kinds.GRADS)
    overlapping = any(kind == kinds.SEPARATE for _, kind in found.at)
    collected = found.of(stage, kinds.GC)
    found.chain(collected, after=last)
    after = collected[-1:] or last
    if overlapping:
        _scatters(found, scattered, computations)
        after = [*scattered[-1:], *after]
    then = (kinds.LAYERNORM, kinds.EMBEDDING, kinds.SEPARATE if overlapping else kinds.GRADS, kinds.CLIP)
    found.chain([node for kind in (*then, kinds.OPTIMIZER) for node in found.of(stage, kind)], after=after)


def _scatters(found: _Building, scattered: list[Node], computations: list[Node]) -> None:
    """Where scattering gradients overlaps with backward, the first of a chunk waits for the chunk's last backward."""
    first: dict[int, Node] = {}
    for node in scattered:
        first.setdefault(node.chunk, node)
    for chunk, scatter in first.items():
        backwards = [node for node in computations if node.kind == kinds.BACKWARD and node.chunk == chunk]
        found.chain([scatter], after=[max(backwards, key=lambda node: node.end)] if backwards else [])


def _sends_and_receives(found: _Building) -> list[Node]:
    """Tie sends and receives to the computations they serve and to each other; returns those without a peer."""
    of_channel: dict[tuple[str, int, int], list[Node]] = defaultdict(list)  # kind, stage, peer: in order
    alone: list[Node] = []
    for stage in found.stages:
        for kind in sorted(kinds.BETWEEN_STAGES):
            for node, computed in _served(found, stage, kind):
                peer = None if computed is None else _peer_stage(found, kind, stage, computed)
                if peer is None:
                    alone.append(node)
                else:
                    of_channel[kind, stage, peer].append(node)
                if computed is not None:
                    _tie(found, node, computed)
    for direction in ("forward", "backward"):
        alone += _paired(found, of_channel, direction)
    return alone


def _served(found: _Building, stage: int, kind: str) -> list[tuple[Node, Node | None]]:
    """Sends or receives of a worker with the computation each serves; None for one that was never launched.

    The profiler may record receives after the last computation that needs one, and sends before the first has a
    result: these were not launched. Others serve the computations in order: all of them, those that have a peer, or all
    but the first (the receive of the model's input may be missing).
    """
    posted = _launched(found.of(stage, kind))
    computed = found.of(stage, kinds.FORWARD if kind.startswith("forward") else kinds.BACKWARD)
    if not computed:
        return [(node, None) for node in posted]
    receives = kind.endswith("recv")
    if receives:
        latest = max(node.begin for node in computed) + CLOCK_SLACK_NS
        launched = [node.begin <= latest for node in posted]
    else:
        earliest = min(node.end for node in computed) - CLOCK_SLACK_NS
        launched = [node.end >= earliest for node in posted]
    with_peer = [node for node in computed if _peer_stage(found, kind, stage, node) is not None]
    if sum(launched) == len(with_peer):
        computed = with_peer
    elif receives and sum(launched) + 1 == len(computed):
        computed = computed[1:]
    in_order = iter(computed)
    return [(node, next(in_order, None) if was else None) for node, was in zip(posted, launched, strict=True)]


def _peer_stage(found: _Building, kind: str, stage: int, computed: Node) -> int | None:
    """Stage at the other end of a transfer; None before the first chunk of the model and after the last."""
    if found.pp < 2:
        return None
    onward = 1 if kind in (kinds.FORWARD_SEND, kinds.BACKWARD_RECV) else -1
    chunk_of_model = computed.chunk * found.pp + stage
    if not 0 <= chunk_of_model + onward < found.pp * found.chunks:
        return None
    return (stage + onward) % found.pp


def _tie(found: _Building, node: Node, computed: Node) -> None:
    """A computation waits for its receive, which is posted after the one of its kind before; a send waits for it."""
    if node.kind.endswith("send"):
        found.wait[node.place].add(computed.place)
        return
    found.wait[computed.place].add(node.place)
    before = found.of(computed.stage, computed.kind)
    if computed.seq > 0:
        found.wait[node.place].add(before[computed.seq - 1].place)


def _paired(found: _Building, of_channel: dict[tuple[str, int, int], list[Node]], direction: str) -> list[Node]:
    """The n-th send of a channel with its n-th receive, as the library matches them; returns those left over."""
    left: list[Node] = []
    ends = sorted({(min(a, b), max(a, b)) for kind, a, b in of_channel if kind.startswith(direction)})
    for low, high in ends:
        for sender, receiver in ((low, high), (high, low)):
            sends = of_channel.get((f"{direction}-send", sender, receiver), [])
            receives = of_channel.get((f"{direction}-recv", receiver, sender), [])
            both = min(len(sends), len(receives))
            found.groups += [[a.place, b.place] for a, b in zip(sends, receives, strict=False)]
            left += [*sends[both:], *receives[both:]]
    return left


def _groups(found: _Building, alone: list[Node]) -> None:
    """Groups other than pairs: collectives over replicas, embeddings of first and last stage, clipping of all."""
    found.groups += [[node.place] for node in alone]
    for (_, kind), nodes in sorted(found.at.items()):
        if kind in kinds.OVER_REPLICAS and kind != kinds.CLIP:
            found.groups += [[node.place] for node in nodes]
    for kind in (kinds.CLIP, kinds.EMBEDDING):
        meeting: dict[int, list[int]] = defaultdict(list)
        for stage in found.stages:
            for node in found.of(stage, kind):
                meeting[node.seq].append(node.place)
        found.groups += list(meeting.values())


def _packed(found: _Building) -> Graph | None:
    group_O = np.full(len(found.nodes), -1, np.int64)
    peer_O = np.full(len(found.nodes), -1, np.int64)
    for group, members in enumerate(found.groups):
        group_O[members] = group
        if len(members) == 2 and found.nodes[members[0]].kind in kinds.BETWEEN_STAGES:
            peer_O[members] = members[::-1]
    order = _order(found, group_O)
    if len(order) < len(found.nodes):
        return None
    wait_first, wait = _rows([sorted(each) for each in found.wait])
    member_first, member = _rows(found.groups)
    replicas = [found.nodes[members[0]].kind in kinds.OVER_REPLICAS for members in found.groups]
    return Graph(
        np.array(order, np.int64), wait_first, wait, group_O, member_first, member, np.array(replicas, bool), peer_O
    )


def _order(found: _Building, group_O: Ints) -> list[int]:
    """Operations by when they can begin (Kahn); a group ends when its last member began. Fewer, if there is a cycle."""
    then: list[list[int]] = [[] for _ in found.nodes]
    for place, waits in enumerate(found.wait):
        for before in waits:
            then[before].append(place)
    open_O = [len(waits) for waits in found.wait]
    missing = [len(members) for members in found.groups]
    ready = deque(place for place, count in enumerate(open_O) if not count)
    order: list[int] = []
    while ready:
        place = ready.popleft()
        order.append(place)
        group = int(group_O[place])
        ended = [place]
        if group >= 0:
            missing[group] -= 1
            ended = [] if missing[group] else found.groups[group]
        for each in ended:
            for after in then[each]:
                open_O[after] -= 1
                if not open_O[after]:
                    ready.append(after)
    return order


def _rows(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    first = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=first[1:]) if rows else None
    return first, np.array([each for row in rows for each in row], np.int64)
