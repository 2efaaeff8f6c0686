"""What is true of flows in windows: the path each took last, and its bytes over every link, from counted rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from leadline.lab.flow_truth import Way, volumes, ways

Flow = bytes  # 16, as stored
Path = tuple[str, ...]  # links, the sender's first


@dataclass(frozen=True, slots=True)
class TruePath:
    """One flow in one window. `last`: the links it crossed last; empty where the rows are not a whole path."""

    last: Path
    moved: bool  # it took another whole path earlier in the window
    sprayed: bool  # its packets took several paths at the same time


@dataclass(frozen=True, slots=True)
class Truth:
    """Everything that is known, by flow and end of the window."""

    paths: dict[tuple[Flow, int], TruePath]
    bytes_of: dict[tuple[Flow, int, str], float]  # by link too, headers included

    def crossed(self, flow: Flow, end_ns: int, link: str) -> float:
        """Bytes of a flow over a link in a window; 0 where it did not cross it."""
        return self.bytes_of.get((flow, end_ns, link), 0.0)


def truth_of(rows: pa.Table, ends_ns: Iterable[int], window_ns: int) -> Truth:
    """From the rows of a file (`leadline.lab.flow_truth.SCHEMA`), for windows that end then."""
    switches = set(rows.column("switch").unique().to_pylist())
    sprayed = set(rows.filter(rows.column("sprayed")).column("flow").unique().to_pylist())
    paths: dict[tuple[Flow, int], TruePath] = {}
    bytes_of: dict[tuple[Flow, int, str], float] = {}
    for end_ns in ends_ns:
        span = (end_ns - window_ns, end_ns)
        for flow, found in ways(rows, *span).items():
            paths[flow, end_ns] = _true_path(found, switches, flow in sprayed)
        crossed = volumes(rows, *span)
        for flow, link, size in zip(*(crossed[name].to_pylist() for name in ("flow", "link", "bytes")), strict=True):
            bytes_of[flow, end_ns, link] = size
    return Truth(paths, bytes_of)


def _true_path(found: list[Way], switches: set[str], sprayed: bool) -> TruePath:
    """Ways that end before the receiver are of packets that were lost: no path of the flow."""
    if sprayed:
        return TruePath((), False, True)
    whole = [way for way in found if _is_whole(way.links, switches)]
    if not whole:
        return TruePath((), False, False)
    last = max(whole, key=lambda way: (way.to_ns, way.bytes, way.links))
    return TruePath(last.links, len(whole) > 1, False)


def _is_whole(path: Path, switches: set[str]) -> bool:
    """Whether it goes from one host to another: its first and last link have one end at a switch, the others two."""
    at_switch = [sum(node in switches for node in _nodes(link)) for link in path]
    return len(path) >= 2 and at_switch[0] == at_switch[-1] == 1 and all(count == 2 for count in at_switch[1:-1])


def _nodes(link: str) -> list[str]:
    return [end.partition("/")[0] for end in link.removeprefix("link:").split("~")]
