"""`leadline doctor --relabel`: what a Prometheus need send, as blocks to paste; and what comes that nothing reads.

The names come from the tables of bounds, signs and plots (`views.metric_use`), those that an agent sends from its
sources. Standard output is YAML whatever was found, so that it can go into a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from leadline import __version__
from leadline.analysis.anomaly.kinds import metric_kind
from leadline.analysis.sle.expectations import DEFAULTS, Expectation, parse
from leadline.cli.client import Client
from leadline.cli.options import Output
from leadline.cli.output import console, emit
from leadline.host.sources import SOURCES
from leadline.model.errors import ConfigError, LeadlineError
from leadline.views.metric_use import Use, keep_expressions, used_by, uses

LINE = 100  # characters of a line of an expression
LOOK_S = 300  # of what came so lately; some exporters are scraped once a minute
TOLD = 20  # metrics that nothing reads
NOTHING, DETECTION, TWICE = "nothing", "anomaly detection only", "also sent by an agent"
# Streams that came through Prometheus, in the last LOOK_S; of one that is stored twice one counts.
CAME = f"""
    WITH lately AS (
        SELECT series, count() AS samples FROM metric_sample
        WHERE time_ns > toUnixTimestamp64Nano(now64(9)) - {LOOK_S} * 1000000000 GROUP BY series
    )
    SELECT name, mapped, twice, count() AS series, sum(samples) AS samples FROM (
        SELECT series, toString(any(name)) AS name, any(entity) != '' AS mapped,
            any(labels['switch']) = '' AND any(host) IN (
                SELECT host FROM series WHERE name = 'leadline_agent_info' AND series IN (SELECT series FROM lately)
            ) AS twice
        FROM series WHERE source IN ('remote-write', 'scrape') GROUP BY series
    ) AS told INNER JOIN lately USING (series)
    GROUP BY name, mapped, twice ORDER BY samples DESC, name"""


def relabel(server: str, agent: bool, output: Output) -> int:
    """Print it. `agent`: an agent runs on the hosts, so what it sends is left out. Returns the exit code."""
    came, why = None, ""
    expectations: Sequence[Expectation] = DEFAULTS
    try:
        client = Client(server)
        expectations = _expectations(client)
        came = received(client.post("/api/v1/sql", {"sql": CAME})["rows"], uses(expectations))
    except LeadlineError as error:
        why = str(error)
    known = uses(expectations)
    rules = rules_of(known, agent)
    answer = {
        "schema": 1,
        "metrics": [{"metric": each, "read_by": sorted({use.by for use in known if use.metric == each})}
                    for each in keep_expressions(known)],
        "write_relabel_configs": rules,
        "metric_relabel_configs": rules,
        "received": came,
        "not_asked": why,
    }  # fmt: skip
    if not emit(answer, output, "metrics"):
        console().print("\n".join(_lines(rules, agent, came, why)))
    return 0


def _expectations(client: Client) -> Sequence[Expectation]:
    """Those that hold; one that another version wrote is left out. Errors: WorldError."""
    told = client.get("/api/v1/expectations")["expectations"]
    found: list[Expectation] = []
    for each in told:
        try:
            found += parse(each["spec"], each["expectation"])
        except ConfigError:
            continue
    return tuple(found) or DEFAULTS


# --- rules --------------------------------------------------------------------------------------------------------


def rules_of(known: Iterable[Use], agent: bool) -> list[dict[str, Any]]:
    """The rules, as Prometheus' configuration has them. A port of a switch (label `switch`) has no agent beside it."""
    keep = {"source_labels": ["__name__"], "regex": "|".join(keep_expressions(known)), "action": "keep"}
    if not agent:
        return [keep]
    sent = "|".join(sent_by_agents())
    return [{"source_labels": ["switch", "__name__"], "regex": f";(?:{sent})", "action": "drop"}, keep]


def sent_by_agents() -> list[str]:
    """Metrics that an agent sends of every host under node_exporter's names."""
    return sorted({name for source in SOURCES for name in source.as_node_exporter})


