"""The sdist and the wheel as they ship: what is in them, and that they work where nothing else of ours is."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from functools import cache
from pathlib import Path

import pytest

from leadline import __version__

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "leadline"
SERVER = SOURCE / "server"
AGENT_MIB_MAX = 40.0
COMPILER = shutil.which(os.environ.get("CC", "cc"))
# Extras of programs that only some people start, by the folder they stand in.
OTHERS = {
    "lab": ("lab", "ray"),
    "torch": ("lab",),
    "cli/top": ("top",),
    "cli/demo": ("demo", "lab"),
    "testing": ("test",),
    "runner/calls/ray_driver": ("ray",),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both."""
    missing = [name for name in ("page", "docs") if not (SERVER / name / "index.html").is_file()]
    if missing:
        pytest.skip(f"not built here: {', '.join(missing)} (make test builds them)")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return out


@pytest.fixture(scope="module")
def agents(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with `leadline[agent]` and nothing else."""
    place = tmp_path_factory.mktemp("agent") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(place), "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), f"{wheel}[agent]"], check=True)
    return place


def said(place: Path, *words: str, code: int = 0) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LEADLINE"))}
    command = [str(place / "bin" / "leadline"), *words]
    ran = subprocess.run(command, env=environ, cwd=place, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == code, ran.stderr
    return ran.stdout + ran.stderr


@pytest.mark.slow
def test_page_docs_and_recordings_are_in_both(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert f"-{__version__}-" in wheel.name
    with zipfile.ZipFile(wheel) as packed:
        inside = set(packed.namelist())
    with tarfile.open(sdist) as archive:
        source = {name.partition("/src/")[2] for name in archive.getnames()}
    for name in ("server/page/index.html", "server/docs/index.html", "lab/incidents/demo.leadline", "cli/start.py"):
        assert f"leadline/{name}" in inside, name
        assert f"leadline/{name}" in source, name
    assert not [name for name in inside if name.endswith((".nbi", ".nbc", ".pyc"))]


@pytest.mark.slow
def test_the_agent_alone_is_small_and_works(agents: Path) -> None:
    size = sum(path.lstat().st_size for path in agents.rglob("*") if not path.is_dir())
    assert size / 2**20 <= AGENT_MIB_MAX
    assert '"samples"' in said(agents, "agent", "--once", "--sources", "proc")
    assert "leadline run --help" in said(agents, "--help")
    assert said(agents, "--version") == f"leadline {__version__}\n"
    assert said(agents, "up", code=2).startswith("leadline: `leadline up` needs ")
    assert "none can be started" in said(agents, "run", "--", "true", code=2)


PROBING = (
    "from leadline.host.mesh.prober import command_of, find_program; import subprocess;"
    "subprocess.run([*command_of(find_program()), '--version'], check=True)"
)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler (Debian: gcc)")
def test_the_wheel_brings_the_prober_and_the_sdist_its_source(built: Path, agents: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert f"_{platform.machine()}" in wheel.name
    ran = subprocess.run(
        [agents / "bin/python", "-c", PROBING], capture_output=True, text=True, check=False, cwd=agents
    )
    assert ran.stdout.startswith("leadline-prober wire "), ran.stderr
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"native/prober/main.c", "native/prober/Makefile", "scripts/build-prober"} <= names
    assert not [name for name in names if name.endswith("leadline-prober")]


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_for_every_machine(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path)]
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    environ = {**os.environ, "CC": "no-such-compiler"}
    ran = subprocess.run([*command, source], env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "the agent probes in Python, with stamps of microseconds" in ran.stdout + ran.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.slow
def test_without_the_page_nothing_is_built(tmp_path: Path) -> None:
    """The sdist's own files, without what was built into them."""
    for name in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "scripts/packaged.py",
        "src/leadline/__init__.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "page (scripts/build-page)" in ran.stdout + ran.stderr


def imported(path: Path) -> set[str]:
    """Top names of what a file imports from elsewhere, for types alone left out."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"leadline", "__future__", ""}


@cache
def brought(*extras: str) -> set[str]:
    """Top names of the packages that these extras name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    packages = {re.split(r"[<>=!\[; ]", each, maxsplit=1)[0].lower().replace("_", "-") for each in wanted}
    return {top for top, names in tops().items() if names & packages}


@cache
def tops() -> dict[str, set[str]]:
    """Packages that are installed here, by the top names that they bring."""
    found = importlib.metadata.packages_distributions()
    return {top: {name.lower().replace("_", "-") for name in names} for top, names in found.items()}


def test_everything_that_is_imported_is_named_by_an_extra() -> None:
    server = brought("server")
    # grpc-status and the like come with what names them.
    also = {"click", "starlette", "google", "llvmlite", "pygments", "anyio", "markdown_it", "pydantic_core"}
    for path in SOURCE.rglob("*.py"):
        folder = path.relative_to(SOURCE).as_posix()
        more = next((extras for start, extras in OTHERS.items() if folder.startswith(start)), ())
        assert imported(path) <= server | also | brought(*more), folder


def test_the_agents_part_imports_what_it_brings() -> None:
    for folder in ("host", "cli/running", "model"):
        for path in (SOURCE / folder).rglob("*.py"):
            if path.name != "verb.py":  # the door to it from the other verbs
                assert imported(path) <= brought() | {"torch"}, path
