"""Harmless things that look like faults: what a healthy cluster does every day. To add one: its file, a line here.

They stand in the truth as decoys: whoever blames one of them is wrong.
"""

from __future__ import annotations

from leadline.lab.faults.base import Harmless

HARMLESS: tuple[type[Harmless], ...] = ()
HARMLESS_BY_NAME = {each.name: each for each in HARMLESS}
