"""`leadline record`: an incident bundle of the running server, of a store at rest, or of another bundle, redacted."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.client import Client
from leadline.cli.options import ConfigOption, ServerOption
from leadline.cli.output import console, size
from leadline.model.errors import UsageError, WorldError
from leadline.server.config import Flag, load
from leadline.server.recorded_config import config_text
from leadline.store import Store
from leadline.store.bundle import Bundle, draft_bundle, read_bundle, write_bundle
from leadline.store.bundle_format import SUFFIX
from leadline.store.bundle_redact import Redactor, draft_redacted, read_truth, redacted_truth, truth_path, write_truth
from leadline.store.bundle_rows import Span
from leadline.views.times import SHORT_FORMS, parse_time

USUAL_SPAN = "10m"


def record(
    files: Annotated[list[Path], typer.Argument(help="The bundle to write; with --redact also FROM before it.")],
    since: Annotated[str, typer.Option("--from", help=f"Begin: {SHORT_FORMS}; included.")] = "",
    until: Annotated[str, typer.Option("--to", help="End, the same; not included. Now if not given.")] = "",
    last: Annotated[str, typer.Option(help="Instead of --from and --to: the last 90s, 10m, 2h or 1d.")] = "",
    truth: Annotated[Path | None, typer.Option(help="Ground truth of a scenario, written next to the bundle.")] = None,
    tenant: Annotated[str, typer.Option(help="Only rows of this tenant.")] = "",
    cluster: Annotated[str, typer.Option(help="Only rows of this cluster.")] = "",
    redact: Annotated[bool, typer.Option("--redact", help="Replace names and addresses, consistently.")] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Read this embedded store, which no server may have open. Default: ask the server."),
    ] = None,
    config: ConfigOption = None,
    server: ServerOption = "",
) -> None:
    """Record all tables of a time span into FILE.leadline. Default: the last 10 minutes.

    Asks the running server, which owns the store. `leadline record --redact FROM TO` redacts an existing bundle.
    """
    source, target = _paths(files, redact)
    if truth is None and source is not None and truth_path(source).exists():
        truth = truth_path(source)
    told = read_truth(truth) if truth is not None else None
    if redact and told is None and truth_path(target).exists():
        # It would stay beside a bundle without names, with the names in it, and be taken for its truth.
        raise UsageError(f"{truth_path(target)} is there, and not of this bundle; move it away, or give --truth")
    with ExitStack() as stack:
        redactor = None
        if source is not None:
            if since or until or last or tenant or cluster or data_dir:
                raise UsageError(
                    "FROM is redacted whole: leave out --from, --to, --last, --tenant, --cluster, --data-dir"
                )
            redactor = _redact(read_bundle(source), target, told)
        else:
            since = _begin(since, until, last)
            where = stack.enter_context(_beside(target)) if redact else target
            if data_dir is not None:
                _from_store(data_dir, config, since, until, tenant, cluster, where)
            else:
                _from_server(Client(server), since, until, tenant, cluster, where)
            if redact:
                redactor = _redact(read_bundle(where), target, told)
        if told is not None:
            write_truth(truth_path(target), redacted_truth(told, redactor) if redactor else told)
    _say(target, told is not None)


def record_run(client: Client, from_ns: int, to_ns: int, target: Path) -> None:
    """Record a span of what a server holds, and say what came of it; a truth file beside it is mentioned."""
    _from_server(client, str(from_ns), str(to_ns), "", "", target)
    _say(target, truth_path(target).exists())


def _paths(files: list[Path], redact: bool) -> tuple[Path | None, Path]:
    """(bundle to redact, bundle to write). Errors: UsageError."""
    if len(files) > 2 or (len(files) == 2 and not redact):
        raise UsageError("give one FILE to record to, or --redact FROM TO")
    target = files[-1]
    if target.suffix != SUFFIX:
        raise UsageError(f"expected a bundle called NAME{SUFFIX}, got {target}")
    if not target.parent.is_dir():
        raise WorldError(f"{target.parent} is no directory; make it first")
    if len(files) == 2 and target.resolve() == files[0].resolve():
        raise UsageError("FROM and TO are the same file; name another one to write")
    return (files[0] if len(files) == 2 else None), target


def _begin(since: str, until: str, last: str) -> str:
    if last and (since or until):
        raise UsageError("--last is instead of --from and --to; give one or the other")
    if until and not since:
        raise UsageError("--to needs --from; or give --last")
    return f"-{last.removeprefix('-')}" if last else since


def _from_server(client: Client, since: str, until: str, tenant: str, cluster: str, target: Path) -> None:
    asked = {"from": since, "to": until, "tenant": tenant, "cluster": cluster}
    with client.stream("/api/v1/bundle", **asked) as answer:
        length = answer.headers.get("content-length")
        write_bundle(target, answer.iter_bytes(), int(length) if length else None)


def _from_store(
    data_dir: Path, config: Path | None, since: str, until: str, tenant: str, cluster: str, target: Path
) -> None:
    if not data_dir.is_dir():
        raise UsageError(f"--data-dir {data_dir}: expected the directory of an embedded store, got none")
    settings = load(config, os.environ, [Flag("--data-dir", "store", "path", str(data_dir))])
    now_ns = time.time_ns()
    span = Span(
        parse_time(since or f"-{USUAL_SPAN}", now_ns),
        parse_time(until, now_ns, end=True) if until else now_ns,
        tenant,
        cluster,
    )
    store = Store(settings.store)
    store.start()
    try:
        with draft_bundle(store, span, config_text(settings), directory=data_dir) as draft:
            write_bundle(target, draft.chunks(), draft.size)
    finally:
        store.stop()


def _redact(bundle: Bundle, target: Path, told: object) -> Redactor:
    with bundle:
        redactor = Redactor.of(bundle, told)
        with draft_redacted(bundle, redactor, directory=target.parent) as draft:
            write_bundle(target, draft.chunks(), draft.size)
        return redactor


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A place for the bundle with its names; it is gone at the end, whatever happens but `kill -9`."""
    with tempfile.TemporaryDirectory(prefix=".leadline-", dir=target.parent) as directory:
        yield Path(directory) / "names.leadline"


def _say(target: Path, with_truth: bool) -> None:
    with read_bundle(target) as bundle:
        rows = bundle.manifest.rows()
        seconds = (bundle.manifest.to_ns - bundle.manifest.from_ns) / 1e9
        console().print(
            f"{target}: {size(target.stat().st_size)}, {seconds:.0f} s, {sum(rows.values())} rows of {len(rows)} tables"
            + (", redacted" if bundle.manifest.redacted else "")
            + (f"; truth in {truth_path(target)}" if with_truth else "")
        )
