"""What somebody may have meant who names an entity that is not there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Ints
from leadline.analysis.graph.depends import KIND, KINDS, UNKNOWN_KIND
from leadline.analysis.graph.graph import Graph
from leadline.analysis.graph.rows import distinct
from leadline.analysis.graph.walk import tenant_numbers
from leadline.model.ids import name_of

NEAR_MAX = 3
COMPARED_MAX = 2000  # names, at some 10 us each; of more, those that begin alike
ALIKE = 3  # letters


def near(graph: Graph, entity: str, tenants: Iterable[str] | None = None) -> tuple[str, ...]:
    """Entities that are nearly called so, the nearest first: of another kind by that name, or of the same kind.

    `entity` may lack its kind. Only those that `tenants` (None: anybody) tell of.
    """
    kind, colon, name = entity.partition(":")
    if not colon:
        kind, name = "", entity
    told = _told(graph, tenants)
    numbers = graph.names.numbers(pa.array([f"{each}:{name}" for each in KINDS[:-1] if each != kind], pa.string()))
    out = graph.names.take(numbers[np.isin(numbers, told)])
    wanted = KIND.get(kind, UNKNOWN_KIND)
    same_kind = told[graph.kinds(told) == wanted] if kind in KINDS[:-1] else told
    texts = graph.names.texts.take(pa.array(same_kind[same_kind < len(graph.names.texts)]))
    later = [graph.names.text(number) for number in same_kind[same_kind >= len(graph.names.texts)].tolist()]
    choice = _alike(pa.concat_arrays([texts, pa.array(later, pa.string())]), entity if colon else f":{name}")
    named = {name_of(each): each for each in choice}
    out += [named[each] for each in get_close_matches(name, named, NEAR_MAX)]
    return tuple(dict.fromkeys(out))[:NEAR_MAX]


def _told(graph: Graph, tenants: Iterable[str] | None) -> Ints:
    """Numbers of all names that some tenants tell of."""
    rows = graph.rows()
    wanted = tenant_numbers(graph, tenants)
    if wanted is not None:
        rows = rows.take(np.isin(rows.tenant, wanted))
    told = np.zeros(len(graph.names), bool)
    told[rows.child], told[rows.parent] = True, True
    return distinct(np.flatnonzero(told))


def _alike(texts: pa.StringArray, entity: str) -> list[str]:
    if len(texts) > COMPARED_MAX:
        begin = entity[: entity.index(":") + 1 + ALIKE]
        texts = texts.filter(pc.match_substring(texts, begin))
    return texts[:COMPARED_MAX].to_pylist()  # type: ignore[no-any-return]
