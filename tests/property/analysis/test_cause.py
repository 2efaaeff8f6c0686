"""Laws of causes, whatever is odd elsewhere."""

from __future__ import annotations

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.causes import RING, anomaly, blame, case, event, flows, symptom, told

from leadline.analysis.cause.score import UNKNOWN_LOGIT

THROTTLED = anomaly("host:h3", "container_cpu_cfs_throttled_seconds_total")
LATE = blame("rank:bert-1/2", "straggler")

# What rank 2 (on GPU-2 in h3, at leaf2) does not stand on, with what rules look at.
ELSEWHERE = st.sampled_from(
    [
        ("gpu:GPU-0", "DCGM_FI_DEV_THERMAL_VIOLATION"),
        ("gpu:GPU-5", "DCGM_FI_DEV_ROW_REMAP_FAILURE"),
        ("host:h1", "node_pressure_memory_stalled_seconds_total"),
        ("port:h1/eth0", "node_ethtool_tx_pause_storm_warning_events"),
        ("swport:leaf1/E2", "ifOutDiscards"),
        ("rank:moe-2/0", "step.data_seconds"),
        ("switch:leaf1", "up"),
    ]
)
odd = st.builds(
    lambda where, start, score: anomaly(*where, start_s=start, score=score),
    ELSEWHERE,
    st.floats(-60, -1),
    st.floats(5, 1e6),
)
down = st.builds(
    lambda port, at: event(port, "link-down", at),
    st.sampled_from(["port:h1/eth0", "port:h3/eth1", "port:h5/eth0"]),
    st.floats(-60, -1),
)


@settings(max_examples=25, deadline=None)
@given(noise=st.lists(odd, max_size=8), events=st.lists(down, max_size=4))
def test_what_nothing_blamed_stands_on_is_never_named(
    noise: list[dict[str, object]], events: list[dict[str, object]]
) -> None:
    distinct = {(row["entity"], row["metric"], row["start_ns"]): row for row in noise}
    paths, volumes = flows(RING)
    known = {"symptom": [symptom(LATE)], "flow_path": paths, "flow_volume": volumes}
    _, causes = told(case(**known, anomaly=[THROTTLED, *distinct.values()], event=events))
    _, alone = told(case(**known, anomaly=[THROTTLED]))
    assert [(row["entity"], row["rule"]) for row in causes if row["chosen"]] == [("host:h3", "cpu-throttled")]
    was, now = ([row["probability"] for row in rows if row["chosen"]] for rows in (alone, causes))
    assert now[0] >= was[0] - 0.05, "at most what its own leaf or the far end of an edge might have to do with it"


@settings(max_examples=25, deadline=None)
@given(
    lost=st.lists(st.floats(0.1, 1e6), min_size=1, max_size=4),
    noise=st.lists(odd, max_size=6),
)
def test_probabilities_are_those_of_the_scores_that_are_told(lost: list[float], noise: list[dict[str, object]]) -> None:
    """No cause is surer than its own score against `unknown` alone allows; all stay between 0 and 1."""
    blamed = [blame(f"rank:bert-1/{rank}", "straggler", seconds) for rank, seconds in enumerate(lost)]
    distinct = {(row["entity"], row["metric"], row["start_ns"]): row for row in noise}
    _, causes = told(case(symptom=[symptom(*blamed)], anomaly=[THROTTLED, *distinct.values()]))
    for row in causes:
        logit = math.fsum(json.loads(row["score"]).values())
        assert 0 <= row["probability"] <= 1 / (1 + math.exp(UNKNOWN_LOGIT - logit)) + 1e-4
    assert [row["position"] for row in causes] == list(range(1, len(causes) + 1))
    chosen = [row["chosen"] for row in causes]
    assert chosen == sorted(chosen, reverse=True), "those that are named come first"


@settings(max_examples=25, deadline=None)
@given(later_s=st.floats(0, 19))
def test_the_later_evidence_seems_the_less_it_tells(later_s: float) -> None:
    """And nothing at all, once it is later than both clocks and its own samples allow."""

    def logit(start_s: float) -> float:
        row = anomaly("host:h3", "container_cpu_cfs_throttled_seconds_total", start_s=start_s)
        _, causes = told(case(symptom=[symptom(LATE)], anomaly=[row]))
        own = [json.loads(each["score"]) for each in causes if each["rule"] == "cpu-throttled"]
        return math.fsum(own[0].values()) if own else 0.0

    first, later = logit(-20), logit(-20 + later_s)
    assert later <= first
    assert later == 0 or later_s <= 5.01
