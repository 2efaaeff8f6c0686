"""The pictures of the show verbs: well-formed, whole, inside their frame, readable."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from leadline.cli.picture.flows import flows_picture
from leadline.cli.picture.folding import folded, merged, ordered
from leadline.cli.picture.graph import graph_picture
from leadline.cli.picture.path import path_picture
from leadline.cli.picture.svg import FONT, SMALL, Drawing, shortened, text_width
from leadline.cli.ranges import counted, natural, ranges
from leadline.cli.words.flows import nodes_along, path_words, percent

SVG = "{http://www.w3.org/2000/svg}"
WHEN = "2026-11-22 10:00:00Z"
NASTY = 'evil"<&>\x00\x1b]]>☠-1'


def two_jobs(hosts: int, leaves: int, spines: int = 2, gpus: int = 1, names: tuple[str, str] = ("bert-1", "resnet-2"),
             rails: int = 1) -> list[dict[str, Any]]:  # fmt: skip
    """Answers of two jobs that share one host, its leaf and the spines."""
    half = hosts // 2
    per_leaf = max(1, hosts // leaves)
    answers = [
        job_answer(name, some, per_leaf, leaves, spines, gpus, rails)
        for name, some in zip(names, (range(half + 1), range(half, hosts)), strict=True)
    ]
    on: dict[str, list[str]] = {}
    for answer in answers:
        for node in answer["nodes"]:
            on.setdefault(node["entity"], []).append(answer["job"])
    for answer in answers:
        for node in answer["nodes"]:
            node["jobs"] = on[node["entity"]]
        answer["shared"] = [
            {"entity": node["entity"], "kind": node["kind"], "jobs": node["jobs"]}
            for node in answer["nodes"]
            if len(node["jobs"]) > 1
        ]
    return answers


def job_answer(job: str, hosts: Iterable[int], per_leaf: int, leaves: int, spines: int, gpus: int,
               rails: int) -> dict[str, Any]:  # fmt: skip
    """What `/api/v1/graph` says of a job; the second job has the upper GPUs of a shared host."""
    nodes: dict[str, dict[str, Any]] = {}
    edges: list[dict[str, Any]] = []

    def node(entity: str, layer: int) -> str:
        nodes.setdefault(entity, {"entity": entity, "kind": entity.partition(":")[0], "layer": layer, "jobs": [],
                                  "conflict": False})  # fmt: skip
        return entity

    def edge(child: str, parent: str, link: str | None = None) -> None:
        edges.append({"child": child, "parent": parent, "kind": "in", "from_ns": 1, "to_ns": None, "sources": ["x"],
                      "confidence": 1.0, "link": link, "bytes": 1e6 if link else None})  # fmt: skip

    top = node(f"job:{job}", 0)
    for place, host in enumerate(hosts):
        box = node(f"host:h{host + 1}", 3)
        for each in range(gpus):
            rank, gpu = node(f"rank:{job}/{place * gpus + each}", 1), node(f"gpu:GPU-{host:04x}{each:02x}-{job}", 2)
            edge(top, rank)
            edge(rank, gpu)
            edge(rank, box)
            edge(gpu, box)
        leaf = min(host // per_leaf, leaves - 1) + 1
        for rail in range(rails):
            port = node(f"port:h{host + 1}/eth{rail}", 4)
            edge(box, port)
            edge(port, node(f"switch:leaf{leaf}", 5), f"link:h{host + 1}/eth{rail}~leaf{leaf}/E{host}.{rail}")
        for spine in range(1, spines + 1):
            edge(
                f"switch:leaf{leaf}", node(f"switch:spine{spine}", 6), f"link:leaf{leaf}/U{spine}~spine{spine}/D{leaf}"
            )
    edge(top, node("storage:nfs-a", 4))
    return {"schema": 1, "job": f"job:{job}", "of": None, "at_ns": 1, "nodes": list(nodes.values()), "edges": edges,
            "shared": [], "conflicts": [], "missing": ["no path is traced above the leaves"]}  # fmt: skip


def flow(src_rank: str, dst_rank: str, *paths: list[str], **more: Any) -> dict[str, Any]:
    share = 1 / max(len(paths), 1)
    return {
        "flow": "ab" * 16, "src_rank": src_rank, "dst_rank": dst_rank, "src": "port:h1/eth0", "dst": "port:h2/eth0",
        "src_ip": "10.0.0.1", "dst_ip": "fe80::2", "protocol": 17, "src_port": 4000, "dst_port": 4791, "dst_qp": 7,
        "state": "known", "probability": share, "bytes": 2e9, "low": 1e9, "high": 3e9, "samples": 9, "why": "",
        "alternatives": len(paths),
        "paths": [
            {"alternative": number, "probability": share,
             "hops": [{"hop": hop, "link": link, "probability": share, "bytes": 1e9, "low": 1e9, "high": 1e9}
                      for hop, link in enumerate(links)]}
            for number, links in enumerate(paths)
        ],
        **more,
    }  # fmt: skip


def over(spine: int) -> list[str]:
    return ["link:h1/eth0~leaf1/E1", f"link:leaf1/U{spine}~spine{spine}/D1", f"link:leaf2/U{spine}~spine{spine}/D2",
            "link:h2/eth0~leaf2/E1"]  # fmt: skip


def possible(spines: int) -> dict[str, Any]:
    links = [{"link": "a", "from": "host:h1", "to": "switch:leaf1", "hop": 0},
             {"link": "b", "from": "switch:leaf2", "to": "host:h2", "hop": 3}]  # fmt: skip
    for spine in range(1, spines + 1):
        links += [{"link": f"c{spine}", "from": "switch:leaf1", "to": f"switch:spine{spine}", "hop": 1},
                  {"link": f"d{spine}", "from": f"switch:spine{spine}", "to": "switch:leaf2", "hop": 2}]  # fmt: skip
    return {"a": "host:h1", "b": "host:h2", "hops": 4, "paths": spines, "links": links, "links_total": len(links),
            "ports": [], "missing": []}  # fmt: skip


def path_answer(flows: list[dict[str, Any]], spines: int = 4, **more: Any) -> dict[str, Any]:
    return {"a": "rank:j/0", "b": "rank:j/1", "end_ns": 1, "window_ns": 1, "flows": flows, "asymmetric": None,
            "possible": possible(spines), "why": "", **more}  # fmt: skip


def flows_answer(links: int = 3, groups: int = 2, job: str = "bert-1", other: str = "resnet-2") -> dict[str, Any]:
    told = [
        {"link": f"link:leaf1/E{number}~spine1/E{number}", "bytes": 3e9 / (number + 1), "low": 2e9 / (number + 1),
         "high": 4e9 / (number + 1), "flows": 2, "jobs": {job: 2e9 / (number + 1), other: 1e9 / (number + 1)},
         "others": number % 2}
        for number in range(links)
    ]  # fmt: skip
    group = {"switch": "leaf1", "group": "E1,E2", "efficiency": 0.5, "flows": 2, "bytes": 3e9, "busiest_bytes": 3e9,
             "busiest": "link:leaf1/E1~spine1/E1", "colliding": ["flow:" + "ab" * 16] * 2,
             "jobs": [job, other]}  # fmt: skip
    return {"job": job, "end_ns": 1, "window_ns": 10**10, "flows": [flow("rank:j/0", "rank:j/1", over(1))],
            "flows_total": 1, "links": told, "links_total": links, "groups": [group] * groups,
            "unowned": {"flows": 3, "bytes": 5e6, "top": []}, "why": ""}  # fmt: skip


PICTURES = {
    "graph of 8 hosts": graph_picture(two_jobs(8, 2), WHEN),
    "graph of 8 hosts with 8 GPUs": graph_picture(two_jobs(8, 8, 4, 8, rails=8), WHEN),
    "graph of 600 hosts": graph_picture(two_jobs(600, 40, 16, 2), WHEN),
    "graph with nasty names": graph_picture(two_jobs(4, 2, names=(NASTY, NASTY + "2" * 300)), WHEN),
    "graph of one job alone": graph_picture(two_jobs(4, 2)[:1], WHEN),
    "path": path_picture(
        path_answer([flow("rank:j/0", "rank:j/1", over(1), over(2)), flow("rank:j/1", "rank:j/0", over(3)[::-1])]), WHEN
    ),
    "path of many spines": path_picture(path_answer([flow("rank:j/0", "rank:j/1", over(30))], 40), WHEN),
    "path without flows": path_picture(path_answer([], why=NASTY), WHEN),
    "path that nothing is known of": path_picture(path_answer([], 0, possible=possible(0) | {"links": []}), WHEN),
    "path off the topology": path_picture(path_answer([flow("rank:j/0", "rank:j/1", over(9))], 2), WHEN),
    "path that is no chain": path_picture(
        path_answer([flow("rank:j/0", "rank:j/1", ["link:a/1~b/1", "link:c/1~d/1"])]), WHEN
    ),
    "flows": flows_picture(flows_answer(), WHEN),
    "flows of many links": flows_picture(flows_answer(500, 90), WHEN),
    "flows with nasty names": flows_picture(flows_answer(job=NASTY, other=NASTY * 9), WHEN),
    "flows of none": flows_picture(flows_answer(0, 0) | {"flows": [], "why": NASTY * 20}, WHEN),
}


def points(element: ElementTree.Element) -> list[tuple[float, float]]:
    """The corners of what an element covers."""
    number = {name: float(value) for name, value in element.items() if re.fullmatch(r"-?[\d.]+", value)}
    tag = element.tag.removeprefix(SVG)
    if tag == "rect":
        x, y = number.get("x", 0.0), number.get("y", 0.0)
        return [(x, y), (x + number["width"], y + number["height"])]
    if tag == "path":
        values = [float(each) for each in re.findall(r"-?[\d.]+", element.attrib["d"])]
        return list(zip(values[::2], values[1::2], strict=True))
    if tag == "text":
        left, right, top, bottom = box_of(element)
        return [(left, top), (right, bottom)]
    return []


def box_of(text: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, right, top and bottom of a label."""
    size = float(text.get("font-size", FONT))
    width = text_width(text.text or "", size)
    x, y = float(text.attrib["x"]), float(text.attrib["y"])
    left = x - {"middle": width / 2, "end": width}.get(text.get("text-anchor", ""), 0.0)
    return left, left + width, y - 0.76 * size, y + 0.2 * size


