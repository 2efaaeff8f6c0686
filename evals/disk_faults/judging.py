"""What counts: which acknowledged rows can be read, and whether the product said so where they cannot. Pure.

acknowledged ──┐
rows found ────┴──> missing, doubled ──> a look ──> looks of a run ──> lost, unreadable for how long ──┐
/ready, doctor, counters ───────────────> said ────────────────────────────────────────────────────────┴──> silent
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

GRACE_S = 15.0  # so long the product may not know of rows that cannot be read: it looks each 10 s, and reads a little
COUNTERS = ("spoilt", "lost", "aside")  # of `leadline_store_disk_total`: each says that something could not be read
# What findings of `doctor` about stored rows have in common; a sender's last error is told to the sender, not of rows.
WORDS = ("cannot be read", "was spoilt", "data_loss", "put aside", "the store does not answer")

Batches = Mapping[str, int]  # rows of each batch
Found = Mapping[str, tuple[int, int]]  # of each batch: rows read, and how many of them are different


def missing_and_doubled(acknowledged: Batches, found: Found) -> tuple[int, int]:
    """Rows of acknowledged batches that are not read, and that are read more than once."""
    missing = doubled = 0
    for batch, rows in acknowledged.items():
        read, different = found.get(batch, (0, 0))
        missing += rows - different
        doubled += read - different
    return missing, doubled


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment. `missing`: rows; None: a table could not be read at all."""

    at_s: float
    missing: int | None
    doubled: int = 0
    spoilt: tuple[str, ...] = ()  # parts that the engine itself finds broken when it reads all of them
    said: tuple[str, ...] = ()  # by the product, that it did not say before the fault

    @property
    def good(self) -> bool:
        return self.missing == 0 and not self.spoilt


@dataclass(slots=True)
class Outcome:
    """What became of one run."""

    number: int
    fault: str
    redrawn: int = 0  # faults drawn before that struck nothing
    struck: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0  # rows
    refused: int = 0  # requests
    looks: list[Look] = field(default_factory=list)  # until all was good, or for SETTLE_S_MAX
    restarted: Look | None = None  # after the restart; None: it did not start again
    crashes: int = 0  # of the server, by itself
    aside: list[str] = field(default_factory=list)  # parts in detached/ afterwards
    strikes: list[str] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """Acknowledged rows that cannot be read after the restart; all of them if it does not start or answer."""
        if self.restarted is None or self.restarted.missing is None:
            return self.acknowledged
        return self.restarted.missing

    @property
    def doubled(self) -> int:
        return self.restarted.doubled if self.restarted else 0

    @property
    def said(self) -> list[str]:
        """Everything that the product said, once."""
        looks = [*self.looks, *([self.restarted] if self.restarted else [])]
        return list(dict.fromkeys(text for look in looks for text in look.said))

    @property
    def silent(self) -> bool:
        """Whether rows were lost, or could not be read for more than GRACE_S, or lie in a part that is broken, and the
        product did not say so. A server that does not start says enough."""
        if self.said or self.restarted is None:
            return False
        left = bool(self.restarted.spoilt) or (bool(self.looks) and bool(self.looks[-1].spoilt))
        return self.lost > 0 or left or unreadable_s(self.looks) > GRACE_S


def unreadable_s(looks: Sequence[Look]) -> float:
    """The longest time in which every look missed rows, from its first to its last."""
    longest, since = 0.0, None
    for look in looks:
        if look.missing == 0:
            since = None
            continue
        since = look.at_s if since is None else since
        longest = max(longest, look.at_s - since)
    return longest


def about_rows(findings: Sequence[Mapping[str, str]]) -> list[str]:
    """The findings of `doctor` that say that stored rows cannot be read, or are gone."""
    return [each["text"] for each in findings if any(word in each["text"] for word in WORDS)]
