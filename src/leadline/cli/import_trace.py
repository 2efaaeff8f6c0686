"""`leadline import trace`: operation traces of a profiler into the store, for `show whatif` and the ledger."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from leadline.cli.client import Client
from leadline.cli.options import Output, OutputOption, ServerOption
from leadline.cli.output import console, emit
from leadline.cli.ranges import counted
from leadline.model.errors import UsageError
from leadline.model.tables.training import OPERATION
from leadline.wire.rows import ARROW
from leadline.wire.traces.read import read_trace_file
from leadline.wire.traces.trace_file import TraceFile, operation_rows

POST_ROWS = 200_000  # of one body: some 20 MB

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Read files of other tools into the store.")


@app.callback()
def imports() -> None:
    """Read files of other tools into the store."""


@app.command()
def trace(
    files: Annotated[list[Path], typer.Argument(help="Trace files of one job, one or more ranks each; gzip or not.")],
    job: Annotated[str, typer.Option(help="Name of the job. Default: the name of the first file.")] = "",
    keep_times: Annotated[
        bool, typer.Option("--keep-times", help="Keep recorded times of day; by default the trace ends now.")
    ] = False,
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Import operation traces: what-if CSV, PyTorch profiler (Kineto), Chakra. Then `leadline show whatif JOB`."""
    name = job or files[0].name.split(".")[0]
    found = [_read(each) for each in files]
    if keep_times and any(each.by_step for each in found):
        raise UsageError("--keep-times: the times of a what-if CSV count from each step's begin; leave it out")
    client = Client(server)
    _require_new(client, name)
    rows = operation_rows(found, name, time.time_ns(), shift=not keep_times)
    _send(client, rows)
    told = {
        "job": name,
        "operations": rows.num_rows,
        "files": [_as_json(*each) for each in zip(files, found, strict=True)],
    }
    if emit(told, output):
        return
    out = console()
    for path, each in zip(files, found, strict=True):
        ranks, steps = len(set(each.rank_N.tolist())), len(set(each.step_N.tolist()))
        size = counted({"operation": len(each), "rank": ranks, "step": steps})
        out.print(f"{path.name}: {each.format}, {size}", soft_wrap=True)
        for note in each.notes:
            out.print(f"  {note}", style="yellow", soft_wrap=True)
    out.print(f"stored as job {name}; `leadline show whatif {name}` shows what each worker and cause costs")


def _read(path: Path) -> TraceFile:
    """Errors: UsageError for a file that cannot be opened, DataError for one that is no trace."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: expected a trace file, got {error.strerror or error}") from None
    return read_trace_file(path.name, data)


def _send(client: Client, rows: pa.Table) -> None:
    """Store rows of table `operation`, some at a time. Errors: UsageError, WorldError."""
    for begin in range(0, rows.num_rows, POST_ROWS):
        body = io.BytesIO()
        with pa.ipc.new_stream(body, rows.schema) as stream:
            stream.write_table(rows.slice(begin, POST_ROWS))
        client.send(f"/api/v1/rows/{OPERATION.name}", body.getvalue(), ARROW)


def _require_new(client: Client, job: str) -> None:
    """Two imports under one name would be one job whose steps ran twice. Errors: UsageError."""
    text = job.replace("\\", "\\\\").replace("'", "\\'")
    found = client.post("/api/v1/sql", {"sql": f"SELECT count() AS n FROM operation WHERE job = '{text}'"})
    if found["rows"][0]["n"]:
        raise UsageError(
            f"job {job} has {found['rows'][0]['n']} operations already; name this one with --job, or look at it with "
            f"`leadline show whatif {job}`"
        )


def _as_json(path: Path, found: TraceFile) -> dict[str, Any]:
    return {"file": str(path), "format": found.format, "operations": len(found), "notes": found.notes}
