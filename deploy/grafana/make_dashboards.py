"""Writes Grafana's JSON of the panels: `dashboards/` for the embedded store, `dashboards-clickhouse/` for a server.

    python deploy/grafana/make_dashboards.py

Two sets, since a panel names its kind of data source: the embedded store answers through Leadline's API (Infinity), a
ClickHouse server by itself. A test holds the files to this.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from panels import ANY, DASHBOARDS, METRICS, Dashboard, Panel, Variable, marks
from verdict_panels import VERDICTS

HERE = Path(__file__).parent
EMBEDDED, SERVER = "embedded", "clickhouse"
FOLDERS = {EMBEDDED: "dashboards", SERVER: "dashboards-clickhouse"}
PROMETHEUS = {"type": "prometheus", "uid": "leadline-metrics"}
SOURCES = {
    EMBEDDED: {"type": "yesoreyeram-infinity-datasource", "uid": "leadline-api"},
    SERVER: {"type": "grafana-clickhouse-datasource", "uid": "leadline-clickhouse"},
}
SCHEMA_VERSION = 39  # of Grafana 10.4 and newer, which migrate it by themselves
KINDS = {"timeseries": "timeseries", "bars": "timeseries", "stat": "stat", "table": "table"}
TIMES = ("t_ms", "at_ms", "since_ms", "until_ms")  # columns that are times
PAGE_URL = "http://127.0.0.1:8440"
# Columns whose values lead to Leadline's page, and the series whose names do: `who` of a panel by job.
LINKS = {
    "incident": ("Incident in Leadline", "${leadline}/incidents/${__value.text}"),
    "job": ("Job in Leadline", "${leadline}/jobs/${__value.text}"),
    **dict.fromkeys(
        ("entity", "owner", "cause", "seen_on", "link"), ("Graph in Leadline", "${leadline}/graph?at=${__value.text}")
    ),
}
COLOURS = {"good": "#5b8c7b", "bad": "#b83a4b", "accent": "#2f6fdb"}


def dashboard(one: Dashboard, store: str) -> dict[str, Any]:
    """One dashboard as Grafana reads it."""
    return {
        "uid": one.uid if store == EMBEDDED else f"{one.uid}-clickhouse", "title": one.title, "description": one.about,
        "tags": ["leadline"], "schemaVersion": SCHEMA_VERSION, "version": 1, "editable": True, "graphTooltip": 1,
        "timezone": "utc", "refresh": "10s", "time": {"from": "now-1h", "to": "now"},
        "annotations": {"list": [incidents(one, store)]},
        "links": [{"type": "dashboards", "tags": ["leadline"], "title": "Leadline", "asDropdown": True,
                   "keepTime": True, "includeVars": False, "icon": "external link", "targetBlank": False}],
        "templating": {"list": [*(variable(each, store) for each in one.variables), page_variable()]},
        "panels": [panel(each, place, spot, store) for place, (each, spot) in enumerate(placed(one.panels), 1)],
    }  # fmt: skip


def incidents(one: Dashboard, store: str) -> dict[str, Any]:
    """Incidents as marks on the time axes of a dashboard; of one that needs Prometheus alone, from there."""
    source, sql = SOURCES[store], marks(one.marked)
    if all(each.source == METRICS for each in one.panels):
        source = PROMETHEUS
        target: dict[str, Any] = {
            "expr": 'leadline_incidents_open{suppressed=""} > 0', "titleFormat": "{{rule}}: {{job_name}}",
            "textFormat": "{{severity}}", "tagKeys": "symptom", "step": "60s", "useValueForTime": False,
        }  # fmt: skip
    elif store == SERVER:
        times = ", ".join(f"fromUnixTimestamp64Milli(toInt64({name})) AS {name}" for name in ("time", "timeEnd"))
        target = _of_store(f"SELECT {times}, title, text, tags FROM ({sql})", False, store, "table")
    else:
        kinds = {"time": "timestamp_epoch", "timeEnd": "timestamp_epoch"}
        names = ("time", "timeEnd", "title", "text", "tags")
        columns = [{"selector": name, "text": name, "type": kinds.get(name, "string")} for name in names]
        target = _of_store(sql, False, store, "table") | {"format": "dataframe", "columns": columns}
    return {
        "name": "Incidents", "datasource": source, "enable": True, "hide": False, "iconColor": COLOURS["bad"],
        "target": {"refId": "Anno", "datasource": source, **target},
    }  # fmt: skip


def page_variable() -> dict[str, Any]:
    """Where Leadline's page is, for links to it."""
    chosen = {"text": PAGE_URL, "value": PAGE_URL, "selected": True}
    return {
        "name": "leadline", "label": "Leadline's page", "description": "For links to it.", "type": "textbox",
        "query": PAGE_URL, "current": chosen, "options": [chosen], "hide": 0, "skipUrlSync": False,
    }  # fmt: skip


def placed(panels: tuple[Panel, ...]) -> list[tuple[Panel, dict[str, int]]]:
    """Panels from left to right, in rows as high as their highest."""
    found, x, y, high = [], 0, 0, 0
    for each in panels:
        if x + each.width > 24:
            x, y, high = 0, y + high, 0
        found.append((each, {"x": x, "y": y, "w": each.width, "h": each.height}))
        x, high = x + each.width, max(high, each.height)
    return found