def test_a_job_that_is_over_is_told_in_its_picture() -> None:
    first, other = two_jobs(4, 2)
    note = "job:bert-1 ended at 2026-11-22T10:00:00Z: shown as it was then"
    assert note in graph_picture([first | {"note": note}, other], WHEN)


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_lies_outside_the_frame(name: str) -> None:
    root = ElementTree.fromstring(PICTURES[name])
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {width:g} {height:g}"
    outside = [
        (element.tag, element.attrib, element.text)
        for element in root.iter()
        for x, y in points(element)
        if not (-0.6 <= x <= width + 0.6 and -0.6 <= y <= height + 0.6)
    ]
    assert outside == []


@pytest.mark.parametrize("name", [name for name in PICTURES if not name.startswith("path")])
def test_no_labels_lie_on_each_other(name: str) -> None:
    labels = [(*box_of(text), text.text) for text in ElementTree.fromstring(PICTURES[name]).iter(f"{SVG}text")]
    over_each_other = [
        (a[4], b[4])
        for number, a in enumerate(labels)
        for b in labels[:number]
        if a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]
    ]
    assert over_each_other == []


@pytest.mark.parametrize("name", PICTURES)
def test_letters_are_large_enough_to_read_and_files_small(name: str) -> None:
    sizes = [float(text.get("font-size", FONT)) for text in ElementTree.fromstring(PICTURES[name]).iter(f"{SVG}text")]
    assert min(sizes) >= SMALL
    assert len(PICTURES[name].encode()) < 200_000


