"""Ctrl-C while the verbs are still being loaded ends the program, and nothing but the program."""

from __future__ import annotations

import subprocess
import sys

import pytest

# As at a terminal: whoever runs these tests in the background may have SIGINT ignored, and children inherit that.
AS_USUAL = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
HANDLER = "print(signal.getsignal(signal.SIGINT) is {})"


def printed(program: str) -> str:
    """What a program prints; it may end by SystemExit."""
    argv = [sys.executable, "-c", AS_USUAL + program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "handler"), [("leadline", "signal.SIG_DFL"), ("pytest", "signal.default_int_handler")]
)
def test_who_only_imports_us_keeps_his_handler(name: str, handler: str) -> None:
    program = f"import signal, sys; sys.argv = ['/bin/{name}']; import leadline.cli; {HANDLER.format(handler)}"
    assert printed(program) == "True\n"


def test_an_ignored_interrupt_stays_ignored() -> None:
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.argv = ['leadline']; "
        f"import leadline.cli; {HANDLER.format('signal.SIG_IGN')}"
    )
    assert printed(program) == "True\n"


def test_a_verb_is_interrupted_as_usual() -> None:
    program = (
        "import atexit, signal, sys; sys.argv = ['leadline', '--version']; "
        f"atexit.register(lambda: {HANDLER.format('signal.default_int_handler')}); "
        "from leadline.cli.main import main; main()"
    )
    assert printed(program).splitlines()[-1] == "True"


def test_an_interrupt_while_loading_leaves_no_traceback() -> None:
    program = (
        "import os, signal, sys; sys.argv = ['leadline']; import leadline.cli; "
        "os.kill(os.getpid(), signal.SIGINT); print('went on')"
    )
    argv = [sys.executable, "-c", AS_USUAL + program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-2, "", "")
