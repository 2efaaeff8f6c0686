"""Who takes part in the mesh, and what they are told."""

from __future__ import annotations

import pytest

from leadline.model.errors import BusyError
from leadline.server.mesh import roster
from leadline.server.mesh.roster import EVERY_S, KEPT, Joined, Member, Roster, number_of

MESH = ("default", "")


class Clock:
    """Seconds that the test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def member(number: int, pod: str = "") -> Member:
    return Member(f"h{number}", f"clock{number}", f"10.0.0.{number}", 8444, pod)


def joined(kept: Roster, count: int, mesh: tuple[str, str] = MESH) -> list[Joined]:
    for number in range(count):
        kept.join(mesh, member(number))
    return [kept.join(mesh, member(number)) for number in range(count)]


def test_two_hosts_probe_each_other_and_one_of_them_fits_the_edge() -> None:
    one, other = joined(Roster(), 2)
    assert (one.key, one.every_s) == (other.key, other.every_s)
    assert len(bytes.fromhex(one.key)) == roster.KEY_BYTES
    assert [(each.host, each.address, each.clock) for each in one.peers] == [("h1", "10.0.0.1", "clock1")]
    assert [each.number for each in other.peers] == [one.number] == [number_of("h0")]
    assert sorted([one.peers[0].owned, other.peers[0].owned]) == [False, True]


def test_who_is_alone_has_nobody_to_probe() -> None:
    (alone,) = joined(Roster(), 1)
    assert alone.peers == []


def test_each_edge_of_a_larger_mesh_is_fitted_once() -> None:
    found = joined(Roster(), 40)
    ends = [(f"h{at}", peer.host, peer.owned) for at, told in enumerate(found) for peer in told.peers]
    assert {(one, other) for one, other, _ in ends} == {(other, one) for one, other, _ in ends}
    owners = [frozenset((one, other)) for one, other, owned in ends if owned]
    assert len(owners) == len(set(owners)) == len(ends) / 2


def test_who_wants_other_neighbours_gets_them_at_once() -> None:
    kept = Roster()
    assert max(len(each.peers) for each in joined(kept, 40)) > 2
    few = [member(number)._replace(neighbours=2) for number in range(40)]
    for each in few:
        kept.join(MESH, each)
    assert {len(kept.join(MESH, each).peers) for each in few} == {2}


def test_who_says_nothing_any_more_has_left() -> None:
    clock = Clock()
    kept = Roster(clock)
    joined(kept, 3)
    clock.now_s += KEPT * EVERY_S - 1
    kept.join(MESH, member(0))
    kept.join(MESH, member(1))
    clock.now_s += 2
    assert [peer.host for peer in kept.join(MESH, member(0)).peers] == ["h1"]


def test_many_hosts_ask_more_seldom() -> None:
    assert joined(Roster(), 400)[-1].every_s == 400 / roster.JOINS_PER_S_MAX


def test_another_cluster_or_tenant_is_another_mesh_with_another_key() -> None:
    kept = Roster()
    mine, (theirs, _) = joined(kept, 2), joined(kept, 2, ("default", "b"))
    assert theirs.key != mine[0].key
    (only,) = joined(kept, 1, ("acme", ""))
    assert only.peers == []


def test_a_new_address_is_told_to_the_others() -> None:
    kept = Roster()
    joined(kept, 2)
    kept.join(MESH, member(1)._replace(address="10.9.9.9"))
    assert kept.join(MESH, member(0)).peers[0].address == "10.9.9.9"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "HOSTS_MAX", 2)
    monkeypatch.setattr(roster, "MESHES_MAX", 1)
    kept = Roster()
    joined(kept, 2)
    with pytest.raises(BusyError, match="2 hosts are in the mesh"):
        kept.join(MESH, member(2))
    with pytest.raises(BusyError, match="1 meshes are kept"):
        kept.join(("acme", ""), member(0))
    kept.join(MESH, member(1))
