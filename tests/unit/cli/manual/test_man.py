"""The man pages: one of each verb, nothing left out, and roff takes them without a word."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leadline import __version__
from leadline.cli.manual.__main__ import main
from leadline.cli.manual.commands import Command, Flag, Operand
from leadline.cli.manual.man import pages
from leadline.cli.verbs import VERBS

DATE = "2026-11-27"


def shown(text: str) -> str:
    """The text as it is read, without roff's marks."""
    text = re.sub(r"\\f[BIP]|\\&", "", text)
    for mark, plain in (("\\-", "-"), ("\\(aq", "'"), ("\\(ti", "~"), ("\\(ha", "^"), ("\\e", "\\")):
        text = text.replace(mark, plain)
    return text


def test_each_verb_has_a_page_with_all_its_flags(whole: Command) -> None:
    found = {name: shown(text) for name, text in pages(whole, DATE).items()}
    assert set(found) == {"leadline.1", *(f"leadline-{verb}.1" for verb in VERBS)}
    for command in whole.all():
        page = found[f"{'-'.join(('leadline', *command.path[:1]))}.1"]
        assert " ".join(command.text.split("\n\n")[0].split()).replace("`", "") in page
        for flag in command.flags:
            assert all(re.search(rf"^(.*, )?{re.escape(name)}\b", page, re.M) for name in flag.names), flag
        assert all(f"\n{operand.name}\n" in page for operand in command.operands)
    assert all(f"leadline-{verb}(1)" in found["leadline.1"] for verb in VERBS)
    assert f'"Leadline {__version__}"' in found["leadline.1"]
    assert "http://HOST:PORT, https://HOST:PORT, or unix:PATH (LEADLINE_SERVER)." in " ".join(
        found["leadline-agent.1"].split()
    )


def test_what_roff_would_act_on_is_text() -> None:
    text = ".so /etc/passwd\n\n'x' ~ ^ \\n -- `--b`\n\n\b\n.de x\n  as it is"
    odd = Command(("odd",), text, (Flag(("--a",), "-1 \\*x", "A|B", default="'"),), (Operand("X", ".x", False, True),))
    page = pages(Command((), "It.", (), commands=(odd,)), DATE)["leadline-odd.1"]
    lines = page.splitlines()
    assert not [line for line in lines if line.startswith((".so", ".de", "'"))]
    assert all(
        text in shown(page) for text in (".so /etc/passwd", "'x' ~ ^ \\n -- --b", "  as it is", "-1 \\*x", "X...")
    )
    assert lines[lines.index(".nf") + 1] == "\\&.de x"


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff (Debian: groff-base)")
def test_groff_has_nothing_to_say(whole: Command, tmp_path: Path) -> None:
    found = pages(whole, DATE)
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    ran = subprocess.run(
        ["groff", "-man", "-z", "-ww", *found], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stderr == ""


def test_all_of_it_is_written_where_programs_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764201600")
    monkeypatch.setattr(sys, "argv", ["manual", str(tmp_path)])
    main()
    assert 'LEADLINE 1 2025-11-27 "' in (tmp_path / "man/man1/leadline.1").read_text()
    completion = {"bash-completion/completions", "zsh/vendor-completions", "fish/vendor_completions.d"}
    assert {str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*leadline*")} == {
        "man/man1",
        *completion,
    }
