"""The names of all entities, in memory, so that a search costs milliseconds however many series are stored.

    relation, series, step ──(once, then behind the answers)──> names in order ──> find("leaf1")

Reading them takes half a second for the 300,000 entities of a million series, so nobody waits for it but the first:
an answer uses what was read last, and a thread reads again when rows came since.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.model.ids import EntityId
from leadline.model.principal import OPERATE
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.metrics import SERIES
from leadline.model.tables.training import STEP
from leadline.store import Store
from leadline.store.asking.behind import Behind
from leadline.views.asked import Asked
from leadline.views.search.match import KINDS, Item

ENTITIES_MAX = 2_000_000  # read at most: ids of 30 bytes kept twice, 120 MB
AGAIN_S = 2.0  # the earliest that names are read again: somebody types for so long
SHARE_MAX = (
    0.2  # of the time that may be spent reading names: what took 0.5 s is read again after 2.5 s at the earliest
)
AGAIN_S_MAX = 30.0  # but after this, however long it took: a name of a minute ago must be found
SOURCES = (RELATION.name, SERIES.name, STEP.name)
_LEFT_OUT = ("flow", "qp", "tenant", "cluster")  # nobody types them, and flows are most of all names

# What an entity's id says that it belongs to: the switch of a port, the host, the address of a queue pair. Not
# everything is told by itself: sFlow names ports of switches only.
_HOLDER = """multiIf(
    startsWith(told, 'swport:'), concat('switch:', splitByChar('/', substring(told, 8))[1]),
    startsWith(told, 'port:'), concat('host:', splitByChar('/', substring(told, 6))[1]),
    startsWith(told, 'qp:'), concat('address:', splitByChar('/', substring(told, 4))[1]),
    '')"""

_SQL = f"""
SELECT DISTINCT tenant, cluster, arrayJoin([told, {_HOLDER}]) AS entity FROM (
    SELECT DISTINCT toString(tenant) AS tenant, toString(cluster) AS cluster,
        toString(arrayJoin([child, parent])) AS told FROM leadline.{RELATION.name}
    UNION ALL
    SELECT DISTINCT toString(tenant), toString(cluster), toString(entity) FROM leadline.{SERIES.name}
    UNION ALL
    SELECT toString(tenant), toString(cluster), arrayJoin([concat('job:', toString(job)),
        concat('rank:', toString(job), '/', toString(rank)), concat('host:', toString(host))]) FROM
        (SELECT tenant, cluster, job, rank, any(host) AS host FROM leadline.{STEP.name}
        GROUP BY tenant, cluster, job, rank)
) WHERE position(entity, ':') > 0
AND substring(entity, 1, position(entity, ':') - 1) NOT IN {{left_out:Array(String)}}
LIMIT {ENTITIES_MAX} SETTINGS final = 0
"""


@dataclass(frozen=True, slots=True)
class Entities:
    """Ids of E entities, in the order of their kinds, the shorter ones first."""

    id_E: pa.StringArray
    low_E: pa.StringArray  # in small letters
    bare_E: pa.StringArray  # in small letters, without the kind
    kind_E: NDArray[np.int64]  # place in KINDS; len(KINDS): another
    tenant_E: pa.DictionaryArray
    cluster_E: pa.DictionaryArray
    first_E: NDArray[np.bool_]  # not the same as the one before, of another tenant

    @property
    def clusters(self) -> int:
        """How many clusters they are of."""
        return len(self.cluster_E.dictionary)

    def find(self, asked: Asked, words: Sequence[str], limit: int) -> tuple[list[Item], Mapping[str, int]]:
        """Entities with every word in their id, of each kind those that fit best and are shortest; and how many there
        are by kind. A few more than `limit` of each kind, so that whoever asked may rank them."""
        mask = self._may_see(asked)
        for word in words:
            mask &= _bools(pc.match_substring(self.low_E, word))
        at_N = np.flatnonzero(mask)
        kind_N = self.kind_E[at_N]
        bare_N = self.bare_E.take(pa.array(at_N))
        begins_N = np.zeros(len(at_N), bool)
        for word in words:
            begins_N |= _bools(pc.starts_with(bare_N, word))
        best_N = np.lexsort((at_N, ~begins_N, kind_N))
        kinds_N = kind_N[best_N]
        starts = np.searchsorted(kinds_N, np.arange(len(KINDS) + 2))
        some = [best_N[begin : min(end, begin + 4 * limit)] for begin, end in pairwise(starts)]
        totals = {kind: int(starts[place + 1] - starts[place]) for place, kind in enumerate(KINDS)}
        chosen = at_N[np.concatenate(some)] if some else at_N[:0]
        return [self._item(int(at)) for at in chosen], {kind: count for kind, count in totals.items() if count}

    def _may_see(self, asked: Asked) -> NDArray[np.bool_]:
        operator = asked.principal.may(OPERATE)
        mask = self.first_E.copy() if operator else _is(self.tenant_E, asked.principal.tenant)
        return mask & _is(self.cluster_E, asked.cluster) if asked.cluster else mask

    def _item(self, at: int) -> Item:
        entity = EntityId.of(self.id_E[at].as_py())
        cluster = self.cluster_E[at].as_py() if self.clusters > 1 else ""
        return Item(entity.kind, entity.name, entity.name, cluster=cluster)


def _bools(mask: Any) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = mask.to_numpy(zero_copy_only=False)
    return found


def _is(names_E: pa.DictionaryArray, name: str) -> NDArray[np.bool_]:
    place = names_E.dictionary.index(name).as_py()
    found: NDArray[np.bool_] = names_E.indices.to_numpy() == place  # -1, of a name that there is not, is no index
    return found


def entities_of(rows: pa.Table) -> Entities:
    """Entities from rows of tenant, cluster and entity, each once."""
    whole = rows.column("entity").combine_chunks()
    kind = pc.list_element(pc.split_pattern(whole, ":", max_splits=1), 0) if len(whole) else whole
    place = pc.fill_null(pc.index_in(kind, pa.array(KINDS)), len(KINDS))
    table = rows.append_column("place", place).append_column("size", pc.binary_length(whole))
    keys = [(name, "ascending") for name in ("place", "size", "entity", "cluster", "tenant")]
    table = table.sort_by(keys).combine_chunks()
    id_E, cluster_E, tenant_E = (_one(table, name) for name in ("entity", "cluster", "tenant"))
    first_E = np.ones(len(id_E), bool)
    if len(id_E) > 1:
        first_E[1:] = _bools(pc.or_(pc.not_equal(id_E[1:], id_E[:-1]), pc.not_equal(cluster_E[1:], cluster_E[:-1])))
    low_E = pc.utf8_lower(id_E)
    bare_E = pc.replace_substring_regex(low_E, "^[^:]*:", "")
    return Entities(
        id_E, low_E, bare_E, _one(table, "place").to_numpy(), tenant_E.dictionary_encode(),
        cluster_E.dictionary_encode(), first_E,
    )  # fmt: skip


def _one(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


class Known:
    """The entities of a store, read when somebody searches. Thread-safe."""

    def __init__(self, store: Store, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Inert."""
        self._store, self._clock_s = store, clock_s
        self._held: Behind[Entities] = Behind("search", clock_s)
        self._version: tuple[int, ...] = ()
        self._again_s = 0.0  # not read again before

    def entities(self) -> Entities:
        """Those that are known, without those of the last seconds. Errors: StoreError if none could be read yet."""
        held = self._held.value
        if held is None:
            held = self._held.told(self._read).value
            assert held is not None, "a reading that was waited for has a value, or raised"
        elif self._clock_s() >= self._again_s and self._version != self._stored():
            self._held.begin(self._read)
        return held

    def _stored(self) -> tuple[int, ...]:
        return tuple(self._store.written(table) for table in SOURCES)

    def _read(self) -> Entities:
        version, begin_s = self._stored(), self._clock_s()
        try:
            held = entities_of(self._store.query(_SQL, {"left_out": list(_LEFT_OUT)}))
            self._version = version
        finally:
            took_s = self._clock_s() - begin_s
            self._again_s = self._clock_s() + min(max(AGAIN_S, took_s / SHARE_MAX), AGAIN_S_MAX)
        return held