def _lines(rules: Sequence[dict[str, Any]], agent: bool, came: dict[str, Any] | None, why: str) -> Iterable[str]:
    yield f"# The metrics that Leadline {__version__} reads. Use one of the two blocks; everything else is dropped."
    if agent:
        yield "# An agent runs on every scraped host: what it sends is dropped, except of targets with label `switch`."
    yield ""
    yield "# Under the entry of `remote_write` that sends to Leadline; other receivers still get everything."
    yield from _block("write_relabel_configs", rules)
    yield ""
    yield "# Or under an entry of `scrape_configs`; Prometheus itself then drops the rest, too."
    yield from _block("metric_relabel_configs", rules)
    yield ""
    yield from (f"# {line}".rstrip() for line in _received_lines(came, agent, why))


def _block(name: str, rules: Sequence[dict[str, Any]]) -> Iterable[str]:
    yield f"{name}:"
    for rule in rules:
        yield f"  - source_labels: [{', '.join(rule['source_labels'])}]"
        yield f"    action: {rule['action']}"
        first, *more = _folded(rule["regex"])
        yield f'    regex: "{first}' + ("" if more else '"')
        yield from (f"      {each}" for each in more)


def _folded(regex: str) -> list[str]:
    """A long expression as a YAML text in double quotes over several lines, each but the last ended by a backslash."""
    words = [f"{each}|" for each in regex.split("|")]
    words[-1] = words[-1][:-1]
    lines = [""]
    for word in (each.replace("\\", "\\\\") for each in words):
        if lines[-1] and len(lines[-1]) + len(word) > LINE:
            lines.append("")
        lines[-1] += word
    return [f"{line}\\" for line in lines[:-1]] + [lines[-1] + ('"' if len(lines) > 1 else "")]


# --- what comes -----------------------------------------------------------------------------------------------------


def received(rows: Iterable[dict[str, Any]], known: Sequence[Use]) -> dict[str, Any]:
    """How much of what came lately nothing reads by name, or an agent sends too; the largest by name.

    rows: name, mapped (of a known entity), twice (its host has an agent), series, samples.
    """
    sent = re.compile("|".join(sent_by_agents()))
    totals = {why: [0, 0.0] for why in ("all", NOTHING, DETECTION, TWICE)}
    names: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        why = _why(row, known, sent)
        for each in ("all", *([why] if why else [])):
            totals[each][0] += row["series"]
            totals[each][1] += row["samples"] / LOOK_S
        if why:
            one = names.setdefault((row["name"], why), [0, 0.0])
            one[0] += row["series"]
            one[1] += row["samples"] / LOOK_S
    largest = sorted(names.items(), key=lambda each: (-each[1][1], each[0]))[:TOLD]
    return {
        "seconds": LOOK_S,
        **{key: {"series": totals[why][0], "samples_per_s": round(totals[why][1], 2)}
           for key, why in (("all", "all"), ("read_by_nothing", NOTHING), ("detection_alone", DETECTION),
                            ("sent_twice", TWICE))},
        "names": [{"metric": name, "series": count, "samples_per_s": round(rate, 2), "read_by": why}
                  for (name, why), (count, rate) in largest],
        "names_left_out": max(0, len(names) - TOLD),
    }  # fmt: skip


def _why(row: dict[str, Any], known: Sequence[Use], sent: re.Pattern[str]) -> str:
    """Why a stream need not be sent; empty: it is read by name."""
    if row["twice"] and sent.fullmatch(row["name"]):
        return TWICE
    if used_by(row["name"], known):
        return ""
    return DETECTION if row["mapped"] and metric_kind(row["name"]) is not None else NOTHING


def _received_lines(came: dict[str, Any] | None, agent: bool, why: str) -> Iterable[str]:
    if came is None:
        yield f"No server was asked what arrives: {why}"
        return
    yield f"Received by remote-write and scrapes in the last {came['seconds'] // 60} min: {_rate(came['all'])}."
    yield f"  used by nothing: {_rate(came['read_by_nothing'])}"
    yield (
        "  checked by anomaly detection only (no cause, expectation or plot names it): "
        f"{_rate(came['detection_alone'])}"
    )
    yield f"  also sent by an agent on the same host: {_rate(came['sent_twice'])}" + (
        "; --agent drops these" if came["sent_twice"]["series"] and not agent else ""
    )
    if came["names"]:
        yield "The largest:"
        width = max(len(each["metric"]) for each in came["names"])
        for each in came["names"]:
            yield f"  {each['metric']:{width}}  {_rate(each)}  {each['read_by']}"
        if came["names_left_out"]:
            yield f"  and {came['names_left_out']} more metrics"


def _rate(told: dict[str, Any]) -> str:
    return f"{told['series']:,} series, {told['samples_per_s']:,g} samples/s"