@pytest.mark.parametrize(("hosts", "leaves", "gpus"), [(2, 1, 1), (8, 2, 1), (8, 8, 8), (600, 40, 2)])
def test_every_node_is_drawn_once(hosts: int, leaves: int, gpus: int) -> None:
    answers = two_jobs(hosts, leaves, 4, gpus)
    boxes = [
        group
        for group in ElementTree.fromstring(graph_picture(answers, WHEN)).iter(f"{SVG}g")
        if "data-count" in group.attrib
    ]
    drawn: dict[str, int] = {}
    for box in boxes:
        drawn[box.attrib["data-kind"]] = drawn.get(box.attrib["data-kind"], 0) + int(box.attrib["data-count"])
    known = {node["entity"]: node["kind"] for answer in answers for node in answer["nodes"]}
    assert drawn == {kind: list(known.values()).count(kind) for kind in set(known.values())}


def test_small_graphs_are_not_folded_and_large_ones_fit_a_screen() -> None:
    small, large = folded(merged(two_jobs(8, 2))), folded(merged(two_jobs(600, 40, 16, 2)))
    assert all(len(box.members) == 1 for box in small.boxes)
    assert max(len(row) for row in large.rows.values()) <= 16
    labels = {box.label for box in large.boxes}
    assert any(re.match(r"h\d+-h\d+$", label) for label in labels)


def test_two_jobs_stay_apart_when_they_are_folded() -> None:
    large = folded(merged(two_jobs(600, 40, 16, 2)))
    shared = [box for box in large.boxes if box.kind == "host" and len(box.jobs) == 2]
    assert [box.members for box in shared] == [["host:h301"]]
    assert {next(iter(box.jobs)) for box in large.boxes if box.kind == "rank"} == {"bert-1", "resnet-2"}


