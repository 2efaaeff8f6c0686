"""`POST /api/v1/mesh/members`: an agent takes part in the probe mesh, and is told whom to probe."""

from __future__ import annotations

import ipaddress
from typing import Any

from pydantic import BaseModel, Field, field_validator

from leadline.server.asking import Writing, answers
from leadline.server.mesh.roster import NEIGHBOURS, Member
from leadline.server.tokens.rights import guarded_router
from leadline.views.rows import SCHEMA_VERSION

_TEXT = r"^[^\x00-\x1f\x7f]*$"  # one line


class MemberRequest(BaseModel):
    """A host that takes part."""

    host: str = Field(min_length=1, max_length=255, pattern=_TEXT)
    clock: str = Field(max_length=255, pattern=_TEXT, description="as in the rows of this host")
    address: str = Field(min_length=2, max_length=45, pattern=r"^[0-9a-fA-F.:]+$", description="that it is probed at")
    port: int = Field(ge=1, le=65535, description="UDP")
    pod: str = Field(default="", max_length=255, pattern=_TEXT, description="empty: not known")

    neighbours: int = Field(default=NEIGHBOURS, ge=2, le=1000, description="that it wants to probe at most")

    @field_validator("address")
    @classmethod
    def of_one_host(cls, address: str) -> str:
        """Others send packets there, ten times a hundred a second."""
        found = ipaddress.ip_address(address)
        if found.is_multicast or found.is_unspecified or found.is_loopback:
            raise ValueError("expected the address of one host, as others reach it")
        return address


class PeerAnswer(BaseModel):
    """Whom to probe."""

    number: int = Field(description="what probes call that host")
    host: str
    clock: str
    address: str
    port: int
    owned: bool = Field(description="the edge is to be fitted by who asked")


class MemberAnswer(BaseModel):
    """What a host is told that takes part."""

    schema_version: int = Field(alias="schema")
    number: int = Field(description="what probes call the host that asked")
    key: str = Field(description="of the mesh, 128 bits in hexadecimal: what probes are tagged with")
    every_s: float = Field(description="ask again after this; who does not has left")
    peers: list[PeerAnswer]


router = guarded_router()


@router.post("/api/v1/mesh/members", tags=["ingest"], **answers(MemberAnswer))
def join(writer: Writing, asked: MemberRequest) -> dict[str, Any]:
    """Take part in the probe mesh of this cluster, or say that one is still there."""
    principal = writer.principal
    joined = writer.serving.roster.join((principal.tenant, principal.cluster), Member(**asked.model_dump()))
    return {
        "schema": SCHEMA_VERSION, **joined._asdict(), "peers": [each._asdict() for each in joined.peers],
    }  # fmt: skip
