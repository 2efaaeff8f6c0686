"""Allocators are told to keep little, unless the environment says otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from leadline.server.memory import allocators

PROGRAM = """
import json, threading
import numpy as np
import pyarrow as pa
from leadline.server.memory.allocators import give_back
from leadline.server.memory.limit import held_bytes

def work() -> None:
    kept = [np.ones(8_000) for _ in range(250)] + [pa.array(np.ones(8_000)).cast("float32") for _ in range(250)]
    del kept

threads = [threading.Thread(target=work) for _ in range(8)]
before = held_bytes()
for each in threads: each.start()
for each in threads: each.join()
give_back()
print(json.dumps([pa.default_memory_pool().backend_name, held_bytes() - before]))
"""


def test_what_threads_freed_is_given_back() -> None:
    environ = allocators.environ(os.environ)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    backend, left = json.loads(ran.stdout)
    assert backend == "system"
    assert left < 64 << 20, "of 200 MB"


def test_what_the_environment_says_holds() -> None:
    found = allocators.environ({"MALLOC_ARENA_MAX": "7", "PATH": "/bin"})
    assert (found["MALLOC_ARENA_MAX"], found["PATH"]) == ("7", "/bin")
    assert found["ARROW_DEFAULT_MEMORY_POOL"] == "system"
