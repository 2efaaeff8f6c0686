"""The Debian packages, built of this source, installed below a root of their own, and removed again.

The server's is built without the packages that it brings along (`--bare`): they are a gigabyte, and pip's to place.
"""

from __future__ import annotations

import gzip
import json
import marshal
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest

import leadline
from leadline import __version__
from leadline.cli.verbs import VERBS
from leadline.host.config import AgentConfig
from leadline.host.config import load as load_agent
from leadline.server.config import load

ROOT = Path(__file__).resolve().parents[3]
SOURCE = Path(leadline.__file__).parent
PACKAGES = ("leadline", "leadline-agent")
PROBER = SOURCE / "host/mesh/built/leadline-prober"

pytestmark = [
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg (Debian)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to install below a directory"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both packages by name."""
    folder = tmp_path_factory.mktemp("debs")
    # As a wheel is, without waiting for what builds one; the recorded incidents are ten megabytes that no check needs.
    wheel = folder / f"leadline-{__version__}-py3-none-any.whl"
    info = f"leadline-{__version__}.dist-info"
    with zipfile.ZipFile(wheel, "w") as out:
        for path in SOURCE.rglob("*"):
            if path.is_file() and path.suffix not in (".pyc", ".leadline", ".nbi", ".nbc"):
                out.write(path, Path("leadline") / path.relative_to(SOURCE))
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: leadline\nVersion: {__version__}\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/entry_points.txt", "[console_scripts]\nleadline = leadline.cli.main:main\n")
        out.writestr(f"{info}/RECORD", "")
    ran = subprocess.run(
        [ROOT / "scripts/build-deb", "--bare", "--wheel", wheel, "--out", folder, "--python", sys.executable],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return {path.name.split("_")[0]: path for path in map(Path, ran.stdout.split())}


def dpkg(root: Path, *arguments: object) -> str:
    """Its scripts run here, and are told in DPKG_ROOT where to work: the root has neither shell nor Python."""
    ran = subprocess.run(
        ["dpkg", f"--root={root}", "--force-script-chrootless", "--force-depends", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def root(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both are installed."""
    where = tmp_path_factory.mktemp("root")
    for name in ("updates", "info"):
        (where / "var/lib/dpkg" / name).mkdir(parents=True)
    (where / "var/lib/dpkg/status").touch()
    (where / "etc").mkdir()
    dpkg(where, "--install", *built.values())
    return where


def field(package: Path, name: str) -> str:
    return subprocess.run(
        ["dpkg-deb", "--field", package, name], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def files(root: Path, package: str) -> set[str]:
    """What dpkg says that it put there, without directories."""
    listed = (root / f"var/lib/dpkg/info/{package}.list").read_text().splitlines()
    return {name for name in listed if not (root / name.lstrip("/")).is_dir() or (root / name.lstrip("/")).is_symlink()}


def unit(root: Path, package: str) -> dict[str, str]:
    text = (root / f"lib/systemd/system/{package}.service").read_text()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def test_they_have_the_version_of_leadline(built: dict[str, Path]) -> None:
    assert set(built) == set(PACKAGES)
    assert {field(package, "Version") for package in built.values()} == {__version__}
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"python3 (>= {minor}), python3 (<< {sys.version_info.major}.{sys.version_info.minor + 1}~)" in field(
        built["leadline"], "Depends"
    )
    machine = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert field(built["leadline-agent"], "Architecture") == (machine if PROBER.exists() else "all")


def test_the_agents_is_small(built: dict[str, Path]) -> None:
    assert built["leadline-agent"].stat().st_size < 700_000


def test_the_prober_comes_with_the_agent(root: Path) -> None:
    if not PROBER.exists():
        pytest.skip("the prober is not built here (scripts/build-prober)")
    program = root / "usr/lib/leadline-agent/leadline" / PROBER.relative_to(SOURCE)
    assert subprocess.run([program, "--version"], capture_output=True, check=True).stdout.startswith(
        b"leadline-prober "
    )


def test_both_may_be_installed_on_one_machine(root: Path) -> None:
    assert not files(root, "leadline") & files(root, "leadline-agent")


def test_the_user_and_its_directory_are_made(root: Path) -> None:
    user = next(line for line in (root / "etc/passwd").read_text().splitlines() if line.startswith("leadline:"))
    directory = root / "var/lib/leadline"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.stat().st_uid == int(user.split(":")[2])
    if "leadline" not in {each.pw_name for each in pwd.getpwall()}:
        assert user.endswith(("/usr/sbin/nologin", "/bin/false"))


@pytest.mark.parametrize("package", PACKAGES)
def test_its_unit_starts_what_is_there_with_settings_that_are_there(root: Path, package: str) -> None:
    program, *arguments = shlex.split(unit(root, package)["ExecStart"])
    assert program in files(root, package)
    assert os.access(root / program.lstrip("/"), os.X_OK)
    settings = arguments[arguments.index("--config") + 1]
    assert settings in files(root, package)
    assert dpkg(root, "--status", package).split("Conffiles:")[1].split()[0] == settings


def test_settings_as_they_come_are_the_defaults(root: Path) -> None:
    assert load(root / "etc/leadline/leadline.yaml", {}).sections == load(None, {}).sections
    assert load_agent(root / "etc/leadline/agent.yaml", {}, {}) == AgentConfig()


@pytest.mark.parametrize("package", PACKAGES)
def test_settings_that_are_suggested_there_are_taken(root: Path, package: str, tmp_path: Path) -> None:
    name = "leadline" if package == "leadline" else "agent"
    lines = (root / f"etc/leadline/{name}.yaml").read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line in ("# server:", "# agent:"))
    path = tmp_path / "wanted.yaml"
    path.write_text("\n".join(line.removeprefix("# ") for line in lines[begin:]))
    if package == "leadline":
        assert load(path, {}).server.host == "0.0.0.0"
    else:
        assert load_agent(path, {}, {}).labels == {"rack": "r1", "pod": "p2"}


def test_the_agent_runs_from_there_with_the_standard_library_alone(root: Path, tmp_path: Path) -> None:
    program = root / "usr/bin/leadline-agent"
    assert program.read_text().startswith("#!/usr/bin/python3 -I\n")
    ran = subprocess.run(
        [sys.executable, "-I", "-S", program, "--once", "--sources", "inventory", "--host", "h1"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert json.loads(ran.stdout)["host"] == "h1"


def test_nothing_remembers_where_it_was_built(root: Path) -> None:
    environment = root / "opt/leadline/.venv"
    assert (environment / "bin/leadline").read_text().startswith("#!/opt/leadline/.venv/bin/python")
    assert "/tmp" not in (environment / "pyvenv.cfg").read_text()
    compiled = next(environment.rglob("leadline/cli/__pycache__/main.*.pyc"))
    code = marshal.loads(compiled.read_bytes()[16:])
    assert isinstance(code, types.CodeType)
    assert code.co_filename.startswith("/opt/leadline/.venv/lib/")


def test_verbs_have_their_pages_and_shells_their_completion(root: Path) -> None:
    manual = root / "usr/share/man/man1"
    assert {path.name for path in manual.iterdir()} == {
        "leadline.1.gz",
        *(f"leadline-{verb}.1.gz" for verb in VERBS),
    }
    assert b".TH LEADLINE-AGENT 1" in gzip.decompress((manual / "leadline-agent.1.gz").read_bytes())
    for name in (
        "bash-completion/completions/leadline",
        "zsh/vendor-completions/_leadline",
        "fish/vendor_completions.d/leadline.fish",
    ):
        assert "show incidents" in (root / "usr/share" / name).read_text()
    assert (root / "usr/share/doc/leadline/docs/how-to/install.md").is_file()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_takes_the_units(root: Path, tmp_path: Path) -> None:
    """Their programs are below the root, which systemd cannot be told for one unit: they are named where they are."""
    for package in PACKAGES:
        text = (root / f"lib/systemd/system/{package}.service").read_text()
        program = shlex.split(unit(root, package)["ExecStart"])[0]
        (tmp_path / f"{package}.service").write_text(text.replace(program, f"{root}{program}"))
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *tmp_path.glob("*.service")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.stderr == ""


def test_what_it_stored_outlives_it(root: Path, tmp_path: Path) -> None:
    """Last: a purge takes settings and what was not delivered, and leaves the store."""
    copy = tmp_path / "root"
    subprocess.run(["cp", "-al", root, copy], check=True, timeout=60)
    for name in ("store", "agent"):
        (copy / "var/lib/leadline" / name).mkdir()
    dpkg(copy, "--purge", *PACKAGES)
    assert [path.name for path in (copy / "var/lib/leadline").iterdir()] == ["store"]
    assert not (copy / "etc/leadline").exists()
    assert not (copy / "opt/leadline").exists()
