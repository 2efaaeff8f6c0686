"""`leadline show sle` and `leadline show expectations`: what is promised, how well it is kept, and what breaks it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from leadline.cli.client import Client
from leadline.cli.exits import EXIT_OF_STATE, require_known
from leadline.cli.options import AtOption, ClusterOption, Output, OutputOption, ServerOption
from leadline.cli.output import STATE_STYLE, ago, console, emit, state_text, table, when
from leadline.model.accounts import Layer
from leadline.model.errors import UsageError

ROWS_MAX = 40  # of all layers, the worst of each layer first
WELL_MAX = 3  # of a layer, that are well though some seconds were bad
CLASSIFIERS_SHOWN = 2
_SOMETIMES = ("bad", "missing", "GPU min", "by", "alarm")  # columns that are left out where all of them are empty
_STATES = ("critical", "warning", "unknown", "ok")
_LONG = {"fast": "burns fast", "slow": "burns slowly"}

LayerOption = Annotated[str, typer.Option(help="Only this layer: application, collective, gpu, host, nic, ...")]


def sle(
    layer: LayerOption = "",
    entity: Annotated[str, typer.Option(help="Only this entity, such as gpu:GPU-5c1e.")] = "",
    expectation: Annotated[str, typer.Option(help="Only this expectation, by name.")] = "",
    window: Annotated[str, typer.Option(help="5m, 1h, 24h or 30d.")] = "1h",
    at: AtOption = "",
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 0 ok, 1 warning, 2 critical, 3 unknown, like a Nagios plug-in.")
    ] = False,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how well expectations are met: good time, remaining error budget, burn rates, what was bad."""
    client = Client(server)
    found = client.get(
        "/api/v1/sle", layer=layer, entity=entity, expectation=expectation, window=window, at=at, cluster=cluster
    )
    state, line = verdict(found)
    if not emit({**found, "state": state} if check else found, output, "held"):
        out = console()
        if check:
            out.print(state_text(state), line, soft_wrap=True)
        tell(out, found)
    if not found["held_total"]:
        require_known(client, "entity", entity, cluster=cluster)
        require_known(client, "expectation", expectation, cluster=cluster)
    if check:
        raise typer.Exit(EXIT_OF_STATE[state])


def verdict(found: Mapping[str, Any]) -> tuple[str, str]:
    """The state of a check and a line on it: the worst that anything has; unknown where nothing could be judged."""
    counts = {state: sum(layer[state] for layer in found["layers"]) for state in _STATES}
    if not found["held_total"]:
        return "unknown", found["why"]
    # What is known to be well does not become unknown because something else lacks data, so that comes last but one.
    state = next(each for each in ("critical", "warning", "ok", "unknown") if counts[each])
    if state == "ok" and counts["unknown"] > counts["ok"]:
        state = "unknown"
    words = ", ".join(f"{counts[each]} {each}" for each in _STATES if counts[each])
    worst = next((row for row in found["held"] if row["state"] == state), None)
    named = f"; worst: {worst['expectation']} of {worst['entity']}" if worst and state != "ok" else ""
    return state, f"{words} of {found['held_total']} over {found['window']}{named}"


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    if found["end_ns"] is None:
        out.print(found["why"], style="yellow", soft_wrap=True)
        return
    out.print(f"expectations over {found['window']} to {when(found['end_ns'])}, the worst first", style="bold")
    if found["note"]:
        out.print(found["note"], style="yellow", soft_wrap=True)
    if found["why"]:
        out.print(found["why"], style="yellow", soft_wrap=True)
        return
    _layers(out, found["layers"])
    left = ROWS_MAX
    for layer in found["layers"]:
        rows = [row for row in found["held"] if row["layer"] == layer["layer"]]
        shown = _shown(rows, left)
        left -= len(shown)
        _layer(out, layer, shown)
    if any(row["lost_gpu_minutes"] for row in found["held"]):
        out.print(
            "\nGPU min: GPU time lost to the entity by the ledger, the same for each of its expectations", style="dim"
        )


def _shown(rows: Sequence[Mapping[str, Any]], left: int) -> list[Mapping[str, Any]]:
    """All that is not well, and of what is the first few with bad seconds, or the first."""
    wrong = [row for row in rows if row["state"] != "ok"]
    some = [row for row in rows if row["state"] == "ok" and row["bad_s"]][:WELL_MAX]
    return (wrong + some or list(rows[:1]))[: max(left, 1)]


def _layers(out: Console, layers: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        {
            "layer": layer["layer"], "checks": layer["held"],
            **{state: _counted(state, layer[state]) for state in _STATES},
            "good": share(layer["good_s"], layer["good_s"] + layer["bad_s"]), "bad": span(layer["bad_s"]),
            "missing": span(layer["missing_s"]),
        }
        for layer in layers
    ]  # fmt: skip
    columns = list(rows[0])
    out.print(table(rows, columns, right=columns[1:]))


def _counted(state: str, count: int) -> Text:
    return Text(str(count), style=STATE_STYLE[state] if count else "dim")


