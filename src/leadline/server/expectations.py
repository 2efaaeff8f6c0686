"""What this site expects: the defaults, changed by the file of `sle.expectations`, kept as rows of `expectation`.

    defaults ── less sle.disabled ──┐
    sle.expectations: a YAML file ──┴─> effective ──> table expectation ──> analyses `sle`, bundles, `show expectations`
                      (a name again: instead)            (versions: from_ns, to_ns)

Analyses read the table, not the file: so a window is judged again by what held then, and a recording by what held
there.
The rows name no cluster, which means every cluster (`EVERYWHERE`), whoever's data it is.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from leadline.analysis.sle.expectations import DEFAULTS, Expectation, parse, to_text
from leadline.model.accounts import EVERYWHERE
from leadline.model.errors import ConfigError
from leadline.model.principal import OPERATE, Principal
from leadline.model.tables.accounts import EXPECTATION
from leadline.server.settings import SleConfig
from leadline.store import Store
from leadline.store.schema import arrow_table
from leadline.views.asked import Asked
from leadline.views.rows import SCHEMA_VERSION

OF_DEFAULTS, OF_SITE = "defaults", "site"
FILE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Held:
    """An expectation that holds, and where it was read."""

    expectation: Expectation
    source: str


def effective(config: SleConfig) -> tuple[Held, ...]:
    """What holds by the configuration, in the order of names.

    Errors: ConfigError for a file that cannot be read or understood (with its line), and for a default that there is
    not among those switched off.
    """
    defaults = {each.name: Held(each, OF_DEFAULTS) for each in DEFAULTS}
    for name in config.disabled:
        if name not in defaults:
            near = difflib.get_close_matches(name, defaults, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(defaults)}"
            raise ConfigError(f"sle.disabled: there is no default expectation called {name!r}; {hint}")
    held = {name: each for name, each in defaults.items() if name not in config.disabled}
    if config.expectations:
        own = parse(_read(Path(config.expectations)), config.expectations)
        held |= {each.name: Held(each, config.expectations) for each in own}
    return tuple(held[name] for name in sorted(held))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(
            f"{path}: the expectations cannot be read: {error.strerror}; correct sle.expectations, or remove it to use "
            "the defaults"
        ) from error
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8, got byte {raw[error.start]:#04x} at {error.start}") from error


# --- the table ------------------------------------------------------------------------------------------------------


def save(store: Store, held: Sequence[Held], now_ns: int, provider: str) -> int:
    """Have the table say what holds from `now_ns` on; what held before and no longer does ends then.

    Returns: rows written, 0 if nothing changed. All are one append, so that never half of a change is there, and a
    start that repeats it finds nothing to do. Errors: StoreError.
    """
    found = store.query(
        "SELECT tenant, expectation, layer, from_ns, spec, source FROM leadline.expectation "
        "WHERE cluster = {cluster:String} AND isNull(to_ns) ORDER BY from_ns, tenant",
        {"cluster": EVERYWHERE},
    ).to_pylist()
    rows = _changes([dict(row) for row in found], held, now_ns, provider)
    if rows:
        columns = {column.name: [row[column.name] for row in rows] for column in EXPECTATION.columns}
        store.append(EXPECTATION, arrow_table(EXPECTATION, columns))
    return len(rows)


def _changes(
    before: Iterable[Mapping[str, Any]], held: Sequence[Held], now_ns: int, provider: str
) -> list[dict[str, Any]]:
    """Rows that make `before`, what holds by the table (oldest first), what is to hold."""
    wanted = {each.expectation.name: each for each in held}
    rows, stands, newest_ns = [], set(), {}
    for name, group in itertools.groupby(
        sorted(before, key=lambda row: row["expectation"]), lambda row: row["expectation"]
    ):
        *older, last = group
        new = wanted.get(name)
        same = new is not None and (last["spec"], last["tenant"]) == (to_text(new.expectation), provider)
        newest_ns[name] = last["from_ns"]
        for row in older if same else [*older, last]:
            # A clock that was set back does not make a promise end before it began.
            rows.append({**row, "cluster": EVERYWHERE, "to_ns": max(now_ns, row["from_ns"] + 1)})
        if same and new is not None:
            stands.add(name)
            if last["source"] != new.source:  # it moved to another file: the same promise
                rows.append({**last, "cluster": EVERYWHERE, "to_ns": None, "source": new.source})
    for name, each in wanted.items():
        if name not in stands:
            from_ns = max(now_ns, newest_ns.get(name, now_ns - 1) + 1)
            rows.append(
                {
                    "tenant": provider, "cluster": EVERYWHERE, "expectation": name, "from_ns": from_ns, "to_ns": None,
                    "layer": str(each.expectation.layer), "spec": to_text(each.expectation), "source": each.source,
                }
            )  # fmt: skip
    return rows


# --- told -----------------------------------------------------------------------------------------------------------


def expectations_answer(store: Store, asked: Asked) -> dict[str, Any]:
    """What `/api/v1/expectations` says: those that held at the time asked for, in the order of layers as declared.

    What is promised is told to every tenant; whom it is narrowed to (`match`) and the file, to operators.
    """
    where = ["from_ns <= {at_ns:Int64}", "(isNull(to_ns) OR to_ns > {at_ns:Int64})"]
    parameters: dict[str, object] = {"at_ns": asked.at_ns}
    if asked.cluster:
        where.append("cluster IN {clusters:Array(String)}")
        parameters["clusters"] = [asked.cluster, EVERYWHERE]
    if not asked.principal.may(OPERATE):
        where.append("(cluster = '' OR tenant = {tenant:String})")
        parameters["tenant"] = asked.principal.tenant
    found = store.query(
        "SELECT expectation, layer, cluster, from_ns, spec, source FROM leadline.expectation "
        f"WHERE {' AND '.join(where)} ORDER BY layer, expectation, cluster, from_ns",
        parameters,
    ).to_pylist()
    note = ""
    if not found:
        note = "the table `expectation` has none for that time, so the defaults apply"
        found = [
            {"expectation": each.name, "layer": str(each.layer), "cluster": EVERYWHERE, "from_ns": None,
             "spec": to_text(each), "source": OF_DEFAULTS}
            for each in DEFAULTS
        ]  # fmt: skip
    told = [_told(row, asked.principal) for row in found]
    return {"schema": SCHEMA_VERSION, "at_ns": asked.at_ns, "expectations": told, "note": note}


def _told(row: Mapping[str, Any], principal: Principal) -> dict[str, Any]:
    plain = {name: row[name] for name in ("expectation", "layer", "cluster", "from_ns")}
    operator = principal.may(OPERATE)
    source = row["source"] if operator or row["source"] == OF_DEFAULTS else OF_SITE
    try:
        one = _read_spec(row["spec"], row["expectation"])
    except (ConfigError, ValueError) as error:  # of a version that writes more than this one reads
        return {**plain, "source": source, "of": "", "objective": None, "bounds": [], "match": [], "severity": "",
                "advice": "", "spec": row["spec"] if operator else "", "error": str(error)}  # fmt: skip
    return {
        **plain,
        "source": source,
        "of": one.of,
        "objective": one.objective,
        "bounds": [{"classifier": bound.classifier, "for_s": bound.for_s} for bound in one.bounds],
        "match": list(one.match) if operator else [],
        "severity": one.severity,
        "advice": one.advice,
        "spec": row["spec"] if operator else "",
        "error": "",
    }


@lru_cache(4096)  # each costs 2 ms of YAML, and a search asks for all of them at every letter
def _read_spec(spec: str, name: str) -> Expectation:
    """One expectation as the table keeps it. Errors: ConfigError, ValueError."""
    (one,) = parse(spec, f"expectation {name}")
    return one
