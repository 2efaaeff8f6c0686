"""Messages in words: `0 > 1 > 2 > 0`, `1.2 ms`, `35 us +- 2 us`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ORDER_MAX = 32  # ranks of a ring that are named


def span_words(length_ns: float | None) -> str:
    """A length of time: `350 ns`, `35 us`, `1.2 ms`, `4.1 s`; `-` where it is not known."""
    if length_ns is None:
        return "-"
    for factor, word in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(length_ns) >= factor:
            return f"{length_ns / factor:.3g} {word}"
    return f"{length_ns:.0f} ns"


def delay_words(edge: Mapping[str, Any]) -> str:
    """Median and 99th percentile of the one-way delay with their bound, or why there is none."""
    if edge["delay_p50_ns"] is None:
        return "clocks contradict" if edge["backwards"] else "clocks not fitted" if edge["messages"] else "-"
    if abs(edge["delay_p50_ns"]) <= (edge["bound_ns"] or 0):
        return f"less than clocks are known to: ± {span_words(edge['bound_ns'])}"
    bound = f" ± {span_words(edge['bound_ns'])}" if edge["bound_ns"] else ""
    return f"{span_words(edge['delay_p50_ns'])}, p99 {span_words(edge['delay_p99_ns'])}{bound}"


def order_words(channel: Mapping[str, Any]) -> str:
    """Who sends to whom on a channel: `ring 0 > 1 > 2 > 0, 105 us around`, `chain 0 > 1`, `12 edges, no ring`."""
    if channel["shape"] == "other":
        return f"{channel['edges']} edges, neither ring nor chain"
    ranks = [str(rank) for rank in channel["order"]]
    closed = [*ranks, ranks[0]] if channel["shape"] == "ring" else ranks
    if len(closed) > ORDER_MAX:
        closed = [*closed[: ORDER_MAX - 2], f"... {len(closed) - ORDER_MAX + 1} more ...", closed[-1]]
    around = f", {span_words(channel['around_ns'])} around" if channel.get("around_ns") is not None else ""
    return f"{channel['shape']} {' > '.join(closed)}{around}"
