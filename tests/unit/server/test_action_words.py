"""What to do as a command to copy: of plain names only, and none where a name is not known."""

from __future__ import annotations

import pytest
from tests.unit.server.incident_rows import cause, incident

from leadline.model.incidents import ActionKind
from leadline.server.action_words import WORDS, to_do
from leadline.server.incidents_view import incidents_of


def command(entity: str, action: str) -> str:
    rows = [cause("x", 1, entity, "r", 0.9, -9, action=action)]
    (one,) = incidents_of([incident("x", "bert-1", -9)], rows, [], {"port:h3/eth0": "host:h3"})
    return to_do(one, one.chosen[0]).command


@pytest.mark.parametrize(
    ("entity", "told"),
    [
        ("port:h3/eth0", "ssh h3 sudo ethtool -m eth0"),
        ("link:h3/eth0~leaf1/Ethernet3", "ssh h3 sudo ethtool -m eth0"),
        ("link:leaf1/Ethernet1~spine1/Ethernet1", ""),  # no host has a port there
        ("port:h3/eth0;reboot", ""),
        ("port:$(id)/eth0", ""),
    ],
)
def test_a_cable_is_looked_at_from_the_host_that_it_is_in(entity: str, told: str) -> None:
    assert command(entity, ActionKind.CHECK_CABLE) == told


@pytest.mark.parametrize("action", sorted(ActionKind))
def test_every_action_has_words(action: str) -> None:
    assert action in WORDS
    assert "{" not in command("host:h1", action)
