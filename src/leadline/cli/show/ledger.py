"""`leadline show ledger`: where the time of a job went, who costs most, since when, what is not known and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.exits import require_known
from leadline.cli.options import ClusterOption, FromOption, Output, OutputOption, ServerOption, SvgOption, ToOption
from leadline.cli.output import console, emit, table, when
from leadline.cli.picture.ledger import ledger_picture
from leadline.cli.picture.save import save
from leadline.cli.words.costs import cost_words, time_words
from leadline.cli.words.ledger import CATEGORY_WORDS, bar, hours, money, owner_words, share, span
from leadline.model.units import gpu_time

OWNERS_SHOWN = 10
FAILURES_SHOWN = 5
LOST_SHARE_MIN = 0.0005  # of all that was lost: who lost less would be told as 0.0 %


def ledger(
    job: Annotated[str, typer.Argument(help="bert-1 or job:bert-1.")],
    since: FromOption = "",
    until: ToOption = "",
    at: Annotated[str, typer.Option("--at", help="Instead of --to.")] = "",
    svg: SvgOption = None,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show where a job's time went, what cost most and since when, what is unknown and why, and the total cost."""
    asked = {"job": job, "from": since, "to": until, "at": at, "cluster": cluster}
    client = Client(server)
    found = client.get("/api/v1/ledger", **asked)
    if svg is not None:
        save(svg, ledger_picture(found, when))
    if not emit(found, output, "categories"):
        tell(console(), found)
    if found["total"] is None:
        require_known(client, "job", job, cluster=cluster)


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    if found["total"] is None:
        out.print(f"ledger of {found['job']}: no data", style="bold")
        out.print(found["why"], style="yellow", soft_wrap=True)
        return
    length_s = (found["to_ns"] - found["from_ns"]) / 1e9
    out.print(
        f"ledger of {found['job']}, {span(length_s)} to {when(found['to_ns'])}: {found['gpus']:.3g} GPUs, "
        f"{gpu_time(found['goodput']['held_gpu_seconds'])}",
        style="bold",
    )
    if found["note"]:
        out.print(found["note"], style="yellow", soft_wrap=True)
    for line in headlines(found):
        out.print(line, soft_wrap=True)
    _categories(out, found)
    _owners(out, found)
    _unknown(out, found)
    _failures(out, found)


def headlines(found: Mapping[str, Any]) -> list[str]:
    """Where time went, who cost most, goodput, ETTR, MTTF and money, a line each."""
    goodput, ettr, mttf, cost = found["goodput"], found["ettr"], found["mttf"], found["cost"]
    lost, who = gpu_time(found["total"]["lost_gpu_seconds"]), cost_words(found)
    lines = [
        f"time went to {time_words(found)}",
        f"lost {lost}{_money(cost)}{f': {who}' if who else ''}{_not_judged(found)}",
        f"goodput {share(goodput['ratio'])}{_at_most(goodput)}",
    ]
    expected = f"; expected {share(ettr['expected'])}" if ettr["expected"] is not None else ""
    if ettr["best_interval_s"] is not None:
        expected += f", best with a checkpoint each {span(ettr['best_interval_s'])}"
    lines.append(f"ETTR {share(ettr['ratio'])}{_at_most(ettr)}{expected}")
    if mttf["mean_h"] is None:
        none = f"no failure in {hours(mttf['hours'])} (MTTF > {hours(mttf['low_h'])}, 95 %)"
        lines.append(none if mttf["low_h"] is not None else "MTTF: not known")
    else:
        between = f"{hours(mttf['low_h'])} to {hours(mttf['high_h'])}"
        lines.append(f"MTTF {hours(mttf['mean_h'])} (95 %: {between}; failures: {mttf['failures']})")
    if cost["how"]:
        lines.append(cost["how"])
    return lines


def _not_judged(found: Mapping[str, Any]) -> str:
    """What incidents take for lost where the ledger has not judged yet: other views have it in their sums."""
    more = found["estimated_gpu_seconds"]
    return f"; and {gpu_time(more)} more so far, estimated by its incidents" if more else ""


def _at_most(told: Mapping[str, Any]) -> str:
    if told["ratio"] is None or told["ratio_max"] - told["ratio"] < 0.0005:
        return ""
    return f" (at most {share(told['ratio_max'])}, if all that is unknown was good)"


def _money(cost: Mapping[str, Any]) -> str:
    if cost["lost"] is None:
        return ""
    return f", {money(cost['lost'], cost['currency'])} of {money(cost['total'], cost['currency'])}"


