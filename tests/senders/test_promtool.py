"""What Prometheus' own tools say of the page of `/metrics`, and of the rules in deploy/mixin."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.unit.server.metrics.standing_rows import read_verdicts, text_of

ROOT = Path(__file__).resolve().parents[2]
MIXIN = ROOT / "deploy" / "mixin"


def test_promtool_finds_nothing(tmp_path: Path) -> None:
    with read_verdicts(tmp_path) as (parts, _):
        text = text_of(parts)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_linter_is_awake() -> None:
    """It does object to what breaks the conventions, so that silence means something."""
    text = "# TYPE leadline_wrong counter\nleadline_wrong 1\n"
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert "total" in done.stderr


def promtool(*args: object) -> None:
    done = subprocess.run(["promtool", *map(str, args)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_rules() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", MIXIN / "rules.yaml", MIXIN / "alerts.yaml")


def test_alerts_fire_and_keep_quiet() -> None:
    promtool("test", "rules", MIXIN / "alerts_test.yaml")
