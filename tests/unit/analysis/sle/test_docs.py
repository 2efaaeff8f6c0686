"""The pages say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from leadline.analysis.sle.expectations import COMBINE, FIELDS, GROUPS, Source, parse
from leadline.model.accounts import Layer

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs" / "expectations.md").read_text()


def test_the_example_is_read() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (found,) = parse(text, "docs/expectations.md")
    assert [bound.classifier for bound in found.bounds] == [
        "DCGM_FI_DEV_GPU_TEMP above 85",
        "hotter than its job's other GPUs",
    ]


def test_every_word_is_on_the_page() -> None:
    words = [*Source, *Layer, *COMBINE, *GROUPS, *(name for names in FIELDS.values() for name in names)]
    assert [word for word in words if not re.search(rf"\b{re.escape(word)}\b", PAGE)] == []
