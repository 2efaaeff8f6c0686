from __future__ import annotations

import pytest

from leadline.analysis.sle.expectations import DEFAULTS, Source, parse, to_text
from leadline.model.accounts import Layer
from leadline.model.errors import ConfigError

ONE = """
- name: hot
  layer: gpu
  of: gpu
  bounds:
    - {metric: DCGM_FI_DEV_GPU_TEMP, above: 85, for_s: 10}
    - metric: DCGM_FI_DEV_GPU_TEMP
      above: {of: peers, mads: 6, least: 8, group: job}
      when: [{metric: DCGM_FI_DEV_GPU_UTIL, above: 20}]
"""


def test_an_expectation_is_read() -> None:
    (found,) = parse(ONE, "site.yaml")
    assert (found.name, found.layer, found.of, found.objective) == ("hot", Layer.GPU, "gpu", 0.99)
    absolute, peers = found.bounds
    assert absolute.classifier == "DCGM_FI_DEV_GPU_TEMP above 85"
    assert absolute.for_s == 10
    assert (peers.test.threshold.kind, peers.test.threshold.value, peers.test.threshold.least) == ("peers", 6, 8)
    assert peers.classifier == "DCGM_FI_DEV_GPU_TEMP above 6 MADs of its peers while DCGM_FI_DEV_GPU_UTIL above 20"


def test_a_document_may_have_its_list_below_a_word() -> None:
    assert parse("expectations:" + ONE.replace("\n", "\n  "), "site.yaml") == parse(ONE, "site.yaml")


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]"])
def test_an_empty_document_has_none(text: str) -> None:
    assert parse(text, "site.yaml") == ()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("- {metric:", "- {metrc:", "line 6: a bound has no 'metrc'; did you mean metric?"),
        ("above: 85", "above: hot", "line 6: expected above: a number, got 'hot'"),
        ("above: 85", "above: .nan", "line 6: expected above: a number, got '.nan'"),
        ("above: 85", "above: 85, below: 3", "line 6: a bound needs exactly one of above, below, got above and below"),
        ("of: gpu", "of: gpus", "line 4: of cannot be 'gpus'; did you mean gpu?"),
        ("layer: gpu", "layer: gpus", "line 3: layer cannot be 'gpus'; did you mean gpu?"),
        ("of: peers", "of: pears", "line 8: of cannot be 'pears'; did you mean peers?"),
        ("for_s: 10", "for_s: -1", "line 6: expected for_s: a number from 0 to 600, got '-1'"),
        ("for_s: 10", "as: open", "line 6: as cannot be 'open'"),
        ("for_s: 10", "over_s: 10", "line 6: 'over_s' belongs to event, not to metric"),
        ("  layer: gpu\n", "", "line 2: an expectation needs 'layer'"),
        ("name: hot", "name: hot\n  name: cold", "line 3: name is given twice"),
        ("least: 8", "laest: 8", "line 8: 'above' has no 'laest'; did you mean least?"),
        ("{metric: DCGM_FI_DEV_GPU_TEMP, above: 85,", "*a\n    - {", "line 6: YAML aliases"),
        ("bounds:", "bounds: {", "not YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line_and_what_was_expected(old: str, new: str, told: str) -> None:
    assert old in ONE
    with pytest.raises(ConfigError) as error:
        parse(ONE.replace(old, new, 1), "site.yaml")
    assert str(error.value).startswith("site.yaml")
    assert told in str(error.value)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two expectations called hot"):
        parse(ONE + ONE, "site.yaml")


def test_two_bounds_that_could_not_be_told_apart_are_refused() -> None:
    twice = ONE.replace(
        "above: 85, for_s: 10}", "above: 85}\n    - {metric: DCGM_FI_DEV_GPU_TEMP, above: 85, for_s: 10}"
    )
    with pytest.raises(ConfigError, match=r"line 7: two bounds of hot are called .* give one of them a `classifier`"):
        parse(twice, "site.yaml")


@pytest.mark.parametrize("one", DEFAULTS, ids=lambda one: one.name)
def test_defaults_are_read_back_as_they_were_written(one: object) -> None:
    assert parse(to_text(one), "x") == (one,)  # type: ignore[arg-type]


def test_every_layer_has_a_default() -> None:
    assert {one.layer for one in DEFAULTS} == set(Layer)


def test_defaults_say_what_to_do() -> None:
    assert [one.name for one in DEFAULTS if not one.advice] == []


def test_defaults_look_at_every_source() -> None:
    told = {test.indicator.source for one in DEFAULTS for bound in one.bounds for test in (bound.test, *bound.when)}
    assert told == set(Source)
