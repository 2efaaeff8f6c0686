"""Figures of the first ten minutes: installing the wheel, the demonstration, an untouched script, commands of the docs.

    python -m bench.first_minutes [--json] [--wheel dist/NAME.whl] [--only install|demo|run|agent|wheel|docs]

Everything is done with the built wheel in environments of its own that are made here and removed. Nothing is compiled
in them before: `demo_s` has the compiling of a first start in it. Packages come from the registry that pip is set to;
what it keeps of earlier downloads is used (`pip_cache` says so), as on a machine of somebody who works with Python.

    pip_to_ready_s         `pip install 'leadline[server]'` in an empty environment, then `leadline up`, until /ready
    demo_s                 `leadline demo --once` there, until its verdicts are printed and it has ended
    run_to_first_step_s    `leadline run -- python SCRIPT`: until its first step is read from the server. The script
                           names nothing of Leadline and runs in another environment, the one with torch
    agent_install_mb       what `pip install 'leadline[agent]'` adds to an empty environment, in MiB
    wheel_has_page         1: the page and the docs are in the wheel and in the sdist
    readme_commands_failing, docs_commands_failing    commands of README and docs that fail, see bench/docs_commands
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from bench.docs_commands import run, serve
from bench.figures import Figure, conditions, tell
from leadline.host.bound import bound_to_parent

ROOT = Path(__file__).resolve().parents[1]
MIB = 1024 * 1024
NEEDED = (
    "leadline/server/page/index.html",
    "leadline/server/docs/index.html",
    "leadline/server/docs/quick-start/index.html",
)
KINDS = ("install", "demo", "run", "agent", "wheel", "docs")
LOOK_S = 0.1
PATIENCE_S = 600.0
# A loop that a newcomer has: nothing of Leadline in it.
SCRIPT = """
import time, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(200):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.1)
"""


class Place:
    """An environment with the wheel installed, empty of everything else."""

    def __init__(self, folder: Path, wheel: Path, extra: str) -> None:
        self.folder, self._wheel, self._extra = folder, wheel, extra
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        self._empty_bytes = _bytes(folder)
        ours = ("LEADLINE_", "NUMBA_", "PYTHON")  # what this process was started with is not a newcomer's
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.environ["HOME"] = str(folder)

    def install(self) -> float:
        """Install the wheel with its extra; returns the seconds it took."""
        began = time.monotonic()
        pip = [str(self.folder / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        environ = {**os.environ}  # the user's own settings of pip and its cache
        subprocess.run(
            [*pip, "-c", str(ROOT / "constraints.txt"), f"{self._wheel}[{self._extra}]"], check=True, env=environ
        )
        return time.monotonic() - began

    @property
    def added_mib(self) -> float:
        """What the installation added."""
        return (_bytes(self.folder) - self._empty_bytes) / MIB

    @contextlib.contextmanager
    def running(self, *words: str, cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
        """`leadline WORDS`, ended at the end of the `with`."""
        command = bound_to_parent([str(self.folder / "bin" / "leadline"), *words])
        log = (cwd / "said.txt").open("ab")
        with log, subprocess.Popen(command, env=self.environ, cwd=cwd, stdout=log, stderr=log) as child:
            try:
                yield child
            finally:
                child.terminate()
                child.wait(60)


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _ports() -> list[str]:
    """Flags of a server with ports that nobody has."""
    with contextlib.ExitStack() as stack:
        words = []
        for flag in ("--port", "--otlp-grpc-port", "--otlp-http-port", "--sflow-port"):
            each = stack.enter_context(socket.socket())
            each.bind(("127.0.0.1", 0))
            words += [flag, str(each.getsockname()[1])]
        return words


def _wait(
    what: str, child: subprocess.Popen[bytes], cwd: Path, url: str, path: str, wanted: Callable[[dict[str, Any]], bool]
) -> float:
    """Seconds until the server's answer is the wanted one. Errors: RuntimeError with what the program said."""
    began = time.monotonic()
    with httpx.Client(base_url=url, trust_env=False, timeout=5.0) as client:
        while time.monotonic() - began < PATIENCE_S:
            with contextlib.suppress(httpx.HTTPError):
                answer = client.get(path)
                if answer.status_code == 200 and wanted(answer.json()):
                    return time.monotonic() - began
            if child.poll() is not None:
                break
            time.sleep(LOOK_S)
    raise RuntimeError(f"{what}: {(cwd / 'said.txt').read_text()[-2000:]}")


def installed(place: Place, folder: Path) -> Iterator[Figure]:
    """Install and start."""
    took_s = place.install()
    yield Figure("pip_install_s", round(took_s, 1), "s", better="lower")
    cwd = folder / "up"
    cwd.mkdir()
    began = time.monotonic()
    ports = _ports()
    with place.running("up", *ports, cwd=cwd) as child:
        _wait(
            "leadline up", child, cwd, f"http://127.0.0.1:{ports[1]}", "/ready", lambda found: found["state"] == "ready"
        )
        took_s += time.monotonic() - began
    yield Figure("pip_to_ready_s", round(took_s, 1), "s", 90, "lower")


