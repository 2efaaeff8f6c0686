"""`leadline diagnose --metrics`: a published case from files to its cause; files that are not as they should be."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from evals import rootcause_petshop as petshop
from evals.rootcause import GOLDEN
from tests.unit.cli.conftest import Run

from leadline.cli.diagnosis import metrics_files
from leadline.cli.diagnosis.metrics_files import read_metrics, read_relations
from leadline.model.errors import DataError, LeadlineError, UsageError, WorldError

NORMAL = "2023-08-21/2023-08-23"
HEADER = "time,entity,metric,value\n"
ROW = "2026-11-20T20:22:16Z,a,latency_s,0.5\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], petshop.Issue]:
    """Options of a case of PetShop, in files as the how-to describes them, and the case."""
    folder = tmp_path_factory.mktemp("shop")
    scenario = petshop.scenarios(GOLDEN / "petshop")[0]
    issue = next(each for each in scenario.issues if each.name == "train/issue_6")
    found = [petshop.long_table(each, scenario.nodes, issue.symptom) for each in (scenario.normal, issue.window)]
    table = pa.concat_tables(found)
    table = table.filter(pc.is_finite(table["value"]))
    pq.write_table(table, folder / "metrics.parquet")
    with open(folder / "relations.csv", "w", newline="") as file:
        csv.writer(file).writerows([("from", "to", "kind"), *((*pair, "calls") for pair in scenario.calls)])
    at = datetime.fromtimestamp(int(issue.window.time_T[0]), UTC).isoformat()
    options = ["--metrics", f"{folder}/metrics.parquet", "--relations", f"{folder}/relations.csv"]
    return [*options, "--at", at, "--for", "25m", "--normal", NORMAL], issue


def test_a_published_case_from_files_to_its_cause(shop: tuple[list[str], petshop.Issue], leadline_cli: Run) -> None:
    options, issue = shop
    ran = leadline_cli("diagnose", issue.symptom.node, *options, "--output", "json")
    assert (ran.code, ran.err) == (2, "")
    found = json.loads(ran.out)
    assert (found["state"], found["metric"], found["judged"], found["normal"]) == ("critical", "failed_ratio", 5, 200)
    first = found["causes"][0]
    assert (first["entity"], first["path"]) == (issue.truth, [issue.symptom.node, issue.truth])
    assert first["relations"] == ["calls"]
    assert first["share"] > 0.9
    assert first["evidence"][0]["found"] > first["evidence"][0]["baseline"]
    assert found["missing"] == ["lambda_step_priceGreaterThan55"]


def test_the_text_says_the_same(shop: tuple[list[str], petshop.Issue], leadline_cli: Run) -> None:
    options, issue = shop
    ran = leadline_cli("diagnose", issue.symptom.node, *options)
    assert ran.code == 2
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert lines[0] == "CRITICAL PetSite: failed_ratio is above usual, and this explains it"
    assert "5 intervals of 300 s, against 200 normal ones" in lines[1]
    assert lines[2] == f"cause 1 {issue.truth}: explains 97% of it"
    assert lines[3] == f"PetSite calls {issue.truth}"
    assert lines[4] == "failed_ratio 0.02174, usually up to 0.003"
    check = leadline_cli("diagnose", issue.symptom.node, *options, "--check")
    assert (check.code, check.out) == (2, f"CRITICAL: PetSite: {issue.truth}, explains 97% of it\n")


def test_comma_separated_files_say_the_same(
    shop: tuple[list[str], petshop.Issue], leadline_cli: Run, tmp_path: Path
) -> None:
    options, issue = shop
    table = pq.read_table(options[1])
    stamps = table["time"].cast(pa.timestamp("ns", "UTC")).cast(pa.timestamp("s", "UTC"))
    table = table.set_column(0, "time", pc.strftime(stamps, "%Y-%m-%dT%H:%M:%SZ"))
    pa_csv.write_csv(table, tmp_path / "metrics.csv")
    (tmp_path / "metrics.csv.gz").write_bytes(gzip.compress((tmp_path / "metrics.csv").read_bytes()))
    (tmp_path / "relations.csv.gz").write_bytes(gzip.compress(Path(options[3]).read_bytes()))
    whole = leadline_cli("diagnose", issue.symptom.node, *options, "-o", "json").out
    for name in ("metrics.csv", "metrics.csv.gz"):
        given = ["--metrics", f"{tmp_path}/{name}", "--relations", f"{tmp_path}/relations.csv.gz", *options[4:]]
        assert leadline_cli("diagnose", issue.symptom.node, *given, "-o", "json").out == whole


def test_a_quiet_hour_is_ok_and_one_without_readings_is_unknown(
    shop: tuple[list[str], petshop.Issue], leadline_cli: Run
) -> None:
    files, issue = shop[0][:4], shop[1]
    quiet = leadline_cli(
        "diagnose", issue.symptom.node, *files, "--at", "2023-08-21T23:00Z", "--normal", "2023-08-21/2023-08-21T23:00"
    )
    assert (quiet.code, quiet.out.split()[0]) == (0, "OK")
    nothing = leadline_cli("diagnose", issue.symptom.node, *files, "--at", "2020-01-01", "--check")
    assert (nothing.code, nothing.out) == (3, "UNKNOWN: PetSite: nothing was read in the time that is judged\n")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--at", ""], "--metrics needs --at"),
        (["--for", "5 minutes"], "--for is a length of time such as 90s, 5m, 2h or 1d; got '5 minutes'"),
        (["--step", "0s"], "--step is a length of time"),
        (["--normal", "2023-08-21"], "--normal is FROM/TO, with FROM before TO; got '2023-08-21'"),
        (["--normal", "2023-08-22/2023-08-21"], "--normal is FROM/TO"),
        (["--role", "requests=load"], "--role is METRIC=ROLE, with a role of latency, waiting"),
        (["--role", "p99=latency"], "no metric is called 'p99'; there are failed_ratio, requests"),
        (["--symptom-metric", "p99"], "PetSite has none called p99"),
        (["--server", "http://nowhere"], "--metrics reads files alone, so it goes without --server"),
        (["--truth"], "goes without --truth"),
    ],
)
def test_options_that_cannot_be_say_what_can(
    shop: tuple[list[str], petshop.Issue], leadline_cli: Run, options: list[str], says: str
) -> None:
    ran = leadline_cli("diagnose", "PetSite", *shop[0], *options)
    assert ran.code == 3
    assert says in ran.err


def test_an_unknown_entity_says_who_may_be_meant_and_options_of_files_need_a_file(
    shop: tuple[list[str], petshop.Issue], leadline_cli: Run
) -> None:
    ran = leadline_cli("diagnose", "PetSit", *shop[0])
    assert ran.code == 3
    assert "no reading and no relation is of 'PetSit'; did you mean PetSite" in ran.err
    ran = leadline_cli("diagnose", "--relations", shop[0][3], "--role", "a=use")
    assert (ran.code, ran.err) == (3, "leadline: --relations, --role: only with --metrics FILE\n")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "expected a file of the kind .csv, got Empty CSV file"),
        ("time,entity,value\n", "expected columns time, entity, metric, value, and to where"),
        ("time,entity,value\n", ", got time, entity, value"),
        (HEADER + "1692608400,a,x,1\n", "row 1: expected time as a timestamp, ISO 8601 (2026-11-20T20:22:16Z) or"),
        (HEADER + "1692608400,a,x,1\n", "ns since 1970, got 1692608400, which looks like seconds"),
        (HEADER + "1692608400000,a,x,1\n", "which looks like milliseconds"),
        (HEADER + "1692608400000000,a,x,1\n", "which looks like microseconds"),
        (HEADER + "yesterday,a,x,1\n", "got string, such as 'yesterday'"),
        (HEADER + ROW + ",a,x,1\n", "row 2: expected time as a timestamp"),
        (HEADER + ROW + "2026-11-20T20:22:16Z,,x,1\n", "row 2: expected a name in entity, got nothing"),
        (HEADER + "2026-11-20T20:22:16Z,a,x,much\n", "expected value as a number, got string, such as 'much'"),
        (HEADER + ROW + "2026-11-20T20:22:16Z,a\n", "CSV parse error: Expected 4 columns, got 2"),
    ],
)  # fmt: skip
def test_a_table_that_is_none_says_where_and_what(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read_metrics(path)
    assert str(path) in str(raised.value)
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "line 1: expected columns from, to[, kind], got nothing"),
        ("a,b\n", "line 1: expected columns from, to[, kind], got a, b"),
        ("from,to\na,b\na,\n", "line 3: expected a name in to, got nothing"),
        ("from,to\na\n", "line 2: expected a name in to, got nothing"),
        ("from,to\n", "expected at least one relation, got none"),
    ],
)
def test_relations_that_are_none_say_where_and_what(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "r.csv"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read_relations(path)
    assert str(path) in str(raised.value)
    assert error in str(raised.value)


def test_files_that_are_not_there_or_damaged_are_errors_of_ours(tmp_path: Path) -> None:
    for read in (read_metrics, read_relations):
        with pytest.raises(WorldError, match="No such file"):
            read(tmp_path / "nothing.csv")
        with pytest.raises(LeadlineError):
            read(tmp_path)
    damaged = tmp_path / "m.parquet"
    damaged.write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match=r"m\.parquet: expected a file of the kind \.parquet"):
        read_metrics(damaged)
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(b"from,to\na,b\n")[:-6])
    with pytest.raises(DataError, match=r"r\.csv\.gz: expected a whole file"):
        read_relations(tmp_path / "r.csv.gz")
    (tmp_path / "latin.csv").write_bytes("from,to\nMünchen,b\n".encode("latin-1"))
    with pytest.raises(DataError, match="expected UTF-8, got byte 0xfc"):
        read_relations(tmp_path / "latin.csv")


def test_a_table_beyond_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_files, "ROWS_MAX", 1)
    (tmp_path / "m.csv").write_text(HEADER + ROW + ROW)
    with pytest.raises(UsageError, match="more than 1 readings"):
        read_metrics(tmp_path / "m.csv")
    pq.write_table(pa.table({"time": [1, 2]}), tmp_path / "m.parquet")
    with pytest.raises(UsageError, match="more than 1 readings"):
        read_metrics(tmp_path / "m.parquet")


def test_names_and_times_are_read_in_every_form(tmp_path: Path) -> None:
    time_ns = 1_692_608_400_000_000_000
    seconds = pa.array([time_ns // 10**9], pa.timestamp("s"))
    words = {"entity": pa.array(["007"]).dictionary_encode(), "metric": pa.array(["x"], pa.large_string())}
    pq.write_table(pa.table({"time": seconds, **words, "value": [1]}), tmp_path / "m.parquet")
    (tmp_path / "m.csv").write_text(f"{HEADER}{time_ns},007,x,1\n{time_ns},007,x,\n")
    (tmp_path / "z.csv").write_text(HEADER + "2023-08-21T11:00:00+02:00,007,x,1.0\n")
    whole = read_metrics(tmp_path / "m.parquet").to_pylist()
    assert whole == [{"time": time_ns, "entity": "007", "metric": "x", "value": 1.0}]
    assert read_metrics(tmp_path / "m.csv").to_pylist()[:1] == whole
    assert read_metrics(tmp_path / "m.csv")["value"].null_count == 1
    assert read_metrics(tmp_path / "z.csv").to_pylist() == whole
