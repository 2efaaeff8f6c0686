"""`leadline token`: make, list and revoke the tokens with which agents, programs and people connect from elsewhere."""

from __future__ import annotations

import getpass
import os
import re
import secrets
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from leadline.cli.options import ConfigOption, Output, OutputOption
from leadline.cli.output import console, emit
from leadline.model.errors import UsageError, WorldError
from leadline.server.config import load
from leadline.server.tokens import file, token
from leadline.server.tokens.audit import Audit
from leadline.server.tokens.token import ID_BYTES, SECRET_BYTES, Token, TokenRole

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
LASTS = "365d"  # long enough that no sender falls silent within a season, short enough that a forgotten token ends

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Create, list and revoke access tokens.")

FileOption = Annotated[
    Path | None,
    typer.Option("--token-file", help="The server's token file; by default server.token_file of leadline.yaml."),
]


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Owner, such as agent-n12 or kim; shown in lists and in the audit log.")],
    role: Annotated[TokenRole, typer.Option(help="What it may do; see 'Connect from another host' in the docs.")],
    tenant: Annotated[
        str,
        typer.Option(help="Whose rows; for operate, which acts for all tenants, that one only.", show_default=False),
    ] = "",
    expires: Annotated[str, typer.Option(help="Expires in: 12h, 90d, 52w, or never.")] = LASTS,
    save: Annotated[
        Path | None, typer.Option(help="Write the secret to this new file (mode 0600) instead of printing it.")
    ] = None,
    token_file: FileOption = None,
    config: ConfigOption = None,
) -> None:
    """Create a token and print its secret, which is shown only once. A running server accepts it within a second."""
    path = _path(token_file, config)
    now_ns = time.time_ns()
    chance = secrets.token_bytes(ID_BYTES + SECRET_BYTES)
    made, secret = token.made(name, role.value, tenant, now_ns, _lasts_ns(expires), chance)
    if save is not None and save.exists():
        raise UsageError(f"--save {save}: there is a file already; name a new one")
    file.changed(path, lambda before: token.added(before, made, now_ns))
    _told(path, "create", made)
    if save is None:
        print(secret)
    else:
        try:
            file.save_private(save, f"{secret}\n")
        except OSError as error:
            file.changed(path, lambda before: token.revoked(before, made.id, now_ns))
            raise WorldError(f"--save {save}: {error.strerror}; the token is revoked again") from error
    where = f"is in {save}" if save else "is shown only once: save it now"
    ends = f"until {_day(made.expires_ns)}" if made.expires_ns else "for ever"
    print(
        f"token {made.name} ({made.role}, tenant {made.tenant or 'all'}) is good {ends}; its secret {where}",
        file=sys.stderr,
    )


@app.command("list")
def list_tokens(
    token_file: FileOption = None, config: ConfigOption = None, output: OutputOption = Output.TABLE
) -> None:
    """List all tokens, including those that expired in the last 90 days. Secrets are not stored, so none is shown."""
    _, tokens = file.loaded(_path(token_file, config))
    now_ns = time.time_ns()
    if emit({"tokens": [_shown(each, now_ns) for each in tokens]}, output):
        return
    table = Table(box=None, pad_edge=False)
    for title in ("name", "role", "tenant", "state", "created", "ends", "id"):
        table.add_column(title, no_wrap=True)
    for each in tokens:
        ended = each.ended_ns()
        ends = _day(ended) if ended else "never"
        table.add_row(
            each.name, each.role, each.tenant or "all", each.state(now_ns), _day(each.created_ns), ends, each.id
        )
    console().print(table)


@app.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="Name or id of the token.")],
    token_file: FileOption = None,
    config: ConfigOption = None,
) -> None:
    """Revoke a token. A running server refuses it within a second."""
    path = _path(token_file, config)
    now_ns = time.time_ns()
    ended: list[Token] = []

    def change(before: Any) -> tuple[Token, ...]:
        after = token.revoked(before, name, now_ns)
        ended.extend(each for each in after if each.revoked_ns == now_ns)
        return after

    file.changed(path, change)
    for each in ended:
        _told(path, "revoke", each)
        print(f"token {each.name} ({each.id}) is revoked", file=sys.stderr)


def _path(given: Path | None, config: Path | None) -> Path:
    """The token file. Errors: UsageError if none is named."""
    server = load(config, os.environ).server
    if given is None and not server.token_file:
        raise UsageError("which token file? give --token-file FILE, or set server.token_file in leadline.yaml")
    return (given or server.token_path).expanduser().absolute()


def _told(path: Path, act: str, about: Token) -> None:
    """Into the audit: whoever may write the token file acts under the name the system gives him."""
    try:
        who = f"user {getpass.getuser()}"
    except (KeyError, OSError):
        who = f"user {os.getuid()}"
    Audit(path).act({"outcome": "allowed", "who": who, "peer": "this machine", "act": f"token {act}",
                     "token": about.name, "id": about.id, "role": about.role, "tenant": about.tenant})  # fmt: skip


def _lasts_ns(text: str) -> int:
    """How long a token lasts; 0 for ever. Errors: UsageError."""
    if text == "never":
        return 0
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhdw])", text)
    if not match:
        raise UsageError(f"--expires: expected a number and s, m, h, d or w (90d), or never; got {text!r}")
    return int(match[1]) * UNITS_S[match[2]] * 10**9


def _shown(each: Token, now_ns: int) -> dict[str, Any]:
    return {
        "name": each.name, "id": each.id, "role": each.role, "tenant": each.tenant, "state": each.state(now_ns),
        "created_ns": each.created_ns, "expires_ns": each.expires_ns, "revoked_ns": each.revoked_ns,
    }  # fmt: skip


def _day(time_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(time_ns / 1e9))
