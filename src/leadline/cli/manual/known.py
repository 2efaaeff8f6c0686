"""Names of jobs and incidents for the completion of a shell; it waits for them, so this loads little."""

from __future__ import annotations

import http.client
import json
import os
import re
from pathlib import Path

from leadline.host.post import connection, parse_server
from leadline.host.secret import secret_of
from leadline.model.errors import LeadlineError

LISTED = {"jobs": ("/api/v1/jobs", "job"), "incidents": ("/api/v1/incidents", "incident")}
"""Where the server lists them, and which column has the name."""

DEFAULT_SERVER = "http://127.0.0.1:8440"
WAIT_S = 2.0  # who pressed Tab gets nothing from a server that takes longer
ANSWER_BYTES_MAX = 16 << 20
# What a shell, and who reads what it offers, takes for nothing but a word.
_PLAIN = re.compile(r"[\w.:@/+-]{1,300}", re.ASCII)


def known(what: str, server: str, token_file: Path | None, ca_file: Path | None) -> list[str]:
    """Names of jobs or incidents of the last hour, by the API's own order; none if the server does not answer."""
    path, column = LISTED[what]
    try:
        where = parse_server(server or DEFAULT_SERVER)._replace(ca_file=ca_file)
        asked = connection(where, WAIT_S)
        asked.request("GET", path, headers=secret_of(token_file, os.environ).headers())
        answer = json.loads(asked.getresponse().read(ANSWER_BYTES_MAX))
        names = [str(each[column]) for each in answer[what]]
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, LeadlineError):
        return []  # a line of the shell is no place for an error
    return [name for name in dict.fromkeys(names) if _PLAIN.fullmatch(name)]
