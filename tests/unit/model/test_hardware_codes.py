"""The tables of what hardware calls its own errors."""

from __future__ import annotations

import re

import pytest

from leadline.model.hardware_codes import (
    CLOCK_REASONS,
    XIDS,
    Suspect,
    advised,
    codes_of,
    death_of,
    xid_words,
)
from leadline.model.incidents import ActionKind

TAKE_OUT = {ActionKind.DRAIN, ActionKind.RESET_GPU, ActionKind.REBOOT_NODE, ActionKind.REPLACE_NODE}


def test_every_entry_says_what_it_is_and_what_its_vendor_advises() -> None:
    assert len(XIDS) >= 40
    for code, each in XIDS.items():
        assert code == each.code
        assert code.isdecimal()
        assert re.fullmatch(r"[^.]{4,70}", each.name)
        assert re.fullmatch(r"[A-Z0-9_]*", each.vendor)


def test_what_is_dead_is_taken_out_and_never_only_started_again() -> None:
    dead = [each for each in XIDS.values() if each.dead]
    assert {"48", "64", "79", "95", "119", "120"} <= {each.code for each in dead}
    for each in dead:
        assert each.action in TAKE_OUT, each
        assert each.suspect in (Suspect.GPU, Suspect.MEMORY), each


def test_codes_are_of_one_suspect_each() -> None:
    assert sorted(code for suspect in Suspect for code in codes_of(suspect)) == sorted(XIDS)


@pytest.mark.parametrize(
    ("kind", "code", "dies", "action"),
    [
        ("xid", "79", True, ActionKind.DRAIN),
        ("gpu-lost", "", True, ActionKind.DRAIN),
        ("xid", "63", False, ActionKind.RESET_GPU),
        ("xid", "31", False, ActionKind.RESTART_APP),
        ("xid", "9999", False, None),
        ("link-down", "79", False, None),
    ],
)
def test_an_event_says_whether_its_part_is_dead_and_what_to_do(
    kind: str, code: str, dies: bool, action: ActionKind | None
) -> None:
    assert (death_of(kind, code) is not None) is dies
    told = advised(kind, code)
    assert (told.action if told else None) == action


def test_words_name_the_code_first() -> None:
    assert xid_words("79") == "XID 79 (GPU has fallen off the bus)"
    assert xid_words("9999") == "XID 9999"


def test_bits_are_single_bits() -> None:
    assert all(bit.bit_count() == 1 for bit in CLOCK_REASONS)
