"""`leadline demo`: a recorded incident, played and analysed on this machine; needs no root, no compiler and no job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.demo.demonstration import play_recorded
from leadline.cli.options import ConfigOption


def demo(
    once: Annotated[bool, typer.Option("--once", help="Exit when everything was played and analysed.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep the store here, in a new or empty directory. Default: deleted at the end.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Loopback address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the page and the API.")] = None,
    config: ConfigOption = None,
) -> None:
    """Play a recorded incident: a training job whose link flaps and whose host is slowed, found by the analyses.

    Needs no root and no cluster. The page shows it until Ctrl-C.
    """
    play_recorded(config, data_dir, host, port, once)
