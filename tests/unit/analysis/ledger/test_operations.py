"""Segments from operations: the critical path of what ran, with the right owners, and all of the time."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.operation_traces import Planted, S, trace

from leadline.analysis.ledger.operations.operations import from_operations
from leadline.analysis.ledger.operations.trace import read_trace
from leadline.analysis.ledger.operations.whatif import what_if
from leadline.analysis.ledger.segments import CATEGORIES, Segments
from leadline.analysis.ledger.warm import warm_operations
from leadline.analysis.spec import Window


def whole(operation: pa.Table) -> Window:
    begin = operation.column("start_ns").to_numpy()
    return Window(int(begin.min()), int((begin + operation.column("duration_ns").to_numpy()).max()), job="j")


def lost_s(segments: Segments) -> dict[tuple[str, str], float]:
    """Lost seconds by category and owner."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for category, owner, lost in zip(segments.category_N, segments.owner_N, segments.lost_N, strict=True):
        found[CATEGORIES[category].value, segments.owners[owner] if owner >= 0 else ""] += lost / S
    return {key: seconds for key, seconds in found.items() if seconds > 0.01}


def covered_s(segments: Segments) -> float:
    return float((segments.end_N - segments.begin_N).sum()) / S


@pytest.mark.parametrize(
    ("planted", "owner"),
    [
        (Planted(slow_worker=(1, 2, 1.8)), ("straggler", "rank:j/5")),
        (Planted(slow_link=(1, 1, 0.15)), ("communication", "rank:j/3>rank:j/5")),
        (Planted(vpp=2, slow_worker=(0, 1, 1.8), no_ops=True), ("straggler", "rank:j/2")),
    ],
)
def test_the_culprit_owns_what_was_lost_and_it_is_what_an_ideal_run_saves(
    planted: Planted, owner: tuple[str, str]
) -> None:
    operation = trace(planted)
    segments = from_operations(operation, whole(operation))
    lost = lost_s(segments)
    assert max(lost, key=lambda each: lost[each]) == owner
    assert lost[owner] > 0.9 * sum(lost.values())
    window, healthy = whole(operation), trace(Planted(vpp=planted.vpp, no_ops=planted.no_ops))
    saved = (window.window_ns - whole(healthy).window_ns) / S
    assert lost[owner] == pytest.approx(saved, rel=0.05)


def test_without_launch_delays_every_instant_of_the_steps_has_an_owner() -> None:
    operation = trace(Planted(lengths=0.4))
    window = whole(operation)
    assert covered_s(from_operations(operation, window)) == pytest.approx(window.window_ns / S, abs=1e-5)


def test_launch_delays_are_left_to_others() -> None:
    operation = trace(Planted(launch_s=0.005))
    window = whole(operation)
    covered = covered_s(from_operations(operation, window))
    assert 0.9 * window.window_ns / S < covered < 0.99 * window.window_ns / S


def test_a_run_with_nothing_wrong_has_lost_nothing() -> None:
    operation = trace(Planted())
    assert lost_s(from_operations(operation, whole(operation))) == {}


def test_windows_add_up_to_the_whole() -> None:
    operation = trace(Planted(slow_worker=(1, 2, 1.8)))
    window = whole(operation)
    edges = np.linspace(window.from_ns, window.to_ns, 6).astype(np.int64).tolist()
    parts = [from_operations(operation, Window(a, b, job="j")) for a, b in itertools.pairwise(edges)]
    together = from_operations(operation, window)
    assert sum(covered_s(part) for part in parts) == pytest.approx(covered_s(together), abs=1e-6)
    assert sum(float(part.lost_N.sum()) for part in parts) == pytest.approx(float(together.lost_N.sum()), abs=2000)


def test_a_step_that_has_not_ended_is_followed_as_far_as_it_went() -> None:
    operation = trace(Planted(slow_worker=(1, 2, 1.8)))
    end = whole(operation).to_ns
    ended = operation.column("start_ns").to_numpy() + operation.column("duration_ns").to_numpy()
    window = Window(end - 4 * S, end - 2 * S, job="j")
    segments = from_operations(operation.filter(pa.array(ended < window.to_ns)), window)
    assert covered_s(segments) > 1.9
    assert ("straggler", "rank:j/5") in lost_s(segments)


def test_without_a_whole_step_nothing_is_said() -> None:
    operation = trace(Planted(steps=1))
    unknown = pa.array(["kernel"] * operation.num_rows)
    nothing_known = operation.set_column(operation.column_names.index("kind"), "kind", unknown)
    for rows in (operation.slice(0, 0), nothing_known):
        assert len(from_operations(rows, whole(operation))) == 0


def test_rows_of_another_job_are_not_looked_at() -> None:
    mine, other = trace(Planted()), trace(Planted(slow_worker=(0, 0, 3.0)), job="other")
    assert lost_s(from_operations(pa.concat_tables([mine, other]), whole(mine))) == {}


def test_confidence_is_less_where_no_clock_has_a_fit() -> None:
    operation = trace(Planted())
    fitted = operation.append_column("bound_ns", pa.array([1000] * operation.num_rows, pa.int64()))
    window = whole(operation)
    assert from_operations(fitted, window).confidence_N[0] > from_operations(operation, window).confidence_N[0]


def test_the_warmer_says_all_of_its_step() -> None:
    assert covered_s(warm_operations()) == 3e-9


def test_what_is_lost_on_the_path_agrees_with_the_replay() -> None:
    """Two ways to the same figure: the path of what ran, and the replay without the slow worker."""
    operation = trace(Planted(dp=4, slow_worker=(1, 2, 2.0)))
    found, _ = read_trace(operation)
    assert found is not None
    answers = what_if(found)
    replayed_s = answers.mended_by_workers * (answers.real_ns - answers.ideal_ns) * len(found.step_T) / S
    path_s = lost_s(from_operations(operation, whole(operation)))["straggler", "rank:j/9"]
    assert path_s == pytest.approx(replayed_s, rel=0.1)
