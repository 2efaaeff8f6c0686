"""Entity ids, and the hashes that name series and flows."""

from __future__ import annotations

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.errors import UsageError
from leadline.model.ids import (
    ENTITY_KINDS,
    EntityId,
    canonical_labels,
    entity_id,
    flow_id,
    link_id,
    murmur3_128,
    parse_entity_id,
    series_id,
)

LABELS = st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=200), max_size=6)


@given(st.binary(max_size=100))
def test_murmur_is_the_published_hash(data: bytes) -> None:
    assert murmur3_128(data) == int.from_bytes(mmh3.hash_bytes(data), "little")


@given(LABELS)
def test_series_id_ignores_order_and_empty_labels(labels: dict[str, str]) -> None:
    backwards = list(reversed(labels.items()))
    assert series_id(labels) == series_id(backwards) == series_id({**labels, "empty": ""})


@given(LABELS, LABELS)
def test_different_labels_give_different_bytes(one: dict[str, str], other: dict[str, str]) -> None:
    same = {k: v for k, v in one.items() if v} == {k: v for k, v in other.items() if v}
    assert (canonical_labels(one) == canonical_labels(other)) is same


@given(LABELS, LABELS, st.text(min_size=1), st.text(min_size=1))
def test_streams_of_one_metric_lie_together(
    one: dict[str, str], other: dict[str, str], name: str, another: str
) -> None:
    of_name = murmur3_128(name.encode()) & 0xFFFFFFFF
    first, second = (series_id({**labels, "__name__": name}) for labels in (one, other))
    assert first >> 96 == second >> 96 == of_name
    whole = murmur3_128(canonical_labels({**one, "__name__": name}))
    assert first & ((1 << 96) - 1) == whole & ((1 << 96) - 1)
    if name != another:
        assert series_id({**one, "__name__": another}) != first


def test_canonical_bytes_are_those_of_prometheus() -> None:
    # WriteRequest.timeseries.labels {name: "a", value: "b"} as its protobuf encoder writes it
    assert canonical_labels({"a": "b"}) == bytes.fromhex("0a06 0a0161 120162")
    assert canonical_labels({"a": "x" * 200})[:9] == bytes.fromhex("0ace01 0a0161 12c801")


@given(st.sampled_from(ENTITY_KINDS), st.text(min_size=1))
def test_entity_ids_come_back(kind: str, name: str) -> None:
    assert parse_entity_id(entity_id(kind, name)) == (kind, name)


@pytest.mark.parametrize("text", ["", "n12", "host:", "planet:earth", ":n12"])
def test_what_is_no_entity_id(text: str) -> None:
    with pytest.raises(UsageError, match="kind:name"):
        parse_entity_id(text)


def test_entity_id_refuses_nameless() -> None:
    with pytest.raises(UsageError, match="not empty"):
        entity_id("port", "n12", "")
    with pytest.raises(UsageError, match="entity kind"):
        entity_id("planet", "earth")


def test_a_link_has_one_id_from_both_ends() -> None:
    ends = ("swport:spine1/Ethernet3", "swport:leaf3/Ethernet12")
    assert link_id(*ends) == link_id(*reversed(ends)) == "link:leaf3/Ethernet12~spine1/Ethernet3"


def test_flow_ids() -> None:
    flow = flow_id(17, "10.0.0.1", "10.0.0.2", 49152, 4791, 77)
    assert flow == flow_id(17, "::ffff:10.0.0.1", "::ffff:10.0.0.2", 49152, 4791, 77)
    assert flow != flow_id(17, "10.0.0.2", "10.0.0.1", 49152, 4791, 77), "flows are directional"
    assert flow_id(6, "10.0.0.1", "10.0.0.2", 1, 2) == flow_id(6, "10.0.0.1", "10.0.0.2", 1, 2, 0)


@pytest.mark.parametrize(
    ("text", "holder", "part"),
    [
        ("port:h3/eth0", "h3", "eth0"),
        ("swport:leaf1/Ethernet1/1", "leaf1", "Ethernet1/1"),
        ("rank:team/bert-7/12", "team/bert-7", "12"),
        ("comm:bert-7/0x9c", "bert-7", "0x9c"),
        ("host:h3", "", "h3"),
        ("nonsense", "", ""),
    ],
)
def test_a_name_is_parted_at_its_first_slash_that_of_a_rank_at_its_last(text: str, holder: str, part: str) -> None:
    assert (EntityId.of(text).holder, EntityId.of(text).part) == (holder, part)
