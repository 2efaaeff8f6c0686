"""Grafana's dashboards: as the generator writes them, whole, provisioned; every query of the store says something.

The store holds the recorded incident and made verdicts, each told twice, since what counts is the newest revision.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard as SchemaDashboard
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.paths.path_rows import append, filled

from leadline.lab.incidents import SHOWN, incident
from leadline.model.principal import Principal
from leadline.server.page import VIEWS
from leadline.store import Store
from leadline.store.bundle import read_bundle

GRAFANA = Path(__file__).resolve().parents[3] / "deploy" / "grafana"
sys.path.insert(0, str(GRAFANA))
from make_dashboards import EMBEDDED, METRICS, PAGE_URL, SERVER, files, panel  # noqa: E402
from panels import ANY, DASHBOARDS  # noqa: E402
from verdict_panels import VERDICTS  # noqa: E402

FILES = sorted(GRAFANA.glob("dashboards*/*.json"))
LOADED = {path: json.loads(path.read_text()) for path in FILES}
UNITS = {"short", "none", "s", "percentunit", "bytes", "bps", "pps", "ops", "reqps", "hertz", "celsius", "watt"}
S = 10**9
INCIDENT = "bert-1-slow-1"
TIMED = {"timeseries"}


def panels() -> Iterator[tuple[Path, dict[str, Any]]]:
    for path, found in LOADED.items():
        for each in found["panels"]:
            yield path, each


def queried(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The variables of a dashboard whose values are asked for."""
    return [one for one in found["templating"]["list"] if one["type"] == "query"]


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


# -- form -----------------------------------------------------------------------------------------------------


def test_files_are_what_the_generator_writes() -> None:
    assert {path: path.read_text() for path in FILES} == files(), "run python deploy/grafana/make_dashboards.py"
    assert {path.stem for path in FILES} == {"fleet", "job", "node", "fabric", "incident", "verdicts"}


def test_uids_tell_dashboards_apart_and_grafana_takes_them() -> None:
    uids = [found["uid"] for found in LOADED.values()]
    assert len(set(uids)) == len(uids) == 12
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", uid) for uid in uids)
    titles = {found["title"] for found in LOADED.values()}
    assert len(titles) == 6


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_dashboard_is_whole(path: Path) -> None:
    found = LOADED[path]
    assert found["description"]
    assert found["timezone"] == "utc"
    ids = [each["id"] for each in found["panels"]]
    assert ids == list(range(1, len(ids) + 1))
    cells: set[tuple[int, int]] = set()
    for each in found["panels"]:
        assert each["title"]
        assert len(each["description"]) > 5, each["title"]
        assert each["fieldConfig"]["defaults"]["unit"] in UNITS, each["title"]
        spot = each["gridPos"]
        mine = {
            (x, y) for x in range(spot["x"], spot["x"] + spot["w"]) for y in range(spot["y"], spot["y"] + spot["h"])
        }
        assert not mine & cells, f"{each['title']} lies over another"
        assert spot["x"] + spot["w"] <= 24
        cells |= mine
        assert each["fieldConfig"]["defaults"]["noValue"] == "unknown", "nothing is not zero"
        assert [one["refId"] for one in each["targets"]] == ["A"]


def test_data_sources_are_provisioned() -> None:
    folder = GRAFANA / "provisioning" / "datasources"
    sources = {
        one["uid"]: one["type"] for file in folder.iterdir() for one in yaml.safe_load(file.read_text())["datasources"]
    }
    used = {(each["datasource"]["uid"], each["datasource"]["type"]) for _, each in panels()}
    used |= {
        (one["datasource"]["uid"], one["datasource"]["type"])
        for found in LOADED.values()
        for one in (*queried(found), *found["annotations"]["list"])
    }
    assert used == set(sources.items())
    provider = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "leadline.yaml").read_text())["providers"][0]
    assert provider["type"] == "file"
    assert provider["options"]["path"] == "${LEADLINE_DASHBOARDS}"
    scraped = yaml.safe_load((GRAFANA / "prometheus.yml").read_text())["scrape_configs"]
    assert scraped[0]["job_name"] == "leadline"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_variables_that_are_used_are_there(path: Path) -> None:
    found = LOADED[path]
    names = {one["name"] for one in queried(found)}
    queries = [each["targets"] for each in found["panels"]] + [each["target"] for each in found["annotations"]["list"]]
    used = set(re.findall(r"\$\{([^}]+)\}", json.dumps(queries))) - {"__from", "__to"}
    quoted = "regex" if path.stem == "verdicts" else "sqlstring"
    assert used - {"leadline:sqlstring"} == {f"{name}:{quoted}" for name in names}, "quoted by Grafana, never bare"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_links_lead_to_the_page(path: Path) -> None:
    found = LOADED[path]
    (page,) = [one for one in found["templating"]["list"] if one["type"] == "textbox"]
    assert (page["name"], page["query"]) == ("leadline", PAGE_URL)
    for each in found["panels"]:
        urls = [
            link["url"]
            for override in each["fieldConfig"]["overrides"]
            for one in override["properties"]
            if one["id"] == "links"
            for link in one["value"]
        ]
        urls += [link["url"] for link in each["fieldConfig"]["defaults"].get("links", ())]
        for url in urls:
            view = re.fullmatch(
                r"\$\{leadline\}/([a-z]+)[/?].*\$\{__(value\.text|field\.labels\.(who|job_name))\}", url
            )
            assert view, url
            assert view[1] in VIEWS
    titles = {one["title"]: one for one in found["panels"]}
    if path.stem == "fleet":
        linked = {each["matcher"]["options"] for each in titles["Incidents"]["fieldConfig"]["overrides"]}
        assert {"incident", "job"} <= linked


