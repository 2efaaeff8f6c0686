"""The docs say what is declared, and their links lead somewhere."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.docs_commands.blocks import Command, commands, fenced, hidden, inline
from bench.docs_commands.listed import why_not_run
from bench.docs_commands.parse import unknown

from leadline.lab.faults import FAULTS
from leadline.model.counters import COUNTERS
from leadline.model.ids import ENTITY_KINDS
from leadline.model.names import EVENT_RULES, RULES
from leadline.model.tables import TABLES
from leadline.server.config import SECTIONS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted({*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "tests").rglob("README.md")})
TYPED = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]  # pages whose commands people type
SITE_BYTES_MAX = 5_500_000  # it goes into the wheel
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


def test_verbs_and_flags_on_pages_exist() -> None:
    """Run they are by tests/web/test_use.py, on the recording that it has there."""
    assert "\n".join(map(str, unknown(TYPED))) == ""


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("$ leadline diagnos bert-1", "there is no verb 'diagnos'"),
        ("$ leadline show ledgers", "there is no verb 'ledgers'"),
        ("$ leadline diagnose bert-1 --al", "there is no flag --al"),
        ("$ leadline agent --onc", "there is no flag --onc"),
        ("$ LEADLINE_STORE__PATH=x leadline up --demos", "there is no flag --demos"),
    ],
)
def test_a_wrong_verb_or_flag_is_found(tmp_path: Path, text: str, missing: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```console\n{text}\n--not-a-command\n```\n\nOr `{text[2:]}`.\n")
    found = unknown([page])
    lines = [4, 8] if text[2:].startswith("leadline") else [4]
    assert [(each.line, each.why) for each in found] == [(line, missing) for line in lines]


def test_commands_of_a_page_are_found_whole(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\n# a remark\nfirst   # said of it\nsecond \\\n  --flag 'of\ntwo lines'\ncat <<'END'\nbody\nEND\n```\n"
        "```console\n$ third\noutput\n$ fourth\n```\n```yaml\nno: command\n```\n```\nleadline doctor --x\n```\n"
    )
    assert [(each.line, each.text) for each in commands(page)] == [
        (3, "first   # said of it"),
        (4, "second    --flag 'of\ntwo lines'"),
        (7, "cat <<'END'\nbody\nEND"),
        (12, "third"),
        (14, "fourth"),
    ]
    assert hidden(page) == [Command(page, 20, "leadline doctor --x")]
    assert inline(page) == []


def test_no_command_is_where_it_is_not_checked() -> None:
    assert [command for page in TYPED for command in hidden(page)] == []
    assert {kind for page in TYPED for kind, _, _ in fenced(page)} <= {
        "",
        "sh",
        "console",
        "python",
        "sql",
        "yaml",
        "json",
    }


def test_most_commands_of_ours_are_run() -> None:
    texts = [each.text for page in TYPED for each in commands(page) if re.match(r"\S*\bleadline ", each.text)]
    run = [not why_not_run(text) for text in texts]
    assert sum(run) > len(run) / 2, "what is not run is an exception, see bench/docs_commands/listed.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as scripts/build-docs makes it: a page that is not in its navigation, or a broken link, is an error."""
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(built)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return built


def test_the_site_has_every_page_and_is_small(site: Path) -> None:
    for path in DOCS.rglob("*.md"):
        name = path.relative_to(DOCS).with_suffix("")
        assert (site / ("index.html" if str(name) == "index" else f"{name}/index.html")).is_file()
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < SITE_BYTES_MAX


def test_the_site_asks_no_other_site_and_has_no_script_within_a_page(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text()
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", text):
            assert not re.search(r"(?:src|href)=.?(?:https?:)?//", tag), f"{path}: {tag}"
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), f"{path}: the server's policy refuses it"


def test_links_out_of_the_docs_stay_readable(site: Path) -> None:
    text = (site / "how-to" / "use-grafana" / "index.html").read_text()
    assert "<code>deploy/grafana</code>" in text
    assert "../../deploy" not in text
    assert 'href="../report-a-weakness/"' in (site / "security" / "index.html").read_text()