def test_rows_are_ordered_with_few_crossings() -> None:
    answer = two_jobs(2, 1)[0]
    answer["nodes"] = [{"entity": f"{kind}:{name}", "kind": kind, "layer": layer, "jobs": [], "conflict": False}
                       for kind, layer in (("host", 3), ("switch", 5)) for name in "abcd"]  # fmt: skip
    answer["edges"] = [{"child": f"host:{one}", "parent": f"switch:{other}", "link": None}
                       for one, other in zip("abcd", "dcba", strict=True)]  # fmt: skip
    answer["shared"] = []
    best = ordered(folded(merged([answer])))
    names = {layer: [best.boxes[box].label for box in row] for layer, row in best.rows.items()}
    assert names[3] == [{"a": "d", "b": "c", "c": "b", "d": "a"}[each] for each in names[5]]


def test_a_shared_box_has_two_outlines_and_a_conflict_its_mark() -> None:
    answers = two_jobs(8, 2)
    next(node for node in answers[0]["nodes"] if node["entity"] == "host:h1")["conflict"] = True
    root = ElementTree.fromstring(graph_picture(answers, WHEN))
    by_title = {group.findtext(f"{SVG}title", ""): group for group in root.iter(f"{SVG}g")}
    shared = next(group for title, group in by_title.items() if title.startswith("host h5;"))
    alone = next(group for title, group in by_title.items() if title.startswith("host h2;"))
    assert (len(shared.findall(f"{SVG}rect")), len(alone.findall(f"{SVG}rect"))) == (2, 1)
    assert any((text.text or "").startswith("! h1") for text in root.iter(f"{SVG}text"))


def test_alternatives_are_dashed_and_the_likeliest_is_not() -> None:
    root = ElementTree.fromstring(PICTURES["path"])
    dashed = {group.attrib["data-alternative"]: group.find(f"{SVG}path").get("stroke-dasharray")  # type: ignore[union-attr]
              for group in root.iter(f"{SVG}g") if "data-alternative" in group.attrib}  # fmt: skip
    assert dashed == {"0": None, "1": "4 4"}


def test_dark_and_light_have_every_colour() -> None:
    style = Drawing(10, 10, "x").svg()
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    assert re.findall(r"\.(?:fill|stroke)-\w+", light) == re.findall(r"\.(?:fill|stroke)-\w+", dark)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["h1"], "h1"),
        (["h10", "h2", "h1", "h3"], "h1-h3, h10"),
        (["bert-1/0", "bert-1/1", "bert-1/2"], "bert-1/0-2"),
        (["h1/eth0", "h2/eth0"], "h1/eth0, h2/eth0"),
        (["a", "b", "a"], "a, b"),
        (["n01", "n02", "n3"], "n01-n02, n3"),
        (["x9y", "x10y"], "x9y-x10y"),
        ([], ""),
    ],
)
def test_ranges(names: list[str], words: str) -> None:
    assert ranges(names) == words


def test_more_words_than_asked_for_are_counted() -> None:
    assert ranges(["a", "b", "c"], 2) == "a, b and 1 more"
    assert counted({"gpu": 1, "switch": 2, "host": 1}) == "1 GPU, 2 switches, 1 host"
    assert sorted(["h10", "h9", "2", "a"], key=natural) == ["2", "a", "h9", "h10"]


@pytest.mark.parametrize(
    ("links", "words"),
    [
        (over(1), "leaf1 > spine1 > leaf2"),
        (over(1)[::-1], "leaf2 > spine1 > leaf1"),
        (["link:a/1~b/1"], "direct"),
        ([], "-"),
        (["link:a/1~b/1", "link:c/1~d/1"], "a/1~b/1, c/1~d/1"),
        (["link:h1/e~leaf1/Ethernet1/1", "link:h2/e~leaf1/Ethernet1/2"], "leaf1"),
    ],
)
def test_paths_in_words(links: list[str], words: str) -> None:
    assert path_words(links) == words


def test_a_way_is_read_from_its_links() -> None:
    assert nodes_along(over(2)) == ["h1", "leaf1", "spine2", "leaf2", "h2"]


@pytest.mark.parametrize(
    ("share", "words"),
    [(1.0, "100 %"), (0.9996, "99.9 %"), (0.995, "99.5 %"), (0.97, "97 %"), (0.0, "0 %"), (None, "-")],
)
def test_no_probability_is_rounded_to_certainty(share: float | None, words: str) -> None:
    assert percent(share) == words


def test_labels_are_shortened_in_the_middle() -> None:
    assert shortened("short", 100) == "short"
    short = shortened("a-very-long-host-name-17", 80)
    assert text_width(short) <= 80
    assert short.startswith("a-")
    assert short.endswith("17")


def test_what_the_pictures_are_of_is_not_changed() -> None:
    answers: list[Mapping[str, Any]] = two_jobs(8, 2)  # type: ignore[assignment]
    before = repr(answers)
    graph_picture(answers, WHEN)
    assert repr(answers) == before
