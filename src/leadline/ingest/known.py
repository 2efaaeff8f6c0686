"""The streams of all tenants, and their rows in the table `series`: read at the start, stored before their samples,
brought up to date later."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from leadline.ingest.config import IngestConfig
from leadline.ingest.streams import Streams
from leadline.ingest.told import SUFFIXES
from leadline.model.errors import RefusedError
from leadline.model.principal import Principal
from leadline.model.tables.metrics import SERIES
from leadline.model.units import canonical_unit
from leadline.store import Store, arrow_schema, arrow_table
from leadline.wire.blank import BELOW_ZERO, Blank
from leadline.wire.samples import UInt64s

log = logging.getLogger(__name__)

SAVE_TIMES_EVERY_NS = 3600 * 10**9  # `series.last_ns` is written at most this often
TENANTS_MAX = 10_000  # pairs of tenant and cluster; each takes 100 kB once it has sent a sample

# Rows of streams that are read and written back at a time. The labels come along, since a row is replaced as a whole:
# of 1,000 streams with the most labels that are taken (64 of 4 KiB) these are 256 MiB, far below what a query of ours
# may take (store.load_bytes_max, 8 GiB); of usual ones 0.3 MB, so the next slice is as large as SLICE_BYTES allow.
SLICE_FIRST = 1_000
SLICE_MAX = 50_000
SLICE_BYTES = 32 << 20

_ALL = ", ".join(column.name for column in SERIES.columns)
_OF_ONE = f"SELECT {_ALL} FROM leadline.series WHERE tenant = {{tenant:String}} AND cluster = {{cluster:String}}"
_SLICE = _OF_ONE + " AND series >= {first:UInt128} AND series <= {last:UInt128}"

# `blank_of`, as the engine says it: a million names stay where they are.
_BLANK = (
    f"multiIf(startsWith(name, 'DCGM_'), {Blank.DCGM:d}, "
    f"name IN ({', '.join(repr(each) for each in BELOW_ZERO)}), {Blank.BELOW_ZERO:d}, 0)"
)


class KnownStreams:
    """Streams by tenant and cluster. Thread-safe."""

    def __init__(self, config: IngestConfig, store: Store, now_ns: Callable[[], int]) -> None:
        self._config = config
        self._store = store
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._rewriting = threading.Lock()  # who reads stored series rows to write them back, changed
        self._streams: dict[tuple[str, str], Streams] = {}

    def __len__(self) -> int:
        return sum(len(streams) for streams in list(self._streams.values()))

    def of(self, principal: Principal) -> Streams:
        """The streams of a tenant and cluster. Errors: RefusedError("tenant_limit")."""
        key = (principal.tenant, principal.cluster)
        streams = self._streams.get(key)
        if streams is None:
            with self._lock:
                if len(self._streams) >= TENANTS_MAX and key not in self._streams:
                    raise RefusedError(
                        "tenant_limit", f"{TENANTS_MAX} pairs of tenant and cluster send already; {key} is refused"
                    )
                streams = self._streams.setdefault(key, Streams(self._config, self._left))
        return streams

    def _left(self) -> int:
        """How many more streams may become known. Who join at the same moment may be some more than that."""
        return self._config.series_all_max - len(self)

    def restore(self) -> None:
        """Learn the streams that the store knows. Errors: StoreError."""
        found = self._store.query(
            f"SELECT tenant, cluster, series, first_ns, last_ns, {_BLANK} AS blank "
            "FROM leadline.series ORDER BY tenant, cluster"
        )
        if not found.num_rows:
            return
        tenants, clusters = found["tenant"].to_pylist(), found["cluster"].to_pylist()
        begin = 0
        for end in range(1, found.num_rows + 1):
            here = (tenants[begin], clusters[begin])
            if end < found.num_rows and (tenants[end], clusters[end]) == here:
                continue
            part = found.slice(begin, end - begin)
            self.of(Principal(*here)).restore(
                ids_of(part["series"]),
                part["first_ns"].to_numpy(),
                part["last_ns"].to_numpy(),
                part["blank"].to_numpy().astype(np.uint8),
            )
            begin = end

    def append_new(self, tenant: str, cluster: str, streams: Streams) -> None:
        """Store the rows of streams that are new, or that somebody has told more about. Errors: StoreError."""
        self._append_unsaved(tenant, cluster, streams)
        try:
            self._append_told(tenant, cluster, streams)
        except RefusedError as error:
            # What a name means can wait, samples cannot: they are stored now, the names are tried with the next ones.
            log.warning("types and units of streams could not be stored yet: %s", error)

    def _append_unsaved(self, tenant: str, cluster: str, streams: Streams) -> None:
        rows, first_ns, last_ns = streams.unsaved()
        if not rows:
            return
        seen_first_ns, seen_last_ns = first_ns, last_ns
        # A stream whose samples were all refused has been seen, but at no time that we keep.
        last_ns = np.where(last_ns == 0, self._now_ns(), last_ns)
        first_ns = np.minimum(first_ns, last_ns)
        table = arrow_table(
            SERIES,
            {
                "tenant": [tenant] * len(rows),
                "cluster": [cluster] * len(rows),
                "series": u128(np.array([(row.id_low, row.id_high) for row in rows], np.uint64)),
                "name": [row.name for row in rows],
                "entity_kind": [row.mapped.entity_kind for row in rows],
                "entity": [row.mapped.entity for row in rows],
                "unit": [row.unit for row in rows],
                "labels": [row.labels for row in rows],
                "first_ns": first_ns,
                "last_ns": last_ns,
                "type": [row.type for row in rows],
                "host": [row.mapped.host for row in rows],
                "source": [row.source for row in rows],
            },
        )
        self._store.append(SERIES, table)
        streams.saved(rows, seen_first_ns, seen_last_ns)

    def _append_told(self, tenant: str, cluster: str, streams: Streams) -> None:
        """Type and unit for streams that were stored before anybody told them; seldom, as names are told once."""
        news = streams.told.news()
        if not news:
            return
        names = [name + suffix for name in news for suffix in ("", *SUFFIXES)]
        with self._rewriting:
            rows = self._store.query(
                _OF_ONE + " AND type IS NULL AND name IN {names:Array(String)}",
                {"tenant": tenant, "cluster": cluster, "names": names},
            )
            if rows.num_rows:
                told = [streams.told.about(name) for name in rows["name"].to_pylist()]
                units = [
                    canonical_unit(each.unit) if each.unit else unit
                    for each, unit in zip(told, rows["unit"].to_pylist(), strict=True)
                ]
                for name, values in (("type", [each.type or None for each in told]), ("unit", units)):
                    rows = rows.set_column(rows.column_names.index(name), name, pa.array(values, pa.string()))
                self._store.append(SERIES, rows.combine_chunks().cast(arrow_schema(SERIES)))
        streams.told.used(news)

    def save_times(self, by_ns: int) -> None:
        """Bring `series.first_ns` and `last_ns` up to date where a stream moved on by more than `by_ns`.

        Errors: StoreError, RefusedError("limit"); what was not saved is saved by the next call.
        """
        for (tenant, cluster), streams in list(self._streams.items()):
            if streams.moved(by_ns):
                with self._rewriting:
                    self._save_times(tenant, cluster, streams)

    def _save_times(self, tenant: str, cluster: str, streams: Streams) -> None:
        """The same of one tenant and cluster, a slice of its streams at a time, in the order in which they lie."""
        ids, moved_S = streams.in_order()
        begin, size = 0, SLICE_FIRST
        while begin < len(ids):
            end = min(begin + size, len(ids))
            if moved_S[begin:end].any():
                rows = self._save_slice({"tenant": tenant, "cluster": cluster}, streams, ids[begin:end])
                if rows.num_rows:
                    size = min(max(SLICE_FIRST, SLICE_BYTES * rows.num_rows // max(1, rows.nbytes)), SLICE_MAX)
            begin = end

    def _save_slice(self, whose: dict[str, str], streams: Streams, ids: UInt64s) -> pa.Table:
        """Write the rows of these streams anew with the times that are known. Returns: the rows as they were."""
        bounds = {"first": ids[0].tobytes(), "last": ids[-1].tobytes()}
        stored = self._store.query(_SLICE, whose | bounds)
        if not stored.num_rows:
            return stored
        held, first_ns, last_ns = streams.times(ids_of(stored["series"]))
        rows = stored.filter(pa.array(held))
        for name, times in (("first_ns", first_ns), ("last_ns", last_ns)):
            rows = rows.set_column(rows.column_names.index(name), name, pa.array(times))
        try:
            self._store.append(SERIES, rows.combine_chunks().cast(arrow_schema(SERIES)))
        except Exception:
            streams.unsave()
            raise
        return stored


def u128(ids: UInt64s) -> pa.FixedSizeBinaryArray:
    """(N, 2) low and high halves as 16 little-endian bytes each."""
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), len(ids), [None, pa.py_buffer(np.ascontiguousarray(ids))]
    )


def ids_of(column: pa.ChunkedArray) -> UInt64s:
    """The (N, 2) halves of a column of 16-byte ids."""
    return np.frombuffer(b"".join(column.to_pylist()), np.uint64).reshape(-1, 2)
