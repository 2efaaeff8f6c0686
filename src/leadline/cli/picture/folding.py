"""From a graph of any size to boxes in rows that fit a screen: what is drawn where, without drawing it.

    answers of /api/v1/graph ── merged ──> Whole ── folded ──> Row[Box], Line ── ordered ──> rows with few crossings

A row of more boxes than fit is folded: ranks, GPUs and ports by their host; hosts by the leaves that they hang on;
switches by what hangs on them, or by the switches above; and what is still too long by pieces of the order of names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.cli.ranges import natural, ranges
from leadline.model.ids import name_of

ROW_MAX = 16  # boxes side by side; with more their names are no longer readable
SETS_MAX = 4  # different sets of jobs told apart in one row; with more only whether there are others
DRAWN = frozenset({"job", "rank", "gpu", "host", "port", "switch", "storage"})
JOB, RANK, GPU, HOST, PORT, LEAF = range(6)


@dataclass(frozen=True, slots=True)
class Node:
    """One entity that is drawn."""

    entity: str
    kind: str
    layer: int
    jobs: frozenset[str]
    conflict: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge between drawn entities, whose jobs use it; `bytes` None: not known."""

    child: str
    parent: str
    link: str | None
    jobs: frozenset[str]
    bytes: float | None


@dataclass(frozen=True, slots=True)
class Whole:
    """Everything that may be drawn, of one or several answers; jobs in the order of their letters."""

    nodes: dict[str, Node]
    edges: list[Edge]
    jobs: list[str]
    missing: list[str]
    left_out: dict[str, int]  # kinds that have no row: communicators, flows, ...


@dataclass(slots=True)
class Box:
    """One box: one entity, or several that are alike."""

    layer: int
    kind: str
    members: list[str]
    jobs: frozenset[str]
    conflict: bool
    label: str = ""


@dataclass(slots=True)
class Line:
    """Edges between the same two boxes together."""

    upper: int  # number of the box
    lower: int
    edges: int
    jobs: frozenset[str]
    bytes: float | None
    links: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Folded:
    """Boxes, and the lines between them. `rows`: numbers of boxes by layer, from left to right."""

    boxes: list[Box]
    lines: list[Line]
    rows: dict[int, list[int]]


def shown_name(entity: str) -> str:
    """The name of an entity without its kind."""
    return name_of(entity) or entity


def job_name(job: str) -> str:
    """A job by its bare name, however it was told."""
    return job.removeprefix("job:")


def merged(answers: Sequence[Mapping[str, Any]]) -> Whole:
    """What the answers tell together; the job of the first one comes first."""
    jobs_of: dict[str, set[str]] = defaultdict(set)
    facts: dict[str, Mapping[str, Any]] = {}
    used: dict[tuple[str, str, str | None], set[str]] = defaultdict(set)
    bytes_of: dict[tuple[str, str, str | None], float] = {}
    for answer in answers:
        own = {job_name(answer["job"])} if answer.get("job") else set()
        for node in answer["nodes"]:
            facts.setdefault(node["entity"], node)
            jobs_of[node["entity"]] |= {job_name(job) for job in node["jobs"]}
        shared = {each["entity"]: {job_name(job) for job in each["jobs"]} for each in answer["shared"]}
        for edge in answer["edges"]:
            key = (edge["child"], edge["parent"], edge.get("link"))
            used[key] |= own | shared.get(edge.get("link") or "", set())
            if edge.get("bytes") is not None:
                bytes_of[key] = edge["bytes"]
    nodes = {
        entity: Node(entity, node["kind"], int(node["layer"]), frozenset(jobs_of[entity]), bool(node["conflict"]))
        for entity, node in facts.items()
        if node["kind"] in DRAWN
    }
    edges = [
        Edge(*key, frozenset(jobs) or nodes[key[0]].jobs & nodes[key[1]].jobs, bytes_of.get(key))
        for key, jobs in used.items()
        if key[0] in nodes and key[1] in nodes and key[0] != key[1]
    ]
    left_out: dict[str, int] = defaultdict(int)
    for node in facts.values():
        if node["kind"] not in DRAWN and node["kind"] not in ("link", "swport"):
            left_out[node["kind"]] += 1
    missing = list(answers[0]["missing"])
    missing += [f"of {job_name(each['job'])}: {text}" for each in answers[1:] for text in each["missing"]]
    return Whole(nodes, edges, _letters(answers, nodes.values()), missing, dict(sorted(left_out.items())))


def _letters(answers: Sequence[Mapping[str, Any]], nodes: Iterable[Node]) -> list[str]:
    """Jobs in the order of their letters: those asked for, then the others by how much they are on."""
    counts: dict[str, int] = defaultdict(int)
    for node in nodes:
        for job in node.jobs:
            counts[job] += 1
    asked = [job_name(answer["job"]) for answer in answers if answer.get("job")]
    return list(dict.fromkeys(asked + sorted(counts, key=lambda job: (-counts[job], natural(job)))))


