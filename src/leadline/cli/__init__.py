"""The command line: one module per verb; parse, call, print."""

from __future__ import annotations

import os
import signal
import sys

# Who presses Ctrl-C while the verbs are loaded (a second or two) wants us gone, not a traceback; `main.main` gives the
# signal its usual meaning again. Only where we are the program: whoever imports us keeps his handlers.
_IS_PROGRAM = os.path.basename(sys.argv[0] if sys.argv else "") in ("leadline", "-m")
if _IS_PROGRAM and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