def kept(told: Any, back: Any, at: str = "") -> Iterator[str]:
    """What of a JSON value is not in another."""
    if isinstance(told, dict) and isinstance(back, dict):
        for name, value in told.items():
            yield from kept(value, back[name], f"{at}/{name}") if name in back else [f"{at}/{name}"]
    elif isinstance(told, list) and isinstance(back, list) and len(told) == len(back):
        for place, (one, other) in enumerate(zip(told, back, strict=True)):
            yield from kept(one, other, f"{at}/{place}")
    elif told != back:
        yield at


def outside_the_schema(found: dict[str, Any]) -> list[str]:
    """What Grafana's own schema of dashboards, of panels and of Prometheus' queries does not have: it drops that."""
    register_default_plugins()
    back = json.loads(JSONEncoder().encode(SchemaDashboard.from_json(found)))
    # Of an annotation's query the schema has only those of Grafana's own; what a data source asks is its own affair.
    return [each for each in kept(found, back) if not each.startswith("/annotations/list/0/target/")]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_dashboard_is_as_grafanas_schema_says(path: Path) -> None:
    assert outside_the_schema(LOADED[path]) == []


def test_the_schema_is_awake() -> None:
    wrong = json.loads(json.dumps(LOADED[FILES[0]]))
    wrong["timezome"] = "utc"
    wrong["panels"][0]["fieldConfig"]["defaults"]["unti"] = "s"
    wrong["panels"][0]["options"]["colourMode"] = "value"
    expected = {"/timezome", "/panels/0/fieldConfig/defaults/unti", "/panels/0/options/colourMode"}
    assert set(outside_the_schema(wrong)) == expected


def test_no_panel_is_only_in_one_of_the_two_sets() -> None:
    for one in (*DASHBOARDS, VERDICTS):
        for each in one.panels:
            both = [panel(each, 1, {}, store) for store in (EMBEDDED, SERVER)]
            assert both[0]["title"] == both[1]["title"]
            assert (both[0] == both[1]) == (each.source == METRICS)


# -- queries --------------------------------------------------------------------------------------------------


def made(table: str, **given: Any) -> list[dict[str, Any]]:
    """A verdict told twice: what revision 0 said is out of date."""
    return [row(table, version=1, revision=revision, **given) for revision in (0, 1)]


