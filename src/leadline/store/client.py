"""The store: append Arrow tables, query to Arrow, on an embedded ClickHouse or a server.

    append(table, rows) -> writers (optimize_on_insert = 0) --\\
    query(sql)          -> readers (final = 1) ---------------- ClickHouse: chDB in this process, or HTTP
    query_as(who, sql)  -> guard -> readers (readonly = 1) ---/

An append returns when the rows survive `kill -9` of the process: the part is renamed into place before the
engine answers (with `fsync`, when the disk has confirmed it). Appending the same rows again is harmless, see
docs/adr/0002-identity-in-the-store.md; so whoever is not sure of an append repeats it.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from leadline.model.errors import BusyError, LeadlineError, RefusedError, StoreError, UsageError
from leadline.model.principal import OPERATE, READ, Principal
from leadline.model.tables import TABLES, Table, renamed_column
from leadline.store.asking.process import GuardProcess
from leadline.store.asking.turns import Turns
from leadline.store.config import Limits, StoreConfig
from leadline.store.connect import Pool, connect, error_code, first_line, insert, place
from leadline.store.disk.appended import AddedParts
from leadline.store.disk.definitions import Definitions
from leadline.store.disk.parts import UNREADABLE
from leadline.store.facts import TableFacts, facts_of, parts_sql, spans_sql
from leadline.store.opening import directories, open_schema
from leadline.store.owner import Owner
from leadline.store.parameters import bound_parameters
from leadline.store.rollup import Rollup
from leadline.store.schema import DATABASE, OVERRULES, Layout, checked_rows, quoted

# ClickHouse's numbers of NO_SUCH_DATA_PART, UNKNOWN_TABLE, TABLE_ALREADY_EXISTS.
_NO_SUCH_PART, _UNKNOWN_TABLE, _TABLE_EXISTS = 232, 60, 57

# ClickHouse's numbers of the errors that mean "over a limit": TOO_MANY_ROWS, TIMEOUT_EXCEEDED,
# MEMORY_LIMIT_EXCEEDED, TOO_MANY_BYTES, TOO_MANY_ROWS_OR_BYTES.
_OVER_LIMIT = frozenset({158, 159, 241, 307, 396})

_UNKNOWN_COLUMN = re.compile("Unknown expression identifier `(?:[^`]*[.])?([^`.]+)`")

TURN_S_MAX = 20.0  # a tenant's query waits so long for its others; the page gives up after 30 s
# Of numbers that one user's query makes up with `range`; what is stored is bounded by memory alone. The engine's own
# bound is 500 million, of which each function takes seconds in which no time limit is looked at.
_RANGE_MAX = 10_000_000

# A writer does not sort out rows of one identity (FINAL does when reading): that halves the cost of an append.
# A repeated block is not dropped by its hash: an older value written again must win again. In a cluster the
# answer waits until the shards have the rows.
_WRITER = {
    "optimize_on_insert": "0",
    "insert_deduplicate": "0",
    "distributed_foreground_insert": "1",
    "max_partitions_per_insert_block": "1000",
    # One batch is one block: handing it between threads only costs (measured: 10 to 20 % of an append of 20,000 rows).
    "max_threads": "1",
}
# A reader sees one row per identity.
_READER = {"final": "1"}
_USERS = {"function_range_max_elements_in_block": str(_RANGE_MAX), "readonly": "1"}
# The rows of a tenant are cut out before anything else is computed. Were a condition of the user's merged with
# that cut, the engine might evaluate it first, on another tenant's row, and an error message would tell its
# contents. The guard copies harmless conditions into the cut itself.
_BARRIER = {
    "query_plan_filter_push_down": "0",
    "query_plan_merge_filters": "0",
    "query_plan_push_down_volume_reducing_functions": "0",
    "enable_optimize_predicate_expression": "0",
}


Appended = Callable[[Table, pa.Table | None], None]


class Store:
    """All rows of all tables. Thread-safe between `start` and `stop`."""

    def __init__(self, config: StoreConfig, tables: tuple[Table, ...] = TABLES) -> None:
        """Inert. `tables` are the specs to hold; anything but all of them is for tests."""
        if config.cluster and not config.url:
            raise UsageError(f"store.cluster is {config.cluster!r} but store.url is empty; a cluster needs its URL")
        self.config = config
        self.tables = {table.name: table for table in tables}
        self._layout = Layout(config.cluster, config.ttl, config.fsync)
        self._owner = None if config.url else Owner(config.path)
        self._started = False
        self._written: Counter[str] = Counter()
        self._written_lock = threading.Lock()
        self._listeners: tuple[Appended, ...] = ()
        self._user_pools_lock = threading.Lock()
        self._barrier: dict[str, str] = {}
        self._rollup = Rollup(self._layout)
        # An operator's statements are not read behind those of tenants.
        self._guards = {is_operator: GuardProcess(self.tables) for is_operator in (False, True)}
        self._turns = Turns(max(1, config.readers - 1))
        self.unreadable: dict[str, str] = {}  # tables that nothing is appended to, and why (`disk.watch`)
        self._parts = AddedParts(self._drop_part, self.reload)
        self._definitions = Definitions(Path(config.path))
        self._reloads: Counter[str] = Counter()  # of each table: begun and ended
        self.doubted = False  # a query met a part that cannot be read
        self._new_pools()

    def _new_pools(self) -> None:
        config = self.config
        load = Limits(0, config.load_seconds_max, config.load_bytes_max)
        self._writers = Pool(config, config.writers, _WRITER)
        self._readers = Pool(config, config.readers, _READER | load.settings())
        self._user_pools: dict[tuple[bool, Limits], Pool] = {}

    # --- life ---

    def start(self) -> None:
        """Open the store: take the lock, create what is missing, migrate what is older.

        A stopped store may be started again. Errors: StoreLockedError, StoreError.
        """
        assert not self._started, "started twice"
        if self._owner:
            self._owner.take()
        self._new_pools()
        try:
            if self._owner:
                self._mend_definitions()
            self._open_schema()
            self.keep_definitions()
        except BaseException:
            self._close()
            raise
        # pyarrow loads pandas (which chdb brings along) at the first list it is given: 0.3 s that the first append
        # should not pay.
        pa.array(["loaded"])
        self._started = True

    def stop(self) -> None:
        """Close the store; calls in progress are waited for. Stopping twice is harmless."""
        self._started = False
        self._close()

    def _close(self) -> None:
        with self._user_pools_lock:
            pools = [self._writers, self._readers, *self._user_pools.values()]
        for pool in pools:
            pool.close()
        for guard in self._guards.values():
            guard.close()
        if self._owner:
            self._owner.give_back()

    def _open_schema(self) -> None:
        where = place(self.config)
        try:
            with self._writers.borrow() as client:
                open_schema(client, tuple(self.tables.values()), self._layout, where)
                self._barrier = _known_settings(client, _BARRIER)
                if not self.config.url:
                    self._parts.begin(directories(client))
        except LeadlineError:
            raise
        except Exception as error:
            raise StoreError(f"cannot prepare the store at {where}: {first_line(error)}") from error

    # --- rows in, rows out ---

    def append(self, table: Table, rows: pa.Table, overrules: pa.Array | None = None) -> None:
        """Store rows; returns once they survive the death of this process.

        `overrules`: of verdicts, the stamp of the stored row whose place each takes (`schema.STAMP`).

        Blocks while `writers` other appends run. Repeating an append is harmless. One append is best 10,000 to
        1,000,000 rows of one day: each partition it touches becomes a part of its own.
        Errors: DataError if the rows do not fit the table, StoreError if they could not be stored (all, some or
        none of them may be there: append again).
        """
        self._check_started()
        self._require_readable(table.name)
        checked = checked_rows(table, rows)
        if not checked.num_rows:
            return
        # A piece is a block of its own to the engine: 200 of them cost ten times as much as one.
        checked = checked.combine_chunks()
        sent = checked if overrules is None else checked.append_column(OVERRULES, overrules)
        stored = None
        try:
            before, reloads = self._parts.names(table.name), self._reloads[table.name]
            with self._writers.borrow() as client:
                self._check_disk()
                insert(client, not self.config.url, f"{DATABASE}.{table.name}", sent)
                self._check_disk()
            # Whoever is told that rows are stored must be able to read them.
            self._check_parts(table.name, before)
            if self._reloads[table.name] != reloads:  # it may have put the part aside
                raise StoreError(f"table {table.name} was loaded anew meanwhile; append again")
            self._require_readable(table.name)
            # What takes the place of a newer row is not what a reader in memory expects: it reads once more.
            stored = checked if overrules is None else None
        except LeadlineError:
            raise
        except Exception as error:
            raise StoreError(
                f"append of {checked.num_rows} rows to {table.name} at {place(self.config)} failed: "
                f"{first_line(error)}; append them again"
            ) from error
        finally:  # also where it is not known whether they are there; a reader that saw them too early reads once more
            with self._written_lock:
                self._written[table.name] += 1
            for listener in self._listeners:
                listener(table, stored)

    def listen(self, listener: Appended) -> None:
        """Have a function called after each append by this process, by the thread that appends: quick, and it never
        raises. It is given the rows, in the schema of their table; None where it is not known whether they are there.
        """
        with self._written_lock:
            self._listeners += (listener,)

    def unlisten(self, listener: Appended) -> None:
        """Call it no more."""
        with self._written_lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)

    def written(self, table: str) -> int:
        """How often rows of a table were appended by this process: as long as that stays the same, so does what it
        wrote. A number that was read before a query tells whether what the query gave may be out of date."""
        return self._written[table]

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None, *, limits: Limits | None = None) -> pa.Table:
        """Run one of our own statements and return its rows.

        Values go in as typed parameters only: `WHERE job = {job:String}` with `{"job": ...}`. U128 columns come
        out as 16 bytes, and go in as such or as an int. Every row is read once, however often it was appended.
        Errors: UsageError for a parameter without a typed place, RefusedError("limit"), StoreError.
        """
        self._check_started()
        bound = bound_parameters(sql, parameters or {})
        if limits is None:
            return self._run(self._readers, sql, bound, None)
        with self._client_with(limits) as client:
            return self._run_on(client, sql, bound, limits)

    def query_as(self, principal: Principal, sql: str, *, limits: Limits | None = None) -> pa.Table:
        """Run a user's statement over the rows that `principal` may see.

        A tenant has all but one of the connections for tenants at most, and an operator others.
        Errors: UsageError for what is not allowed or cannot be understood, RefusedError("limit") for more than
        the limits (the configured ones by default), BusyError while the tenant's others run, StoreError.
        """
        self._check_started()
        if not principal.may(READ):
            raise UsageError(f"the role {principal.role} may not read")
        config = self.config
        limits = limits or Limits(config.query_rows_max, config.query_seconds_max, config.query_bytes_max)
        if principal.may(OPERATE):
            return self._answer_as(principal, sql, limits)
        with self._turns.turn(principal.tenant, TURN_S_MAX) as got:
            if not got:
                raise BusyError(
                    f"{self._turns.each} of the tenant's queries still run; ask again when they have ended", 5
                )
            return self._answer_as(principal, sql, limits)

    def _answer_as(self, principal: Principal, sql: str, limits: Limits) -> pa.Table:
        safe = self._guards[principal.may(OPERATE)].rewritten(sql, principal)
        try:
            return self._run(self._user_pool(principal.may(OPERATE), limits), safe, {}, limits)
        except StoreError as error:
            cause = error.__cause__
            if cause is not None and error_code(cause) in _USERS_FAULT:
                told = first_line(cause)
                unknown = _UNKNOWN_COLUMN.search(told)
                hint = renamed_column(unknown[1]) if unknown else ""
                raise UsageError(f"the query cannot run: {told}{hint and '; ' + hint}") from error
            raise

    def facts(self) -> list[TableFacts]:
        """What every table holds, in the order they are declared. Errors: StoreError."""
        self._check_started()
        tables = tuple(self.tables.values())
        parts, spans = (self._run(self._readers, sql, {}, None) for sql in (parts_sql(self._layout), spans_sql(tables)))
        return facts_of(tables, self._layout, parts, spans)

    def maintain(self, now_ns: int) -> int:
        """Make the roll-ups that are due, before raw samples are dropped; to be called every hour.

        Returns: days rolled up. Errors: StoreError; what was not done is done by the next call.
        """
        self._check_started()
        try:
            with self._writers.borrow() as client:
                self._check_disk()
                return self._rollup.run(client, now_ns)
        except LeadlineError:
            raise
        except Exception as error:
            raise StoreError(f"roll-up at {place(self.config)} failed: {first_line(error)}") from error

    # --- back-ups (store/backup) ---

    def freeze(self, name: str) -> list[str]:
        """Hard links of every part of every table, under `store.path`/shadow/`name`_TABLE; returns the tables.

        Appends, queries and merges go on. Errors: StoreError.
        """
        for table in self.tables:
            self.command(f"ALTER TABLE {DATABASE}.{table} FREEZE WITH NAME '{name}_{table}'")
        return list(self.tables)

    def detached(self, table: str) -> Path:
        """Where parts are put that `attach` takes in; from now on nothing is merged, until the store is closed."""
        self.command("SYSTEM STOP MERGES")
        self.command("SYSTEM STOP TTL MERGES")
        sql = f"SELECT data_paths[1] AS path FROM system.tables WHERE database = '{DATABASE}' AND name = '{table}'"
        return Path(self.query(sql).to_pylist()[0]["path"]) / "detached"

    def attach(self, table: str, parts: Sequence[str]) -> None:
        """Take in parts that lie in `detached`; their checksums are looked at. Errors: StoreError."""
        for part in parts:
            self.command(f"ALTER TABLE {DATABASE}.{table} ATTACH PART {quoted(part)}")

    def rows_of_parts(self, table: str) -> int:
        """Stored rows, those that were appended twice and not merged counted twice."""
        sql = f"SELECT sum(rows) AS n FROM system.parts WHERE active AND database = '{DATABASE}' AND table = '{table}'"
        return int(self.query(sql).to_pylist()[0]["n"])

    def command(self, statement: str) -> None:
        """Run a statement of ours that gives no rows. Errors: StoreError."""
        self._check_started()
        try:
            with self._writers.borrow() as client:
                client.command(statement)
        except LeadlineError:
            raise
        except Exception as error:
            raise StoreError(f"{statement} at {place(self.config)} failed: {first_line(error)}") from error

    def reload(self, table: str, without: Collection[Path] = ()) -> None:
        """Have the engine load a table's parts anew from the disk: one that it cannot read is put aside, and those that
        it was merged from are read in its place while they are there. Queries of the table fail meanwhile (0.3 s).

        `without`: directories of parts that are removed first. Errors: StoreError; done again it goes on where it
        stopped.
        """
        self._mend_definitions()  # else it could not come back
        self._reloads[table] += 1
        self._unless(f"DETACH TABLE {DATABASE}.{table} SYNC", _UNKNOWN_TABLE)  # it is gone already
        for path in without:
            shutil.rmtree(path, ignore_errors=True)
        self._unless(f"ATTACH TABLE {DATABASE}.{table}", _TABLE_EXISTS)  # it is there already
        self._reloads[table] += 1

    def keep_definitions(self) -> None:
        """See to it that the engine can read what makes its tables, now and at the next start (`disk.definitions`)."""
        if not self.config.url:
            self._definitions.keep()

    def _mend_definitions(self) -> None:
        try:
            self._definitions.mend()
        except OSError as error:
            raise StoreError(
                f"a table's definition in {self.config.path} is cut off and cannot be written anew: {error}; "
                "make room on that disk"
            ) from error

    def drop_refused(self) -> None:
        """Drop parts of refused appends that could not be dropped at once; what cannot be now is left as it is."""
        for table in self._parts.tables:
            try:
                self._parts.drop(table)
            except StoreError as error:
                self.unreadable[table] = str(error)
            else:
                self.unreadable.pop(table, None)

    def is_refused(self, table: str, part: str) -> bool:
        """Whether a part is of an append that was refused, and will be dropped."""
        return self._parts.is_refused(table, part)

    # --- inside ---

    def _check_started(self) -> None:
        if not self._started:
            raise StoreError(f"the store at {place(self.config)} is not open")

    def _require_readable(self, table: str) -> None:
        if why := self.unreadable.get(table):
            raise StoreError(f"nothing is appended to {table} now: {why}")

    def _check_parts(self, table: str, before: frozenset[str]) -> None:
        """Errors: StoreError if what was appended is not whole on the disk."""
        try:
            self._parts.check(table, before)
        finally:
            if table in self._parts.tables:  # it is not whole, and could not be dropped
                self.drop_refused()
                self.doubted = True

    def _drop_part(self, table: str, part: str) -> None:
        self._unless(f"ALTER TABLE {DATABASE}.{table} DROP PART {quoted(part)}", _NO_SUCH_PART)

    def _unless(self, statement: str, code: int) -> None:
        """Run a statement of which the engine may say by this code that it is done already. Errors: StoreError."""
        try:
            self.command(statement)
        except StoreError as error:
            if error.__cause__ is None or error_code(error.__cause__) != code:
                raise

    def _check_disk(self) -> None:
        """Errors: StoreError if the embedded store's disk is nearly full.

        Seen with chDB 26.9: a write(2) that fails with ENOSPC is ignored, the insert reported as done, and the
        part unreadable. So space is looked for before an insert, and again after it; and because somebody may fill
        and empty the disk in those milliseconds, the new part itself is looked at (`disk.appended`). Background
        merges are looked after by `disk.watch`; the store should have a file system of its own all the same.
        """
        if self.config.url or not self.config.free_bytes_min:
            return
        free_bytes = shutil.disk_usage(self.config.path).free
        if free_bytes < self.config.free_bytes_min:
            raise StoreError(
                f"only {free_bytes >> 20} MiB are free on the disk of {self.config.path}, store.free_bytes_min wants "
                f"{self.config.free_bytes_min >> 20} MiB; make room, or set store.path to a larger disk"
            )

    def _run(self, pool: Pool, sql: str, bound: dict[str, Any], limits: Limits | None) -> pa.Table:
        with pool.borrow() as client:
            return self._run_on(client, sql, bound, limits)

    def _run_on(self, client: Any, sql: str, bound: dict[str, Any], limits: Limits | None) -> pa.Table:
        try:
            # Not query_arrow: it gives a setting with each call.
            answer = client.raw_query(sql, parameters=bound, fmt="ArrowStream")
        except Exception as error:
            if error_code(error) in _OVER_LIMIT:
                raise RefusedError("limit", _limit_text(error, limits)) from error
            if error_code(error) in UNREADABLE and not self.config.url:
                self.doubted = True
            raise StoreError(f"query at {place(self.config)} failed: {first_line(error)}") from error
        if not answer:  # an empty result has a schema still
            raise StoreError(f"query at {place(self.config)} got no answer from the engine; is the disk full?")
        with pa.ipc.open_stream(answer) as stream:
            rows = stream.read_all()
        # The engine itself counts no rows where a statement reads no table.
        if limits and 0 < limits.rows < rows.num_rows:
            raise RefusedError("limit", _rows_text(limits))
        return rows

    def _client_with(self, limits: Limits) -> Any:
        """A connection of its own for unusual limits; opening one costs about 10 ms."""
        from contextlib import closing

        return closing(connect(self.config, _READER | limits.settings()))

    def _user_pool(self, operator: bool, limits: Limits) -> Pool:
        """Connections for users, by what they may take. `readonly` sticks, so they are never shared with ours."""
        key = (operator, limits)
        with self._user_pools_lock:
            self._check_started()
            if key not in self._user_pools:
                if len(self._user_pools) >= 8:
                    raise UsageError("more than 8 different limits for user queries; use the configured ones")
                settings = _READER | ({} if operator else self._barrier) | limits.settings() | _USERS
                self._user_pools[key] = Pool(self.config, self.config.readers, settings)
            return self._user_pools[key]


# Errors of ClickHouse that a user's statement causes; anything else is the store's.
_USERS_FAULT = frozenset({
    6, 8, 10, 16, 20, 26, 27, 32, 35, 36, 38, 41, 42, 43, 44, 46, 47, 48, 50, 53, 57, 60, 62, 63, 69, 70, 72,
    117, 125, 127, 130, 131, 153, 166, 179, 184, 190, 207, 215, 349, 352, 386, 407, 427, 433, 456, 457, 465,
    675, 676,
})  # fmt: skip


def _rows_text(limits: Limits) -> str:
    return (
        f"the result has more than {limits.rows} rows (store.query_rows_max); add LIMIT, or ask for a shorter time span"
    )


def _limit_text(error: BaseException, limits: Limits | None) -> str:
    code = error_code(error)
    if code == 396 and limits:
        return _rows_text(limits)
    if code == 159 and limits:
        return f"the query took longer than {limits.seconds} s; ask for a shorter time span or fewer columns"
    return f"the query went over a limit: {first_line(error)}; ask for a shorter time span or fewer columns"


def _known_settings(client: Any, settings: dict[str, str]) -> dict[str, str]:
    """Those settings that the engine knows: an older one does not have every optimisation we switch off."""
    names = ", ".join(quoted(name) for name in settings)
    rows = client.query(f"SELECT name FROM system.settings WHERE name IN ({names})").result_rows
    known = {name for (name,) in rows}
    if "query_plan_filter_push_down" not in known:
        raise StoreError("this ClickHouse cannot isolate tenants in user SQL; use version 24.8 or newer")
    return {name: value for name, value in settings.items() if name in known}