def panel(one: Panel, number: int, spot: dict[str, int], store: str) -> dict[str, Any]:
    """One panel."""
    source = PROMETHEUS if one.source == METRICS else SOURCES[store]
    query = _of_metrics(one) if one.source == METRICS else _of_store(one.query, one.kind != "table", store, one.kind)
    bars = one.kind == "bars"
    defaults: dict[str, Any] = {"unit": one.unit, "noValue": "unknown", "color": {"mode": "palette-classic"}}
    if one.kind == "stat":
        defaults["color"] = {"mode": "fixed", "fixedColor": COLOURS["accent"]}
    if one.kind in ("timeseries", "bars"):
        defaults["custom"] = {
            "drawStyle": "line", "lineWidth": 1, "fillOpacity": 60 if bars else 0, "spanNulls": False,
            "showPoints": "auto", "stacking": {"mode": "normal" if bars else "none", "group": "A"},
        }  # fmt: skip
    if one.leads:
        defaults["links"] = [{"title": LINKS["job"][0], "url": "${leadline}" + one.leads, "targetBlank": True}]
    if one.unit == "percentunit" and one.kind != "table":
        defaults |= {"min": 0, "max": 1} if one.low_is_bad else {"min": 0}
    return {
        "id": number, "type": KINDS[one.kind], "title": one.title, "description": one.about, "gridPos": spot,
        "datasource": source, "targets": [{"refId": "A", "datasource": source, **query}],
        "fieldConfig": {"defaults": defaults, "overrides": _overrides(one)}, "options": _options(one.kind),
    }  # fmt: skip


def _options(kind: str) -> dict[str, Any]:
    if kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"], "values": False, "fields": ""}, "colorMode": "value",
                "graphMode": "none", "textMode": "value"}  # fmt: skip
    if kind == "table":
        return {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}}
    return {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"}}  # fmt: skip


def _overrides(one: Panel) -> list[dict[str, Any]]:
    """Columns of a table that are not of its unit, and those that lead to the page."""
    if one.kind != "table":
        return []
    own = dict.fromkeys(TIMES, "dateTimeAsIso") | {"probability": "none", "position": "none", "score": "none"}
    units = [
        {"matcher": {"id": "byName", "options": name}, "properties": [{"id": "unit", "value": unit}]}
        for name, unit in (own | one.units).items()
    ]
    shown = set(_names(one.query))
    links = [
        {"matcher": {"id": "byName", "options": name},
         "properties": [{"id": "links", "value": [{"title": title, "url": url, "targetBlank": True}]}]}
        for name, (title, url) in LINKS.items() if name in shown
    ]  # fmt: skip
    return units + links


def _of_metrics(one: Panel) -> dict[str, Any]:
    instant = one.kind == "stat"
    return {"expr": one.query, "legendFormat": one.legend or "__auto", "range": not instant, "instant": instant,
            "editorMode": "code"}  # fmt: skip


def _of_store(sql: str, numbers: bool, store: str, kind: str) -> dict[str, Any]:
    """A query of the store: over time where there is a column `t_ms`, else a table."""
    timed = kind in ("timeseries", "bars")
    if store == SERVER:
        whole = f"SELECT fromUnixTimestamp64Milli(toInt64(t_ms)) AS time, * EXCEPT t_ms FROM ({sql})" if timed else sql
        return {"rawSql": whole, "format": 0 if timed else 1, "queryType": "timeseries" if timed else "table",
                "editorType": "sql", "pluginVersion": "4.0.0", "meta": {"timezone": "UTC"}}  # fmt: skip
    columns = [{"selector": "t_ms", "text": "time", "type": "timestamp_epoch"}] if timed else []
    return {
        "type": "json", "source": "url", "parser": "backend", "format": "timeseries" if timed else "table",
        "url": "/api/v1/sql", "root_selector": "rows", "columns": columns if not timed else columns + _values(sql),
        "filters": [], "url_options": {
            "method": "POST", "body_type": "raw", "body_content_type": "application/json",
            "data": json.dumps({"sql": sql}, ensure_ascii=False),
        },
    }  # fmt: skip


def _values(sql: str) -> list[dict[str, str]]:
    """Columns beside the time, by the names at the end of the outermost SELECT."""
    names = _names(sql)
    return [
        {"selector": name, "text": "" if name == "value" else name, "type": "string" if name == "who" else "number"}
        for name in names
        if name != "t_ms"
    ]


def _names(sql: str) -> list[str]:
    """Names of the columns of the outermost SELECT: the last word of each part between its commas."""
    depth, part, parts = 0, "", []
    for word in sql.removeprefix("SELECT ").replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split():
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in (",", "FROM"):
            parts.append(part.split()[-1].strip("`"))
            part = ""
            if word == "FROM":
                break
            continue
        part += f" {word}"
    return parts


def variable(one: Variable, store: str) -> dict[str, Any]:
    """A choice."""
    asked: Any = one.query
    source = PROMETHEUS if one.source == METRICS else SOURCES[store]
    if one.source == METRICS:
        asked = {"qryType": 1, "query": one.query, "refId": "variable"}
    elif store == EMBEDDED:
        asked = {"queryType": "infinity", "query": "", "infinityQuery": {
            "refId": "variable", **_of_store(one.query, False, store, "table"),
            "columns": [{"selector": "value", "text": "value", "type": "string"}],
        }}  # fmt: skip
    return {
        "name": one.name, "label": one.label, "type": "query", "datasource": source, "query": asked,
        "refresh": 2, "sort": 0, "multi": one.many, "includeAll": one.every, "hide": 0,
        "options": [], "current": {"text": ["All"], "value": ["$__all"]} if one.every else {}, "skipUrlSync": False,
        "regex": "", **({"allValue": ".*" if one.source == METRICS else ANY} if one.every else {}),
    }  # fmt: skip


def files() -> dict[Path, str]:
    """Every file as it should be."""
    return {
        HERE / folder / f"{each.uid.removeprefix('leadline-')}.json":
            json.dumps(dashboard(each, store), indent=1, ensure_ascii=False) + "\n"
        for store, folder in FOLDERS.items() for each in (*DASHBOARDS, VERDICTS)
    }  # fmt: skip


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(path.relative_to(HERE))
