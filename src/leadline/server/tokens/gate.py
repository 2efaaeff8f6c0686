"""The one place that decides whether a request is let in, whose it is, and whether its role suffices.

    every way in ── Caller(headers, wants, ...) ──> gate ──> Principal, or RefusedError
                                                     └─────> audit

Without a token file the gate is `access.authorize`: this machine only, and everybody the operator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from leadline.model.errors import RefusedError
from leadline.model.principal import ADMINISTER, ALLOWED, MARK, OPERATE, READ, WRITE, Caller, Principal, Role
from leadline.server.access import SAFE_METHODS, authorize, refuse_other_sites, said_role, word
from leadline.server.config import Config
from leadline.server.tokens.audit import Audit
from leadline.server.tokens.file import TokenFile
from leadline.server.tokens.token import Token, found

COOKIE = "leadline-token"
PRIVILEGED = frozenset({MARK, OPERATE, ADMINISTER})
_TOKEN_OF = {READ: "read", WRITE: "write", MARK: "operate", OPERATE: "operate", ADMINISTER: "admin"}


class Gate:
    """Lets requests in by their token. Safe for many threads."""

    def __init__(self, tokens: TokenFile | None, audit: Audit | None, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._tokens = tokens
        self._audit = audit
        self._now_ns = now_ns

    @property
    def asks(self) -> bool:
        """Whether it asks for tokens."""
        return self._tokens is not None

    def __call__(self, caller: Caller) -> Principal:
        """Whose request it is. Acts that not everybody may do, and refusals, are told to the audit.

        Errors: RefusedError("unauthorized") for a request without a good token, or of another site's page;
        RefusedError("forbidden") for a token whose role does not suffice; BusyError while tokens cannot be read.
        """
        if self._tokens is None:
            return authorize(caller)
        try:
            principal = self._let_in(caller)
        except RefusedError as error:
            self._told(caller, "refused", self._name_of(caller), str(error))
            raise
        if caller.wants in PRIVILEGED:
            self._told(caller, "allowed", principal.signature())
        return principal

    def again(self, caller: Caller) -> Principal:
        """Whose request it is that was let in before: as a call, but what is allowed is not told twice."""
        return authorize(caller) if self._tokens is None else self._let_in(caller)

    def token_of(self, secret: str) -> Token:
        """The good token of a secret. Errors: RefusedError("unauthorized"), BusyError."""
        assert self._tokens is not None, "who asks for no tokens needs none"
        # One that was made a moment ago is good at once.
        token = found(self._tokens.tokens(), secret) or found(self._tokens.tokens(look=True), secret)
        if token is None:
            raise RefusedError(
                "unauthorized", "this token is not known here; `leadline token list` shows the known ones"
            )
        state = token.state(self._now_ns())
        if state != "good":
            ended = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime((token.ended_ns() or 0) / 1e9))
            how = "was revoked" if state == "revoked" else "expired"
            raise RefusedError("unauthorized", f"the token {token.name} {how} at {ended}; {_MAKE}")
        return token

    def close(self) -> None:
        """Tell the audit what was only counted so far."""
        if self._audit is not None:
            self._audit.close()

    def _let_in(self, caller: Caller) -> Principal:
        refuse_other_sites(caller)
        secret, by_cookie = secret_of(caller.headers)
        if not secret:
            if caller.peer:
                raise RefusedError("unauthorized", f"a token is needed (header Authorization: Bearer ...); {_MAKE}")
            return authorize(caller)  # over the UNIX socket the kernel has looked who it is: its file is the owner's
        if by_cookie and caller.method not in SAFE_METHODS and "origin" not in caller.headers:
            # A browser always says so here; another site's page could not leave it out.
            raise RefusedError(
                "unauthorized", "a cookie alone changes nothing; send the header Origin, or the token itself"
            )
        principal = narrowed(self.token_of(secret).principal(), caller.headers)
        if not principal.may(caller.wants):
            raise RefusedError(
                "forbidden",
                f"{caller.method} {caller.path} needs a token of the role {_TOKEN_OF[caller.wants]}; "
                f"{principal.name} is {principal.role}",
            )
        return principal

    def _name_of(self, caller: Caller) -> str:
        """The name of a token that is known, good or not; empty for others: no secret gets into the audit."""
        assert self._tokens is not None, "refused by a token that was not asked for"
        token = found(self._tokens.tokens(), secret_of(caller.headers)[0])
        return token.name if token else ""

    def _told(self, caller: Caller, outcome: str, who: str, why: str = "") -> None:
        if self._audit is None:
            return
        row = {"outcome": outcome, "who": who, "peer": caller.peer or "our socket", "method": caller.method,
               "path": caller.path, "wants": caller.wants, "why": why}  # fmt: skip
        if outcome == "refused":
            self._audit.refuse(row)
        else:
            self._audit.act(row)


_MAKE = "`leadline token create NAME --role ROLE` on the server's machine makes one"


def gate_of(config: Config) -> Gate:
    """The gate that a configuration asks for. Errors: ConfigError for a token file that cannot be used."""
    if not config.server.token_file:
        return Gate(None, None)
    tokens = TokenFile(config.server.token_path)
    return Gate(tokens, Audit(tokens.path))


def secret_of(headers: Mapping[str, str]) -> tuple[str, bool]:
    """The secret that a request carries, and whether in a cookie; empty if it has none."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip(), False
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value, True
    return "", False


def narrowed(principal: Principal, headers: Mapping[str, str]) -> Principal:
    """As whom a token's holder acts here: as itself, or as less than that.

    Who acts for all tenants may act as one of them, by the same headers as on loopback. Others stay what they are.
    Errors: RefusedError("forbidden") for more than the token has, ("unauthorized") for headers that are no words.
    """
    tenant = word(headers, "leadline-tenant", principal.tenant)
    for_all = principal.may(OPERATE)
    if tenant != principal.tenant and not for_all:
        raise RefusedError(
            "forbidden",
            f"the token {principal.name} is of tenant {principal.tenant}, not {tenant}; leave Leadline-Tenant out",
        )
    usual = Role.TENANT_WRITE if for_all and "leadline-tenant" in headers else principal.role
    role = said_role(headers, usual)
    if not ALLOWED[role] <= ALLOWED[principal.role]:
        raise RefusedError("forbidden", f"the token {principal.name} is {principal.role}, which may not act as {role}")
    return replace(principal, tenant=tenant, role=role, cluster=word(headers, "leadline-cluster", principal.cluster))
