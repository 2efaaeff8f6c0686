"""Files of targets and senders: JSON, YAML, and what is refused of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.ingest import listed
from leadline.ingest.listed import read_listed
from leadline.model.errors import ConfigError

LAUGHS = "\n".join(["a0: &a0 [x, x]", *[f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]])


@pytest.mark.parametrize(("name", "text"), [("t.json", '[{"a": 1}]'), ("t.yml", "- a: 1"), ("t", '[{"a": 1}]')])
def test_json_and_yaml_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_listed(tmp_path / name) == [{"a": 1}]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.yml", LAUGHS, "line 2: YAML aliases"),
        ("t.yml", "- [", "expected JSON or YAML"),
        ("t.json", "[" * 100_000, "expected JSON or YAML"),
        ("t.yml", "[" * 100_000, "at most 32 levels"),
        ("t.yml", "#" * 2000, "at most 1000 bytes"),
    ],
)
def test_others_are_refused_in_a_few_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str
) -> None:
    """Thirty lines of aliases stand for more than any machine has, in memory and in the message about them."""
    if "bytes" in said:
        monkeypatch.setattr(listed, "FILE_BYTES_MAX", 1000)
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=said) as refused:
        read_listed(tmp_path / name)
    assert len(str(refused.value)) < 1000
