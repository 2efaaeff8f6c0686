"""Weights are fitted: what right candidates have weighs more, what nobody has stays, and the file is read back."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from evals.learned.candidates import GROUPS, PartWeighed, Weighed, parts_from, rows_of
from evals.learned.fit import as_table, left_out
from evals.learned.model import NAMES, chances, fitted
from evals.simulated import Case, require_unseen
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.cause import weights
from leadline.analysis.cause.weights import BY_HAND, FILE, WEIGHTS, Fitted, read
from leadline.model.errors import DataError, LeadlineError


def candidate(right: bool, **groups: float) -> Weighed:
    return Weighed("host:h1", "slow-gpu", tuple(groups.get(name, 0.0) for name in GROUPS), 0.0, right)


def part(*candidates: Weighed, share: float = 1.0) -> PartWeighed:
    return PartWeighed(share, candidates)


GOOD = part(candidate(True, common=1, telling=1, blame=3), candidate(False, common=1, weak=1, blame=3))
HARD = part(candidate(True, common=1, weak=1, blame=3), candidate(False, common=1, fitting=1, blame=3))


def test_what_tells_of_right_ones_weighs_more_and_what_misleads_less() -> None:
    fit = fitted([[HARD]] * 40)
    assert fit.values["weak"] > BY_HAND["weak"]
    assert fit.values["fitting"] == BY_HAND["fitting"], "no right candidate has it: too few cases teach it"
    assert fit.after > fit.before
    both = fitted([[HARD], [GOOD]] * 40)
    assert both.values["telling"] >= BY_HAND["telling"]


def test_where_nothing_broken_is_a_candidate_unknown_is_right() -> None:
    lost = part(candidate(False, common=1, fitting=1, blame=3))
    assert fitted([[lost]] * 40).values["unknown"] > BY_HAND["unknown"]


def test_a_weight_with_fewer_than_five_cases_stays_and_says_so() -> None:
    fit = fitted([[GOOD]] * 4 + [[]])
    assert fit.values == BY_HAND
    assert "telling" in fit.kept
    assert "kept: fewer than 5 cases have it (4)" in as_table(fit, 0, 5)


def test_no_cases_change_nothing() -> None:
    fit = fitted([])
    assert fit.values == BY_HAND
    assert (fit.before, fit.after) == (0.0, 0.0)


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.booleans(), st.sampled_from(GROUPS), st.floats(0, 4)), max_size=5),
            st.floats(0.01, 1),
        ),
        min_size=5, max_size=8,
    )
)  # fmt: skip
def test_a_fit_is_never_less_likely_and_its_chances_add_up(drawn: list) -> None:
    cases = [
        [part(*(candidate(right, **{name: much}) for right, name, much in rows), share=share)] for rows, share in drawn
    ]
    fit = fitted(cases)
    assert fit.after >= fit.before - 1e-9
    for case in cases:
        each, unknown = chances(case[0], fit.values)
        assert math.isclose(sum(each) + unknown, 1.0)
    assert fit.values == fitted(cases[::-1]).values or np.allclose(
        list(fit.values.values()), list(fitted(cases[::-1]).values.values()), atol=0.02
    )


def test_the_fit_is_that_of_the_formula() -> None:
    """One group, all else fixed: the slope at the fit is that of the prior (checked against a plain sum)."""
    fit = fitted([[HARD]] * 10)
    change = fit.values["weak"] - BY_HAND["weak"]
    right, unknown = chances(HARD, fit.values)
    assert change == pytest.approx(10 * (1 - right[0]), rel=0.02), "weights with a spread of 1 move by their slope"
    assert 0 < unknown < 1


def test_what_was_weighed_is_read_back() -> None:
    assert parts_from(rows_of([GOOD, HARD]), "file") == [GOOD, HARD]
    with pytest.raises(LeadlineError, match="file: expected parts with candidates"):
        parts_from([[1.0, [["host:h1", "rule", [1.0], 0.0, True]]]], "file")


def test_a_kind_left_out_is_scored_with_weights_that_never_saw_it() -> None:
    one, other = (Case("train", number, name, "small", 64, 8, "packed") for number, name in ((0, "a"), (1, "b")))
    known = [(one, [HARD])] * 30 + [(other, [GOOD])] * 30
    found = {name: (count, after, before) for name, count, after, before in left_out(known, lambda case: case.fault)}
    assert set(found) == {"a", "b"}
    assert found["a"][0] == 30
    assert found["a"][1] == pytest.approx(found["a"][2], abs=0.2), "what others teach moves little of what they lack"


# --- the table ----------------------------------------------------------------------------------------------------


def test_the_table_that_ships_is_read_and_says_what_it_was_fitted_on() -> None:
    assert set(BY_HAND) == set(NAMES)
    for name in NAMES:
        assert math.isfinite(getattr(WEIGHTS, name))
    assert WEIGHTS.rare < WEIGHTS.common
    assert WEIGHTS.proof > WEIGHTS.telling > WEIGHTS.fitting > WEIGHTS.weak > 0
    assert all(each.split == "train" for each in WEIGHTS.fitted)


def test_what_is_written_is_read() -> None:
    fit = fitted([[HARD], [GOOD]] * 20)
    found = read(as_table(fit, 7, 40), "written")
    assert {name: getattr(found, name) for name in NAMES} == pytest.approx(fit.values)
    assert found.fitted == (Fitted("simulated", "train", 7, 40),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("# version 1", "# version 2"), "from this version of Leadline"),
        (("proof,", "proved,"), "one line each of common, rare, proof"),
        (("proof,6,", "proof,6,much"), "a value from -20 to 20"),
        (("proof,", "common,-1,-1,0,twice\nproof,"), "one line each of common, rare, proof"),
        (("# fitted simulated train 0 1", "# fitted on test"), "# fitted SOURCE SPLIT FIRST COUNT"),
        (("proof,6,", "proof,6,nan #"), "a value from -20 to 20"),
        (("proof,6,", "proof,6,1e9 #"), "a value from -20 to 20"),
    ],
)
def test_a_table_that_is_not_one_is_refused(change: tuple[str, str], words: str) -> None:
    text = as_table(fitted([]), 0, 1).replace(*change)
    with pytest.raises(DataError, match=words):
        read(text, "mine.csv")


def test_the_file_of_the_package_is_the_one_that_is_used() -> None:
    text = (Path(weights.__file__).parent / FILE).read_text()
    assert read(text, FILE) == WEIGHTS


def test_cases_that_weights_were_fitted_on_score_nothing() -> None:
    fitted_on = (Fitted("simulated", "validation", 10, 20),)
    require_unseen("validation", range(30, 40), fitted_on)
    require_unseen("train", range(10, 20), fitted_on)
    with pytest.raises(LeadlineError, match=r"--split validation: weights.csv was fitted on some of its cases 0 to 10"):
        require_unseen("validation", range(11), fitted_on)
