"""Texts that others wrote, as a terminal may have them."""

from __future__ import annotations

import re

# C0 and C1 but for tab and line feed, and what changes the direction of text (CVE-2021-42574).
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with a visible escape (`\\u001b`) in place of each character that a terminal would act on."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