def verdicts(end_ns: int) -> dict[str, list[dict[str, Any]]]:
    start_ns = end_ns - 60 * S
    window = {"end_ns": end_ns, "window_ns": 10 * S}
    span = {"start_ns": start_ns, "seen_ns": end_ns}
    evidence = json.dumps([{"table": "event", "entity": "port:h3/eth0", "what": "link-down", "time_ns": start_ns,
                            "bound_ns": None, "text": "h3/eth0 lost its carrier"}])  # fmt: skip
    whole = {"incident": INCIDENT, "job": "bert-1", "entity": "job:bert-1", "symptom": "slow", **span}
    ledger = [
        row("ledger", job="bert-1", category="straggler", owner="rank:bert-1/3", gpu_seconds=20.0, version=1,
            revision=revision, lost_gpu_seconds=lost, analysis="ledger", **window)
        for revision, lost in ((0, 99.0), (1, 10.0))
    ]  # fmt: skip
    ledger += [each | {"category": "compute", "owner": "", "gpu_seconds": 60.0, "lost_gpu_seconds": 0.0}
               for each in ledger]  # fmt: skip
    return {
        "ledger": ledger,
        "incident": made("incident", **whole, jobs=["bert-1"], symptoms="[]", state="open", verdict="known",
                         lost_gpu_seconds=10.0),
        "cause": made("cause", incident=INCIDENT, position=1, entity="port:h3/eth0", rule="link-down", chosen=True,
                      probability=0.999, evidence=evidence, action="CHECK_CABLE", **span),
        "symptom": made("symptom", blamed="[]", entity="job:bert-1", job="bert-1", symptom="slow",
                        lost_gpu_seconds=10.0, **span),
        "anomaly": made("anomaly", entity="host:h3", entity_kind="host", metric="node_load1", score=9.0, **span),
        "mark": [row("mark", incident=INCIDENT, entity="port:h3/eth0", rule="link-down", mark="right",
                     time_ns=end_ns - S, actor="operator:default/kim")],
        "ecmp_group": made("ecmp_group", switch="leaf1", group="e1,e2", links=["a", "b"], efficiency=0.5,
                           colliding=[], jobs=["bert-1"], **window),
        "flow_volume": made("flow_volume", flow=1, link="link:a~b", job="bert-1", bytes=1e9, **window),
        "suspect": made("suspect", entity="link:a~b", others=[], probability=0.7, kind="loses", **span),
        "conflict": made("conflict", entity="swport:leaf1/e1", kind="wrong-port", claims=[], sources=[],
                         text="they disagree", **span),
    }  # fmt: skip


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, int, int]]:
    """The store, and the span that it holds, ms."""
    with read_bundle(incident(SHOWN)) as bundle, filled(tmp_path_factory.mktemp("grafana"), {}) as store:
        for table in bundle.tables:
            for group in bundle.groups(table):
                store.append(table, group)
        ends = store.query("SELECT min(end_ns) AS low, max(end_ns) AS high FROM leadline.step").to_pylist()[0]
        low_ms, high_ms = ends["low"] // 10**6 - 1000, ends["high"] // 10**6 + 1000
        append(store, verdicts(high_ms * 10**6 - 5 * S))
        yield store, low_ms, high_ms


def asked(held: tuple[Store, int, int], sql: str) -> pa.Table:
    """What the API would say, with Grafana's variables filled in as it does."""
    store, low_ms, high_ms = held
    given = {
        "${__from}": str(low_ms), "${__to}": str(high_ms), "${job:sqlstring}": "'bert-1'",
        "${host:sqlstring}": "'h3','h5'", "${incident:sqlstring}": f"'{INCIDENT}'", "${switch:sqlstring}": ANY,
        "${leadline:sqlstring}": f"'{PAGE_URL}'",
    }  # fmt: skip
    for name, value in given.items():
        sql = sql.replace(name, value)
    return store.query_as(Principal(), sql)


def sql_of(query: Any) -> str:
    """The SQL of a target or a variable."""
    if isinstance(query, str):
        return query
    if "rawSql" in query:
        return str(query["rawSql"])
    body = query.get("infinityQuery", query)["url_options"]
    assert (body["method"], body["body_content_type"]) == ("POST", "application/json")
    return str(json.loads(body["data"])["sql"])


STORED = [(path, each) for path, each in panels() if each["datasource"]["type"] != "prometheus"]


@pytest.mark.parametrize(("path", "one"), STORED, ids=[f"{name_of(path)}: {each['title']}" for path, each in STORED])
def test_query_says_something(held: tuple[Store, int, int], path: Path, one: dict[str, Any]) -> None:
    target = one["targets"][0]
    found = asked(held, sql_of(target))
    assert found.num_rows, "nothing of the recorded incident"
    names = found.column_names
    if one["type"] == "stat":
        assert (found.num_rows, found.num_columns) == (1, 1)
        assert found.column(0)[0].as_py() is not None
    if one["type"] not in TIMED:
        return
    if "rawSql" in target:
        assert names[0] == "time"
        return
    assert {each["selector"] for each in target["columns"]} == set(names), "what Infinity looks for"
    times = found.column("t_ms").to_pylist()
    _, low_ms, high_ms = held
    assert times == sorted(times)
    assert low_ms - 10_000 <= times[0] <= times[-1] <= high_ms
    values = [name for name in names if name not in ("t_ms", "who")]
    assert any(value is not None for name in values for value in found.column(name).to_pylist())


VARIABLES = [
    (path, one) for path, found in LOADED.items() for one in queried(found) if one["datasource"]["type"] != "prometheus"
]


