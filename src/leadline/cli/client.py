"""Asking the running server. One process owns the store, so every verb goes through its API."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from leadline import __version__
from leadline.cli import connecting
from leadline.cli.texts import printable
from leadline.host.secret import certificates, secret_of
from leadline.model.errors import LeadlineError, UnknownNameError, UsageError, WorldError
from leadline.server.config import load

TIMEOUT_S = 310.0  # a query may run 300 s
CONNECT_S = 5.0
# Pages of the docs, which the API names as files of the source code; the server has them at /docs.
_PAGE = re.compile(rb"(?<![\w/])docs/((?:how-to|formats)/[\w-]+)\.md\b")
VERSION_HEADER = "leadline-version"  # as of the server's `tokens.rights`, which takes a second to load
NOT_SERVED = ("not_found", "method")  # reasons of a server that has no such route
UNKNOWN = ("unknown_name", "unknown_incident", "unknown_table")  # reasons of the server for a name that nobody told


class Client:
    """One server's API.

    Errors: WorldError if nobody answers, UnknownNameError for a name that nobody told, UsageError for what else the
    server refuses.
    """

    def __init__(self, server: str) -> None:
        """Errors: UsageError for an address that is none."""
        self._socket = _socket_path(server)
        self.url = _checked_url(server) if server else default_url()
        self._warned = False
        self._secret = secret_of(connecting.GIVEN.token_file, os.environ)
        # Looked up once: to read the system's authorities takes 20 ms.
        self._verify = certificates(connecting.GIVEN.ca_file, os.environ) if self.url.startswith("https:") else True

    def get(self, path: str, **params: str | int) -> dict[str, Any]:
        """GET, as JSON; empty parameters are left out."""
        return self._ask("GET", path, params={name: value for name, value in params.items() if value != ""})

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST of JSON."""
        return self._ask("POST", path, json=body)

    def send(self, path: str, body: bytes, content_type: str) -> None:
        """POST of telemetry, which is stored whole or not at all."""
        self._ask("POST", path, content=body, headers={"content-type": content_type})

    @contextmanager
    def stream(self, path: str, **params: str) -> Iterator[httpx.Response]:
        """GET of an answer that is not JSON, for the time of a `with`; empty parameters are left out."""
        given = {name: value for name, value in params.items() if value != ""}
        with self._client(path) as client, client.stream("GET", f"{self._base}{path}", params=given) as answer:
            if answer.status_code >= 400:
                answer.read()
                self._json(path, answer)
            yield answer

    def _ask(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        with self._client(path) as client:
            return self._json(path, client.request(method, f"{self._base}{path}", **how))

    @property
    def _base(self) -> str:
        """What requests begin with: over a UNIX socket the host is a matter of form."""
        return "http://localhost" if self._socket else self.url

    @contextmanager
    def _client(self, path: str) -> Iterator[httpx.Client]:
        """A client for one request; its errors become ours."""
        try:
            transport = httpx.HTTPTransport(uds=self._socket) if self._socket else None
            timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_S)
            with httpx.Client(
                trust_env=False,
                timeout=timeout,
                transport=transport,
                verify=self._verify,
                headers=self._secret.headers(),
            ) as client:
                yield client
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if "CERTIFICATE" in str(error):
                raise WorldError(
                    f"{self.url}: its certificate is not trusted here ({error}); name the file of its authority, or "
                    "the certificate itself, with --ca-file (LEADLINE_CA_FILE)"
                ) from None
            raise WorldError(
                f"no Leadline answers at {self.url}; start it with `leadline up` (of a recording: `leadline replay "
                "FILE`), or name another with --server"
            ) from None
        except httpx.HTTPError as error:
            raise WorldError(f"{self.url}{path}: {type(error).__name__}: {error}") from error

    def _with_addresses(self, text: bytes) -> bytes:
        """`text` with the addresses of pages of the docs, which a UNIX socket has none of."""
        return text if self._socket else _PAGE.sub(rb"%s/docs/\1/" % self.url.encode(), text)

    def _json(self, path: str, answer: httpx.Response) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._with_addresses(answer.content))
            if not isinstance(found, dict):
                raise ValueError
        except ValueError:
            raise WorldError(
                f"{self.url}{path} answered {answer.status_code}, and not with JSON: is it Leadline?"
            ) from None
        self._compare_versions(answer.headers.get(VERSION_HEADER, __version__))
        if answer.status_code >= 400:
            problem = found.get("error", {})
            message = problem.get("message") or f"status {answer.status_code}: {found.get('detail', found)}"
            if problem.get("reason") in NOT_SERVED:
                message = (
                    f"the server at {self.url} cannot answer this: it is of another version than this command, "
                    f"{__version__}; `leadline status` shows its own; install the same on both sides"
                )
            if answer.status_code == 401:
                message += "; give it with --token-file FILE (LEADLINE_TOKEN_FILE) or in LEADLINE_TOKEN" * (
                    not self._secret.headers()
                )
            raise _error(answer.status_code, problem.get("reason", ""))(message)
        return found

    def _compare_versions(self, theirs: str) -> None:
        """Say once that the server is of another version: what is printed may lack something, or not be understood."""
        if theirs != __version__ and not self._warned:
            self._warned = True
            print(
                f"leadline: this is version {__version__}, the server at {self.url} is {printable(theirs)[:40]}; "
                f"install the same here, or update the server",
                file=sys.stderr,
            )


def _error(status: int, reason: str) -> type[LeadlineError]:
    if status >= 500:
        return WorldError
    return UnknownNameError if reason in UNKNOWN else UsageError


def _socket_path(server: str) -> str:
    """The path in `unix:PATH` (or unix://PATH); empty for other addresses."""
    return server.removeprefix("unix:").removeprefix("//") if server.startswith("unix:") else ""


def _checked_url(server: str) -> str:
    if _socket_path(server):
        return server
    url = (server if "://" in server or server == "unix:" else f"http://{server}").rstrip("/")
    try:
        parts = urlsplit(url)
        # `port` is looked up because it is only read, and refused, when asked for.
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and url.split() == [url]:
            return url
    except ValueError:
        pass
    raise UsageError(f"--server (or LEADLINE_SERVER): expected http://HOST:PORT or unix:PATH, got {server!r}")


def default_url() -> str:
    """Where this machine's server listens, by the configuration found here."""
    return load(None, os.environ).server.url
