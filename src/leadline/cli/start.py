"""Entry point of the `leadline` command: what works in an installation of the agent alone, then all the other verbs."""

from __future__ import annotations

import os
import sys

HELP = ("-h", "--help")


def main() -> None:
    """Run the verb. `agent` and `run` load neither the other verbs nor their libraries."""
    verb, arguments = sys.argv[1:2], sys.argv[2:]
    if verb == ["agent"]:
        # A new program image, in which nothing of this one takes memory.
        os.execv(sys.executable, [sys.executable, "-m", "leadline.host.main", *arguments])
    if verb == ["run"]:
        from leadline.cli.running.run import main as run

        sys.exit(run(arguments))
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
    extra = EXTRAS.get(package, "server")
    only = " With the agent alone there are `leadline agent` and `leadline run`." if extra == "server" else ""
    return f"`leadline {verb}` needs {package}, which is not installed: pip install 'leadline[{extra}]'.{only}"


if __name__ == "__main__":
    main()
