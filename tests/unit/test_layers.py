"""The layers, read from the real imports and held against the table in docs/architecture.md."""

from __future__ import annotations

import ast
import graphlib
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "leadline"
OUTSIDE = {"testing"}  # beside the layers: doubles we ship


def _generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = _generate()


@cache
def imports() -> dict[str, set[str]]:
    """Which packages each package imports; in the first test that asks, as all sources are read for it."""
    found: dict[str, set[str]] = GENERATE.package_imports(SOURCE)
    return found


def _layers() -> tuple[dict[str, int], set[tuple[str, str]]]:
    """From the table in docs/architecture.md: the layer of each package, and pairs allowed within a layer."""
    layer: dict[str, int] = {}
    exceptions: set[tuple[str, str]] = set()
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        match = re.match(r"\| (\d) \w+ \| ([^|]+) \| ([^|]+) \|", line)
        if not match:
            continue
        for package in re.findall(r"`(\w+)`", match[2]):
            layer[package] = int(match[1])
        for package, others in re.findall(r"`(\w+)` also ((?:`\w+` ?)+)", match[3]):
            exceptions |= {(package, other) for other in re.findall(r"`(\w+)`", others)}
    return layer, exceptions


LAYER, EXCEPTIONS = _layers()


def files(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((SOURCE / package).rglob("*.py"))]


def third_party(path: Path) -> set[str]:
    """Top-level names that a file imports from outside the standard library and Leadline."""
    tops = {name.split(".")[0] for name in GENERATE.imports_of(path)}
    return tops - set(sys.stdlib_module_names) - {"leadline"}


def test_the_table_names_every_package() -> None:
    assert len(LAYER) == 16, "the table of layers was not found in docs/architecture.md, or changed its form"
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages - OUTSIDE == set(LAYER)


@pytest.mark.parametrize("package", sorted(LAYER))
def test_arrows_point_down(package: str) -> None:
    for imported in imports()[package]:
        assert imported not in OUTSIDE, f"{package} imports {imported}, which is for tests"
        down = LAYER[imported] < LAYER[package]
        assert down or (package, imported) in EXCEPTIONS, (
            f"{package} (layer {LAYER[package]}) imports {imported} (layer {LAYER[imported]}); "
            "packages of one layer meet through bytes or tables"
        )


def test_no_file_imports_itself_through_others() -> None:
    """Inside functions and for types alone as well: a circle means that neither file can be read without the other."""
    paths = {path: ".".join(("leadline", *path.relative_to(SOURCE).with_suffix("").parts)) for path in files(*LAYER)}
    names = {name.removesuffix(".__init__") for name in paths.values()}
    edges: dict[str, set[str]] = {}
    for path, name in paths.items():
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= (inner & names) or {node.module}
        edges[name.removesuffix(".__init__")] = (found & names) - {name.removesuffix(".__init__")}
    graphlib.TopologicalSorter(edges).prepare()  # raises CycleError with the files


def test_few_packages_of_one_layer_import_each_other() -> None:
    answers = {("alerts", "views"), ("explain", "views"), ("explain", "alerts")}
    assert {
        ("cli", "server"),
        ("cli", "lab"),
        ("cli", "simulator"),
        ("simulator", "lab"),
        *answers,
    } == EXCEPTIONS  # and never the other way


@pytest.mark.parametrize("path", files("model"), ids=lambda path: path.name)
def test_model_needs_the_standard_library_only(path: Path) -> None:
    assert third_party(path) == set()


# Pure engines: bytes or columns in, columns out. No sockets, no clock, no chance, no threads of their own.
WORLD = {"asyncio", "socket", "socketserver", "selectors", "ssl", "http", "urllib", "httpx", "grpc", "requests",
         "subprocess", "threading", "time", "random", "secrets", "os", "shutil", "tempfile"}  # fmt: skip
ALLOWED = {("wire", "warm.py"): {"time"}}  # tells how long the warm-up took, at install and start


