"""How well words fit a name: pure.

"thrott", "cpu quota", "H3 eth0", "10.1.6"      case does not matter, nor does the order of the words
whole name  >  begins the name  >  begins a part of it (`eth0` of `h3/eth0`)  >  is within it  >  is in its text
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

# Kinds in the order in which they are offered where they fit alike: what people look for most comes first.
KINDS = (
    "job", "incident", "host", "rank", "gpu", "switch", "port", "swport", "link", "address", "storage", "metric",
    "expectation", "rule", "service", "process", "pod", "xcvr", "nvlink", "comm",
)  # fmt: skip
PLACE_OF = {kind: place for place, kind in enumerate(KINDS)}

WORDS_MAX = 8  # of one search; more are not typed by anybody


class Fit(IntEnum):
    """How a word fits a thing; more is better."""

    NOT = 0
    IN_TEXT = 1
    WITHIN = 2
    PART = 3
    BEGINS = 4
    WHOLE = 5


@dataclass(frozen=True, slots=True)
class Item:
    """Something that has a name. `text`: more words by which it may be found; `link`: its view of the page, where it
    does not follow from kind and id; `newest_ns`: of two alike, the later comes first."""

    kind: str
    id: str
    title: str
    text: str = ""
    detail: str = ""
    cluster: str = ""
    link: str = ""
    newest_ns: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """An item that every word fits: the fit of the word that fits least, and the sum over the words."""

    item: Item
    least: Fit
    total: int
    why: str

    @property
    def order(self) -> tuple[object, ...]:
        """Sorts the best first."""
        item = self.item
        return (-self.least, -self.total, PLACE_OF.get(item.kind, len(KINDS)), -item.newest_ns, len(item.id), item.id)


def words_of(query: str) -> tuple[str, ...]:
    """The words of a query, each once, in small letters."""
    return tuple(dict.fromkeys(query.lower().split()))[:WORDS_MAX]


def found(item: Item, words: Sequence[str]) -> Found | None:
    """The item with how well it fits, None unless every word does."""
    name, text = item.id.lower(), f"{item.title} {item.text}".lower()
    whole = f"{item.kind}:{name}"
    fits = [_fit(word, name, whole, text) for word in words]
    if not fits or min(fits) is Fit.NOT:
        return None
    return Found(item, min(fits), sum(fits), _why(item, words, fits))


def _fit(word: str, name: str, whole: str, text: str) -> Fit:
    if word in (name, whole):
        return Fit.WHOLE
    if name.startswith(word) or whole.startswith(word):
        return Fit.BEGINS
    if _begins_part(word, name):
        return Fit.PART
    if word in whole:
        return Fit.WITHIN
    return Fit.IN_TEXT if word in text else Fit.NOT


def _begins_part(word: str, name: str) -> bool:
    at = name.find(word)
    while at >= 0:
        if at and not name[at - 1].isalnum():
            return True
        at = name.find(word, at + 1)
    return False


_WHY = {
    Fit.WHOLE: "this is its name", Fit.BEGINS: "its name begins with", Fit.PART: "a part of its name begins with",
    Fit.WITHIN: "its name has", Fit.IN_TEXT: "its description has",
}  # fmt: skip


def _why(item: Item, words: Sequence[str], fits: Sequence[Fit]) -> str:
    """`its name begins with cpu`; by the word that fits least."""
    least = min(range(len(fits)), key=lambda place: fits[place])
    told = "its title has" if fits[least] is Fit.IN_TEXT and words[least] in item.title.lower() else _WHY[fits[least]]
    return told if fits[least] is Fit.WHOLE else f"{told} {words[least]}"
