"""Counting samples: the same groups as counting in Python, whatever the order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
from tests.builders.fabrics import T0, TINY, Flow, S, Sample, sample_table, samples, tiny_samples

from leadline.analysis.path.groups import FRAME_MAX, Samples, grouped, of_the_window


def counted(found: Samples) -> Counter[tuple[object, ...]]:
    """Samples of each group, by names."""

    def port(place: int) -> str | None:
        return found.ports[place] if place >= 0 else None

    out: Counter[tuple[object, ...]] = Counter()
    for g in range(len(found.flow_G)):
        low, high = found.flow_F2[found.flow_G[g]].tolist()
        key = (
            high << 64 | low, found.switches[found.switch_G[g]], port(int(found.in_G[g])), port(int(found.out_G[g])),
            int(found.rate_G[g]), bool(found.dropped_G[g]), bool(found.now_G[g]),
        )  # fmt: skip
        assert key not in out, "a group comes once"
        out[key] = int(found.samples_G[g])
    return out


def test_groups_are_those_of_counting_by_hand() -> None:
    rows = [*tiny_samples(), *samples(TINY, Flow(1, 4, 7), 5, rate=50)]
    expected = Counter(
        (each.flow, each.switch, each.in_port, each.out_port, each.rate, each.dropped is not None, each.time_ns >= T0)
        for each in rows
        if each.src_ip
    )
    found = grouped(sample_table(rows), T0)
    assert counted(found) == expected
    assert int(found.bytes_G.sum()) == sum(each.frame_bytes for each in rows if each.src_ip)
    assert int(found.squares_G.sum()) == sum(each.frame_bytes**2 for each in rows if each.src_ip)


def test_the_order_of_rows_does_not_matter() -> None:
    table = sample_table(tiny_samples())
    one = grouped(table, T0)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(table.num_rows)
        again = grouped(table.take(pa.array(order)), T0)
        for name in Samples.__dataclass_fields__:
            if name not in ("rows", "row_F"):
                assert np.array_equal(getattr(one, name), getattr(again, name)), name


def test_times_of_a_group_are_its_first_mean_and_last() -> None:
    plain = Sample("leaf1", "Ethernet1", "Ethernet3", T0, "10.1.1.1", "10.2.2.1", 1, 2)
    found = grouped(sample_table(replace(plain, time_ns=T0 + at * S) for at in (1, 2, 6)), T0)
    assert (found.first_ns_G[0] - T0, found.mean_ns_G[0] - T0, found.last_ns_G[0] - T0) == (S, 3 * S, 6 * S)


def test_frames_that_are_none_are_clipped() -> None:
    plain = Sample("leaf1", "Ethernet1", None, T0, "10.1.1.1", "10.2.2.1", 1, 2, frame_bytes=2**62, rate=2**62)
    found = grouped(sample_table([plain]), T0)
    assert (found.bytes_G[0], found.squares_G[0]) == (FRAME_MAX, FRAME_MAX**2)


def test_flows_of_the_look_back_only_are_left_out() -> None:
    rows = [*samples(TINY, Flow(1, 4, 7), 5), *samples(TINY, Flow(2, 4, 8), 5, T0 - 10 * S)]
    both, now = grouped(sample_table(rows), T0), of_the_window(grouped(sample_table(rows), T0))
    assert (len(both.flow_F2), len(now.flow_F2)) == (2, 1)
    assert now.flow_G.tolist() == [0] * 3
    assert of_the_window(now) is now


def test_nothing_gives_nothing() -> None:
    found = grouped(sample_table([]), T0)
    assert (len(found.flow_F2), len(found.flow_G)) == (0, 0)


def test_many_flows_make_the_tables_grow() -> None:
    plain = Sample("leaf1", "Ethernet1", "Ethernet3", T0, "10.1.1.1", "10.2.2.1", 1, 2)
    found = grouped(sample_table(replace(plain, src_port=each) for each in range(1, 5001)), T0)
    assert len(found.flow_F2) == 5000
    assert found.samples_G.tolist() == [1] * 5000
