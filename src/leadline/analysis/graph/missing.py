"""What no source tells of the things that somebody stands on, in sentences."""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Ints
from leadline.analysis.graph.depends import KIND, KINDS
from leadline.analysis.graph.fold import Owners
from leadline.analysis.graph.walk import Around
from leadline.model.ids import kind_of

NAMED_MAX = 3  # of the things that miss something, so many are named


def missing(found: Around, owner: Owners, entity: str, traced_any: bool, unknown: tuple[str, ...]) -> tuple[str, ...]:
    """Sentences on what lacks below a thing, in the order of the layers.

    Inputs: `traced_any`, whether paths above the leaves are known; `unknown`, links of paths that nobody told of.
    """
    out = []
    if kind_of(entity) == "job" and not _below(found, "rank").size and not _below(found, "host").size:
        out.append(f"no source reports a rank of {entity} at this time")
    for kind, on, words in (
        ("rank", ("gpu",), "no source says which GPU it runs on"),
        ("rank", ("host", "gpu", "pod"), "no source says where it runs"),
        ("gpu", ("host",), "no source says which host it is in"),
        ("host", ("port",), "no source reports its ports"),
        ("port", ("port", "swport"), "no source says what it is linked to"),
    ):
        out += _told(found, _lacking(found, kind, on), words)
    linked = _ports_above(found)
    out += _told(found, linked[owner.of(linked) == linked], "no source says which switch it is in")
    if len(linked) and not traced_any:
        out.append("no path is traced above the leaves")
    if unknown:
        named = ", ".join(unknown[:NAMED_MAX])
        out.append(f"{len(unknown)} links of traced paths are reported by no source at this time ({named})")
    return tuple(out)


def _below(found: Around, kind: str) -> Ints:
    return np.flatnonzero(found.below & (found.kind_M == KIND[kind]))


def _lacking(found: Around, kind: str, on: tuple[str, ...]) -> Ints:
    """Things of a kind that stand on nothing of some others."""
    net = found.arrows
    has = np.zeros(len(found.kind_M), bool)
    has[net.upper_E[np.isin(KINDS, on)[found.kind_M[net.lower_E]]]] = True
    return np.flatnonzero(found.below & (found.kind_M == KIND[kind]) & ~has)


def _ports_above(found: Around) -> Ints:
    """Switch ports that hosts below are linked to."""
    net = found.arrows
    own = net.link_E & net.down_E & found.used_E & found.below[net.upper_E]
    return np.unique(net.lower_E[own & (found.kind_M[net.lower_E] == KIND["swport"])])


def _told(found: Around, lacking: Ints, words: str) -> list[str]:
    if not len(lacking):
        return []
    named = sorted(found.texts[number] for number in lacking.tolist())
    if len(named) == 1:
        return [f"{named[0]}: {words}"]
    more = ", ..." if len(named) > NAMED_MAX else ""
    return [f"{len(named)} of kind {kind_of(named[0])} ({', '.join(named[:NAMED_MAX])}{more}): {words}"]
