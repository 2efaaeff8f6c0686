"""How much of what a switch samples reaches us, from what its neighbours on the same paths saw.

samples of a switch / samples that the others on the paths of the same flows lead to expect --> its completeness
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.path.pools import PathEntries, SampledGroups

ROUNDS = 5  # a switch that lacks samples hides that its neighbours do
DEFICIT_MIN = 5.0  # standard deviations below what is expected, for a switch to lack samples
LEAST = 0.05
CROSSED = 0.975  # probability of a hop that is taken for sure


def completeness(groups: SampledGroups, entries: PathEntries, chance_S: Floats, tells_S: Bools) -> Floats:
    """Share of the samples that each switch should have told of, (S,); 1 where no lack of them is beyond doubt.

    Inputs: sampled groups, paths, the sampling probability that each switch states, and which switches tell at all.
    Samples may be lost on their way or held back for a part of the window; they are never invented, so that of two
    switches that disagree the one that saw less is taken to lack some, and none is above 1.
    Accuracy: of one switch as of the sum of its flows; a flow that lived while its switch told nothing lacks more.
    """
    switches = len(chance_S)
    told_S = np.where(tells_S, chance_S, 0.0)
    sure = np.flatnonzero((entries.to_E >= 0) & (entries.probability_E >= CROSSED))
    place_J = np.unique(entries.flow_E[sure] * switches + entries.to_E[sure])
    flow_J, switch_J = np.divmod(place_J, max(switches, 1))
    seen_J = _seen(groups, place_J, switches)
    flows = int(flow_J.max(initial=-1)) + 1
    found_S = np.ones(switches)
    for _ in range(ROUNDS):
        chance_J = told_S[switch_J] * found_S[switch_J]
        # What the others on the path saw of the flow, as packets.
        others_J = np.bincount(flow_J, chance_J, flows)[flow_J] - chance_J
        saw_J = np.bincount(flow_J, seen_J, flows)[flow_J] - seen_J
        there = others_J > 1e-12
        ratio_J = np.where(there, told_S[switch_J] / np.where(there, others_J, 1.0), 0.0)
        expected_S = np.bincount(switch_J, ratio_J * saw_J, switches)
        variance_S = expected_S + np.bincount(switch_J, ratio_J**2 * saw_J, switches)
        seen_S = np.bincount(switch_J[there], seen_J[there], switches)
        lacks_S = expected_S - seen_S > DEFICIT_MIN * np.sqrt(variance_S)
        found_S = np.where(lacks_S, np.clip(seen_S / np.maximum(expected_S, 1.0), LEAST, 1.0), 1.0)
    return found_S


def _seen(groups: SampledGroups, place_J: Ints, switches: int) -> Floats:
    """Samples of each flow at each switch of `place_J`."""
    place_G = groups.flow_G * switches + groups.switch_G
    at_G = np.searchsorted(place_J, place_G)
    hit = np.flatnonzero(np.append(place_J, -1)[at_G] == place_G)
    found: Floats = np.bincount(at_G[hit], groups.samples_G[hit], len(place_J)).astype(np.float64)
    return found
