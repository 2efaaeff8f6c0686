"""What `show ledger` and `show failures` print and draw; and both against a running server."""

from __future__ import annotations

import io
import json
import re
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from tests.senders.running import RunningLeadline, imported, ndjson
from tests.unit.cli.conftest import Run
from tests.unit.views.ledger.ledger_rows import BEGIN, ROWS, WINDOW
from tests.unit.views.paths.path_rows import filled

from leadline.cli.output import when
from leadline.cli.picture.ledger import FILLS, LEFT, RIGHT, WIDTH, ledger_picture
from leadline.cli.show.failures import tell as tell_failures
from leadline.cli.show.ledger import headlines, tell
from leadline.cli.words.ledger import bar, money, owner_words, share, span
from leadline.model.accounts import Category
from leadline.model.principal import Principal
from leadline.model.tables import BY_NAME
from leadline.model.units import gpu_time
from leadline.views.asked import Asked
from leadline.views.ledger.config import LedgerConfig
from leadline.views.ledger.failures import failures_answer
from leadline.views.ledger.view import ledger_answer

HOWTO = Path(__file__).parents[3] / "docs" / "how-to" / "see-where-the-time-went.md"
SVG = "{http://www.w3.org/2000/svg}"
ASKED = Asked(Principal(), "default", BEGIN + 5 * WINDOW, latest=True)
TIMES = {"start_ns", "end_ns", "seen_ns"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with filled(tmp_path_factory.mktemp("told"), ROWS) as store:
        return {
            "priced": ledger_answer(store, ASKED, "bert-1", config=LedgerConfig(2.5, "EUR")),
            "free": ledger_answer(store, ASKED, "bert-1"),
            "none": ledger_answer(store, ASKED, "gone-1"),
            "failures": failures_answer(store, ASKED),
        }


def printed(answer: dict[str, Any], how: Any = tell) -> str:
    out = Console(width=160, file=io.StringIO(), highlight=False, markup=False)
    how(out, answer)
    return str(out.file.getvalue())  # type: ignore[attr-defined]


def test_the_first_screen_says_where_who_since_when_and_what_is_not_known(answers: dict[str, Any]) -> None:
    text = printed(answers["priced"])
    lines = text.splitlines()
    assert len(lines) < 50
    assert "ledger of bert-1, 50 s to" in lines[0]
    row = next(line for line in lines if line.startswith("bert-1/3"))
    assert "22 GPU-s" in row
    assert "0.015 EUR" in row
    assert when(BEGIN + WINDOW)[11:] in row
    assert "rank 3" in lines[2]
    assert "10 s (40 GPU-s): windows not analysed" in text
    assert "3.3 s (13.2 GPU-s): no rows of step" in text
    assert "█" in next(line for line in lines if line.startswith("compute"))


def test_without_a_price_no_money_is_told_but_how_to_set_one(answers: dict[str, Any]) -> None:
    text = printed(answers["free"])
    assert "EUR" not in text
    assert "costs " not in text.replace("lost time by culprit", "")
    assert "ledger.gpu_hour_price" in headlines(answers["free"])[-1]


def test_nothing_to_tell_says_why(answers: dict[str, Any]) -> None:
    assert "no second of gone-1 is in the ledger" in printed(answers["none"])
    assert "no second of gone-1" in ledger_picture(answers["none"], when)


def test_failures_print_the_tables(answers: dict[str, Any]) -> None:
    text = printed(answers["failures"], tell_failures)
    for words in ("by class", "time to resolve", "first failure by size of fleet", "jobs by size", "not fitted"):
        assert words in text


@pytest.mark.parametrize(("verb", "answer"), [("ledger", "priced"), ("failures", "failures")])
def test_every_key_of_an_answer_is_documented(answers: dict[str, Any], verb: str, answer: str) -> None:
    row = next(line for line in HOWTO.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {verb} |"))
    documented = set(re.findall(r"`(\w+)`", row)) | {"schema"}
    assert answers[answer].keys() <= documented
    columns = {column.name for column in BY_NAME["failure"].columns}
    for name, part in answers[answer].items():
        for one in part if isinstance(part, list) else [part]:
            if isinstance(one, dict) and name != "depths":
                assert one.keys() <= documented | columns, name


def test_every_category_has_its_own_fill() -> None:
    assert set(FILLS) == {each.value for each in Category}
    assert len(set(FILLS.values())) == len(FILLS)


def test_bands_of_the_picture_are_as_wide_and_tall_as_the_time(answers: dict[str, Any]) -> None:
    root = ElementTree.fromstring(ledger_picture(answers["priced"], when))
    groups = [group for group in root.iter(f"{SVG}g") if group.get("data-category") == "straggler"]
    band, lost = (group.find(f"{SVG}rect") for group in groups)
    assert band is not None
    assert lost is not None
    fifth = (WIDTH - LEFT - RIGHT) / 5
    assert float(band.get("x", 0)) == pytest.approx(LEFT + fifth, abs=0.1)
    assert float(band.get("width", 0)) == pytest.approx(fifth, abs=0.5)
    assert float(band.get("height", 0)) == pytest.approx(0.6 * 220, abs=0.2)
    assert float(lost.get("height", 0)) == pytest.approx(0.55 * 110, abs=0.2)
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("x", 0)) + float(rect.get("width", 0)) <= WIDTH + 0.5


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (gpu_time(85), "85 GPU-s"), (gpu_time(1298.8), "1,299 GPU-s"),
        (gpu_time(4752), "1.32 GPU-h"), (gpu_time(3.6e7), "10,000 GPU-h"),
        (gpu_time(None), "-"),
        (span(12.345), "12.3 s"), (span(200), "3 min 20 s"), (span(18720), "5 h 12 min"), (span(86400), "1 d"),
        (money(12.4, "EUR"), "12.40 EUR"), (money(0.01234, "EUR"), "0.012 EUR"), (money(1e-5, "EUR"), "<0.001 EUR"),
        (money(None, "EUR"), "-"),
        (share(0.8123), "81.2 %"), (owner_words({"owner": None}), "(the job)"),
        (owner_words({"owner": "rank:b-1/0>rank:b-1/3"}), "b-1/0 > b-1/3"),
        (owner_words({"owner": "job:b-1"}), "(the job)"),
        (owner_words({"owner": "comm:bert-1/0x9bf521de73ca940e"}), "comm:bert-1/0x9bf521…"),
        (bar(0.5, 4), "██"), (bar(1e-9), "▏"), (bar(0), ""), (bar(7, 3), "███"),
    ],
)  # fmt: skip
def test_words(got: str, expected: str) -> None:
    assert got == expected


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    """A server with the rows, moved so that the job ended just now."""
    by_ns = time.time_ns() // WINDOW * WINDOW - (BEGIN + 5 * WINDOW)
    with RunningLeadline(tmp_path_factory.mktemp("server"), {"LEADLINE_LEDGER__GPU_HOUR_PRICE": "3"}) as server:
        for name, some in ROWS.items():
            if name == "analysis_run":  # for operators; without it the highest revision counts
                continue
            for tenant in ("acme", "beta"):
                rows = [_sent(name, row, by_ns) for row in some if row["tenant"] == tenant]
                if not rows:
                    continue
                headers = {"content-type": "application/x-ndjson", **imported(tenant)}
                answer = server.http.post(f"/api/v1/rows/{name}", content=ndjson(rows), headers=headers)
                assert answer.status_code == 200, answer.text
        yield server


