"""Losing packets on purpose, silently: no counter of the port tells, only ours does.

The rules are nft's, in a table of ours in the node's namespace. `sent` sees what is about to leave by a port,
forwarded or the node's own, after routing; `received` sees what came in by it, before routing.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Literal

from leadline.model.errors import UsageError, WorldError

TABLE = "leadline_lab"
PARTS = 1_000_000  # probabilities are kept in millionths
HOOK_OF = {"sent": "postrouting", "received": "prerouting"}
NAME_OF = {"sent": "oifname", "received": "iifname"}

Direction = Literal["sent", "received"]


@dataclass(frozen=True, slots=True)
class DropRule:
    """A rule that is in force: on which node, in which chain, nft's number of it."""

    node: str
    chain: Direction
    handle: int


def add_text(port: str, match: str, probability: float, direction: Direction) -> str:
    """What `nft -f -` is told. Table and chain are added where they are missing. Errors: UsageError."""
    if not (0.0 < probability <= 1.0):
        raise UsageError(f"a probability of loss is over 0 and at most 1, got {probability}")
    if "\n" in match or ";" in match:
        raise UsageError(f"a match is one nft expression such as `ip daddr 10.1.2.1`, got {match!r}")
    chance = f"numgen random mod {PARTS} < {max(1, math.floor(probability * PARTS))} " if probability < 1.0 else ""
    return (
        f"add table inet {TABLE}\n"
        f"add chain inet {TABLE} {direction} {{ type filter hook {HOOK_OF[direction]} priority 0; }}\n"
        f'add rule inet {TABLE} {direction} {NAME_OF[direction]} "{port}" {match} {chance}counter drop\n'
    )


def handle_of(echo: str) -> int:
    """The number of the rule, from what `nft --echo --handle` printed. Errors: WorldError."""
    found = re.findall(r"^add rule .*# handle (\d+)$", echo, re.MULTILINE)
    if not found:
        raise WorldError(f"expected nft to tell the handle of a new rule, got {echo!r}")
    return int(found[-1])


def dropped(listing: str, rule: DropRule) -> int:
    """Packets that a rule dropped, from `nft --json list chain`. Errors: WorldError if the rule is not there."""
    for item in json.loads(listing)["nftables"]:
        told = item.get("rule", {})
        if told.get("handle") == rule.handle and told.get("chain") == rule.chain:
            for expression in told["expr"]:
                if "counter" in expression:
                    return int(expression["counter"]["packets"])
    raise WorldError(f"{rule.node}: drop rule {rule.handle} is not there any more")
