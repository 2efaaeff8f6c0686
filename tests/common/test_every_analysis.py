"""One suite for every analysis: the laws of `analysis_laws`, on its case and on nonsense."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.common.analysis_cases import case_of
from tests.common.analysis_laws import LAWS, LENGTHS, Law, assert_declared, times_of
from tests.common.analysis_nonsense import nonsense, survives

from leadline.analysis import ANALYSES
from leadline.analysis.spec import Analysis
from leadline.model.tables import TABLES, Identity

ROOT = Path(__file__).resolve().parents[2]
every = pytest.mark.parametrize("item", ANALYSES, ids=lambda item: item.name)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@every
def test_every_analysis(item: Analysis, law: Law) -> None:
    law(item, case_of(item))


@every
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_nonsense_is_survived(item: Analysis, data: st.DataObject) -> None:
    survives(item, data.draw(nonsense(item, case_of(item))))


@every
def test_declarations_are_whole(item: Analysis) -> None:
    assert_declared(item)


@every
def test_every_analysis_has_a_page(item: Analysis) -> None:
    page = ROOT / "docs" / "analyses" / f"{item.name}.md"
    assert page.exists(), f"what {item.name} concludes, how, and where it errs stands in docs/analyses/{item.name}.md"


def test_names_are_given_once() -> None:
    names = [item.name for item in ANALYSES]
    assert len(set(names)) == len(names)


def test_verdicts_are_read_after_they_were_written() -> None:
    """In the order of the registry, so that one pass of the runner settles a window."""
    for place, item in enumerate(ANALYSES):
        later = {table.name for other in ANALYSES[place + 1 :] for table in other.writes}
        early = later - {table.name for other in ANALYSES[: place + 1] for table in other.writes}
        read = {read.table.name for read in item.reads}
        assert not read & early, f"{item.name} reads {', '.join(sorted(read & early))}, which is written after it"


def test_times_and_lengths_are_told_apart() -> None:
    """Whether a column of ns moves with the window: stamps and window ends do, what is named a length does not."""
    for table in TABLES:
        stamps = {column.name for column in table.columns if column.clocked} | {table.time}
        assert stamps <= set(times_of(table)), f"LENGTHS names a time of {table.name}"
        if table.identity is Identity.REVISION:
            known = {"start_ns", "since_ns", "earliest_ns", "end_ns", "reported_ns", "seen_ns"}
            assert set(times_of(table)) <= known or table.name == "message", table.name
    named = {column.name for table in TABLES for column in table.columns if column.unit == "ns"}
    assert named >= LENGTHS, f"no table has {', '.join(sorted(LENGTHS - named))}"