def _sent(name: str, row: dict[str, Any], by_ns: int) -> dict[str, Any]:
    told = {column.name: row[column.name] for column in BY_NAME[name].given}
    return {key: each + by_ns if key in TIMES and each is not None else each for key, each in told.items()}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_forms_for_programs(server: RunningLeadline, leadline_cli: Run, output: str) -> None:
    read = json.loads if output == "json" else yaml.safe_load
    ran = leadline_cli("show", "ledger", "bert-1", "--server", server.url, "--output", output)
    assert (ran.code, ran.err) == (0, "")
    found = read(ran.out)
    assert (found["schema"], found["total"]["seconds"]) == (1, 40.0)
    assert (found["cost"]["price"], found["cost"]["total"]) == (3.0, pytest.approx(200 / 3600 * 3))
    ran = leadline_cli("show", "failures", "--from", "-1h", "--server", server.url, "--output", output)
    assert read(ran.out)["failures_total"] == 3


def test_a_picture_and_tables_for_people(server: RunningLeadline, leadline_cli: Run, tmp_path: Path) -> None:
    ran = leadline_cli("show", "ledger", "job:bert-1", "--svg", str(tmp_path / "l.svg"), "--server", server.url)
    assert ran.code == 0
    assert "lost time by culprit" in ran.out
    assert "waiting for a straggler" in (tmp_path / "l.svg").read_text(encoding="utf-8")
    assert "by class" in leadline_cli("show", "failures", "--server", server.url).out


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("show", "ledger", "bert-1", "--from", "-1m", "--to", "-2m"), "`from` must be before `to`"),
        (("show", "ledger", "bert-1", "--from", "tomorrow"), "tomorrow"),
        (("show", "ledger", "bert-1", "--to", "-1m", "--at", "-1m"), "not both"),
        (("show", "ledger", "bert-1", "--svg", "l.png"), "expected NAME.svg"),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_what_to_do(
    server: RunningLeadline, leadline_cli: Run, asked: tuple[str, ...], told: str
) -> None:
    ran = leadline_cli(*asked, "--server", server.url)
    assert ran.code == 2
    assert told in ran.err.replace("\n", " ")
