"""Bytes of flows per link: every switch counts once, intervals are honest, silence is evidence, drops do not leave."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from leadline.analysis.path.volume import PathEntries, SampledGroups, Volumes, busiest, undirected, volumes

# host - L0 - [S0] - L1 - [S1] - L2 - [S2] - L3 - host; S3 and S4 stand beside S1, between S0 and S2:
# S0 - L4 - [S3] - L5 - S2 and S0 - L6 - [S4] - L7 - S2.
ENDS = np.array([[-1, 0], [0, 1], [1, 2], [2, -1], [0, 3], [3, 2], [0, 4], [4, 2]])
TELLS = np.ones(5, bool)
DIRECT, KNOWN = np.ones(1, bool), np.zeros(1, bool)


def groups(*rows: tuple[int, ...], rate: int = 100, frame: int = 1000) -> SampledGroups:
    """(switch, in link, out link, samples[, rate[, dropped]]) of flow 0."""
    whole = [(*row, *(rate, 0)[len(row) - 4 :]) for row in rows]
    switch, came, left, count, per, dropped = np.array(whole, np.int64).reshape(-1, 6).T
    flow = np.zeros(len(whole), np.int64)
    return SampledGroups(
        flow, switch, came, left, per, count, count * frame, count * frame**2, dropped.astype(bool)
    )  # fmt: skip


def entries(*rows: tuple[int, int, int, float]) -> PathEntries:
    """(link, from, to, probability) of flow 0."""
    link, sender, receiver = (np.array([row[at] for row in rows], np.int64) for at in range(3))
    return PathEntries(np.zeros(len(rows), np.int64), link, sender, receiver, np.array([row[3] for row in rows]))


CHAIN = entries((0, -1, 0, 1.0), (1, 0, 1, 1.0), (2, 1, 2, 1.0), (3, 2, -1, 1.0))
NOWHERE = entries()


def rows(found: Volumes) -> dict[tuple[int, int], tuple[float, float, float]]:
    """(bytes, low, high) by (link, from)."""
    keys = zip(found.link_V.tolist(), found.from_V.tolist(), strict=True)
    values = zip(found.bytes_V.tolist(), found.low_V.tolist(), found.high_V.tolist(), strict=True)
    return dict(zip(keys, values, strict=True))


def test_switches_on_the_path_are_averaged_and_all_its_links_carry_the_same() -> None:
    sampled = groups((0, 0, 1, 90), (1, 1, 2, 110), (2, 2, 3, 100))
    found = volumes(sampled, CHAIN, KNOWN, TELLS, ENDS)
    assert found.link_V.tolist() == [0, 1, 2, 3]
    assert found.bytes_V == pytest.approx([1e7] * 4)
    assert found.flow_bytes_F == pytest.approx([1e7])
    # 300 samples: 196 * sqrt(1 / 300) = 11 %.
    assert found.low_V == pytest.approx(found.flow_low_F[[0, 0, 0, 0]])
    assert found.flow_low_F == pytest.approx([0.89e7], rel=0.01)
    assert found.flow_high_F == pytest.approx([1.12e7], rel=0.01)


def test_a_switch_that_tells_but_saw_nothing_lowers_the_estimate() -> None:
    sampled = groups((0, 0, 1, 3), (2, 2, 3, 3))
    assert volumes(sampled, CHAIN, KNOWN, TELLS, ENDS).flow_bytes_F == pytest.approx([3e5])
    # S1 has no sample of any flow in the window, so its rate is not known and its silence says nothing. With one of
    # another flow it tells.
    other = groups((1, 1, 2, 5))
    both = joined(sampled, replace(other, flow_G=other.flow_G + 1))
    found = volumes(both, CHAIN, np.zeros(2, bool), TELLS, ENDS)
    assert found.flow_bytes_F[0] == pytest.approx(2e5)
    assert volumes(both, CHAIN, np.zeros(2, bool), TELLS & [True, False, True, True, True], ENDS).flow_bytes_F[
        0
    ] == pytest.approx(3e5)


def test_a_switch_that_lacks_half_of_its_samples_is_found_out_by_its_neighbours() -> None:
    found = volumes(groups((0, 0, 1, 1000), (1, 1, 2, 500), (2, 2, 3, 1000)), CHAIN, KNOWN, TELLS, ENDS)
    assert found.flow_bytes_F == pytest.approx([1e8], rel=0.01)
    assert found.flow_low_F[0] < 1e8 < found.flow_high_F[0]


def test_what_chance_explains_is_no_lack_of_samples() -> None:
    found = volumes(groups((0, 0, 1, 100), (1, 1, 2, 70), (2, 2, 3, 100)), CHAIN, KNOWN, TELLS, ENDS)
    assert found.flow_bytes_F == pytest.approx([9e6])


def test_a_flow_that_moved_does_not_make_the_switches_of_its_path_lack_samples() -> None:
    here = groups((0, 0, 1, 1000), (1, 1, 2, 200), (2, 2, 3, 1000))
    steady = groups((0, 0, 1, 100), (1, 1, 2, 100), (2, 2, 3, 100))
    both = joined(here, replace(steady, flow_G=steady.flow_G + 1))
    path = PathEntries(*(np.tile(getattr(CHAIN, field.name), 2) for field in fields(CHAIN)))
    path = replace(path, flow_E=np.repeat([0, 1], len(CHAIN.flow_E)))
    found = volumes(both, path, np.array([True, False]), TELLS, ENDS)
    assert found.flow_bytes_F[1] == pytest.approx(1e7)


def test_switches_with_different_rates_count_by_their_probability() -> None:
    sampled = groups((0, 0, 1, 100, 100), (1, 1, 2, 2, 10_000))
    found = volumes(sampled, CHAIN, KNOWN, TELLS, ENDS)
    assert found.flow_bytes_F == pytest.approx([102 * 1000 / (1 / 100 + 1 / 10_000)])


def test_a_rate_that_changes_in_the_window_is_weighted_sample_by_sample() -> None:
    sampled = groups((0, 0, 1, 50, 100), (0, 0, 1, 25, 200))
    found = volumes(sampled, CHAIN, KNOWN, TELLS, ENDS)
    assert found.flow_bytes_F == pytest.approx([1e7])
    same = volumes(groups((0, 0, 1, 100)), CHAIN, KNOWN, TELLS, ENDS)
    assert same.flow_high_F[0] < found.flow_high_F[0] < 1.15 * same.flow_high_F[0]


def test_everything_sampled_leaves_nothing_to_chance() -> None:
    found = volumes(groups((0, 0, 1, 7, 1), (1, 1, 2, 7, 1)), CHAIN, KNOWN, TELLS, ENDS)
    for value_F in (found.flow_low_F, found.flow_bytes_F, found.flow_high_F):
        assert value_F == pytest.approx([7e3], rel=1e-6)


def test_one_sample_may_be_nearly_nothing_or_five_times_as_much() -> None:
    found = volumes(groups((0, 0, 1, 1)), CHAIN, KNOWN, TELLS, ENDS)
    assert found.flow_bytes_F == pytest.approx([1e5])
    assert found.flow_low_F == pytest.approx([0.0])
    assert found.flow_high_F == pytest.approx([5.57e5], rel=0.01)


def test_an_uncertain_link_gets_its_share_and_may_be_empty() -> None:
    split = entries(
        (0, -1, 0, 1.0), (1, 0, 1, 0.5), (2, 1, 2, 0.5), (4, 0, 3, 0.5), (5, 3, 2, 0.5), (3, 2, -1, 1.0)
    )  # fmt: skip
    sampled = groups((0, 0, -1, 10), (2, -1, 3, 10))
    found = rows(volumes(sampled, split, KNOWN, TELLS, ENDS))
    assert found[1, 0][:2] == pytest.approx((5e5, 0.0))
    assert found[1, 0][2] == found[0, -1][2]
    assert found[0, -1][1] > 0


def test_silent_alternatives_together_are_one_switch() -> None:
    split = entries(
        (0, -1, 0, 1.0), (1, 0, 1, 0.5), (2, 1, 2, 0.5), (4, 0, 3, 0.5), (5, 3, 2, 0.5), (3, 2, -1, 1.0)
    )  # fmt: skip
    other = groups((1, 1, 2, 50), (3, 4, 5, 50))
    sampled = joined(groups((0, 0, -1, 3), (2, -1, 3, 3)), replace(other, flow_G=other.flow_G + 1))
    found = volumes(sampled, split, np.zeros(2, bool), TELLS, ENDS)
    # Sampled with 1/100 by three switches on the way, whichever spine it took.
    assert found.flow_bytes_F[0] == pytest.approx(6 * 1000 * 100 / 3)


def test_a_sprayed_flow_is_counted_link_by_link_from_both_ends() -> None:
    sampled = groups((0, 0, 1, 30), (0, 0, 4, 10), (1, 1, 2, 20), (3, 4, 5, 12), (2, 2, 3, 28), (2, 5, 3, 8))
    found = volumes(sampled, CHAIN, DIRECT, TELLS, ENDS)
    told = {place: value[0] for place, value in rows(found).items()}
    assert told == pytest.approx(
        {(0, -1): 4e6, (1, 0): 2.5e6, (2, 1): 2.4e6, (4, 0): 1.1e6, (5, 3): 1e6, (3, 2): 3.6e6}
    )
    assert found.flow_bytes_F == pytest.approx([(40 + 36) / 2 * 1e5])  # both leaves see all of it


def test_dropped_packets_came_but_did_not_leave() -> None:
    sampled = groups((0, 0, 1, 30), (0, 0, 1, 10, 100, 1))
    told = {place: value[0] for place, value in rows(volumes(sampled, NOWHERE, DIRECT, TELLS, ENDS)).items()}
    assert told == pytest.approx({(0, -1): 4e6, (1, 0): 3e6})


def test_the_notification_of_a_drop_is_no_sample() -> None:
    sampled = groups((0, 0, 1, 30), (0, 0, -1, 1000, 1, 1))
    told = {place: value[0] for place, value in rows(volumes(sampled, NOWHERE, DIRECT, TELLS, ENDS)).items()}
    assert told == pytest.approx({(0, -1): 3e6, (1, 0): 3e6})


def test_samples_without_a_port_are_spread_over_those_with_one() -> None:
    sampled = groups((0, 0, 1, 30), (0, 0, 4, 10), (0, 0, -1, 40))
    told = {place: value[0] for place, value in rows(volumes(sampled, NOWHERE, DIRECT, TELLS, ENDS)).items()}
    assert told == pytest.approx({(0, -1): 8e6, (1, 0): 6e6, (4, 0): 2e6})


def test_a_flow_met_only_in_the_middle_is_judged_by_the_switch_that_saw_most() -> None:
    sampled = groups((1, 1, 2, 30), (3, 4, 5, 10))
    assert volumes(sampled, NOWHERE, DIRECT, TELLS, ENDS).flow_bytes_F == pytest.approx([3e6])


def test_a_flow_that_no_switch_could_have_seen_has_no_estimate() -> None:
    found = volumes(groups(), CHAIN, KNOWN, TELLS, ENDS)
    assert np.isnan(found.flow_bytes_F).all()
    assert not len(found.flow_V)


def test_a_link_that_does_not_end_at_the_switch_is_left_out() -> None:
    assert not len(volumes(groups((4, 0, 1, 5)), NOWHERE, DIRECT, TELLS, ENDS).flow_V)


def test_nothing_gives_nothing() -> None:
    found = volumes(groups(), NOWHERE, np.zeros(0, bool), np.zeros(0, bool), np.zeros((0, 2), np.int64))
    assert all(len(getattr(found, field.name)) == 0 for field in fields(Volumes))


def test_both_directions_of_a_link_are_one_row_of_the_table() -> None:
    there_and_back = entries((0, -1, 0, 1.0), (1, 0, 1, 1.0), (1, 1, 0, 1.0))
    found = volumes(groups((0, 0, 1, 30)), there_and_back, KNOWN, TELLS, ENDS)
    flow, link, count, low, high = undirected(found)
    assert (flow.tolist(), link.tolist()) == ([0, 0], [0, 1])
    assert count[1] == pytest.approx(2 * count[0])
    assert low[1] < count[1] < high[1]


def joined(*parts: SampledGroups) -> SampledGroups:
    """All groups together."""
    return SampledGroups(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(parts[0])))


def carried(*rows: tuple[int, int, int, float]) -> Volumes:
    """(flow, link, from, bytes), in order."""
    flow, link, sender = (np.array([row[at] for row in rows], np.int64) for at in range(3))
    size = np.array([row[3] for row in rows])
    return Volumes(flow, link, sender, size, size, size, *np.zeros((3, 2)))


def test_the_busiest_link_of_a_flow_is_told_by_what_everybody_sends_that_way() -> None:
    found = carried((0, 1, 5, 10.0), (0, 2, 6, 10.0), (1, 1, 5, 20.0), (1, 2, 7, 90.0))
    link_F, bytes_F = busiest(found, 3)
    # Over link 2 flow 1 goes the other way; flow 2 was not seen.
    assert link_F.tolist() == [1, 2, -1]
    assert bytes_F[:2].tolist() == [30.0, 90.0]
    assert np.isnan(bytes_F[2])


def test_a_link_that_a_flow_hardly_took_is_not_its_busiest() -> None:
    found = carried((0, 1, 5, 9.0), (0, 2, 5, 1.0), (1, 2, 5, 500.0))
    assert busiest(found, 2)[0].tolist() == [1, 2]


def test_without_volumes_no_link_is_busy() -> None:
    assert busiest(carried(), 1)[0].tolist() == [-1]