def _categories(out: Console, found: Mapping[str, Any]) -> None:
    out.print("\nwhere the time went", style="bold")
    missing = found["missing"]
    whole = found["total"]["gpu_seconds"] + missing["gpu_seconds"]
    told = [
        (each["category"], each["seconds"], each["gpu_seconds"], each["lost_gpu_seconds"])
        for each in found["categories"]
    ]
    if missing["windows"]:
        told.append(("missing", missing["seconds"], missing["gpu_seconds"], None))
    rows = [
        {"what": CATEGORY_WORDS.get(name, name), "time": span(seconds), "share": share(held / whole if whole else None),
         " ": bar(held / whole if whole else 0.0), "lost": gpu_time(lost) if lost else "-"}
        for name, seconds, held, lost in told
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=["time", "share", "lost"]))


def _owners(out: Console, found: Mapping[str, Any]) -> None:
    least = LOST_SHARE_MIN * found["total"]["lost_gpu_seconds"]
    losing = [owner for owner in found["owners"] if owner["lost_gpu_seconds"] > least]
    if not losing:
        out.print("\nnothing was lost, as far as it is known")
        return
    out.print("\nlost time by culprit", style="bold")
    whole = found["total"]["lost_gpu_seconds"]
    rows = []
    for owner in losing[:OWNERS_SHOWN]:
        lost = owner["lost_gpu_seconds"]
        row = {"culprit": owner_words(owner), "on": _places(owner["owner"], found["hosts"]),
               "category": CATEGORY_WORDS.get(owner["category"], owner["category"]),
               "lost": gpu_time(lost), "of all": share(lost / whole)}  # fmt: skip
        if owner["lost_cost"] is not None:
            row["costs"] = money(owner["lost_cost"], found["cost"]["currency"])
        told_by = max(owner["depths"], key=lambda depth: (owner["depths"][depth], depth))
        row |= {"since": _moment(found, owner["lost_since_ns"]), "until": _moment(found, owner["lost_until_ns"]),
                "confidence": f"{owner['confidence']:.0%}", "from": told_by}  # fmt: skip
        rows.append(row)
    out.print(table(rows, list(rows[0]), right=["lost", "of all", "costs", "confidence"]))
    if len(losing) > len(rows):
        out.print(f"and {len(losing) - len(rows)} with less; see --output json", style="dim")


def _places(owner: str | None, hosts: Mapping[str, str]) -> str:
    """The hosts of the ranks of an owner: `h6`, `h5 > h6`; `-` for what is no rank, or of which nobody tells."""
    places = [hosts.get(rank, "").removeprefix("host:") for rank in (owner or "").split(">")]
    return " > ".join(places) if all(places) else "-"


def _moment(found: Mapping[str, Any], time_ns: int | None) -> str:
    """A time; of a span within one day without the day, which the first line has."""
    words, day = when(time_ns), when(found["to_ns"])[:10]
    return words[11:] if words[:10] == day == when(found["from_ns"])[:10] else words


def _unknown(out: Console, found: Mapping[str, Any]) -> None:
    if not found["unknown"]:
        return
    out.print("\nnot known, and what is missing", style="bold")
    for each in found["unknown"]:
        out.print(f"  {span(each['seconds'])} ({gpu_time(each['gpu_seconds'])}): {each['missing']}", soft_wrap=True)
    for gap in found["missing"]["spans"][:FAILURES_SHOWN]:
        out.print(f"  not analysed: {when(gap['from_ns'])} to {when(gap['to_ns'])}", style="dim")


def _failures(out: Console, found: Mapping[str, Any]) -> None:
    if not found["failures"]:
        return
    out.print("\nfailures that stopped it", style="bold")
    rows = [
        {"when": when(each["start_ns"]), "what": each["entity"], "how": each["kind"], "class": each["class"],
         "recovered after": back_after(each), "evidence": each["evidence"]}
        for each in found["failures"][:FAILURES_SHOWN]
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=["recovered after"]))
    if len(found["failures"]) > len(rows):
        out.print(f"and {len(found['failures']) - len(rows)} more; see --output json", style="dim")


def back_after(failure: Mapping[str, Any]) -> str:
    """How long until a part was back: `2 min 3 s`, or `not yet`."""
    return "not yet" if failure["end_ns"] is None else span((failure["end_ns"] - failure["start_ns"]) / 1e9)