def _layer(out: Console, layer: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    out.print(f"\n{layer['layer']}", style="bold")
    told = [
        {
            "state": state_text(row["state"]), "expectation": row["expectation"], "of": _whose(row),
            "good": "-" if row["sle"] is None else share(row["good_s"], row["good_s"] + row["bad_s"]),
            "objective": f"{row['objective'] * 100:.6g} %", "budget left": _budget(row), **_burn(row),
            "bad": span(row["bad_s"]), "missing": span(row["missing_s"]),
            "GPU min": f"{row['lost_gpu_minutes']:.1f}" if row["lost_gpu_minutes"] else "-", "by": _by(row),
        }
        for row in rows
    ]  # fmt: skip
    columns = [name for name in told[0] if name not in _SOMETIMES or any(row[name] != "-" for row in told)]
    out.print(table(told, columns, right=["good", "objective", "budget left", "bad", "missing", "GPU min"]))
    if layer["held"] > len(rows):
        out.print(f"and {layer['held'] - len(rows)} that are better; see --output json", style="dim")


def _whose(row: Mapping[str, Any]) -> str:
    entity = row["name"] or row["entity"]
    return entity if row["tenant"] == "default" else f"{entity} of {row['tenant']}"


def _budget(row: Mapping[str, Any]) -> str:
    """What is left of it; beyond its end how many times it was used up."""
    if row["budget_left"] is None:
        return "none is given" if row["bad_s"] else "-"
    left: float = row["budget_left"]
    if left < 0:
        return f"exceeded {_rate(1 - left)}x"
    return f"{left * 100:.0f} %"


def _burn(row: Mapping[str, Any]) -> dict[str, Any]:
    """Burn rates of 5 min, 1 h and a day, and which of the alarms they raise."""
    rates = {f"burn {name}": "-" if rate is None else _rate(rate) for name, rate in row["burn"].items()}
    style = STATE_STYLE[row["state"]]
    return {**rates, "alarm": Text(_LONG[row["burning"]], style=style) if row["burning"] else "-"}


def _rate(rate: float) -> str:
    """A number of times in three digits: `5,450`, `18.9`, `0.04`; `<0.01` for less."""
    if 0 < rate < 0.01:
        return "<0.01"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}".removesuffix(".0") if rate >= 10 else f"{rate:.2g}"


def _by(row: Mapping[str, Any]) -> str:
    """The largest classifiers, and what is missing."""
    told = [
        f"{each['classifier']}{_other(each['culprit'], row['entity'])} {span(each['seconds'])}"
        for each in row["classifiers"][:CLASSIFIERS_SHOWN]
    ]
    if len(row["classifiers"]) > CLASSIFIERS_SHOWN:
        rest_s = sum(each["seconds"] for each in row["classifiers"][CLASSIFIERS_SHOWN:])
        told.append(f"others {span(rest_s)}")
    if row["missing_s"]:
        told.append(f"missing: {', '.join(name or 'data' for name in list(row['why_missing'])[:2])}")
    return "; ".join(told) or "-"


def _other(culprit: str, entity: str) -> str:
    return f" ({culprit})" if culprit and culprit != entity else ""


def share(part: float, whole: float) -> str:
    """A share in per cent, with two digits of what is missing to 100; never 100 where something is."""
    if not whole:
        return "-"
    lacks = 100 * (whole - part) / whole
    if lacks <= 0:
        return "100 %"
    digits = min(max(1 - math.floor(math.log10(lacks)), 1), 3)
    return f"{min(100 - lacks, 99.999):.{digits}f} %"


def span(seconds: float) -> str:
    """A length of time as a person says it, `-` for none."""
    return "-" if not seconds else ago(seconds)


def expectations(
    layer: LayerOption = "",
    at: AtOption = "",
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """List the expectations in force: bounds, objectives, and the file each came from."""
    if layer and layer not in set(Layer):
        raise UsageError(f"--layer: expected one of {', '.join(Layer)}, got {layer[:50]!r}")
    found = Client(server).get("/api/v1/expectations", at=at, cluster=cluster)
    found["expectations"] = [each for each in found["expectations"] if layer in ("", each["layer"])]
    if emit(found, output, "expectations"):
        return
    out = console()
    if found["note"]:
        out.print(found["note"], style="yellow", soft_wrap=True)
    rows = [
        {
            "layer": each["layer"], "expectation": each["expectation"], "of": _narrowed(each),
            "objective": "-" if each["objective"] is None else f"{each['objective'] * 100:.6g} %",
            "bad is": each["error"] or "\n".join(_bound(bound) for bound in each["bounds"]),
            "since": when(each["from_ns"]), "source": each["source"],
        }
        for each in found["expectations"]
    ]  # fmt: skip
    if not rows:
        out.print(f"no expectation is in force{f' in the layer {layer}' if layer else ''}")
        return
    out.print(table(rows, list(rows[0]), right=["objective"]))


def _narrowed(each: Mapping[str, Any]) -> str:
    names = ", ".join(each["match"])
    return f"{each['of']} ({names})" if names else each["of"]


def _bound(bound: Mapping[str, Any]) -> str:
    return f"{bound['classifier']}" + (f" for {bound['for_s']:g} s" if bound["for_s"] else "")
