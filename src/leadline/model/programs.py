"""How parts of Leadline are started that are processes of their own."""

from __future__ import annotations

import sys

OWN_PYTHON = (sys.executable, "-P")
"""This Python, which takes no module from the folder that somebody happens to be in: a `click.py` there would be loaded
in place of the library, by the server and by an agent that root started (Python 3.11, option -P)."""
