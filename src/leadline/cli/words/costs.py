"""The ledger in two lines: where the time of a job went, and who cost most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leadline.cli.words.ledger import CATEGORY_WORDS
from leadline.model.ids import kind_of
from leadline.model.units import gpu_time

SHARE_MIN = 0.005  # smaller ones would be told as 0 %
OWNERS_SHOWN = 2
OWNER_SHARE_MIN = 0.05  # of all that was lost; who lost less is noise beside the others


def time_words(found: Mapping[str, Any] | None) -> str:
    """`compute 61 %, waiting for a straggler 20 %, ...`, the largest first; empty where the ledger has nothing yet."""
    if not found or not found["total"]:
        return ""
    held = {each["category"]: each["gpu_seconds"] for each in found["categories"]}
    if found["missing"]["gpu_seconds"]:
        held["missing"] = found["missing"]["gpu_seconds"]
    whole = sum(held.values())
    if not whole:
        return ""
    shares = sorted(((seconds / whole, name) for name, seconds in held.items()), key=lambda each: (-each[0], each[1]))
    return ", ".join(f"{CATEGORY_WORDS.get(name, name)} {100 * one:.0f} %" for one, name in shares if one >= SHARE_MIN)


def cost_words(found: Mapping[str, Any] | None) -> str:
    """`rank 5 (host h6) cost 380 GPU-s, ...`: who lost most, in all categories; empty where nothing was lost."""
    if not found or not found["total"]:
        return ""
    whole = found["total"]["lost_gpu_seconds"]
    lost: dict[str, float] = {}
    for owner in found["owners"]:
        place = owner_place(owner, found["hosts"])
        lost[place] = lost.get(place, 0.0) + owner["lost_gpu_seconds"]
    most = sorted(lost, key=lambda place: (-lost[place], place))[:OWNERS_SHOWN]
    return ", ".join(f"{place} cost {gpu_time(lost[place])}" for place in most if lost[place] > OWNER_SHARE_MIN * whole)


def owner_place(owner: Mapping[str, Any], hosts: Mapping[str, str]) -> str:
    """An owner and where it is: `rank 5 (host h6)`, `rank 4 to 5 (h5 to h6)`; its category where no part is named."""
    name: str = owner["owner"] or "job:"
    ranks = name.split(">")
    if not all(kind_of(rank) == "rank" for rank in ranks):
        words = CATEGORY_WORDS.get(owner["category"], owner["category"])
        part = kind_of(name)
        return f"{words} of the job" if part == "job" else f"{words} of all" if part == "comm" else name
    numbers = " to ".join(rank.rpartition("/")[2] for rank in ranks)
    places = [hosts.get(rank, "").removeprefix("host:") for rank in ranks]
    if not all(places):
        return f"rank {numbers}"
    return f"rank {numbers} ({'host ' if len(places) == 1 else ''}{' to '.join(places)})"
