"""What a start costs: CPU of the server until analyses can run, kernels that are loaded for it, and compiling them."""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.peers import Peer, leadline

SOURCE = Path(__file__).resolve().parents[2] / "src" / "leadline"
COMPILER = "leadline.server.background.kernels"  # the program that `make` compiles all kernels with
COMPILES = {"njit", "kernel"}  # numba's own, and what leadline.wire.kernel makes of it
LOOK_S = 0.5
LOADING_S = 0.15  # CPU in LOOK_S: who loads uses all of a core, who waits for telemetry some hundredths of one
LOADED_S_MAX = 90.0  # patience; on a quiet machine it takes 3 s


def kernels(source: Path = SOURCE) -> float:
    """Functions of the source that numba compiles: those whose decorator is one of `COMPILES`, called or not."""
    trees = (ast.parse(path.read_text()) for path in source.rglob("*.py"))
    return sum(_compiled(node) for tree in trees for node in ast.walk(tree))


def _compiled(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    named = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return any(getattr(each, "id", getattr(each, "attr", "")) in COMPILES for each in named)


def compile_s(program: str = COMPILER) -> float:
    """CPU seconds of compiling all kernels from nothing, in all processes; the caches of this checkout stay.

    Errors: subprocess.CalledProcessError if it fails.
    """
    with tempfile.TemporaryDirectory(prefix="leadline-kernels-") as empty:
        before_s = _of_children_s()
        environ = {**os.environ, "NUMBA_CACHE_DIR": empty}
        subprocess.run([sys.executable, "-m", program], env=environ, check=True, stdout=subprocess.DEVNULL)
        return _of_children_s() - before_s


def _of_children_s() -> float:
    """CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ready_cpu_s() -> float:
    """CPU seconds of `leadline up` on an empty store, with all its processes, until it is ready and its workers have
    loaded what analyses need. Errors: RuntimeError if it does not become ready."""
    with tempfile.TemporaryDirectory(prefix="leadline-ready-") as folder:
        server = leadline(Path(folder))
        server.start()
        try:
            return _loaded_s(server)
        finally:
            server.stop()


def _loaded_s(server: Peer) -> float:
    """CPU seconds of all its processes once none of them loads any more."""
    end, used_s = time.monotonic() + LOADED_S_MAX, server.cpu_s()
    while time.monotonic() < end:
        time.sleep(LOOK_S)
        before_s, used_s = used_s, server.cpu_s()
        if used_s - before_s < LOADING_S:
            return used_s
    raise RuntimeError(f"its processes still load after {LOADED_S_MAX:.0f} s")
