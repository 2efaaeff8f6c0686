"""Ids of entities are cut by `EntityId` and its functions, nowhere by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.model.ids import ENTITY_KINDS, EntityId, kind_of, name_of

SRC = Path(__file__).resolve().parents[2] / "src" / "leadline"
_PREFIX = re.compile(rf"({'|'.join(ENTITY_KINDS)}):")
OTHER_FORMATS = {
    "model/ids.py": "where ids are cut",
    "model/principal.py": "a role and a name",
    "cli/verbs.py": "a module and a name in it",
    "runner/worker.py": "a module and a name in it",
    "ingest/grpc_server.py": "gRPC's address of a peer",
    "host/sources": "files of the kernel",
    "lab/telemetry/node_pages.py": "PCI addresses and files of the kernel",
    "lab/faults/hardware/wrong_gid.py": "a MAC address",
    "store/bundle_names.py": "addresses of several formats",
    "wire/kernel_log/events.py": "a PCI address",
    "wire/ring/segments.py": "texts of an agent, which may be ids",
    "analysis/graph/near.py": "what a person wrote, maybe without a kind",
}


def cuts(text: str) -> Iterator[int]:
    """Lines of a module that take an id of an entity apart."""
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        first, name = node.args[0], node.func.attr
        given = [each.value for each in ast.walk(first) if isinstance(each, ast.Constant)]
        texts = [each for each in given if isinstance(each, str)]
        by_colon = name in ("partition", "split") and texts == [":"]
        by_kind = name == "startswith" and any(_PREFIX.match(each) for each in texts)
        inner = node.func.value
        chained = (
            name in ("partition", "rpartition", "split")
            and isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr == "removeprefix"
            and any(isinstance(each, ast.Constant) and _PREFIX.fullmatch(str(each.value)) for each in inner.args)
        )
        if by_colon or by_kind or chained:
            yield node.lineno


def test_no_id_is_cut_by_hand() -> None:
    found = []
    for path in sorted(SRC.rglob("*.py")):
        name = path.relative_to(SRC).as_posix()
        if not any(name == other or name.startswith(f"{other}/") for other in OTHER_FORMATS):
            found += [f"{name}:{line}" for line in cuts(path.read_text())]
    assert found == [], "use leadline.model.ids: EntityId.of(text), kind_of, name_of"


def test_each_exception_is_needed() -> None:
    for name in OTHER_FORMATS:
        path = SRC / name
        files = path.rglob("*.py") if path.is_dir() else [path]
        assert any(list(cuts(each.read_text())) for each in files), f"{name} cuts nothing any more"


@pytest.mark.parametrize(
    "line",
    [
        'entity.partition(":")[0]', 'entity.startswith("rank:")', 'entity.startswith(("gpu:", "host:"))',
        'entity.startswith(f"rank:{job}/")', 'link.removeprefix("link:").split("~")',
    ],
)  # fmt: skip
def test_the_search_is_awake(line: str) -> None:
    assert list(cuts(line)) == [1]


@pytest.mark.parametrize(
    ("text", "kind", "name", "holder", "part", "job", "host", "switch"),
    [
        ("rank:team/bert/3", "rank", "team/bert/3", "team/bert", "3", "team/bert", "", ""),
        ("job:bert", "job", "bert", "", "bert", "bert", "", ""),
        ("comm:bert/0x9c", "comm", "bert/0x9c", "bert", "0x9c", "bert", "", ""),
        ("port:h3/eth0", "port", "h3/eth0", "h3", "eth0", "", "h3", ""),
        ("host:h3", "host", "h3", "", "h3", "", "h3", ""),
        ("process:h3/811", "process", "h3/811", "h3", "811", "", "h3", ""),
        ("swport:leaf1/E1", "swport", "leaf1/E1", "leaf1", "E1", "", "", "leaf1"),
        ("switch:leaf1", "switch", "leaf1", "", "leaf1", "", "", "leaf1"),
        ("bert", "", "", "", "", "", "", ""),
        ("", "", "", "", "", "", "", ""),
    ],
)
def test_parts_of_ids(
    text: str, kind: str, name: str, holder: str, part: str, job: str, host: str, switch: str
) -> None:
    found = EntityId.of(text)
    assert (found.kind, found.name, found.holder, found.part) == (kind, name, holder, part)
    assert (found.job, found.host, found.switch) == (job, host, switch)
    assert (kind_of(text), name_of(text)) == (kind, name)


def test_ends_of_a_link() -> None:
    assert EntityId.of("link:h3/eth0~leaf1/E3").ends == ("h3/eth0", "leaf1/E3")
    assert EntityId.of("link:h3/eth0").ends == ("h3/eth0", "")
    assert EntityId.of("port:h3/eth0").ends == ("", "")
