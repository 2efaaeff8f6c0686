"""The simulated fleet at tiny size: the mesh makes errors of edges smaller, and size does not make them larger."""

from __future__ import annotations

import numpy as np
import pytest
from evals.clock_parts import growth
from evals.clock_parts.growth import Grown, edge_errors, grown


@pytest.fixture(scope="module")
def errors() -> tuple[np.ndarray, np.ndarray]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "EDGES", 200)
        return edge_errors("idle", 7)


def test_errors_of_edges_are_those_of_a_fit(errors: tuple[np.ndarray, np.ndarray]) -> None:
    assert len(errors[0]) > 150
    assert 5 < np.percentile(np.abs(errors[0]), 99) < 300
    assert np.all(errors[1] > 0)


def test_the_mesh_is_better_than_an_edge_at_any_size(errors: tuple[np.ndarray, np.ndarray]) -> None:
    small, large = grown(50, "idle", errors, 7), grown(2_000, "idle", errors, 7)
    assert small.edges == pytest.approx(5 * 50, rel=0.2)
    for each in (small, large):
        assert each.pair_p99_ns < each.edge_p99_ns
    assert large.pair_p99_ns < 1.5 * small.pair_p99_ns
    assert large.pods_pair_p99_ns < 3 * large.pair_p99_ns
    again = grown(2_000, "idle", errors, 7)
    assert _without_times(again) == _without_times(large)


def _without_times(of: Grown) -> tuple[float, ...]:
    return of.pair_p99_ns, of.pods_pair_p99_ns, of.pod_pair_p99_ns, of.edges
