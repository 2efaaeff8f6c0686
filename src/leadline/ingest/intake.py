"""What every way in hands its decoded telemetry to: limits, counts, lanes to the store.

The order is the promise: decode, check, count what is refused, put the rest into a lane; the returned future resolves
when the rows are in the store, and only then does a way in answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.ingest.config import IngestConfig
from leadline.ingest.counts import Counts
from leadline.ingest.foreign import Foreign
from leadline.ingest.known import SAVE_TIMES_EVERY_NS, KnownStreams, u128
from leadline.ingest.lanes import Lane, all_done
from leadline.ingest.limits import Room
from leadline.ingest.sources import Sender, Sources
from leadline.ingest.streams import Streams
from leadline.model.counters import Severity, accepted, counter, refused
from leadline.model.errors import BusyError, RefusedError, StoreError
from leadline.model.principal import DEFAULT_TENANT, Principal
from leadline.model.tables import Identity, Table
from leadline.model.tables.fabric import WATERMARK
from leadline.model.tables.metrics import METRIC_SAMPLE
from leadline.store import Store, arrow_table
from leadline.wire.blank import is_blank
from leadline.wire.samples import STALE_NAN_BITS, Floats, Int64s, Samples, UInt64s

log = logging.getLogger(__name__)

StoredSink = Callable[[str, str, Table, Mapping[str, object], int], None]
"""Takes (tenant, cluster, table, columns, rows); must not block and must not raise."""

B = TypeVar("B")

SAMPLE_BYTES = 32  # id, time and value of a sample that waits
COMPILING_RETRY_S = 5  # compiling takes a minute; a sender that asks every 5 s loses nothing by it
RECENT_BATCHES_MAX = 10_000  # 64 bytes each; only a short cut: the store knows a repeated row by itself


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one request: a future for the durable part, and what was refused of it and why."""

    done: Future[None]
    taken: int
    refused: Mapping[str, int] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    tables: Mapping[str, int] = field(default_factory=dict)  # rows by table, of a way in that brings several

    @property
    def wrong(self) -> int:
        """How many of the refused the sender should hear of (blank markers and the like are no fault)."""
        return sum(amount for reason, amount in self.refused.items() if refused(reason).severity is not Severity.INFO)


@dataclass(frozen=True, slots=True)
class Bodies:
    """Rows of one table that B bodies brought. `of` (N,): the number of each row's body, ascending; `batches` (B,)."""

    table: Table
    columns: Mapping[str, object] | pa.Table
    of: NDArray[np.int64]
    batches: Sequence[int]


@dataclass(frozen=True, slots=True)
class _SampleBatch:
    principal: Principal
    streams: Streams
    ids: UInt64s  # (N, 2)
    time_ns: Int64s
    value: Floats


