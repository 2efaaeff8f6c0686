"""`leadline doctor --permissions`: what the agent's sources can read on this machine, and what is lost where not."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from leadline.cli.exits import EXIT_OF_STATE
from leadline.cli.options import Output
from leadline.cli.output import console, emit, state_text, table
from leadline.host.main import settings, site_of
from leadline.host.permissions import answer
from leadline.host.sources import SOURCES

STYLE = {"ok": "green", "refused": "yellow", "hangs": "red", "absent": "dim", "untried": "dim"}
IN_A_POD = "python3 -m leadline.host.main --permissions"  # the agent's image has none of the other verbs


def permissions(output: Output) -> int:
    """Print it; needs no server. Returns the exit code. Errors: ConfigError for settings of the agent that are none."""
    config, _ = settings([])
    found = answer(site_of(config), SOURCES)
    if not emit(found, output, "accesses"):
        show(found)
    return EXIT_OF_STATE[found["state"]]


def show(found: dict[str, Any]) -> None:
    """For a person: what is refused and how to grant it, what this host does not have, then all that was tried."""
    out = console()
    out.print(state_text(found["state"]), _head(found))
    for outcome in ("refused", "hangs", "absent"):
        for each in found["accesses"]:
            if each["outcome"] == outcome:
                out.print()
                out.print(_outcome(outcome), f"{each['source']}: {each['reads']}: {each['found']}")
                for line in _lines(each):
                    out.print(f"  {line}")
    out.print("\nall that was tried", style="bold")
    rows = [{**each, "outcome": _outcome(each["outcome"])} for each in found["accesses"]]
    out.print(table(rows, ["outcome", "source", "reads", "found"]))
    out.print(
        "\nTried as the user who runs this. Run it as the agent runs: `sudo leadline doctor --permissions`; in the "
        f"agent's pod `{IN_A_POD}`.\nClocks, temperatures and memory errors of GPUs come from dcgm-exporter, not from "
        "the agent (docs/how-to/connect-dcgm-exporter.md)."
    )


def _head(found: dict[str, Any]) -> str:
    user = f"{found['user']} (user id {found['uid']})" if found["user"] else f"user id {found['uid']}"
    count = sum(each["outcome"] in ("refused", "hangs") for each in found["accesses"])
    said = f"{count} of {len(found['accesses'])} refused" if count else "nothing refused"
    with_what = f"with {', '.join(found['capabilities'])}" if found["capabilities"] else "without capabilities"
    return f"What the agent can read on {found['host']} as {user} {with_what}: {said}"


def _lines(each: dict[str, Any]) -> list[str]:
    told = {
        "lost": each["lost"],
        "causes with less evidence": ", ".join(each["causes"]),
        "on the host": each["service"],
        "in Kubernetes": each["pod"],
    }
    return [f"{name}: {text}" for name, text in told.items() if text]


def _outcome(outcome: str) -> Text:
    return Text(outcome, style=STYLE[outcome])
