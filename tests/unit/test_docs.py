"""The docs say what is declared, and their links lead somewhere."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path

import pytest

from leadline.lab.faults import FAULTS
from leadline.model.counters import COUNTERS
from leadline.model.ids import ENTITY_KINDS
from leadline.model.names import EVENT_RULES, RULES
from leadline.model.tables import TABLES
from leadline.server.config import SECTIONS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted({*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "tests").rglob("README.md")})
README_WORDS_MAX = 900  # a sentence, a picture, two commands, how to connect, what it does, limits


def page(name: str) -> str:
    return (DOCS / name).read_text()


def test_generated_pages_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec
    assert spec.loader
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.stale() == [], "run `make docs`"


def test_every_table_and_column_is_on_its_page() -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page("tables.md"), re.S | re.M))
    assert set(sections) == {table.name for table in TABLES}
    for table in TABLES:
        for column in table.columns:
            assert f"| `{column.name}` | {column.type}" in sections[table.name]


def test_every_counter_is_on_its_page() -> None:
    text = page("counters.md")
    for counter in COUNTERS:
        assert f"## leadline_{counter.family}_total" in text
        assert f"| `{counter.reason}` |" in text
        assert counter.do in text


def test_every_setting_is_on_its_page_and_says_what_it_does() -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page("configuration.md"), re.S | re.M))
    for name, kind in SECTIONS:
        for field in dataclasses.fields(kind):
            assert f"| `{field.name}` |" in sections[name]
            assert field.metadata.get("doc"), f"{name}.{field.name} has no doc"


def test_every_family_of_names_is_on_its_page() -> None:
    text = page("names.md")
    for rule in (*RULES, *EVENT_RULES):
        assert rule.doc in text


def test_every_kind_of_entity_is_in_the_glossary() -> None:
    glossary = page("glossary.md")
    for kind in ENTITY_KINDS:
        assert re.search(rf"`{kind}\b", glossary), f"{kind} is not explained in docs/glossary.md"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue  # the web is not ours to check
        name, _, anchor = target.partition("#")
        found = (path.parent / name) if name else path
        assert found.exists(), f"{target}: there is no {found}"
        if anchor and found.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", found.read_text(), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}, target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_name_files_that_exist(path: Path) -> None:
    """Paths of this repository written as code (`src/...`, `tests/...`) exist; `<name>` and `*` are placeholders."""
    for name in re.findall(r"`((?:src|tests|docs|bench|evals|scripts)/[\w./-]+)`", path.read_text()):
        assert (ROOT / name).exists(), f"{path.name} names {name}"


def test_no_page_names_a_place_outside_the_repository() -> None:
    for path in PAGES:
        assert not re.search(r"(?<![\w.])/(work|tmp)/", path.read_text()), path


def test_readme_states_how_many_there_are() -> None:
    text = (ROOT / "README.md").read_text()
    assert f"[{len(TABLES)} tables]" in text
    assert f"[{len(FAULTS)} faults" in text


def test_readme_is_two_screens() -> None:
    words = len((ROOT / "README.md").read_text().split())
    assert words <= README_WORDS_MAX, f"{words} words; move what is not for the first look to docs/"
