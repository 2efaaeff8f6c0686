"""Who asks: one tenant, one role. Tokens become principals in `store`; `server` checks them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_TENANT = "default"
DEFAULT_CLUSTER = "default"


class Role(StrEnum):
    """What a principal may do; each role is listed with what it allows in `ALLOWED`."""

    TENANT_READ = "tenant-read"
    TENANT_WRITE = "tenant-write"
    OPERATOR = "operator"


READ = "read"  # query one's own tenant's rows
WRITE = "write"  # append rows to one's own tenant
OPERATE = "operate"  # read across tenants, change settings, act

ALLOWED: dict[Role, frozenset[str]] = {
    Role.TENANT_READ: frozenset({READ}),
    Role.TENANT_WRITE: frozenset({READ, WRITE}),
    Role.OPERATOR: frozenset({READ, WRITE, OPERATE}),
}


@dataclass(frozen=True, slots=True)
class Principal:
    """One caller: the tenant whose rows it may see, the cluster its rows belong to by default, its role."""

    tenant: str = DEFAULT_TENANT
    cluster: str = DEFAULT_CLUSTER
    role: Role = Role.OPERATOR

    def may(self, right: str) -> bool:
        """Whether this principal holds `right` (`READ`, `WRITE` or `OPERATE`)."""
        return right in ALLOWED[self.role]

    def signature(self, name: str = "") -> str:
        """Who says something, as rows tell it: `operator:default/kim`. Without tokens `name` is what a client tells."""
        return f"{self.role}:{self.tenant}{f'/{name}' if name else ''}"


def signed_by_operator(actor: str) -> bool:
    """Whether a signature is an operator's."""
    return actor.partition(":")[0] == Role.OPERATOR
