"""`POST /api/v1/freeze`: what `leadline backup` asks the server for, which owns the store.

The parts are frozen under `store.path`, and nowhere else; who asks puts them together and takes them away.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from leadline.model.errors import BusyError, RefusedError
from leadline.model.principal import OPERATE
from leadline.server.asking import PROBLEMS, Reading
from leadline.server.tokens.rights import guarded_router
from leadline.store.backup.take import freeze
from leadline.views.rows import SCHEMA_VERSION

router = guarded_router()


class Freeze(BaseModel):
    """Nothing is to be said."""


class FrozenAnswer(BaseModel):
    """Where the frozen parts are, on the machine of the server."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    directory: str
    taken_ns: int


@router.post("/api/v1/freeze", tags=["state"], responses=PROBLEMS)
def frozen(reader: Reading, _: Freeze) -> FrozenAnswer:
    """Freeze all parts of the store for a back-up, as hard links on its disk. For the role operator."""
    if not reader.principal.may(OPERATE):
        raise RefusedError("unauthorized", "a back-up holds the rows of all tenants: for the role operator")
    freezing = reader.serving.freezing
    if not freezing.acquire(blocking=False):
        raise BusyError("another back-up begins; ask again when it has", 5)
    try:
        reader.parts.intake.save_streams(by_ns=0)  # how far each stream reaches is written once an hour otherwise
        taken_ns = reader.parts.now_ns()
        return FrozenAnswer(
            schema=SCHEMA_VERSION, directory=str(freeze(reader.parts.store).absolute()), taken_ns=taken_ns
        )
    finally:
        freezing.release()