@pytest.mark.parametrize(("path", "one"), VARIABLES, ids=[f"{name_of(path)}: {one['name']}" for path, one in VARIABLES])
def test_choices(held: tuple[Store, int, int], path: Path, one: dict[str, Any]) -> None:
    values = asked(held, sql_of(one["query"])).column("value").to_pylist()
    assert {"job": "bert-1", "host": "h3", "incident": INCIDENT, "switch": "leaf1"}[one["name"]] in values
    assert len(values) == len(set(values))


def titled(dashboard: str, title: str) -> dict[str, Any]:
    path = GRAFANA / "dashboards" / f"{dashboard}.json"
    return next(each for each in LOADED[path]["panels"] if each["title"] == title)


def test_only_the_newest_revision_counts(held: tuple[Store, int, int]) -> None:
    def rows(dashboard: str, title: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = asked(held, sql_of(titled(dashboard, title)["targets"][0])).to_pylist()
        return found

    assert rows("fleet", "GPU time lost") == [{"lost": pytest.approx(10.0)}]
    assert rows("fleet", "Goodput") == [{"share": pytest.approx(60 / 80)}]
    assert rows("fleet", "Open incidents") == [{"open": 1}]
    assert [each["incident"] for each in rows("fleet", "Incidents")] == [INCIDENT]
    assert [(each["rule"], each["probability"]) for each in rows("incident", "Causes")] == [("link-down", 0.99)]
    assert [each["evidence"] for each in rows("incident", "Evidence")] == ["h3/eth0 lost its carrier"]
    assert [each["bytes"] for each in rows("fabric", "Links by volume")] == [1e9]


ANNOTATED = [(path, found) for path, found in LOADED.items() if path.stem != "verdicts"]


@pytest.mark.parametrize(("path", "found"), ANNOTATED, ids=[name_of(path) for path, _ in ANNOTATED])
def test_incidents_are_marked_on_every_dashboard(
    held: tuple[Store, int, int], path: Path, found: dict[str, Any]
) -> None:
    (one,) = found["annotations"]["list"]
    assert (one["name"], one["enable"]) == ("Incidents", True)
    rows = asked(held, sql_of(one["target"])).to_pylist()
    assert [row["title"] for row in rows] == ["slow: bert-1"]
    assert f'<a href="{PAGE_URL}/incidents/{INCIDENT}">' in rows[0]["text"]
    assert "10 GPU-s lost" in rows[0]["text"]
    assert rows[0]["time"] < rows[0]["timeEnd"]
    if "columns" in one["target"]:
        assert [each["selector"] for each in one["target"]["columns"]] == list(rows[0])


def test_one_switch_of_many(held: tuple[Store, int, int]) -> None:
    sql = sql_of(titled("fabric", "Switch ports: sent")["targets"][0])
    every = {each["who"].split("/")[0] for each in asked(held, sql).to_pylist()}
    assert len(every) > 1
    chosen = asked(held, sql.replace("${switch:sqlstring}", "'leaf1'")).to_pylist()
    assert {each["who"].split("/")[0] for each in chosen} == {"swport:leaf1"}


def test_gpus_are_called_as_people_do(held: tuple[Store, int, int]) -> None:
    found = asked(held, sql_of(titled("node", "GPU power")["targets"][0])).to_pylist()
    assert {each["who"] for each in found} == {"h3 GPU 0", "h5 GPU 0"}


def test_a_stack_adds_up_to_gpus(held: tuple[Store, int, int]) -> None:
    found = asked(held, sql_of(titled("job", "GPU time by category")["targets"][0])).to_pylist()
    assert {each["who"]: each["value"] for each in found} == pytest.approx({"compute": 6.0, "straggler": 2.0})


def test_rates_are_of_counters_whatever_the_step(held: tuple[Store, int, int]) -> None:
    """The bits that a port sent after its first rate are the sum of the rates that follow."""
    store, _, high_ms = held
    found = asked(held, sql_of(titled("fabric", "Switch ports: sent")["targets"][0]))
    port = "swport:leaf1/Ethernet3"
    each = [(one["t_ms"], one["value"]) for one in found.to_pylist() if one["who"] == port]
    bits = sum(value * (at - before) / 1000 for (before, _), (at, value) in pairwise(each))
    whole = store.query(
        "SELECT (max(value) - min(value)) * 8 AS bits FROM leadline.metric_sample JOIN leadline.series USING (series) "
        f"WHERE name = 'ifOutOctets' AND entity = '{port}' AND time_ns >= {each[0][0] * 10**6} "
        f"AND time_ns <= {high_ms * 10**6}"
    ).to_pylist()[0]["bits"]
    assert bits == pytest.approx(whole, rel=0.05)
