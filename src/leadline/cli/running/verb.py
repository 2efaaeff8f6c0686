"""`leadline run` among the verbs: hands its arguments to `running.run`, which knows none of their libraries."""

from __future__ import annotations

import typer

from leadline.cli.running.run import main

app = typer.Typer(add_completion=False)


@app.command(
    "run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def run(context: typer.Context) -> None:
    """Run a training job and watch it, with no change to its script: `leadline run -- python train.py`."""
    raise typer.Exit(main(context.args))
