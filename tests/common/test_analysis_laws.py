"""Who watches the watchman: an analysis that keeps all laws passes, and each law notices one that breaks it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from tests.builders.fabrics import T0, S
from tests.common import analysis_cases, analysis_laws
from tests.common.analysis_cases import case_of, tiny_site
from tests.common.analysis_laws import LAWS, Case, Law
from tests.common.analysis_laws import given as given_rows
from tests.common.analysis_nonsense import nonsense, survives

from leadline.analysis.columns import codes, ids, ints
from leadline.analysis.spec import Analysis, Read, Verdicts, Window, analysis
from leadline.model.tables import BY_NAME, Table
from leadline.store.schema import arrow_table

FLOW_SAMPLE, RELATION, STEP = (BY_NAME[name] for name in ("flow_sample", "relation", "step"))
FLOW_VOLUME, CONFLICT = BY_NAME["flow_volume"], BY_NAME["conflict"]


def toy(judge: Callable[..., Verdicts], writes: tuple[Table, ...] = (FLOW_VOLUME,), **options: Any) -> Analysis:
    """An analysis of samples from a function of them."""
    judge.__doc__ = judge.__doc__ or "A toy."
    reads = options.pop("reads", (Read(FLOW_SAMPLE, look_back_ns=10 * S),))
    return analysis(name="toy", version=1, reads=reads, writes=writes, window_s=10, **options)(judge)


def volumes(flow_sample: pa.Table, *, window: Window) -> dict[str, dict[str, Any]]:
    """Bytes of each flow at each switch, by its name. Keeps all laws."""
    switch = codes(flow_sample, "switch")
    bytes_N = flow_sample["frame_bytes"].to_numpy().astype(float) * flow_sample["rate"].to_numpy().astype(float)
    inside_N = ints(flow_sample, "time_ns") >= window.from_ns
    sums: dict[tuple[int, int, str], float] = {}
    for (low, high), at, each in zip(
        ids(flow_sample, "flow")[inside_N].tolist(), switch.code_N[inside_N], bytes_N[inside_N], strict=True
    ):
        sums[low, high, switch.names[at]] = sums.get((low, high, switch.names[at]), 0.0) + float(each)
    keys = list(sums)
    amounts = list(sums.values())
    return {
        "flow_volume": {
            "flow": np.array([key[:2] for key in keys], np.uint64).reshape(-1, 2),
            "link": [f"link:{key[2]}" for key in keys],
            "job": [None] * len(keys),
            "end_ns": [window.to_ns] * len(keys),
            "window_ns": [window.window_ns] * len(keys),
            "bytes": amounts,
            "low": [0.0] * len(keys),
            "high": [2 * amount for amount in amounts],
        }
    }


def with_column(name: str, value: Callable[[pa.Table, Window], Any]) -> Callable[..., Verdicts]:
    """`volumes` with another value in one of its columns."""

    def judge(flow_sample: pa.Table, *, window: Window) -> Verdicts:
        found = volumes(flow_sample, window=window)["flow_volume"]
        return {"flow_volume": {**found, name: [value(flow_sample, window)] * len(found["job"])}}

    return judge


def speaks_of_nothing(flow_sample: pa.Table, *, window: Window) -> Verdicts:
    row = {"entity": "", "kind": "none", "start_ns": window.to_ns, "end_ns": None, "claims": [], "sources": [],
           "used": None, "count": 0, "text": "nobody told anything", "seen_ns": window.to_ns}  # fmt: skip
    return {"conflict": {name: [value] for name, value in row.items()}}


def silent(flow_sample: pa.Table, *, window: Window) -> Verdicts:
    return {}


def undeclared_table(flow_sample: pa.Table, *, window: Window) -> Verdicts:
    return {"path_hop": {}}


def a_row_twice(flow_sample: pa.Table, *, window: Window) -> Verdicts:
    found = volumes(flow_sample, window=window)["flow_volume"]
    return {"flow_volume": {name: [*values[:1], *values] for name, values in found.items() if name != "flow"}
            | {"flow": np.concatenate([found["flow"][:1], found["flow"]])}}  # fmt: skip


def needs_rows(flow_sample: pa.Table, *, window: Window) -> Verdicts:
    assert flow_sample["time_ns"][0].is_valid
    return volumes(flow_sample, window=window)


def in_order(flow_sample: pa.Table, window: Window) -> float:
    """A sum of floats in the order of rows: their last bits depend on it."""
    total = 0.0
    for length in flow_sample["frame_bytes"].to_pylist():
        total = total / 3 + length
    return total


def first_switch(flow_sample: pa.Table, window: Window) -> str | None:
    return flow_sample["switch"].combine_chunks().dictionary[0].as_py() if len(flow_sample) else None


BREAKS: dict[str, tuple[Law, Callable[..., Verdicts], str]] = {
    "silent": (analysis_laws.says_something, silent, "add what it needs"),
    "out of nothing": (analysis_laws.empty_in_empty_out, speaks_of_nothing, "from empty tables"),
    "no rows": (analysis_laws.empty_in_empty_out, needs_rows, "index out"),
    "row order": (analysis_laws.ignores_row_order, with_column("high", in_order), "order of rows"),
    "dictionary order": (analysis_laws.ignores_row_order, with_column("job", first_switch), "order of rows"),
    "revisions": (analysis_laws.is_stored_as_said, with_column("high", in_order), "make a revision"),
    "epoch": (analysis_laws.moves_with_time, with_column("job", lambda _, window: str(window.to_ns)), "later"),
    "end": (analysis_laws.matches_spec, with_column("end_ns", lambda _, window: window.from_ns), "its window"),
    "length": (analysis_laws.matches_spec, with_column("window_ns", lambda *_: 1), "its window"),
    "interval": (analysis_laws.matches_spec, with_column("low", lambda *_: 1e18), "bytes of"),
    "not a number": (analysis_laws.matches_spec, with_column("high", lambda *_: float("nan")), "null says"),
    "null": (analysis_laws.matches_spec, with_column("link", lambda *_: None), "never null"),
    "id": (analysis_laws.matches_spec, with_column("link", lambda *_: "leaf1"), "two rows|kind:name"),
    "undeclared column": (analysis_laws.matches_spec, with_column("colour", lambda *_: "red"), "also colour"),
    "the runner's column": (analysis_laws.matches_spec, with_column("revision", lambda *_: 1), "filled in"),
    "undeclared table": (analysis_laws.matches_spec, undeclared_table, "declares flow_volume"),
    "two rows of one key": (analysis_laws.matches_spec, a_row_twice, "one key"),
    "wall clock": (analysis_laws.no_wall_clock, with_column("high", lambda *_: time.time() * 1e12), "asked time"),
    "chance": (analysis_laws.no_wall_clock, with_column("high", lambda *_: np.random.default_rng().random()), "asked"),
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_an_analysis_that_keeps_all_laws_passes(law: Law) -> None:
    law(toy(volumes), tiny_site())


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_it_survives_nonsense(data: st.DataObject) -> None:
    item = toy(volumes)
    survives(item, data.draw(nonsense(item, tiny_site())))


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_law_is_noticed(name: str) -> None:
    law, judge, complaint = BREAKS[name]
    writes = (CONFLICT,) if judge is speaks_of_nothing else (FLOW_VOLUME,)
    with pytest.raises((AssertionError, IndexError), match=complaint):
        law(toy(judge, writes), tiny_site())


def test_every_law_has_one_that_breaks_it() -> None:
    """`bears_a_missing_table` has its own test below."""
    assert {law for law, _, _ in BREAKS.values()} | {analysis_laws.bears_a_missing_table} == set(LAWS)


def test_a_missing_table_is_noticed() -> None:
    def cables(flow_sample: pa.Table, relation: pa.Table, *, window: Window) -> Verdicts:
        relation["child"][0].as_py()
        return volumes(flow_sample, window=window)

    item = toy(cables, reads=(Read(FLOW_SAMPLE), Read(RELATION, valid=True)))
    with pytest.raises(IndexError):
        analysis_laws.bears_a_missing_table(item, tiny_site())


def divides_by_rate(flow_sample: pa.Table, *, window: Window) -> Verdicts:
    found = dict(volumes(flow_sample, window=window)["flow_volume"])
    share = sum(1 / rate for rate in flow_sample["rate"].to_pylist())
    return {"flow_volume": {**found, "high": [high + share for high in found["high"]]}}


def trusts_names(flow_sample: pa.Table, *, window: Window) -> Verdicts:
    for address in flow_sample["src_ip"].to_pylist():
        assert not address or address.count(".") == 3
    return volumes(flow_sample, window=window)


@pytest.mark.parametrize(("judge", "error"), [(divides_by_rate, ZeroDivisionError), (trusts_names, AssertionError)])
def test_nonsense_finds_what_trusts_its_input(judge: Callable[..., Verdicts], error: type[Exception]) -> None:
    item = toy(judge)

    def fails(case: Case) -> bool:
        try:
            survives(item, case)
        except error:
            return True
        return False

    quick = settings(max_examples=300, phases=[Phase.generate], database=None, deadline=None,
                     suppress_health_check=list(HealthCheck))  # fmt: skip
    assert find(nonsense(item, tiny_site()), fails, settings=quick)


def test_an_analysis_without_a_case_is_told_what_to_write() -> None:
    with pytest.raises(AssertionError, match="rows of flow_sample, of which it writes at least one row of flow_volume"):
        case_of(toy(volumes))


def test_a_case_without_a_table_that_is_read_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(analysis_cases.CASES, "toy", tiny_site)
    with pytest.raises(AssertionError, match="gives no step"):
        case_of(toy(volumes, reads=(Read(STEP),)))


def test_what_is_given_is_what_was_asked_for() -> None:
    case = tiny_site()
    inside = given_rows(Read(FLOW_SAMPLE, columns=("switch", "time_ns")), case.tables, case.window)
    assert inside.column_names == ["switch", "time_ns"]
    assert min(inside["time_ns"].to_pylist()) >= T0
    before = given_rows(Read(FLOW_SAMPLE, look_back_ns=10 * S), case.tables, case.window)
    assert T0 - 10 * S <= min(before["time_ns"].to_pylist()) < T0
    assert given_rows(Read(STEP), case.tables, case.window).column_names[-1] == "bound_ns"


def test_a_job_is_given_its_own_rows_and_what_names_no_job() -> None:
    volumes_of = {"flow": [1, 2], "link": ["link:a~b"] * 2, "job": ["bert-1", None], "end_ns": [T0 + 10 * S - 1] * 2}
    numbers = {"window_ns": [10 * S] * 2, "bytes": [1.0] * 2, "low": [0.0] * 2, "high": [2.0] * 2}
    names = {"tenant": ["ana"] * 2, "cluster": ["default"] * 2, "analysis": ["path"] * 2}
    rows = arrow_table(FLOW_VOLUME, {**volumes_of, **numbers, **names, "version": [1] * 2, "revision": [0] * 2})
    tables = {**tiny_site().tables, "flow_volume": rows}
    window = replace(tiny_site().window, job="bert-1")
    assert given_rows(Read(FLOW_VOLUME), tables, window)["job"].to_pylist() == ["bert-1"]
    assert len(given_rows(Read(FLOW_VOLUME), tables, replace(window, job=""))) == 2
    assert len(given_rows(Read(RELATION, valid=True), tables, window)) == len(tables["relation"])


def test_a_declaration_with_mistakes_is_noticed() -> None:
    with pytest.raises(AssertionError, match="does not say analysis/toy"):
        analysis_laws.assert_declared(toy(volumes))
    with pytest.raises(AssertionError, match="reads colour"):
        analysis_laws.assert_declared(toy(silent, writes=(), reads=(Read(FLOW_SAMPLE, columns=("colour",)),)))
    with pytest.raises(AssertionError, match="tells no spans"):
        analysis_laws.assert_declared(toy(silent, writes=(), reads=(Read(FLOW_SAMPLE, valid=True),)))
