"""`leadline show rules`: how often each rule was right, by what people marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.options import ClusterOption, Output, OutputOption, ServerOption
from leadline.cli.output import console, emit, table
from leadline.cli.words.ledger import share


def rules(
    every: Annotated[bool, typer.Option("--all", help="Include rules without feedback.")] = False,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the rules that name causes: how often each was marked right or wrong, and which are switched off."""
    found = Client(server).get("/api/v1/rules", cluster=cluster)
    if not emit(found, output, "rules"):
        tell(console(), found, every)


def state_of(rule: Mapping[str, Any]) -> str:
    """Whether a rule names causes: for all, for none, or for whom it does not."""
    if rule["silent"]:
        return "silent"
    return f"silent for {', '.join(rule['silent_for'])}" if rule["silent_for"] else "speaks"


def tell(out: Console, found: Mapping[str, Any], every: bool) -> None:
    """Print an answer for people."""
    shown = [each for each in found["rules"] if every or each["right"] + each["wrong"]]
    if not shown:
        out.print(
            f"no cause has been marked yet, so all {len(found['rules'])} rules are active (--all lists them); "
            "`leadline mark INCIDENT right` or `wrong` says how a cause was",
            soft_wrap=True,
        )
        return
    rows = [
        {"rule": each["rule"], "layer": each["layer"], "right": each["right"], "wrong": each["wrong"],
         "precision": share(each["precision"]), "state": state_of(each),
         "what": each["words"]}
        for each in shown
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=["right", "wrong", "precision"]))
    out.print(
        f"a rule falls silent below {share(found['precision_min'])}, once it has {found['marks_min']} marks",
        style="dim",
    )
