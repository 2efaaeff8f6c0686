"""The secret of a token, and the certificates that a server is known by: what is needed to connect from elsewhere.

The file is looked at again with each request, so that a token can be exchanged without a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.model.errors import ConfigError

if TYPE_CHECKING:
    import ssl

FILE_BYTES_MAX = 4096  # a secret has 59 characters
VARIABLE, FILE_VARIABLE, CA_VARIABLE = "LEADLINE_TOKEN", "LEADLINE_TOKEN_FILE", "LEADLINE_CA_FILE"


class Secret:
    """A token's secret: a text, or the only line of a file. Without both no header is sent."""

    def __init__(self, text: str = "", file: Path | None = None) -> None:
        self._text = text.strip()
        self._file = file
        self._mark: tuple[int, ...] = ()

    def headers(self) -> dict[str, str]:
        """The header that tells it. Errors: ConfigError for a file that holds none."""
        if self._file is not None:
            self._look(self._file)
        return {"Authorization": f"Bearer {self._text}"} if self._text else {}

    def _look(self, file: Path) -> None:
        try:
            found = file.stat()
            mark = (found.st_ino, found.st_mtime_ns, found.st_size)
            if mark == self._mark:
                return
            with file.open("rb") as opened:
                raw = opened.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError(f"token file {file}: cannot be read: {error.strerror}") from error
        text = raw.decode("ascii", "replace").strip()
        if text.startswith("{"):
            raise ConfigError(
                f"token file {file}: this is the server's list of tokens, in which no secret is; give a file with the "
                "line that `leadline token create` printed"
            )
        if not text.isascii() or len(text.split()) != 1 or len(raw) > FILE_BYTES_MAX:
            raise ConfigError(f"token file {file}: expected one line, the token, got {len(raw)} bytes of else")
        self._text, self._mark = text, mark


def secret_of(file: Path | None, environ: Mapping[str, str]) -> Secret:
    """The secret that was asked for: a file that was named, else LEADLINE_TOKEN_FILE, else LEADLINE_TOKEN."""
    named = file or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    if named is not None:
        return Secret(file=named.expanduser())
    text = environ.get(VARIABLE, "")
    if not text.isascii() or len(text.split()) > 1:
        raise ConfigError(f"{VARIABLE}: expected a token, got {len(text)} characters of else")
    return Secret(text)


def certificates(file: Path | None, environ: Mapping[str, str]) -> ssl.SSLContext:
    """How a server's certificate is checked: against a file of authorities (or the certificate itself) that was named,
    else LEADLINE_CA_FILE, else the system's. Errors: ConfigError for a file that holds none."""
    import ssl  # 4 MB that an agent over HTTP does not need

    named = file or (Path(environ[CA_VARIABLE]) if environ.get(CA_VARIABLE) else None)
    try:
        return ssl.create_default_context(cafile=str(named.expanduser()) if named else None)
    except ssl.SSLError as error:
        raise ConfigError(f"CA file {named}: expected certificates as PEM, got {error.reason or error}") from error
    except OSError as error:
        raise ConfigError(f"CA file {named}: cannot be read: {error.strerror}") from error
