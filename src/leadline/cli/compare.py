"""`leadline compare`: two runs, hosts or GPUs beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.options import AtOption, ClusterOption, Output, OutputOption, ServerOption
from leadline.cli.output import console, emit, table, when
from leadline.cli.ranges import counted
from leadline.cli.words.slow_workers import slow_worker_lines
from leadline.cli.words.units import duration, figures, in_unit

ROWS_MAX = 30
VALUES_MAX = 3  # of one setting on one side


def compare(
    a: Annotated[str, typer.Argument(help="bert-7, bert-7@-2h (its run then), host:h3, gpu:GPU-5c1e.")],
    b: Annotated[str, typer.Argument(help="Same forms as A. Default: the peers of A.", show_default=False)] = "",
    at: AtOption = "",
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare A with B, or with its peers: versions, settings, times, metrics."""
    found = Client(server).get("/api/v1/compare", a=a, b=b, at=at, cluster=cluster)
    if not emit(found, output, "times"):
        tell(console(), found)


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    for name in ("a", "b"):
        side = found[name]
        span = f"{when(side['from_ns'])} to {when(side['to_ns'])}, {counted({'host': len(side['hosts'])})}"
        out.print(f"{name.upper()}  {side['title']}: {span}{_in_words(side['note'])}", style="bold", soft_wrap=True)
    _settings(out, found["settings"])
    _times(out, found["times"])
    _ledger(out, found["ledger"])
    _metrics(out, found["metrics"])
    _slow_workers(out, found["slow_workers"])
    out.print(f"\n{found['note']}", style="dim", soft_wrap=True)


def _slow_workers(out: Console, sides: Mapping[str, Any]) -> None:
    for name, found in sides.items():
        if found is not None:
            out.print(f"\nslow ranks of {name.upper()}", style="bold")
            for line in slow_worker_lines(found, show_missing=True):
                out.print(f"  {line}", soft_wrap=True)


def _in_words(note: str) -> str:
    return f" ({note})" if note else ""


def _settings(out: Console, settings: Mapping[str, Any]) -> None:
    different = settings["different"]
    out.print("\nversions and settings that differ", style="bold")
    if different:
        rows = [
            {"of": each["of"], "setting": each["setting"], "A": _values(each["a"]), "B": _values(each["b"]),
             "apart": f"{each['strength']:.0%}"}
            for each in different[:ROWS_MAX]
        ]  # fmt: skip
        out.print(table(rows, list(rows[0]), right=["apart"]))
    more = f"{len(different) - ROWS_MAX} more differ, " if len(different) > ROWS_MAX else ""
    only = settings["one_sided"]
    told = f"; {len(only)} are reported by one side only: {_names(only)}" if only else ""
    if not different and not settings["equal"]:
        out.print(f"none is reported by both sides{told}", soft_wrap=True)
        return
    start = "and " if different else "none: "
    out.print(f"{start}{more}{settings['equal']} settings are equal{told}", style="dim", soft_wrap=True)


def _names(only: Sequence[Mapping[str, Any]]) -> str:
    names = [f"{each['setting']} ({'A' if each['a'] else 'B'})" for each in only[:6]]
    return ", ".join(names) + (f" and {len(only) - 6} more" if len(only) > 6 else "")


def _values(counts: Mapping[str, int]) -> str:
    """`525.60 (7), 535.1 (1)`; the number of members only where there are several values."""
    if len(counts) == 1:
        return next(iter(counts))
    shown = [f"{value} ({count})" for value, count in list(counts.items())[:VALUES_MAX]]
    return ", ".join(shown) + (f" and {len(counts) - VALUES_MAX} more" if len(counts) > VALUES_MAX else "")


def _times(out: Console, times: Sequence[Mapping[str, Any]]) -> None:
    if not times:
        return
    out.print("\ntimes (95 % intervals)", style="bold")
    rows = [
        {"what": each["what"], "A": _interval(each["a"], each["unit"]), "B": _interval(each["b"], each["unit"]),
         "B against A": _verdict(each)}
        for each in sorted(times, key=lambda each: each["verdict"] in ("same", "unknown"))  # what differs first
    ]  # fmt: skip
    out.print(table(rows, list(rows[0])))


def _interval(told: Mapping[str, Any], unit: str) -> str:
    """`210 ms (190 ms to 240 ms)`."""
    if told["value"] is None:
        return "-"
    low, high = told["low"], told["high"]
    bounds = f" ({in_unit(low, unit)} to {in_unit(high, unit)})" if low is not None else ""
    return f"{in_unit(told['value'], unit)}{bounds}"


def _verdict(told: Mapping[str, Any]) -> str:
    if told["verdict"] == "unknown":
        return told["why"] or "unknown"
    if told["verdict"] == "same":
        return "no difference beyond noise"
    if told["ratio"] is None:
        return str(told["verdict"])
    bounds = f" ({told['low'] - 1:+.1%} to {told['high'] - 1:+.1%})" if told["low"] is not None else ""
    return f"{told['ratio'] - 1:+.1%}{bounds}"


def _ledger(out: Console, ledger: Mapping[str, Any]) -> None:
    if ledger["missing"]:
        out.print(f"\n{ledger['missing']}", style="yellow", soft_wrap=True)
    if not ledger["categories"]:
        return
    out.print("\nwhere the time of a step goes", style="bold")
    rows = [
        {"category": each["category"], "A": _seconds(each["a_s_per_step"]), "B": _seconds(each["b_s_per_step"]),
         "share of time": _verdict(each["share"])}
        for each in ledger["categories"]
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=["A", "B"]))
    for each in ledger["late"]:
        both = f"{_seconds(each['a_s_per_step'])} and {_seconds(each['b_s_per_step'])}"
        out.print(f"  waiting for rank {each['rank']}: {both} per step", style="dim")


def _seconds(value: float | None) -> str:
    return "-" if value is None else duration(value)


def _metrics(out: Console, metrics: Mapping[str, Any]) -> None:
    if metrics["missing"]:
        out.print(f"\nmetrics: {metrics['missing']}", style="yellow", soft_wrap=True)
    if not metrics["different"]:
        if not metrics["missing"]:
            out.print("\nno metric differs from its peers", style="dim")
        return
    out.print("\nmetrics that differ from their peers", style="bold")
    rows = [
        {"side": each["side"].upper(), "member": each["member"], "metric": each["metric"],
         "value": figures(each["value"]), "peers": figures(each["peers"]), "sigmas": f"{each['sigmas']:+.0f}"}
        for each in metrics["different"]
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=["value", "peers", "sigmas"]))
