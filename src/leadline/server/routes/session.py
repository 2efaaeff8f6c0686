"""Signing in on the page: the token is pasted once and kept in a cookie that no script can read.

POST /api/v1/session {"token": ...} ──> cookie leadline-token (HttpOnly, SameSite=Strict, Secure over TLS)
DELETE /api/v1/session ──> the cookie is gone            GET /api/v1/session ──> who one is
"""

from __future__ import annotations

import time

from fastapi import Request, Response
from pydantic import BaseModel, Field

from leadline.model.errors import RefusedError
from leadline.model.principal import READ, Principal
from leadline.server.asking import PROBLEMS
from leadline.server.serving import serving_of
from leadline.server.tokens.gate import COOKIE, Gate
from leadline.server.tokens.rights import caller_of, guarded_router
from leadline.views.rows import SCHEMA_VERSION

PATH = "/api/v1/session"
KEPT_S = 30 * 86_400  # a browser that was not used for so long signs in again

router = guarded_router()


class SignIn(BaseModel):
    """The secret of a token."""

    token: str = Field(min_length=1, max_length=200)


class SessionAnswer(BaseModel):
    """Who asks. `asks`: whether this server asks for tokens."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    asks: bool
    name: str
    role: str
    tenant: str


@router.get(PATH, tags=["session"], responses=PROBLEMS)
async def session(request: Request) -> SessionAnswer:
    """Who asks, by the token of this request."""
    gate = serving_of(request).gate
    return _answer(gate, gate.again(caller_of(request, READ)))


@router.post(PATH, tags=["session"], responses=PROBLEMS)
async def sign_in(request: Request, response: Response, asked: SignIn) -> SessionAnswer:
    """Keep a token in a cookie of this browser. It must be one that may read."""
    gate = serving_of(request).gate
    if not gate.asks:
        raise RefusedError("unauthorized", "this server asks for no token")
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers = {name: headers[name] for name in headers.keys() & {"host", "origin", "sec-fetch-site"}}
    secret = asked.token.strip()
    caller = caller_of(request, READ, {**headers, "authorization": f"Bearer {secret}"})
    principal = gate(caller)
    expires_ns = gate.token_of(secret).expires_ns
    left_s = (expires_ns - time.time_ns()) // 10**9 if expires_ns else KEPT_S
    response.set_cookie(
        COOKIE, secret, max_age=max(0, min(KEPT_S, left_s)), path="/", httponly=True, samesite="strict",
        secure=request.url.scheme == "https",
    )  # fmt: skip
    return _answer(gate, principal)


@router.delete(PATH, tags=["session"], responses=PROBLEMS)
async def sign_out(response: Response) -> dict[str, int]:
    """Forget the token of this browser. The token itself stays good; `leadline token revoke` ends it."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return {"schema": SCHEMA_VERSION}


def _answer(gate: Gate, principal: Principal) -> SessionAnswer:
    return SessionAnswer(
        schema=SCHEMA_VERSION, asks=gate.asks, name=principal.name, role=principal.role, tenant=principal.tenant
    )
