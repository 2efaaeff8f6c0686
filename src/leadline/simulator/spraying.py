"""Where the packets of sprayed flows can go: every path that is as likely as the others, with its share.

`Fabric.paths` draws one of these for a hash; here they are counted out, for the truth of what sprayed flows carry.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leadline.simulator.fabric import HOPS, Bools, Fabric, Floats, Ints


class Possible(NamedTuple):
    """Paths of flows, arrays over P: the place of the flow, directions as `Fabric.paths`, share of the packets."""

    flow_P: Ints
    path_PX: Ints
    share_P: Floats


def possible_paths(
    fabric: Fabric, src_N: Ints, src_rail_N: Ints, dst_N: Ints, dst_rail_N: Ints, up_D: Bools | None = None
) -> Possible:
    """All paths of flows between hosts; the shares of each flow add up to 1. Inputs as of `Fabric.paths`."""
    base_NX = np.full((len(src_N), HOPS), -1, np.int64)
    base_NX[:, 0] = fabric.host_link_HK[src_N, src_rail_N]
    base_NX[:, 5] = fabric.links + fabric.host_link_HK[dst_N, dst_rail_N]
    leaf_N, other_N = fabric.leaf_HK[src_N, src_rail_N], fabric.leaf_HK[dst_N, dst_rail_N]
    near = np.flatnonzero(leaf_N == other_N)
    found = [Possible(near, base_NX[near], np.ones(len(near)))]
    far = np.flatnonzero(leaf_N != other_N)
    climb_MS, descend_MS = fabric.climb_FS[leaf_N[far]], fabric.climb_FS[other_N[far]]
    there_MS = (climb_MS >= 0) & (descend_MS >= 0)
    if fabric.rise_PV is None:
        there_MS &= fabric.spine_FS[leaf_N[far]] == fabric.spine_FS[other_N[far]]
    share_MS = _shares(there_MS, climb_MS, descend_MS, up_D, fabric.links)
    for slot in range(share_MS.shape[1]):
        used = np.flatnonzero(share_MS[:, slot] > 0)
        rows, share = far[used], share_MS[used, slot]
        path = base_NX[rows]
        path[:, 1], path[:, 4] = climb_MS[used, slot], fabric.links + descend_MS[used, slot]
        spines = (fabric.spine_FS[leaf_N[rows], slot], fabric.spine_FS[other_N[rows], slot])
        found += _over_the_top(fabric, Possible(rows, path, share), *spines, up_D)
    return Possible(*(np.concatenate(each) for each in zip(*found, strict=True)))


def _over_the_top(fabric: Fabric, given: Possible, spine_P: Ints, below_P: Ints, up_D: Bools | None) -> list[Possible]:
    """The same where both spines are one; else one for each super-spine between them."""
    if fabric.rise_PV is None:
        return [given]
    same, apart = np.flatnonzero(spine_P == below_P), np.flatnonzero(spine_P != below_P)
    found = [Possible(given.flow_P[same], given.path_PX[same], given.share_P[same])]
    rise, fall = fabric.rise_PV[spine_P[apart]], fabric.rise_PV[below_P[apart]]
    share_QV = _shares((rise >= 0) & (fall >= 0), rise, fall, up_D, fabric.links)
    for plane in range(share_QV.shape[1]):
        used = np.flatnonzero(share_QV[:, plane] > 0)
        path = given.path_PX[apart[used]]
        path[:, 2], path[:, 3] = rise[used, plane], fabric.links + fall[used, plane]
        found.append(Possible(given.flow_P[apart[used]], path, given.share_P[apart[used]] * share_QV[used, plane]))
    return found


def _shares(there_NS: Bools, up_NS: Ints, down_NS: Ints, up_D: Bools | None, links: int) -> Floats:
    """Share of each way of each row: those that live alike, or those that are there if none does."""
    lives_NS = there_NS
    if up_D is not None:
        lives_NS = there_NS & up_D[np.maximum(up_NS, 0)] & up_D[links + np.maximum(down_NS, 0)]
        lives_NS = np.where(lives_NS.any(axis=1, keepdims=True), lives_NS, there_NS)
    found: Floats = lives_NS / np.maximum(lives_NS.sum(axis=1, keepdims=True), 1)
    return found