def demonstration(place: Place, folder: Path) -> Iterator[Figure]:
    """The demonstration, where nothing was compiled before."""
    for kept in place.folder.rglob("*.nb[ic]"):
        kept.unlink()
    for kept in place.folder.rglob("leadline-analyses-*"):
        kept.unlink()
    cwd = folder / "demo"
    cwd.mkdir()
    began = time.monotonic()
    with place.running("demo", "--once", *_ports()[:2], cwd=cwd) as child:
        code = child.wait(PATIENCE_S)
    said = (cwd / "said.txt").read_text()
    if code or said.count("  right  ") != 2:
        raise RuntimeError(f"leadline demo ended with {code}: {said[-3000:]}")
    yield Figure("demo_s", round(time.monotonic() - began, 1), "s", 60, "lower")


def first_step(place: Place, folder: Path) -> Iterator[Figure]:
    """An untouched script, until a step of it is stored."""
    cwd = folder / "run"
    cwd.mkdir()
    (cwd / "train.py").write_text(SCRIPT)
    began = time.monotonic()
    words = ("run", "--job", "newcomer", "--", sys.executable, "train.py")
    with place.running(*words, cwd=cwd) as child:
        url = _page(cwd, child)
        _wait(
            "leadline run", child, cwd, url, "/api/v1/tables/step?from=-5m&limit=1", lambda found: bool(found["rows"])
        )
        yield Figure("run_to_first_step_s", round(time.monotonic() - began, 1), "s", 15, "lower")


def _page(cwd: Path, child: subprocess.Popen[bytes]) -> str:
    """The address that `leadline run` says. Errors: RuntimeError."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_S and child.poll() is None:
        said = (cwd / "said.txt").read_text()
        if "starts a server at " in said:
            return said.partition("starts a server at ")[2].split()[0]
        time.sleep(LOOK_S)
    raise RuntimeError(f"leadline run: {(cwd / 'said.txt').read_text()[-2000:]}")


def has_page(wheel: Path) -> float:
    """1 if page and docs are in the wheel, and in the sdist beside it."""
    with zipfile.ZipFile(wheel) as packed:
        inside = set(packed.namelist())
    sdist = wheel.with_name(wheel.name.partition("-py3")[0] + ".tar.gz")
    with tarfile.open(sdist) as archive:
        source = {name.partition("/src/")[2] for name in archive.getnames()}
    return float(all(name in inside and name in source for name in NEEDED))


def commands(folder: Path) -> Iterator[Figure]:
    """Commands of README and docs."""
    docs = sorted(path for path in (ROOT / "docs").rglob("*.md"))
    with serve.replayed(folder / "docs") as server:
        for name, pages in (("readme", [ROOT / "README.md"]), ("docs", docs)):
            failures = run.failing(pages, server)
            for each in failures:
                print(each, file=sys.stderr)
            yield Figure(f"{name}_commands_failing", float(len(failures)), "commands", 0, "lower")


def figures(wheel: Path, only: Sequence[str]) -> Iterator[Figure]:
    """All that was asked for, in the order of a newcomer's day."""
    with tempfile.TemporaryDirectory(prefix="leadline-first-") as text:
        folder = Path(text)
        if {"install", "demo", "run"} & set(only):
            place = Place(folder / "server-env", wheel, "server")
            if "install" in only:
                yield from installed(place, folder)
            else:
                place.install()
            if "demo" in only:
                yield from demonstration(place, folder)
            if "run" in only:
                yield from first_step(place, folder)
        if "agent" in only:
            small = Place(folder / "agent-env", wheel, "agent")
            small.install()
            yield Figure("agent_install_mb", round(small.added_mib, 1), "MiB", 40, "lower")
        if "wheel" in only:
            yield Figure("wheel_has_page", has_page(wheel), "1", 1)
        if "docs" in only:
            (folder / "docs").mkdir()
            yield from commands(folder)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--wheel", type=Path, help="a built wheel, its sdist beside it; default: build both now")
    parser.add_argument("--only", choices=KINDS, action="append", help="figures of one kind; can be repeated")
    args = parser.parse_args(argv)
    wheel = args.wheel.resolve() if args.wheel else built()
    kinds = args.only or list(KINDS)
    cache = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=False)
    filled = cache.returncode == 0 and any(Path(cache.stdout.strip()).rglob("*"))
    under = conditions(wheel=wheel.name, pip_cache="filled" if filled else "empty", only=json.dumps(kinds))
    tell("first_minutes", under, list(figures(wheel, kinds)), args.json)
    return 0


def built() -> Path:
    """The wheel of this checkout, with its sdist beside it."""
    subprocess.run([str(ROOT / "scripts" / "build-wheel")], check=True, stdout=subprocess.DEVNULL)
    return max((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)


if __name__ == "__main__":
    sys.exit(main())
