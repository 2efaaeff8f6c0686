"""The server process as `leadline up` starts it, with one door more: statements to the engine that the harness needs.

    python -m evals.disk_faults.served NAME        settings by LEADLINE_*, as for `leadline up`

A line of SQL on the abstract UNIX socket of that NAME is run beside the product, by a connection of its own to the
engine in this process: OPTIMIZE, so that merges run when a fault is armed, and CHECK TABLE, which reads every byte of
every part. The product does not see either: nothing that it finds out by itself is found out for it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from typing import Any

from leadline.server.main import run_server
from leadline.store import StoreConfig
from leadline.store.connect import connect

SETTINGS = {"check_query_single_value_result": "0"}  # CHECK TABLE gives a row for each part


def main() -> int:
    """Serve until told to stop; the exit code of the server."""
    door = socket.socket(socket.AF_UNIX)
    door.bind("\0" + sys.argv[1])
    door.listen(8)
    threading.Thread(target=_answer_all, args=(door,), daemon=True).start()
    return run_server(None, os.environ, [])


def _answer_all(door: socket.socket) -> None:
    config = StoreConfig(path=os.environ["LEADLINE_STORE__PATH"])
    while True:
        caller, _ = door.accept()
        threading.Thread(target=_answer, args=(config, caller), daemon=True).start()


def _answer(config: StoreConfig, caller: socket.socket) -> None:
    with caller, caller.makefile("rw") as lines:
        sql = lines.readline().strip()
        answer: dict[str, Any]
        # Made for each: one that stayed open would keep the engine from closing with the store.
        try:
            client = connect(config, SETTINGS)
            try:
                if sql.startswith(("SELECT", "CHECK")):
                    answer = {"rows": json.loads(client.raw_query(sql, fmt="JSONCompact"))["data"]}
                else:
                    client.command(sql)
                    answer = {"rows": []}
            finally:
                client.close()
        except Exception as error:  # whatever the engine says is an answer
            answer = {"error": str(error)[:2000]}
        lines.write(json.dumps(answer, default=str) + "\n")
        lines.flush()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # as the supervisor has it: everything is stored and closed
