"""Entry point of the `leadline` command: what works in an installation of the agent alone, then all the other verbs."""

from __future__ import annotations

import importlib.util
import os
import sys

from leadline import __version__
from leadline.model.programs import OWN_PYTHON

HELP = {"-h", "--help"}  # of the agent, as the other verbs show theirs
ALONE = """usage: leadline agent | run ...

This is the agent's installation:
  leadline agent --help     read this host's counters, links, kernel log and event rings, and send them to a server
  leadline run --help       run a training job and watch it, beside a server elsewhere

The server and all other verbs: pip install 'leadline[server]'"""


def main() -> None:
    """Run the verb. `agent` and `run` load neither the other verbs nor their libraries."""
    verb, arguments = sys.argv[1:2], sys.argv[2:]
    if verb == ["agent"] and not (HELP & {*arguments} and importlib.util.find_spec("typer")):
        # A new program image, in which nothing of this one takes memory.
        os.execv(sys.executable, [*OWN_PYTHON, "-m", "leadline.host.main", *arguments])
    if verb == ["run"]:
        from leadline.cli.running.run import main as run

        sys.exit(run(arguments))
    if verb in ([], ["-h"], ["--help"], ["--version"]) and importlib.util.find_spec("typer") is None:
        print(f"leadline {__version__}" if verb == ["--version"] else ALONE)
        return
    try:
        from leadline.cli.main import main as others

        others()
    except ModuleNotFoundError as error:
        if (error.name or "leadline").partition(".")[0] == "leadline":
            raise
        print(f"leadline: {missing(' '.join(verb) or '--help', error.name or '')}", file=sys.stderr)
        sys.exit(2)


EXTRAS = {"torch": "lab", "torchmetrics": "lab", "textual": "top", "opentelemetry.sdk": "demo", "ray": "ray"}
"""Which extra brings a package that not every installation has; any other comes with `server`."""


def missing(verb: str, module: str) -> str:
    """What to say where a package is not installed."""
    package = module.partition(".")[0]
    extra = EXTRAS.get(module, EXTRAS.get(package, "server"))
    only = " With the agent alone there are `leadline agent` and `leadline run`." if extra == "server" else ""
    return f"`leadline {verb}` needs {package}, which is not installed: pip install 'leadline[{extra}]'.{only}"


if __name__ == "__main__":
    main()