@pytest.mark.parametrize(
    "path", files("wire", "analysis", "control"), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_pure_engines_do_not_touch_the_world(path: Path) -> None:
    tops = {name.split(".")[0] for name in GENERATE.imports_of(path)}
    assert tops & WORLD <= ALLOWED.get((path.parent.name, path.name), set())


@pytest.mark.parametrize("path", files("analysis", "control"), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_now_is_an_argument(path: Path) -> None:
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
    assert not {call for call in calls if re.search(r"\b(now|utcnow|today)$", call)}


def test_the_agent_stays_small() -> None:
    """It lives on somebody else's machine: no numpy, no pyarrow, no pydantic."""
    for path in files("host"):
        assert third_party(path) <= {"yaml"}, path
    assert imports()["host"] <= {"model", "wire"}


def test_the_hook_in_users_jobs_needs_torch_only() -> None:
    for path in files("torch"):
        assert third_party(path) <= {"torch"}, path
    assert imports()["torch"] <= {"model", "wire"}
    code = "import sys, leadline.wire.ring.writer; print(*{name.partition('.')[0] for name in sys.modules})"
    tops = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    ours = {"leadline"} | {name for name in tops if name.startswith(("_", "sitecustomize"))}
    assert tops - set(sys.stdlib_module_names) - ours == set()


def test_the_agent_process_loads_little() -> None:
    """What the whole of it really imports, `leadline.wire` included: the standard library and modules of ours."""
    code = "import sys, leadline.host.main; print(*{name.partition('.')[0] for name in sys.modules})"
    tops = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    ours = {"leadline"} | {name for name in tops if name.startswith(("_", "sitecustomize"))}
    assert tops - set(sys.stdlib_module_names) - ours == set()


def test_server_and_workers_load_what_they_need_at_the_start() -> None:
    """scipy.stats alone takes a second and 59 MB of each process: what needs a part of it loads it when it runs."""
    seldom = ["ray", "torch", "pandas", "textual", "scipy.optimize", "scipy.sparse", "scipy.special", "scipy.stats"]
    code = f"import sys, leadline.server.main, leadline.runner.worker; print([n for n in {seldom} if n in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"


def declared_distributions() -> set[str]:
    """Names of all distributions that pyproject.toml asks for, in the core and in extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for group in project["optional-dependencies"].values() for line in group)]
    return {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in lines}  # type: ignore[index]


# These come with opentelemetry-proto, with fastapi and with numba, which cannot do without them.
ALWAYS_BROUGHT = {"protobuf", "googleapis-common-protos", "starlette", "llvmlite"}
# Used without an import: programs, plug-ins of pytest, types, and what another package loads by its name.
NOT_IMPORTED = {
    "build",
    "hatchling",
    "ruff",
    "mypy",
    "pytest-timeout",
    "pytest-xdist",
    "types-pyyaml",
    "types-psutil",
    "grpc-stubs",
    "httptools",
}


def test_what_is_declared_is_imported() -> None:
    """Nobody installs what nothing uses."""
    providers = importlib.metadata.packages_distributions()
    everywhere = [
        path for folder in ("src", "tests", "bench", "evals", "docs") for path in (ROOT / folder).rglob("*.py")
    ]
    tops = {name.split(".")[0] for path in everywhere for name in all_imports_of(path)}
    # One folder of several distributions, such as opentelemetry, counts for all of them; what is not installed here
    # (atheris: only `make bench` needs it) is known by its own name.
    used = {name.lower().replace("_", "-") for top in tops for name in providers.get(top, [top])}
    assert declared_distributions() - NOT_IMPORTED - used == set()


def all_imports_of(path: Path) -> set[str]:
    """Full names of what a file imports, relative imports left out."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def test_what_is_imported_is_declared() -> None:
    """Every third-party import of the source comes from a distribution that pyproject.toml names."""
    declared = declared_distributions() | ALWAYS_BROUGHT
    providers = importlib.metadata.packages_distributions()
    for path in files(*LAYER, *OUTSIDE):
        for top in third_party(path):
            names = {name.lower().replace("_", "-") for name in providers.get(top, [])}
            assert names & declared, f"{path.relative_to(ROOT)} imports {top}, which pyproject.toml does not declare"


def test_what_tests_import_is_declared() -> None:
    """A distribution that only another one brings is gone when that one goes."""
    declared = declared_distributions() | ALWAYS_BROUGHT
    providers = importlib.metadata.packages_distributions()
    missing = set()
    for path in (path for folder in ("tests", "bench", "evals") for path in (ROOT / folder).rglob("*.py")):
        for name in all_imports_of(path):
            given = {each.lower().replace("_", "-") for each in providers.get(name.split(".")[0], [])}
            missing |= {(path.name, name)} if given and not given & declared else set()
    assert missing == set()


def test_the_reader_of_imports_sees_everything(tmp_path: Path) -> None:
    package = tmp_path / "leadline" / "wire"
    for name in ("store", "ingest", "server", "cli", "wire"):
        (tmp_path / "leadline" / name).mkdir(parents=True)
    (package / "x.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from leadline.store.client import Store\n"
        "def f():\n    import leadline.ingest.http\n    from leadline import server\n"
        "class C:\n    try:\n        import leadline.cli as c\n    except ImportError: pass\n"
    )
    assert GENERATE.package_imports(tmp_path / "leadline")["wire"] == {"store", "ingest", "server", "cli"}