def folded(whole: Whole, most: int = ROW_MAX) -> Folded:
    """Boxes and lines with at most about `most` boxes in a row; every drawn entity is in exactly one box."""
    above, below = neighbours(whole)
    sets = _job_sets(whole)
    home = homes(whole, above, below)
    hangs = {entity: leaves(whole, entity, below) for entity, node in whole.nodes.items() if node.layer == HOST}
    group: dict[str, Hashable] = {}
    for layer in sorted({node.layer for node in whole.nodes.values()}, key=lambda each: (each != HOST, each)):
        ones = sorted((node for node in whole.nodes.values() if node.layer == layer), key=lambda n: natural(n.entity))
        group |= _grouped(ones, _levels(layer, group, home, hangs, above, below), sets, most)
    boxes, box_of = _boxes(whole, group, sets)
    lines = _reduced(_lines(whole, boxes, box_of))
    rows: dict[int, list[int]] = defaultdict(list)
    for number, box in enumerate(boxes):
        rows[box.layer].append(number)
    return Folded(boxes, lines, dict(sorted(rows.items())))


def neighbours(whole: Whole) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above, below = defaultdict(list), defaultdict(list)
    for edge in whole.edges:
        upper, lower = edge.child, edge.parent
        if whole.nodes[upper].layer > whole.nodes[lower].layer:
            upper, lower = lower, upper
        below[upper].append(lower)
        above[lower].append(upper)
    return above, below


def _job_sets(whole: Whole) -> Callable[[frozenset[str]], Hashable]:
    """What keeps boxes apart: the set of jobs, or with many sets whether the first job and others are among them."""
    if len({node.jobs for node in whole.nodes.values() if node.layer > RANK}) <= SETS_MAX:
        return lambda jobs: tuple(sorted(jobs))
    first = whole.jobs[:1]
    return lambda jobs: (bool(jobs & set(first)), bool(jobs - set(first)))