class Intake:
    """Checks and forwards what the ways in decoded. Thread-safe; built inert, `start()` opens the lanes."""

    def __init__(
        self,
        config: IngestConfig,
        store: Store,
        counts: Counts,
        sources: Sources,
        now_ns: Callable[[], int] = time.time_ns,
        stored: StoredSink = lambda *_: None,
        provider: str = DEFAULT_TENANT,
    ) -> None:
        """`stored` hears of rows when a reader of the store sees them, of watermarks as they come. `provider`: who may
        speak of everything."""
        self.config = config
        self.counts = counts
        self.sources = sources
        self.room = Room(config.decode_bytes_max, config.bodies_per_sender_max)
        self.scanners_missing = False  # while they are compiled; whoever compiles them says so
        self._store = store
        self._stored = stored
        self.now_ns = now_ns
        self._lock = threading.Lock()
        self._known = KnownStreams(config, store, now_ns)
        self._foreign = Foreign(provider)
        self._lanes: dict[str, Lane[pa.Table]] = {}
        self._samples_lane: Lane[_SampleBatch] = self._lane("metric_sample", self._append_samples)
        self._recent: OrderedDict[tuple[str, str, str, int], None] = OrderedDict()
        self._started = False
        self.last_store_error = ""

    # -- life ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Learn the streams that the store knows and what is whose, then take telemetry."""
        self._known.restore()
        self._foreign.restore(self._store)
        self._samples_lane.start()
        self._started = True

    def stop(self) -> None:
        """Answer everything that was offered, save what is only in memory, take nothing more."""
        if not self._started:
            return
        self._started = False
        self._samples_lane.stop()
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.stop()
        try:
            self.save_streams(by_ns=0)
        except Exception as error:
            # All samples are stored or refused; what is missing is how far their streams reach, at most an hour.
            # Whatever it was, the rest of the stop goes on.
            self.counts.add(counter("store_failed", "streams"))
            log.exception("the times of streams were not saved at the stop; those stored are up to an hour old")
            self.last_store_error = str(error) or type(error).__name__

    @property
    def waiting_rows(self) -> dict[str, int]:
        """Rows accepted and not yet in the store, by table."""
        with self._lock:
            lanes = dict(self._lanes)
        return {"metric_sample": self._samples_lane.rows, **{name: lane.rows for name, lane in lanes.items()}}

    @property
    def held_s(self) -> tuple[float, str]:
        """For how long the store has had rows without an answer, and of which table; the longest."""
        with self._lock:
            lanes = dict(self._lanes)
        held = [(self._samples_lane.held_s, "metric_sample"), *((lane.held_s, name) for name, lane in lanes.items())]
        return max(held)

    @property
    def series_known(self) -> int:
        """Metric streams known, all tenants."""
        return len(self._known)

    def save_streams(self, by_ns: int = SAVE_TIMES_EVERY_NS) -> None:
        """Bring the stored times of streams up to date where they moved on by more than `by_ns`.

        Errors: StoreError, RefusedError("limit"): what was not saved is saved by the next call.
        """
        self._known.save_times(by_ns)

    # -- samples ------------------------------------------------------------------------------------------

    def require_scanners(self) -> None:
        """Errors: BusyError while the scanners are compiled: a thread that needed one would wait for all of it."""
        if self.scanners_missing:
            raise BusyError(
                "the scanners of metrics are being compiled, once on this machine; try again in 5 s",
                COMPILING_RETRY_S,
                "compiling",
            )

    def samples(self, samples: Samples, principal: Principal, sender: Sender, *, awaited: bool = True) -> Receipt:
        """Take metric samples. `awaited`: as of `Lane.offer`. Errors: BusyError if the lane is full (nothing was taken
        then)."""
        now_ns = self.now_ns()
        streams = self._known.of(principal)
        admission = streams.admit(samples, sender.way)
        tally: Tally[str] = Tally(samples.dropped)
        tally.update(admission.refused)
        messages = list(admission.messages)

        series, time_ns, value = samples.sample_series, samples.time_ns, samples.value
        keep = self._keep(streams, admission.number, samples, now_ns, tally, messages)
        if keep is not None:
            series, time_ns, value = series[keep], time_ns[keep], value[keep]

        # Before the lane has them: it stores new streams with their times. A lane that is full changes nothing of
        # this, the streams are known and wait for the retry.
        self.counts.add(accepted("series"), admission.new)
        self._not_yours(sender, now_ns, self._foreign.streams(admission.about, *_whose(principal), now_ns))
        late = streams.touch(admission.number, series, time_ns)
        done = Future[None]()
        taken = len(time_ns)
        if taken or admission.new:
            ids = samples.ids[series]
            batch = _SampleBatch(principal, streams, ids, time_ns, value)
            done = self._samples_lane.offer(batch, taken, SAMPLE_BYTES * taken, awaited)
        else:
            done.set_result(None)
        if taken:
            self._tell(done, principal, METRIC_SAMPLE, {"series": ids, "time_ns": time_ns, "value": value}, taken)
        self.counts.add(accepted("late_samples"), late)
        stale = np.count_nonzero(value.view(np.uint64) == np.uint64(STALE_NAN_BITS))
        self.counts.add(accepted("stale_markers"), int(stale))
        messages += _words_for(tally, messages)
        self._count_refused(sender, now_ns, tally, messages)
        if admission.tells:
            self.sources.tells(sender, now_ns, admission.tells)
        newest_ns = int(time_ns.max()) if taken else 0
        done.add_done_callback(self._heard(sender, samples=taken, newest_ns=newest_ns))
        return Receipt(done, taken, tally, tuple(messages))

    def _keep(
        self,
        streams: Streams,
        number: Int64s,
        samples: Samples,
        now_ns: int,
        tally: Tally[str],
        messages: list[str],
    ) -> NDArray[np.intp] | None:
        """Indices of the samples to take, or None for all of them; counts the others in `tally`.

        `number` (S,): the number of each stream, -1 if it was refused (its samples are counted already).
        """
        time_ns = samples.time_ns
        if not len(time_ns):
            return None
        oldest_ns = now_ns - self.config.age_max_s * 10**9
        latest_ns = now_ns + self.config.future_max_s * 10**9
        in_time = oldest_ns <= int(time_ns.min()) and int(time_ns.max()) <= latest_ns
        blanks = streams.blanks(number)
        if in_time and blanks is None and int(number.min()) >= 0:
            return None
        keep: NDArray[np.bool_] = number[samples.sample_series] >= 0
        if not in_time:
            keep = self._in_time(keep, time_ns, oldest_ns, latest_ns, now_ns, tally, messages)
        if blanks is not None:
            blank = keep & is_blank(blanks[samples.sample_series], samples.value)
            tally["blank_value"] += int(blank.sum())
            keep &= ~blank
        return np.flatnonzero(keep)

    def _in_time(
        self,
        keep: NDArray[np.bool_],
        time_ns: Int64s,
        oldest_ns: int,
        latest_ns: int,
        now_ns: int,
        tally: Tally[str],
        messages: list[str],
    ) -> NDArray[np.bool_]:
        old, future = keep & (time_ns < oldest_ns), keep & (time_ns > latest_ns)
        tally["too_old"] += int(old.sum())
        tally["in_future"] += int(future.sum())
        if old.any():
            age_s = (now_ns - int(time_ns[old].min())) / 1e9
            messages.append(f"a sample is {age_s:.0f} s old; at most {self.config.age_max_s} (ingest.age_max_s)")
        if future.any():
            ahead_s = (int(time_ns[future].max()) - now_ns) / 1e9
            messages.append(
                f"a sample is {ahead_s:.0f} s ahead of our clock; at most {self.config.future_max_s} "
                "(ingest.future_max_s)"
            )
        return keep & ~(old | future)

    def _append_samples(self, batches: list[_SampleBatch]) -> None:
        """One append of many requests' samples; streams that are new are stored first."""
        for key, streams in {(b.principal.tenant, b.principal.cluster): b.streams for b in batches}.items():
            self._known.append_new(*key, streams)
        batches = [batch for batch in batches if len(batch.time_ns)]
        if not batches:
            return
        rows = pa.table(
            {
                "tenant": _runs([(b.principal.tenant, len(b.time_ns)) for b in batches]),
                "cluster": _runs([(b.principal.cluster, len(b.time_ns)) for b in batches]),
                "series": u128(np.concatenate([b.ids for b in batches])),
                "time_ns": pa.array(np.concatenate([b.time_ns for b in batches])),
                "value": pa.array(np.concatenate([b.value for b in batches])),
            }
        )
        self._store.append(METRIC_SAMPLE, rows)
        self.counts.add(accepted("samples"), rows.num_rows)

    # -- rows ---------------------------------------------------------------------------------------------

    def rows(
        self,
        table: Table,
        columns: Mapping[str, object] | pa.Table,
        count: int,
        batch: int,
        principal: Principal,
        sender: Sender,
        *,
        awaited: bool = True,
    ) -> Receipt:
        """Take rows of a table other than `metric_sample`; `columns` are `table.given`, `batch` their batch id,
        `awaited` as of `Lane.offer`.

        Errors: RefusedError("too_old") if a row is older than its table is kept (it would vanish at once);
        BusyError if the lane is full. Nothing was taken then.
        """
        now_ns = self.now_ns()
        done = Future[None]()
        key = (principal.tenant, principal.cluster, table.name, batch)
        if table.identity is Identity.BATCH and self._is_recent(key):
            self.counts.add(accepted("repeated_batches"))
            done.set_result(None)
            return Receipt(done, count)
        arrow = self._complete(Bodies(table, columns, np.zeros(count, np.int64), (batch,)), principal)
        self._check_age(table, arrow, now_ns)
        if not count:
            done.set_result(None)
            return Receipt(done, 0)
        done = self._lane_of(table).offer(arrow, count, arrow.nbytes, awaited)
        self._not_yours(sender, now_ns, self._foreign.rows(table, arrow, *_whose(principal), now_ns))
        self._tell(done, principal, table, {"rows": arrow}, count)
        done.add_done_callback(self._stored_batch(key, count))
        done.add_done_callback(self._heard(sender, rows=count))
        self.sources.tells(sender, now_ns, {table.name})
        return Receipt(_noted(done), count)

    def rows_together(
        self, parts: Sequence[Bodies], principal: Principal, senders: Sequence[Sender]
    ) -> Future[None] | None:
        """Take rows that B bodies of one principal brought, each of a sender, in one append to each table.

        Returns: when all of them are stored; None where a body is out of the ordinary (out of time, sent before, of
        what is not the sender's): nothing was taken then, and each is to be taken by itself. Errors: BusyError, and a
        part may be taken.
        """
        now_ns = self.now_ns()
        whole: list[tuple[Bodies, pa.Table]] = []
        for part in parts:
            keys = [(principal.tenant, principal.cluster, part.table.name, batch) for batch in part.batches]
            if part.table.identity is Identity.BATCH and any(map(self._is_recent, keys)):
                return None
            if len(part.of) > self.config.queue_rows_max:  # what is larger than a queue is taken alone
                return None
            rows = self._complete(part, principal)
            try:
                self._check_age(part.table, rows, now_ns)
            except RefusedError:
                return None
            if self._foreign.rows(part.table, rows, *_whose(principal), now_ns):
                return None
            whole.append((part, rows))
        return all_done([self._offer_together(part, rows, principal, senders, now_ns) for part, rows in whole])

    def _offer_together(
        self, part: Bodies, rows: pa.Table, principal: Principal, senders: Sequence[Sender], now_ns: int
    ) -> Future[None]:
        table, count_B = part.table, np.bincount(part.of, minlength=len(senders)).tolist()
        done = self._lane_of(table).offer(rows, rows.num_rows, rows.nbytes, senders=len(part.batches))
        self._tell(done, principal, table, {"rows": rows}, rows.num_rows)
        for batch, sender, count in zip(part.batches, senders, count_B, strict=True):
            if count:
                self.sources.tells(sender, now_ns, {table.name})
                key = (principal.tenant, principal.cluster, table.name, batch)
                done.add_done_callback(self._stored_batch(key, count))
                done.add_done_callback(self._heard(sender, rows=count))
        return _noted(done)

    def _tell(
        self, done: Future[None], principal: Principal, table: Table, columns: Mapping[str, object], count: int
    ) -> None:
        """Once the rows are stored, that is told; at once of a sender's word on what is stored already."""
        told = (principal.tenant, principal.cluster, table, columns, count)
        if table is WATERMARK:
            self._stored(*told)
            return

        def note(done: Future[None]) -> None:
            if done.exception() is None:
                self._stored(*told)

        done.add_done_callback(note)

    def _complete(self, part: Bodies, principal: Principal) -> pa.Table:
        """Rows with all their columns: whose they are, and which of their batch."""
        given: dict[str, object] = {}
        if part.table.identity is Identity.BATCH:
            ids = np.array([[batch & 0xFFFFFFFFFFFFFFFF, batch >> 64] for batch in part.batches], np.uint64)
            first_B = np.searchsorted(part.of, np.arange(len(part.batches)))
            given["batch"] = u128(ids[part.of])
            given["batch_row"] = (np.arange(len(part.of)) - first_B[part.of]).astype(np.uint64)
        columns = part.columns
        names = columns.column_names if isinstance(columns, pa.Table) else columns
        given |= {name: columns[name] for name in names}  # numbers in the batch too, where rows of it were left out
        whose = {"tenant": principal.tenant, "cluster": principal.cluster}
        given |= {name: _runs([(text, len(part.of))]) for name, text in whose.items()}
        return arrow_table(part.table, given)

    def _check_age(self, table: Table, rows: pa.Table, now_ns: int) -> None:
        if not rows.num_rows:
            return
        ages = rows[table.aged_by].drop_null()
        oldest = int(pc.min(ages).as_py()) if len(ages) else now_ns
        if oldest < now_ns - table.keep_hours * 3600 * 10**9:
            raise RefusedError(
                "too_old",
                f"{table.name}.{table.aged_by}: {_iso(oldest)} is older than the table is kept "
                f"({table.keep_hours} h); it would be dropped at once",
                rows.num_rows,
            )
        newest = int(pc.max(rows[table.time]).as_py())
        if newest > now_ns + self.config.future_max_s * 10**9:
            raise RefusedError(
                "in_future",
                f"{table.name}.{table.time}: {_iso(newest)} is more than {self.config.future_max_s} s ahead of "
                "our clock (ingest.future_max_s)",
                rows.num_rows,
            )

    def is_repeated(self, table: Table, batch: int, principal: Principal) -> bool:
        """Whether this batch was stored not long ago: a retry whose answer was lost."""
        return self._is_recent((principal.tenant, principal.cluster, table.name, batch))

    def in_time(self, table: Table, rows: pa.Table, sender: Sender) -> pa.Table:
        """The rows that `rows` would take by their age; the others are counted as refused.

        They keep their numbers in the batch: at the retry other rows may be out of time, and these are still the same.
        """
        now_ns = self.now_ns()
        latest_ns = now_ns + self.config.future_max_s * 10**9
        old = pc.fill_null(pc.less(rows[table.aged_by], now_ns - table.keep_hours * 3600 * 10**9), False)
        ahead = pc.greater(rows[table.time], latest_ns)
        tally = {"too_old": pc.sum(old).as_py() or 0, "in_future": pc.sum(ahead).as_py() or 0}
        if not any(tally.values()):
            return rows
        kept = f"older than the table is kept ({table.keep_hours} h) or more than {self.config.future_max_s} s ahead"
        self._count_refused(sender, now_ns, tally, [f"{table.name}: {sum(tally.values())} rows are {kept}"])
        if table.identity is Identity.BATCH:
            rows = rows.append_column("batch_row", pa.array(np.arange(rows.num_rows, dtype=np.uint64)))
        return rows.filter(pc.invert(pc.or_(old, ahead)))

    def _is_recent(self, key: tuple[str, str, str, int]) -> bool:
        with self._lock:
            return key in self._recent

    def _stored_batch(self, key: tuple[str, str, str, int], count: int) -> Callable[[Future[None]], None]:
        def note(done: Future[None]) -> None:
            if done.exception() is None:
                self.counts.add(accepted("rows"), count)
                with self._lock:
                    self._recent[key] = None
                    while len(self._recent) > RECENT_BATCHES_MAX:
                        self._recent.popitem(last=False)

        return note

    # -- shared -------------------------------------------------------------------------------------------

    def refuse(self, sender: Sender, reason: str, message: str, amount: int = 1) -> None:
        """Count a request that was refused whole."""
        self.sources.refuse(sender, self.now_ns(), refused(reason), amount, message)

    def _not_yours(self, sender: Sender, now_ns: int, amount: int) -> None:
        """Count what is stored and is nobody's evidence but the sender's own."""
        if amount:
            self.sources.refuse(sender, now_ns, refused("not_yours"), amount)

    def _count_refused(self, sender: Sender, now_ns: int, tally: Mapping[str, int], messages: list[str]) -> None:
        text = "; ".join(messages[:3])
        for reason, amount in tally.items():
            if amount:
                why = refused(reason)
                self.sources.refuse(sender, now_ns, why, amount, text if why.severity is not Severity.INFO else "")

    def _heard(
        self, sender: Sender, *, samples: int = 0, rows: int = 0, newest_ns: int = 0
    ) -> Callable[[Future[None]], None]:
        def note(done: Future[None]) -> None:
            if done.exception() is None:
                self.sources.heard(sender, self.now_ns(), samples=samples, rows=rows, newest_ns=newest_ns)

        return note

    def _lane_of(self, table: Table) -> Lane[pa.Table]:
        with self._lock:
            lane = self._lanes.get(table.name)
            if lane is None and not self._started:
                raise BusyError("Leadline is stopping; send again to the one that follows", 5)
            if lane is None:

                def append(batches: list[pa.Table], table: Table = table) -> None:
                    self._store.append(table, pa.concat_tables(batches).combine_chunks())

                lane = self._lanes[table.name] = self._lane(table.name, append)
                lane.start()
            return lane

    def _lane(self, name: str, append: Callable[[list[B]], None]) -> Lane[B]:
        return Lane(
            name,
            append,
            batch_rows=self.config.batch_rows,
            linger_s=self.config.linger_s,
            queue_rows_max=self.config.queue_rows_max,
            queue_bytes_max=self.config.queue_bytes_max,
            on_failure=self._failed,
        )

    def _failed(self, error: StoreError) -> None:
        self.counts.add(counter("store_failed", "append"))
        self.last_store_error = str(error)


def _whose(principal: Principal) -> tuple[str, str]:
    return principal.tenant, principal.cluster


def _words_for(tally: Mapping[str, int], messages: list[str]) -> list[str]:
    """What each reason means, where nothing was said of what was refused: the decoder counts whole streams."""
    if messages:
        return []
    wrong = [refused(reason) for reason, amount in tally.items() if amount]
    return [f"{why.reason}: {why.doc} {why.do}" for why in wrong if why.severity is not Severity.INFO]


def _runs(runs: list[tuple[str, int]]) -> pa.DictionaryArray:
    """A dictionary array of texts, each repeated; (text, times)."""
    words = sorted({text for text, _ in runs})
    codes = np.repeat([words.index(text) for text, _ in runs], [times for _, times in runs]).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words, pa.string()))


def _iso(time_ns: int) -> str:
    """UTC text of a time; the number itself where it is out of the calendar."""
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{time_ns} ns"


def _noted(stored: Future[None]) -> Future[None]:
    """Done with an append, and after the calls that it was asked for before: who waits for the append itself may go on
    before these, and a retry would not be known as one."""
    done: Future[None] = Future()

    def copy(stored: Future[None]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        error = stored.exception()
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    stored.add_done_callback(copy)
    return done
