"""`leadline explain`: an incident in sentences that cite numbered facts, also in the words of a language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.text import Text

from leadline.cli.client import Client
from leadline.cli.options import ClusterOption, Output, OutputOption, ServerOption
from leadline.cli.output import console, emit


def explain(
    incident: Annotated[str, typer.Argument(help="Id of the incident, from `leadline show incidents`.")],
    model: Annotated[bool, typer.Option("--model", help="Also ask the language model at explain.url.")] = False,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Explain an incident in sentences, each with the facts that support it."""
    path = f"/api/v1/incidents/{quote(incident, safe='')}/explanation"
    found = Client(server).get(path, model="true" if model else "", cluster=cluster)
    if not emit(found, output):
        for each in found["explanations"]:
            tell(console(), each, model)


def tell(out: Console, each: Mapping[str, Any], model: bool) -> None:
    """Print one explanation for people."""
    out.print(f"{each['incident']}, {each['tenant']}", style="bold", markup=False)
    _sentences(out, each["sentences"])
    if model:
        _model(out, each["model"])
    out.print("\nfacts", style="bold")
    for fact in each["facts"]:
        out.print(Text.assemble((f"[{fact['number']}] ", "dim"), fact["text"]), soft_wrap=True)


def _sentences(out: Console, sentences: list[Mapping[str, Any]]) -> None:
    for sentence in sentences:
        cites = "".join(f"[{number}]" for number in sentence["cites"])
        out.print(Text.assemble(sentence["text"], (f" {cites}", "dim")), soft_wrap=True)


def _model(out: Console, model: Mapping[str, Any]) -> None:
    out.print(
        f"\nin the words of {model['model'] or 'a language model'}, checked against the facts",
        style="bold",
        markup=False,
    )
    if model["why"]:
        out.print(Text(model["why"], "yellow"), soft_wrap=True)
    _sentences(out, model["sentences"])
    if model["dropped"]:
        out.print(Text(f"dropped: {len(model['dropped'])} ({'; '.join(sorted(set(model['dropped'])))})", "dim"))
