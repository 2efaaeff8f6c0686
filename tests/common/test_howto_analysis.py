"""The example of docs/how-to/add-an-analysis.md runs, passes its own tests, and keeps the laws."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.common import analysis_cases
from tests.common.analysis_laws import LAWS, Law, assert_declared
from tests.common.analysis_nonsense import nonsense, survives

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "add-an-analysis.md"


@pytest.fixture(scope="module")
def written() -> Iterator[dict[str, Any]]:
    """What the blocks of the page define, each as the module that its first line names: it imports what it needs."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    assert len(blocks) == 4
    names: dict[str, Any] = {}
    before, cases = dict(analysis_cases.CASES), dict(vars(analysis_cases))
    with pytest.MonkeyPatch.context() as patch:
        for block in blocks:
            named = re.match(r"# (?:src/)?(\S+?)\.py\b", block)
            assert named, "a block says which file it is of"
            name = named[1].replace("/", ".")
            module = analysis_cases if name == analysis_cases.__name__ else ModuleType(name)
            patch.setitem(sys.modules, name, module)
            exec(compile(block, str(PAGE), "exec", dont_inherit=True), vars(module))
            names |= vars(module)
        yield names
    analysis_cases.CASES.clear()
    analysis_cases.CASES.update(before)
    for name in vars(analysis_cases).keys() - cases.keys():
        delattr(analysis_cases, name)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_example_keeps_the_laws(written: dict[str, Any], law: Law) -> None:
    law(written["discards"], analysis_cases.case_of(written["discards"]))


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_example_survives_nonsense(written: dict[str, Any], data: st.DataObject) -> None:
    item = written["discards"]
    survives(item, data.draw(nonsense(item, analysis_cases.case_of(item))))


def test_the_example_is_declared_whole(written: dict[str, Any]) -> None:
    assert_declared(written["discards"])


def test_the_tests_of_the_example_pass(written: dict[str, Any]) -> None:
    tests = [each for name, each in written.items() if name.startswith("test_")]
    assert tests
    for each in tests:
        each()