def homes(whole: Whole, above: Mapping[str, Sequence[str]], below: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The host of each rank, GPU and port; what has none is left out."""
    home: dict[str, str] = {}
    for layer, near in ((GPU, below), (PORT, above), (RANK, below)):
        for entity, node in whole.nodes.items():
            if node.layer != layer:
                continue
            hosts = [each for each in near.get(entity, ()) if whole.nodes[each].layer == HOST]
            hosts += [home[each] for each in near.get(entity, ()) if each in home]
            if hosts:
                home[entity] = min(hosts, key=natural)
    return home


def leaves(whole: Whole, host: str, below: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The leaves that a host hangs on."""
    ports = below.get(host, ())
    found = {leaf for port in ports for leaf in below.get(port, ()) if whole.nodes[leaf].layer >= LEAF}
    return tuple(sorted(found, key=natural))


Level = Callable[[Node], Hashable]


def _levels(
    layer: int, group: Mapping[str, Hashable], home: Mapping[str, str], hangs: Mapping[str, tuple[str, ...]],
    above: Mapping[str, Sequence[str]], below: Mapping[str, Sequence[str]],
) -> list[Level]:  # fmt: skip
    """Ways to fold a layer, the gentlest first."""
    each: Level = lambda node: node.entity  # noqa: E731
    if layer in (RANK, GPU, PORT):
        return [each, lambda node: (node.kind, group.get(home.get(node.entity, ""), ""))]
    if layer == HOST:
        pods = {leaf: tuple(sorted(set(below.get(leaf, ())))) for leaves in hangs.values() for leaf in leaves}
        return [
            each,
            lambda node: hangs.get(node.entity, ()),
            lambda node: tuple(sorted({pods[leaf] for leaf in hangs.get(node.entity, ())})),
        ]
    if layer >= LEAF:
        return [
            each,
            lambda node: frozenset(group.get(one, one) for one in above.get(node.entity, ())),
            lambda node: tuple(sorted(set(below.get(node.entity, ())))),
        ]
    return [each]


def _grouped(
    ones: Sequence[Node], levels: Sequence[Level], sets: Callable[[frozenset[str]], Hashable], most: int
) -> dict[str, Hashable]:
    """The group of each entity of one layer, by the gentlest way that makes few enough groups."""
    for number, level in enumerate(levels):
        group = {node.entity: (number, sets(node.jobs), level(node)) for node in ones}
        if len(set(group.values())) <= most:
            return group  # type: ignore[return-value]
    alike: dict[Hashable, list[str]] = defaultdict(list)
    for node in ones:
        alike[(node.kind, sets(node.jobs))].append(node.entity)
    pieces = max(1, most // len(alike))
    return {
        entity: (len(levels), key, place * pieces // len(entities))
        for key, entities in alike.items()
        for place, entity in enumerate(entities)
    }


def _boxes(
    whole: Whole, group: Mapping[str, Hashable], sets: Callable[[frozenset[str]], Hashable]
) -> tuple[list[Box], dict[str, int]]:
    by_group: dict[Hashable, list[Node]] = defaultdict(list)
    letter = {job: place for place, job in enumerate(whole.jobs)}
    first = {
        jobs: min((letter[job] for job in jobs), default=len(letter)) for jobs in {n.jobs for n in whole.nodes.values()}
    }
    for node in sorted(whole.nodes.values(), key=lambda each: (each.layer, first[each.jobs], natural(each.entity))):
        by_group[(node.layer, node.kind, group[node.entity])].append(node)
    boxes: list[Box] = []
    box_of: dict[str, int] = {}
    for nodes in by_group.values():
        jobs = frozenset().union(*(node.jobs for node in nodes))
        members = [node.entity for node in nodes]
        box = Box(nodes[0].layer, nodes[0].kind, members, jobs, any(node.conflict for node in nodes))
        box.label = label_of(box)
        box_of |= dict.fromkeys(members, len(boxes))
        boxes.append(box)
    return boxes, box_of


def label_of(box: Box) -> str:
    """What stands in a box: the name, or the span of names."""
    names = [shown_name(entity) for entity in box.members]
    if box.kind == "rank":
        numbers = ranges((name.rpartition("/")[2] for name in names), 2)
        return f"rank{'s' if len(names) > 1 else ''} {numbers}"
    if len(names) == 1:
        return names[0][4:12] if box.kind == "gpu" and names[0].upper().startswith("GPU-") else names[0]
    if box.kind == "gpu":
        return f"{len(names):,} GPUs"
    if box.kind == "port":
        return f"{len(names):,} ports"
    return ranges(names, 1) if len(ranges(names, 1)) <= 24 else f"{names[0]} …"


def _lines(whole: Whole, boxes: Sequence[Box], box_of: Mapping[str, int]) -> dict[tuple[int, int], Line]:
    lines: dict[tuple[int, int], Line] = {}
    for edge in sorted(whole.edges, key=lambda each: (each.child, each.parent, each.link or "")):
        upper, lower = box_of[edge.child], box_of[edge.parent]
        if (boxes[upper].layer, upper) > (boxes[lower].layer, lower):
            upper, lower = lower, upper
        if upper == lower:
            continue
        line = lines.setdefault((upper, lower), Line(upper, lower, 0, frozenset(), None))
        line.edges += 1
        line.jobs |= edge.jobs
        if edge.bytes is not None:
            line.bytes = (line.bytes or 0.0) + edge.bytes
        if edge.link:
            line.links.append(edge.link)
    return lines


def _reduced(lines: Mapping[tuple[int, int], Line]) -> list[Line]:
    """Lines without those that only repeat a way over another box: a rank on a GPU of a host is on that host."""
    below: dict[int, set[int]] = defaultdict(set)
    for upper, lower in lines:
        below[upper].add(lower)
    return [
        line
        for (upper, lower), line in lines.items()
        if line.links or not any(lower in below[between] for between in below[upper] if between != lower)
    ]


def ordered(folded: Folded, sweeps: int = 6) -> Folded:
    """Rows in an order with few crossings: each box goes to the mean place of its neighbours, down and up again.

    Source: Sugiyama, Tagawa, Toda 1981, barycentre method; of all sweeps the order with the fewest crossings is kept.
    """
    near: dict[int, list[int]] = defaultdict(list)
    for line in folded.lines:
        near[line.upper].append(line.lower)
        near[line.lower].append(line.upper)
    rows = {layer: list(row) for layer, row in folded.rows.items()}
    best, fewest = rows, crossings(folded, rows)
    for sweep in range(sweeps):
        rows = _swept(folded, rows, near, upwards=bool(sweep % 2))
        count = crossings(folded, rows)
        if count < fewest:
            best, fewest = rows, count
    return Folded(folded.boxes, folded.lines, best)


def _swept(
    folded: Folded, rows: Mapping[int, Sequence[int]], near: Mapping[int, Sequence[int]], upwards: bool
) -> dict[int, list[int]]:
    """Rows one after the other, each by the mean places of its neighbours in the rows that were done before it."""
    new = {layer: list(row) for layer, row in rows.items()}
    for layer in sorted(new, reverse=upwards):
        place = {box: (at + 0.5) / len(row) for row in new.values() for at, box in enumerate(row)}
        means = {}
        for box in new[layer]:
            done = [place[each] for each in near.get(box, ()) if _before(folded.boxes[each].layer, layer, upwards)]
            means[box] = _mean(done, place[box])
        new[layer].sort(key=means.__getitem__)
    return new


def _before(one: int, layer: int, upwards: bool) -> bool:
    return one > layer if upwards else one < layer


def _mean(places: Sequence[float], otherwise: float) -> float:
    return sum(places) / len(places) if places else otherwise


def crossings(folded: Folded, rows: Mapping[int, Sequence[int]]) -> int:
    """How many pairs of lines between the same two rows cross."""
    place = {box: at for row in rows.values() for at, box in enumerate(row)}
    between: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for line in folded.lines:
        layers = (folded.boxes[line.upper].layer, folded.boxes[line.lower].layer)
        between[layers].append((place[line.upper], place[line.lower]))
    return sum(
        (a - c) * (b - d) < 0
        for pairs in between.values()
        for number, (a, b) in enumerate(pairs)
        for c, d in pairs[:number]
    )
