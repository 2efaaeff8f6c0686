"""A bundle without names and addresses, of which the same can be concluded.

Two passes: the first reads which tokens name a thing (columns that hold names say so) and which addresses occur, the
second replaces. Ids that are hashes of names (streams, flows) are computed again, so that every join still holds.
What happens to each text column is declared in `COLUMNS`; a column that is not there cannot be redacted, and a test
says so.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from leadline.model.errors import DataError, WorldError
from leadline.model.ids import flow_id, series_id
from leadline.model.tables import Column, Table, Type
from leadline.model.tables.fabric import FLOW_SAMPLE, FLOW_SENT
from leadline.model.tables.metrics import SERIES
from leadline.store.bundle import Bundle, Draft, our_versions
from leadline.store.bundle_format import TEXT_BYTES_MAX, Manifest
from leadline.store.bundle_names import Pseudonyms, addresses_in, names_in, sentence
from leadline.store.schema import arrow_schema


class Kind(Enum):
    """What a text column holds."""

    NAME = auto()  # a name or entity id: replaced, and what it names is replaced everywhere
    ADDRESS = auto()
    SENTENCE = auto()  # an id, or a sentence of Leadline's with ids in it: the names in these are replaced
    WORD = auto()  # of a vocabulary: kept, but for names of things inside it
    FREE = auto()  # text of people and programs: removed
    JSON = auto()  # strings inside replaced
    LABELS = auto()  # a MAP: values replaced, keys kept


NAME, ADDRESS, SENTENCE, WORD, FREE, JSON, LABELS = Kind

# Every text column of every table, by name: a name means the same wherever it occurs.
COLUMNS: dict[str, Kind] = {
    # whose and where
    "tenant": NAME, "cluster": NAME, "host": NAME, "clock": NAME, "tx_clock": NAME, "rx_clock": NAME, "dst_clock": NAME,
    "entity": NAME, "others": NAME, "child": NAME, "parent": NAME, "owner": NAME, "actor": NAME,
    "job": NAME, "comm": NAME, "switch": NAME, "in_port": NAME, "out_port": NAME, "src": NAME, "dst": NAME,
    "link": NAME, "incident": NAME, "src_ip": ADDRESS, "dst_ip": ADDRESS, "address": ADDRESS, "src_rank": NAME,
    "dst_rank": NAME,
    "group": NAME, "links": NAME, "busiest": NAME, "colliding": NAME, "jobs": NAME, "claims": NAME, "used": NAME,
    "part": NAME, "culprit": NAME, "what": SENTENCE, "label": SENTENCE,
    # what
    "name": WORD, "entity_kind": WORD, "unit": WORD, "type": WORD, "source": WORD, "kind": WORD, "sender": WORD,
    "severity": WORD, "code": WORD, "op": WORD, "dtype": WORD, "algo": WORD, "state": WORD, "side": WORD,
    "dropped": WORD, "stamp": WORD, "analysis": WORD, "category": WORD, "expectation": WORD, "layer": WORD,
    "classifier": WORD, "metric": WORD, "direction": WORD, "witness": WORD, "symptom": WORD,
    "suppressed": WORD, "rule": WORD, "verdict": WORD, "mark": WORD, "missing": WORD,
    "class": WORD, "mode": WORD, "sources": WORD, "depth": WORD, "bound": WORD,
    # said
    "message": FREE, "text": FREE, "reason": FREE, "why": FREE, "error": FREE, "spec": FREE, "why_missing": FREE,
    "numbers": FREE,  # base64, in which nothing can be replaced
    "evidence": JSON, "blamed": JSON, "symptoms": JSON, "score": JSON,
    "streams": JSON,
    "before": JSON, "after": JSON,
    "labels": LABELS, "attributes": LABELS, "metrics": LABELS,
}  # fmt: skip
# Where one name means two things.
OF_TABLE: dict[tuple[str, str], Kind] = {
    ("action", "action"): NAME,
    ("cause", "action"): WORD,
    ("failure", "evidence"): FREE,
    ("ledger", "owner"): SENTENCE,
}

# Labels and keys whose values are words or numbers of a vocabulary, in any length.
WORD_LABELS = frozenset(
    [
        "le",
        "quantile",
        "mode",
        "state",
        "type",
        "unit",
        "severity",
        "level",
        "op",
        "operation",
        "dtype",
        "err_code",
        "error_code",
        "xid",
        "code",
        "kind",
        "collector",
        "fstype",
        "direction",
        "protocol",
        "result",
        "reason_code",
        "modelName",
        "DCGM_FI_DRIVER_VERSION",
        "version",
        "sysname",
        "machine",
        "release",
        "phase",
        "fault",
        "layer",
        "class",
        "scenario",
    ]
)

REMOVED = "redacted"
_CONFIG_HEAD = "# Redacted: only numbers and switches of the recording Leadline's configuration are left.\n"


def kind_of(table: str, column: str) -> Kind:
    """What a text column holds. Errors: KeyError for one that is not declared."""
    return OF_TABLE.get((table, column)) or COLUMNS[column]


def is_text(column: Column) -> bool:
    """Whether a column can hold names."""
    return column.type in (Type.SYM, Type.STR, Type.SYMS, Type.MAP)


class Redactor:
    """Replaces what is in one bundle. `of` makes it; the key lives in it and nowhere else."""

    def __init__(self, pseudonyms: Pseudonyms, series: Mapping[int, int]) -> None:
        self.names = pseudonyms
        self._series = dict(series)

    @classmethod
    def of(cls, bundle: Bundle, truth: object = None, key: bytes | None = None) -> Redactor:
        """The first pass over a bundle and its truth. Errors: DataError."""
        names: set[str] = set()
        addresses: set[str] = set()
        for text in (bundle.manifest.tenant, bundle.manifest.cluster):
            names.update(names_in(text))
        for text in _components(truth):
            names.update(names_in(text))
            addresses.update(addresses_in(text))
        for table in bundle.tables:
            for rows in bundle.groups(table):
                _collect(table, rows, names, addresses)
        made = cls(Pseudonyms(key or os.urandom(32), names, sorted(addresses)), {})
        for rows in chain(bundle.groups(FLOW_SAMPLE), bundle.groups(FLOW_SENT)):
            made._learn_flows(rows)
        for rows in bundle.groups(SERIES):
            made._learn_series(rows)
        return made

    def rows(self, table: Table, rows: pa.Table) -> pa.Table:
        """Rows of a table with everything replaced; their order is not kept (`in_order` makes it)."""
        arrays = [self._column(table, column, rows.column(column.name)) for column in table.columns]
        return pa.table(arrays, schema=arrow_schema(table))

    def manifest(self, manifest: Manifest) -> Manifest:
        """The manifest of the redacted bundle, without members."""
        tenant, cluster = self.names.text(manifest.tenant), self.names.text(manifest.cluster)
        return Manifest(manifest.from_ns, manifest.to_ns, tenant, cluster, True, our_versions())

    def label(self, key: str, value: str) -> str:
        """The value of a label, attribute or JSON member."""
        if key in WORD_LABELS:
            return self.names.word(value)
        return self.names.text(value)

    def json(self, value: object, key: str = "") -> object:
        """A JSON value with every string replaced."""
        if isinstance(value, str):
            return self.label(key, value)
        if isinstance(value, dict):
            return {self.names.word(str(name)): self.json(each, str(name)) for name, each in value.items()}
        if isinstance(value, list):
            return [self.json(each, key) for each in value]
        return value

    # --- columns ---

    def _column(self, table: Table, column: Column, values: pa.ChunkedArray) -> pa.Array:
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if isinstance(array, pa.ChunkedArray):  # no rows, or still in pieces
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
        if column.type is Type.U128:
            return self._ids(column, array)
        if not is_text(column):
            return array
        if column.type is Type.MAP:
            return self._map(column, array)
        if column.type is Type.SYMS:
            lists = [sorted(self.names.text(each) for each in row) for row in array.to_pylist()]
            return pa.array(lists, array.type)
        return _mapped(array, self._text_rule(kind_of(table.name, column.name)), coded=column.type is Type.SYM)

    def _text_rule(self, kind: Kind) -> Callable[[str], str]:
        return {
            NAME: self.names.text,
            ADDRESS: self.names.text,
            SENTENCE: self.names.sentence,
            WORD: self.names.word,
            FREE: lambda text: REMOVED if text else "",
            JSON: self._json_text,
        }[kind]

    def _json_text(self, text: str) -> str:
        if not text:
            return ""
        try:
            return json.dumps(self.json(json.loads(text)), ensure_ascii=False)
        except (ValueError, RecursionError):
            return REMOVED

    def _map(self, column: Column, array: pa.Array) -> pa.Array:
        numbers = column.name == "metrics"
        out = []
        for pairs in array.to_pylist():
            out.append([(self.names.word(key), self._value(key, value, numbers)) for key, value in pairs])
        return pa.array(out, array.type)

    def _value(self, key: str, value: str, numbers: bool) -> str:
        if numbers:  # of what a job measures a number of any length is kept
            try:
                float(value)
                return value
            except ValueError:
                pass
        return self.label(key, value)

    def _ids(self, column: Column, array: pa.Array) -> pa.Array:
        rule = self._id_rule(column.name)
        coded = array.dictionary_encode()
        made = [
            None if raw is None else rule(int.from_bytes(raw, "little")).to_bytes(16, "little")
            for raw in coded.dictionary.to_pylist()
        ]
        return pa.array(made, pa.binary(16)).take(coded.indices)

    def _id_rule(self, name: str) -> Callable[[int], int]:
        if name == "series":
            return self._series_id
        return self.names.flow if name == "flow" else lambda value: self.names.id128(name, value)

    def _series_id(self, value: int) -> int:
        if value not in self._series:
            self._series[value] = self.names.id128("series", value)
        return self._series[value]

    # --- ids that are hashes of names ---

    def _learn_series(self, rows: pa.Table) -> None:
        for raw, name, pairs in zip(
            rows["series"].to_pylist(), rows["name"].to_pylist(), rows["labels"].to_pylist(), strict=True
        ):
            value = int.from_bytes(raw, "little")
            if series_id([("__name__", name), *pairs]) != value:
                continue  # made by another rule; any other id does
            replaced = [(self.names.word(key), self.label(key, each)) for key, each in pairs]
            self._series[value] = series_id([("__name__", self.names.word(name)), *replaced])

    def _learn_flows(self, rows: pa.Table) -> None:
        key = ["protocol", "src_ip", "dst_ip", "src_port", "dst_port", "dst_qp"]
        flows = rows.select(["flow", *key]).group_by("flow", use_threads=False)
        for row in flows.aggregate([(each, "first") for each in key]).to_pylist():
            value = int.from_bytes(row["flow"], "little")
            told = [row[f"{each}_first"] for each in key]
            if value in self.names.flows or not _is_flow(value, told):
                continue
            told[1:3] = [self.names.text(address) for address in told[1:3]]
            self.names.flows[value] = flow_id(*told)


def _is_flow(value: int, told: list[Any]) -> bool:
    """Whether `value` is the flow id of these addresses and ports; numbers out of range have none."""
    try:
        return flow_id(*told) == value
    except (ValueError, struct.error):
        return False


def draft_redacted(bundle: Bundle, redactor: Redactor, directory: Path | None = None) -> Draft:
    """The redacted bundle; the caller closes it. Errors: DataError, WorldError."""
    draft = Draft(redactor.manifest(bundle.manifest), _redacted_config(bundle.config_text), directory)
    try:
        for table in bundle.tables:
            draft.add(table, _redacted(bundle, redactor, table))
    except BaseException:
        draft.close()
        raise
    return draft


def _redacted(bundle: Bundle, redactor: Redactor, table: Table) -> Iterator[pa.Table]:
    for rows in bundle.groups(table):
        yield redactor.rows(table, rows)


def _redacted_config(text: str) -> str:
    """Numbers and switches of the first level of each section; everything else may name something."""
    try:
        body = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        body = None
    kept = {
        section: {key: value for key, value in keys.items() if isinstance(value, bool | int | float)}
        for section, keys in (body.items() if isinstance(body, dict) else ())
        if isinstance(keys, dict)
    }
    return _CONFIG_HEAD + yaml.safe_dump(kept, sort_keys=False)


def _collect(table: Table, rows: pa.Table, names: set[str], addresses: set[str]) -> None:
    """What names a thing in these rows, and all addresses."""
    for column in table.columns:
        if not is_text(column):
            continue
        kind = kind_of(table.name, column.name)
        if kind in (WORD, FREE):
            continue
        for text in _distinct(rows.column(column.name)):
            if kind is NAME:
                names.update(names_in(text))
            elif kind is SENTENCE:
                names.update(name for piece, is_id in sentence(text) if is_id for name in names_in(piece))
            addresses.update(addresses_in(text))


def _distinct(column: pa.ChunkedArray) -> Iterator[str]:
    for chunk in column.chunks:
        texts = chunk
        if pa.types.is_map(chunk.type):
            texts = chunk.items
        elif pa.types.is_list(chunk.type):
            texts = chunk.flatten()
        elif pa.types.is_dictionary(chunk.type):
            texts = chunk.dictionary
        yield from (text for text in pc.unique(texts).to_pylist() if text)


def _mapped(array: pa.Array, rule: Callable[[str], str], coded: bool) -> pa.Array:
    """Each distinct text replaced once; `coded`: as a dictionary again."""
    texts = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    made = pa.array([None if text is None else rule(text) for text in texts.dictionary.to_pylist()], pa.string())
    out = made.take(texts.indices)
    return out.dictionary_encode() if coded else out


# --- truth ---------------------------------------------------------------------------------------------------


def truth_path(bundle: Path) -> Path:
    """Where the truth of a bundle lies: beside it, never inside."""
    return bundle.with_suffix(".truth.json")


def read_truth(path: Path) -> dict[str, Any]:
    """A truth file. Errors: WorldError, DataError for what is no JSON object with a list of faults."""
    try:
        raw = path.read_bytes()[: TEXT_BYTES_MAX + 1]
    except OSError as error:
        raise WorldError(f"{path}: cannot be read: {error.strerror}; name the truth file of a scenario") from error
    if len(raw) > TEXT_BYTES_MAX:
        raise DataError(str(path), f"a truth of at most {TEXT_BYTES_MAX} bytes", "more")
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(str(path), "JSON", str(error)) from error
    if not isinstance(found, dict) or not isinstance(found.get("faults"), list):
        raise DataError(str(path), 'a JSON object with a list "faults"', type(found).__name__)
    return found


def redacted_truth(truth: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """The truth in the words of the redacted bundle."""
    found = redactor.json(dict(truth))
    assert isinstance(found, dict)
    return found


def write_truth(path: Path, truth: Mapping[str, Any]) -> None:
    """Write a truth file whole or not at all. Errors: WorldError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(json.dumps(truth, indent=1, ensure_ascii=False) + "\n")
        partial.replace(path)
    except OSError as error:
        raise WorldError(f"{path}: cannot be written: {error.strerror}; make room or name another directory") from error
    finally:
        partial.unlink(missing_ok=True)


def _components(truth: object) -> Iterator[str]:
    """The entity ids in a truth: strings that stand under `component`."""
    faults = truth.get("faults", []) if isinstance(truth, dict) else []
    for fault in faults:
        listed = fault.get("component", []) if isinstance(fault, dict) else []
        yield from (each for each in (listed if isinstance(listed, list) else [listed]) if isinstance(each, str))
