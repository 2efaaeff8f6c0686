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
    opinion: Annotated[bool, typer.Option("--opinion", help="Also ask which cause that model would name.")] = False,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Explain an incident in sentences, each with the facts that support it."""
    path = f"/api/v1/incidents/{quote(incident, safe='')}/explanation"
    asked = {name: "true" if given else "" for name, given in {"model": model, "opinion": opinion}.items()}
    found = Client(server).get(path, **asked, cluster=cluster)
    if not emit(found, output):
        for each in found["explanations"]:
            tell(console(), each, model, opinion)


def tell(out: Console, each: Mapping[str, Any], model: bool, opinion: bool = False) -> None:
    """Print one explanation for people."""
    out.print(f"{each['incident']}, {each['tenant']}", style="bold", markup=False)
    _sentences(out, each["sentences"])
    if model:
        _model(out, each["model"])
    if opinion:
        _opinion(out, each["opinion"])
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


def _opinion(out: Console, opinion: Mapping[str, Any]) -> None:
    whose = opinion["model"] or "a language model"
    out.print(f"\nsecond opinion of {whose}, which changes no verdict", style="bold", markup=False)
    if opinion["state"] == "ok":
        said = f"{opinion['rule']} at {opinion['entity']}" if opinion["entity"] else "the cause is unknown"
        agrees = ("as Leadline says", "green") if opinion["agrees"] else ("Leadline says otherwise", "yellow")
        out.print(Text.assemble(said, ": ", agrees), soft_wrap=True)
    if opinion["reason"]:
        out.print(Text(opinion["reason"]), soft_wrap=True)
    if opinion["why"]:
        out.print(Text(opinion["why"], "dim" if opinion["state"] == "ok" else "yellow"), soft_wrap=True)
