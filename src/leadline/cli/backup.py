"""`leadline backup DIR` and `leadline restore DIR`: a whole copy of the embedded store, and the way back."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.client import Client
from leadline.cli.options import ConfigOption, ServerOption
from leadline.model.errors import WorldError
from leadline.server.config import load
from leadline.store import Store
from leadline.store.backup.restore import restore as restored
from leadline.store.backup.take import freeze, gather


def backup(
    directory: Annotated[Path, typer.Argument(help="Directory to create; on the store's disk it takes no space.")],
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Back up this embedded store, which no server may have open. Default: ask the server."),
    ] = None,
    config: ConfigOption = None,
    server: ServerOption = "",
) -> None:
    """Back up all tables into DIR while Leadline runs. Run it on the server's machine, as the server's user.

    On the store's own disk the files are hard links: copy DIR to another machine, or you lose the backup with the disk.
    """
    began = time.monotonic()
    if data_dir is not None:
        store = Store(replace(load(config, os.environ).store, path=str(data_dir), url=""))
        store.start()
        try:
            frozen, taken_ns = freeze(store), time.time_ns()
        finally:
            store.stop()
    else:
        told = Client(server).post("/api/v1/freeze", {})
        frozen, taken_ns = Path(told["directory"]).absolute(), int(told["taken_ns"])
        if not frozen.is_dir():
            raise WorldError(
                f"the server has frozen its parts in {told['directory']}, which is not seen from here: run this on the "
                "machine of the server, as its user, and from its directory if store.path is relative"
            )
    manifest = gather(frozen, directory, taken_ns)
    print(f"{directory}: {manifest.rows} rows in {manifest.parts} parts, {time.monotonic() - began:.1f} s")


def restore(
    directory: Annotated[Path, typer.Argument(help="Directory made by `leadline backup`.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Directory of the embedded store. Default: from leadline.yaml.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Restore a backup into an empty store that no server has open; then start Leadline on it."""
    began = time.monotonic()
    settings = load(config, os.environ).store
    if data_dir is not None:
        settings = replace(settings, path=str(data_dir), url="")
    manifest = restored(directory, settings)
    print(f"{settings.path}: {manifest.rows} rows in {manifest.parts} parts, {time.monotonic() - began:.1f} s")
