"""Analyses as a worker finds them."""

from __future__ import annotations

from leadline.analysis import ANALYSES
from leadline.testing.analyses import ALL

EVERY = (*ANALYSES, *ALL)  # those that ship, and the toys
EVERY_REGISTRY = "tests.builders.registries:EVERY"
