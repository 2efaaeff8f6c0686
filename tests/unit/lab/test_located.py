"""YAML that knows its lines: values as the YAML library reads them, and every refusal with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.located import DEPTH_MAX, Located, read_file, read_mapping
from leadline.model.errors import ConfigError

TEXT = """name: x
jobs:
  - {job: a,
     size: 3}
  - job: b
    flows: [1, {to: h2}]
"""


def test_every_mapping_and_key_knows_its_line() -> None:
    found = read_mapping(TEXT, "f.yaml")
    first, second = found["jobs"]
    assert found.place_of("jobs") == "f.yaml, line 2"
    assert (first.place, first.place_of("size")) == ("f.yaml, line 3", "f.yaml, line 4")
    assert (second.place, second.place_of("flows")) == ("f.yaml, line 5", "f.yaml, line 6")
    assert second["flows"][1].place == "f.yaml, line 6"
    assert second.place_of("none") == second.place


def test_values_are_those_of_the_library() -> None:
    assert read_mapping(TEXT, "f") == yaml.safe_load(TEXT)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
        max_leaves=12,
    )
)
def test_whatever_is_written_is_read(value: object) -> None:
    assert read_mapping(yaml.safe_dump({"value": value}), "f")["value"] == value


@given(st.text(max_size=200))
def test_any_text_is_a_mapping_or_refused(text: str) -> None:
    try:
        assert isinstance(read_mapping(text, "f"), Located)
    except ConfigError as error:
        assert str(error).startswith("f")  # noqa: PT017 (any text may also be a mapping)


def test_what_refers_to_itself_many_times_stays_small() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
    assert len(read_mapping(bomb, "f")) == 30


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", "f, line 3: a stands twice; the first is in line 1"),
        ("x:\n  a: 1\n  a: 2\n", "f, line 3: a stands twice; the first is in line 2"),
        ("a: 1\n? [b, c]\n: 2\n", "f, line 2: expected a word before the colon"),
        ("a: &a\n  - *a\n", "expected at most 20 levels, got more"),
        ("a: " + "[" * (DEPTH_MAX + 2) + "]" * (DEPTH_MAX + 2), "f, line 1: expected at most 20 levels"),
        ("a: !!python/object:os.system x\n", "expected YAML, got: could not determine a constructor"),
        ("", "expected a mapping like `hosts: 8`, got nothing"),
        ("[1, 2]", "expected a mapping"),
        ("a: [1\n", "expected YAML"),
    ],
)
def test_what_is_no_plain_mapping_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_mapping(text, "f")
    assert told in str(caught.value)


def test_files_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a YAML file of a scenario, got .*No such file"):
        read_file(tmp_path / "none.yaml", "a scenario")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="expected a YAML file of a scenario"):
        read_file(tmp_path / "binary.yaml", "a scenario")
    (tmp_path / "large.yaml").write_text("#" * 70_000)
    with pytest.raises(ConfigError, match="expected a scenario of at most 65536 bytes"):
        read_file(tmp_path / "large.yaml", "a scenario")
