"""What a host tells beside samples, as NDJSON rows: `event`, `relation`, `flow_sent`, `edge_fit`, `watermark`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from leadline.host.found import EdgeFit, Event, FlowSent, ProbeHop, Watermark
from leadline.model.ids import parse_entity_id

CONTENT_TYPE = "application/x-ndjson"


class Relation(NamedTuple):
    """A row of `relation`: an edge since when, until when, as whom told."""

    child: str
    parent: str
    kind: str
    from_ns: int
    to_ns: int | None
    source: str


def event_rows(events: Iterable[Event], host: str, clock: str) -> bytes:
    """Rows of `event`."""
    return b"".join(
        _line(
            {
                "host": host,
                "clock": clock,
                "time_ns": event.time_ns,
                "entity_kind": parse_entity_id(event.entity).kind if event.entity else "",
                "entity": event.entity,
                "kind": event.kind,
                "severity": event.severity,
                "code": event.code,
                "message": event.message,
                "attributes": event.attributes,
                "source": event.source,
            }
        )
        for event in events
    )


def relation_rows(relations: Iterable[Relation]) -> bytes:
    """Rows of `relation`. What the agent tells it has read off, so the confidence is 1."""
    return b"".join(_line({**each._asdict(), "confidence": 1.0}) for each in relations)


def flow_rows(flows: Iterable[FlowSent], host: str, clock: str) -> bytes:
    """Rows of `flow_sent`."""
    return b"".join(
        _line({"host": host, "clock": clock, **each._asdict(), "flow": f"{each.flow:032x}"}) for each in flows
    )


def probe_rows(found: Iterable[EdgeFit | ProbeHop], host: str, clock: str) -> bytes:
    """Rows of `edge_fit`, or of `probe_hop`."""
    lines = []
    for each in found:
        row = {"host": host, "clock": clock, **each._asdict()}
        row["class"] = row.pop("dscp")
        lines.append(_line(row))
    return b"".join(lines)


def watermark_rows(watermarks: Iterable[Watermark], host: str, clock: str) -> bytes:
    """Rows of `watermark`."""
    return b"".join(_line({"host": host, "clock": clock, **each._asdict()}) for each in watermarks)


def _line(row: dict[str, object]) -> bytes:
    # Not ASCII only: a lone surrogate (a name that is no UTF-8) would go through as an escape and be refused there.
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
