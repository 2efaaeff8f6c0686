"""Who asks: one tenant, one role. `server` makes principals of tokens, or on loopback without tokens of headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

DEFAULT_TENANT = "default"
DEFAULT_CLUSTER = "default"


class Role(StrEnum):
    """What a principal may do; each role is listed with what it allows in `ALLOWED`."""

    TENANT_READ = "tenant-read"
    TENANT_WRITE = "tenant-write"
    TENANT_OPERATE = "tenant-operate"
    SENDER = "sender"
    PROVIDER = "provider"
    OPERATOR = "operator"
    ADMIN = "admin"


READ = "read"  # query one's own tenant's rows
WRITE = "write"  # append rows to one's own tenant
MARK = "mark"  # say of one's own tenant's incidents what is right, wrong or none
OPERATE = "operate"  # read across tenants, change settings, act
ADMINISTER = "administer"  # read who did what

ALLOWED: dict[Role, frozenset[str]] = {
    Role.TENANT_READ: frozenset({READ}),
    Role.TENANT_WRITE: frozenset({READ, WRITE, MARK}),
    Role.TENANT_OPERATE: frozenset({READ, MARK}),
    Role.SENDER: frozenset({WRITE}),
    Role.PROVIDER: frozenset({READ, WRITE}),
    Role.OPERATOR: frozenset({READ, WRITE, MARK, OPERATE}),
    Role.ADMIN: frozenset({READ, WRITE, MARK, OPERATE, ADMINISTER}),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known of a request before it is known whose it is.

    `headers` have lower-case names; `wants` is the right that the request needs; `peer` is the address it comes from,
    empty over the UNIX socket, whose file lets nobody but the server's own user in.
    """

    headers: Mapping[str, str]
    wants: str = READ
    method: str = "GET"
    path: str = ""
    peer: str = "unknown"


@dataclass(frozen=True, slots=True)
class Principal:
    """One caller: the tenant whose rows it may see, the cluster its rows belong to by default, its role.

    `name` is that of its token; empty without tokens.
    """

    tenant: str = DEFAULT_TENANT
    cluster: str = DEFAULT_CLUSTER
    role: Role = Role.OPERATOR
    name: str = ""

    def may(self, right: str) -> bool:
        """Whether this principal holds `right`, such as `READ` or `OPERATE`."""
        return right in ALLOWED[self.role]

    def signature(self, name: str = "") -> str:
        """Who says something, as rows tell it: `operator:default/kim`. `name` is what a client tells of itself, which
        counts where there is no token to know better."""
        who = self.name or name
        return f"{self.role}:{self.tenant}{f'/{who}' if who else ''}"


def signed_by_operator(actor: str) -> bool:
    """Whether a signature is that of somebody who acts for all tenants."""
    return actor.partition(":")[0] in (Role.OPERATOR, Role.ADMIN)
