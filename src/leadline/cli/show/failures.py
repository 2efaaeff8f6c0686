"""`leadline show failures`: what failed, by class, how long until it was back; first failure by size of fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.options import ClusterOption, FromOption, Output, OutputOption, ServerOption, ToOption
from leadline.cli.output import console, emit, table, when
from leadline.cli.show.ledger import back_after
from leadline.cli.words.ledger import hours, share, span
from leadline.model.units import gpu_time

NEWEST_SHOWN = 8


def failures(
    since: FromOption = "",
    until: ToOption = "",
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show failures: share and lost GPU time by class, time to resolve, first failure by fleet size, MTTF by job."""
    found = Client(server).get("/api/v1/failures", **{"from": since, "to": until, "cluster": cluster})
    if emit(found, output, "failures"):
        return
    tell(console(), found)


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    out.print(
        f"failures, {when(found['from_ns'])} to {when(found['to_ns'])}: {found['failures_total']}, of which "
        f"{found['stopping']} stopped a job, in {gpu_time(found['gpu_hours'] * 3600)} observed",
        style="bold",
    )
    if found["why"]:
        out.print(found["why"], style="yellow", soft_wrap=True)
    if found["classes"]:
        _classes(out, found["classes"])
        _resolve(out, found["resolve"])
    _fleet(out, found["fleet"])
    _sizes(out, found["sizes"])
    _newest(out, found["failures"])


def _classes(out: Console, classes: list[Mapping[str, Any]]) -> None:
    out.print("\nby class", style="bold")
    rows = [
        {"class": each["class"], "failures": each["failures"], "share": share(each["share"]),
         "stopped a job": each["stopped_jobs"], "lost GPU time": gpu_time(each["lost_gpu_seconds"] or None),
         "of all lost": share(each["lost_share"]), "recovery: mean": span(each["repair_mean_s"]),
         "median": span(each["repair_median_s"])}
        for each in classes
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=list(rows[0])[1:]))


def _resolve(out: Console, classes: list[Mapping[str, Any]]) -> None:
    out.print("\ntime to resolve, by class; each failure counts once", style="bold")
    rows = []
    for each in classes:
        row = {"class": each["class"]}
        row |= {_within(name): count or "-" for name, count in each["within"].items()}
        rows.append(row | {"oldest not recovered": span(each["open_s_max"])})
    out.print(table(rows, list(rows[0]), right=list(rows[0])[1:]))


def _within(name: str) -> str:
    return name if name in ("longer", "never") else f"within {name}"


def _fleet(out: Console, fleet: Mapping[str, Any]) -> None:
    out.print("\nfirst failure by size of fleet", style="bold")
    if fleet["mttf_gpu_h"] is None:
        limit = fleet["low_gpu_h"]
        words = "no hours were observed" if limit is None else f"no failure seen (MTTF of a GPU > {hours(limit)}, 95 %)"
        out.print(f"  {words}", style="dim")
        return
    out.print(
        f"  one in {fleet['mttf_gpu_h']:,.4g} GPU-h (95 %: {fleet['low_gpu_h']:,.4g} to {fleet['high_gpu_h']:,.4g}), "
        f"from {fleet['failures']} failures; projected 1 / (N r)"
    )
    rows = []
    for each in fleet["projected"]:
        row = {"GPUs": f"{each['gpus']:,}", "first failure after": hours(each["first_h"]),
               "95 %": f"{hours(each['low_h'])} to {hours(each['high_h'])}"}  # fmt: skip
        if each["weibull_h"] is not None:
            row["with that shape"] = hours(each["weibull_h"])
        rows.append(row)
    out.print(table(rows, list(rows[0]), right=list(rows[0])))
    out.print(f"  {fleet['shape_words']}; {fleet['warning']}", style="dim", soft_wrap=True)


def _sizes(out: Console, sizes: list[Mapping[str, Any]]) -> None:
    if not sizes:
        return
    out.print("\njobs by size, as observed", style="bold")
    rows = [
        {"GPUs": each["gpus"], "jobs": each["jobs"], "observed": hours(each["hours"]), "failures": each["failures"],
         "MTTF": _mttf(each), "95 %": _between(each), "first failure after": hours(each["first_h"])}
        for each in sizes
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=list(rows[0])))


def _mttf(each: Mapping[str, Any]) -> str:
    if each["mttf_h"] is not None:
        return hours(each["mttf_h"])
    return "-" if each["low_h"] is None else f"> {hours(each['low_h'])} (none seen)"


def _between(each: Mapping[str, Any]) -> str:
    return "-" if each["high_h"] is None else f"{hours(each['low_h'])} to {hours(each['high_h'])}"


def _newest(out: Console, failures: list[Mapping[str, Any]]) -> None:
    if not failures:
        return
    out.print("\nthe newest", style="bold")
    rows = [
        {"when": when(each["start_ns"]), "what": each["entity"], "how": each["kind"], "class": each["class"],
         "job": each["job"], "GPUs": each["gpus"], "recovered after": back_after(each), "evidence": each["evidence"]}
        for each in failures[:NEWEST_SHOWN]
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=["GPUs", "recovered after"]))
    if len(failures) > len(rows):
        out.print(f"and {len(failures) - len(rows)} more; see --output json", style="dim")
