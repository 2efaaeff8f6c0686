"""How a verb ends: the exit code of every state and error, and what is said of a name that nobody knows.

For users: docs/exit-codes.md.

| code | a check (`diagnose`, `show sle --check`, ...) | any verb |
|---|---|---|
| 0 | ok | it did what was asked, also where there is nothing to list |
| 1 | warning | `status`, `doctor`: not all is well |
| 2 | critical | it was asked for what cannot be: usage, configuration |
| 3 | unknown: cannot tell | unknown name, no server, the world failed |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from leadline.model.errors import LeadlineError, UnknownNameError, UsageError

if TYPE_CHECKING:  # it takes a second to load, and `--version` needs none
    from leadline.cli.client import Client

EXIT_OF_STATE: Mapping[str, int] = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
"""Of checks, in the manner of Nagios plug-ins."""
EXIT_USAGE = 2
EXIT_UNKNOWN = 3


def exit_of(error: LeadlineError) -> int:
    """The exit code of a verb that ended with this error."""
    return EXIT_USAGE if isinstance(error, UsageError) else EXIT_UNKNOWN


def require_known(client: Client, kind: str, *names: str, cluster: str = "") -> None:
    """To be asked of what names an answer that tells nothing: is there such a thing at all?

    kind: job, rank, incident, entity, expectation or any. Empty names are asked for nothing.
    Errors: UnknownNameError, with what may have been meant; WorldError.
    """
    for name in names:
        if name:
            told = client.get("/api/v1/names", name=name, kind=kind, cluster=cluster)
            if not told["known"]:
                raise UnknownNameError(told["text"])
