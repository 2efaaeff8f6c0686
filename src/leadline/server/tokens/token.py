"""What a token is. Pure: secrets, time and the file's text are arguments and values.

ll_1f0c9a3b7d2e_Vq0e...43 characters     the secret, which its holder keeps: `ll_`, the id, 32 random bytes
{"id": "1f0c9a3b7d2e", "sha256": ...}    what the server keeps of it
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum

from leadline.model.errors import DataError, UsageError
from leadline.model.principal import DEFAULT_TENANT, Principal, Role

VERSION = 1
ID_BYTES = 6  # tells 10,000 tokens apart with a chance of 2e-7 that two are alike; `added` refuses such a pair
SECRET_BYTES = 32  # 256 bits, as many as the hash has; nobody finds one by trying
TOKENS_MAX = 10_000  # of one file, 300 bytes each: one for each host of a large cluster
ENDED_KEPT_NS = 90 * 86_400 * 10**9  # how long a token that ended is listed, so that its holder is told why
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SECRET = re.compile(rf"ll_([0-9a-f]{{{2 * ID_BYTES}}})_[A-Za-z0-9_-]{{43}}")


class TokenRole(StrEnum):
    """What a token is for, as `leadline token create --role` takes it."""

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"
    PROVIDER = "provider"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Token:
    """One token, without its secret. `tenant` empty: all tenants; times in ns since 1970, 0: never."""

    id: str
    name: str
    role: str
    tenant: str
    sha256: str
    created_ns: int
    expires_ns: int = 0
    revoked_ns: int = 0

    def state(self, now_ns: int) -> str:
        """`good`, `expired` or `revoked`."""
        if self.revoked_ns:
            return "revoked"
        return "expired" if self.expires_ns and now_ns >= self.expires_ns else "good"

    def ended_ns(self) -> int | None:
        """When it ended or will end; None: never."""
        return self.revoked_ns or self.expires_ns or None

    def principal(self) -> Principal:
        """Whom its holder speaks for."""
        role = TokenRole(self.role)
        if role is TokenRole.OPERATE and self.tenant:
            return Principal(self.tenant, role=Role.TENANT_OPERATE, name=self.name)
        return Principal(self.tenant or DEFAULT_TENANT, role=_ROLES[role], name=self.name)


_ROLES = {
    TokenRole.READ: Role.TENANT_READ,
    TokenRole.WRITE: Role.SENDER,
    TokenRole.OPERATE: Role.OPERATOR,
    TokenRole.PROVIDER: Role.PROVIDER,
    TokenRole.ADMIN: Role.ADMIN,
}


def made(name: str, role: str, tenant: str, now_ns: int, lasts_ns: int, chance: bytes) -> tuple[Token, str]:
    """A token and its secret, which is told once and kept nowhere.

    Inputs: `tenant` empty: the default tenant, or all of them for operate and admin; `lasts_ns` 0: it never expires;
    `chance` are ID_BYTES + SECRET_BYTES random bytes. Errors: UsageError.
    """
    assert len(chance) == ID_BYTES + SECRET_BYTES, "as many random bytes as a token has"
    if role not in set(TokenRole):
        raise UsageError(f"--role: expected {', '.join(TokenRole)}, got {role!r}")
    for what, value in (("NAME", name), ("--tenant", tenant or DEFAULT_TENANT)):
        if not WORD.fullmatch(value):
            raise UsageError(f"{what}: expected 1 to 64 of A-Z a-z 0-9 _ . -, got {value[:80]!r}")
    if role == TokenRole.ADMIN and tenant:
        raise UsageError("--tenant: an admin acts for all tenants; leave it out, or give the role operate")
    whole = tenant or ("" if role in (TokenRole.OPERATE, TokenRole.ADMIN) else DEFAULT_TENANT)
    number = chance[:ID_BYTES].hex()
    secret = f"ll_{number}_{base64.urlsafe_b64encode(chance[ID_BYTES:]).rstrip(b'=').decode()}"
    expires_ns = now_ns + lasts_ns if lasts_ns else 0
    return Token(number, name, role, whole, hashed(secret), now_ns, expires_ns), secret


def hashed(secret: str) -> str:
    """SHA-256 in hexadecimal. One round suffices: slow hashes protect what people can remember, and nobody can guess
    256 random bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def found(tokens: Sequence[Token], secret: str) -> Token | None:
    """The token of a secret, whatever its state; None if there is none. The comparison takes the same time however much
    of the hash is right."""
    match = _SECRET.fullmatch(secret)
    candidate = next((each for each in tokens if match and each.id == match[1]), None)
    right = hmac.compare_digest(hashed(secret), candidate.sha256 if candidate else "0" * 64)
    return candidate if right else None


def added(tokens: Sequence[Token], token: Token, now_ns: int) -> tuple[Token, ...]:
    """The tokens with one more, without those that ended long ago. Errors: UsageError for a name that is taken."""
    kept = [each for each in tokens if (each.ended_ns() or now_ns) > now_ns - ENDED_KEPT_NS]
    if any(each.name == token.name and each.state(now_ns) == "good" for each in kept):
        raise UsageError(f"there is a token {token.name!r} already; revoke it first, or choose another name")
    if any(each.id == token.id for each in kept):
        raise UsageError("the new token has the id of another by chance; make it again")
    if len(kept) >= TOKENS_MAX:
        raise UsageError(f"there are {TOKENS_MAX} tokens already; revoke some, or let several senders share one")
    return (*kept, token)


def revoked(tokens: Sequence[Token], which: str, now_ns: int) -> tuple[Token, ...]:
    """The tokens with one, by its name or id, revoked. Errors: UsageError if no good token is called that."""
    hit = [each for each in tokens if which in (each.name, each.id) and each.state(now_ns) == "good"]
    if not hit:
        names = ", ".join(sorted(each.name for each in tokens if each.state(now_ns) == "good"))
        raise UsageError(f"no token that is good is called {which!r}; there are: {names or 'none'}")
    return tuple(replace(each, revoked_ns=now_ns) if each in hit else each for each in tokens)


def written(tokens: Sequence[Token]) -> str:
    """The text of a token file, a line for each token."""
    lines = ",\n".join(json.dumps(asdict(each)) for each in tokens)
    return f'{{"version": {VERSION}, "tokens": [\n{lines}\n]}}\n'


def read(text: str, where: str) -> tuple[Token, ...]:
    """The tokens of a file's text. Errors: DataError, saying what was expected."""
    try:
        whole = json.loads(text)
        entries = whole["tokens"]
        if whole["version"] != VERSION or not isinstance(entries, list) or len(entries) > TOKENS_MAX:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(where, f"tokens as `leadline token create` writes them (version {VERSION})", "else") from None
    return tuple(_token(each, f"{where}, token {number}") for number, each in enumerate(entries, 1))


def _token(entry: object, where: str) -> Token:
    kinds = {each.name: str if each.type == "str" else int for each in fields(Token)}
    fits = isinstance(entry, dict) and entry.keys() == kinds.keys()
    if not fits or any(type(entry[name]) is not kind for name, kind in kinds.items()):  # type: ignore[index]
        raise DataError(where, f"the fields {', '.join(kinds)}", "else")
    token = Token(**entry)  # type: ignore[arg-type]
    if token.role not in set(TokenRole) or not re.fullmatch(r"[0-9a-f]{64}", token.sha256):
        raise DataError(where, f"a role of {', '.join(TokenRole)} and a SHA-256", f"{token.role[:80]!r}")
    return token
