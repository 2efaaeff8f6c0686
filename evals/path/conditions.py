"""Under which conditions paths are inferred: fabric, sampling rate, and what is missing, wrong or fails."""

from __future__ import annotations

from dataclasses import dataclass, replace

WINDOW_NS = 10 * 10**9
RATES = (100, 1_000, 10_000, 50_000, 200_000)


@dataclass(frozen=True, slots=True)
class Condition:
    """One simulated fabric and what is told of it. Shares are ratios, 0 to 1."""

    name: str
    group: str  # conditions that are drawn and summed together
    tiers: int = 2
    rate: int = 1_000  # one packet in so many is sampled
    flows: int = 600
    windows: int = 3
    samples_max: float = 1_600.0  # of a flow in a window, over all switches, if all tell; the least is one
    spray: bool = False
    spray_ways: int = 0  # each flow's packets take one of so many ways (adaptive routing, a bond); 0: any
    silent: float = 0.0  # of the switches tell nothing
    lying: float = 0.0  # of the switches tell wrong ports
    pausing: float = 0.0  # of the switches tell nothing in the first half of each window
    failing: int = 0  # links between switches that die in the middle of the span
    fail_at: float = 0.5  # of the second window is over when they die
    miscabled: float = 0.0  # of the links between switches are crossed with another in the inventory
    portless: float = 0.0  # of the samples lack the port that they came in by, as many the other
    mixed_rates: bool = False  # half of the switches sample one packet in four times as many
    addresses: bool = True  # whether relations tell whose an address is
    owners: bool = True  # whether relations tell whose a flow is

    @property
    def hostile(self) -> bool:
        """Whether switches or the inventory are silent or wrong: more than packets that were not drawn."""
        return bool(self.silent or self.pausing or self.lying or self.miscabled)


def conditions(quick: bool) -> list[Condition]:
    """All of them; `quick`: every kind once, with fewer flows."""
    found = [*_rates(quick), *_adverse()]
    if not quick:
        return found
    return [replace(each, flows=240, windows=2 if not each.failing else 3, samples_max=800.0) for each in found]


def _rates(quick: bool) -> list[Condition]:
    """Every sampling rate in both fabrics; quick: each rate in one of them."""
    return [
        Condition(f"{tiers}-tier 1:{rate:,}", f"{tiers}-tier", tiers=tiers, rate=rate)
        for place, rate in enumerate(RATES)
        for tiers in (2, 3)
        if not quick or tiers == 2 + place % 2
    ]


def _adverse() -> list[Condition]:
    return [
        Condition("2-tier sprayed", "sprayed", tiers=2, spray=True),
        Condition("3-tier sprayed", "sprayed", tiers=3, spray=True),
        Condition("2-tier sprayed over two", "sprayed", tiers=2, spray=True, spray_ways=2),
        Condition("3-tier sprayed over two", "sprayed", tiers=3, spray=True, spray_ways=2),
        Condition("2-tier a fifth silent", "silent", tiers=2, silent=0.2),
        Condition("3-tier a fifth silent", "silent", tiers=3, silent=0.2),
        Condition("3-tier half silent", "silent", tiers=3, silent=0.5),
        Condition("3-tier a fifth pausing", "silent", tiers=3, pausing=0.2),
        Condition("2-tier a tenth lying", "lying", tiers=2, lying=0.1),
        Condition("3-tier a tenth lying", "lying", tiers=3, lying=0.1),
        Condition("2-tier links fail", "rerouted", tiers=2, failing=6),
        Condition("3-tier links fail", "rerouted", tiers=3, failing=12),
        Condition("3-tier links fail late", "rerouted", tiers=3, failing=12, fail_at=0.95),
        Condition("3-tier miscabled", "lying", tiers=3, miscabled=0.03),
        Condition("3-tier ports missing", "incomplete", tiers=3, portless=0.3),
        Condition("3-tier mixed rates", "incomplete", tiers=3, mixed_rates=True),
        Condition("3-tier no addresses", "incomplete", tiers=3, addresses=False),
        Condition("2-tier no owners", "incomplete", tiers=2, owners=False),
    ]
