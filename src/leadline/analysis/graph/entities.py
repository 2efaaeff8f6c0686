"""Names of entities as numbers, and which names are of one thing.

Sources spell differently: a GPU's UUID in capitals, a host with its domain. Such names get the number of one of them,
the one that is shown. A short host name that could be two hosts is left alone, and told (`Ambiguous`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.analysis.columns import Ints, read_only
from leadline.analysis.graph.depends import KIND, KINDS, UNKNOWN_KIND
from leadline.analysis.graph.kernels import Hashes, name_hashes
from leadline.model.ids import EntityId

_UUID = r"(?i)^gpu:(gpu|mig)-"
# Kinds whose names begin with that of a host (or a switch), and may have its domain.
_FAMILIES = (("host", "port", "process"), ("switch", "swport"))
_DOMAIN = r"^[a-z]+:[^/]*\."


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A short name of a host or switch that fits several full ones."""

    entity: str
    fits: tuple[str, ...]  # what it might be, as entities
    numbers: tuple[int, ...]  # of the names that use it


@dataclass(frozen=True, slots=True)
class Names:
    """Texts by number. The first come from one Arrow array, found by hash; a few later ones from a dictionary."""

    texts: pa.StringArray
    hash_sorted_N: Hashes
    hash_order_N: Ints
    kind_N: NDArray[np.int8]  # of all, the later ones too
    more: tuple[str, ...] = ()
    more_number: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts) + len(self.more)

    def number(self, text: str) -> int:
        """Number of a text, -1 if it is not there."""
        return int(self.numbers(pa.array([text], pa.string()))[0])

    def numbers(self, texts: pa.StringArray) -> Ints:
        """Numbers of texts, -1 for those that are not there."""
        wanted_T = _hashed(texts)[0]
        number_T = np.full(len(texts), -1, np.int64)
        place_T = np.searchsorted(self.hash_sorted_N, wanted_T, "left")
        waiting = np.flatnonzero(place_T < np.searchsorted(self.hash_sorted_N, wanted_T, "right"))
        while len(waiting):  # more than once only for different texts of one hash
            number = self.hash_order_N[place_T[waiting]]
            same = pc.equal(self.texts.take(pa.array(number)), texts.take(pa.array(waiting)))
            found = same.to_numpy(zero_copy_only=False)
            number_T[waiting[found]] = number[found]
            waiting = waiting[~found]
            place_T[waiting] += 1
            waiting = waiting[place_T[waiting] < len(self.hash_sorted_N)]
            waiting = waiting[self.hash_sorted_N[place_T[waiting]] == wanted_T[waiting]]
        if self.more:
            for place in np.flatnonzero(number_T < 0).tolist():
                number_T[place] = self.more_number.get(texts[place].as_py(), -1)
        return number_T

    def take(self, number_N: Ints) -> list[str]:
        """Texts of these numbers."""
        first = number_N < len(self.texts)
        if first.all():
            return self.texts.take(pa.array(number_N)).to_pylist()  # type: ignore[no-any-return]
        return [self.text(number) for number in number_N.tolist()]

    def text(self, number: int) -> str:
        """Text of a number."""
        first = len(self.texts)
        return self.texts[number].as_py() if number < first else self.more[number - first]

    def extended(self, texts: pa.StringArray) -> Names:
        """With texts, all different, that may be new; the numbers of the others stay."""
        unknown = texts.filter(pa.array(self.numbers(texts) < 0))
        new = unknown.to_pylist()
        if not new:
            return self
        numbers = {text: len(self) + place for place, text in enumerate(new)}
        kinds = _kinds(_hashed(unknown)[1])
        return Names(
            self.texts, self.hash_sorted_N, self.hash_order_N, np.concatenate([self.kind_N, kinds]),
            (*self.more, *new), {**self.more_number, **numbers},
        )  # fmt: skip

    def whole(self) -> pa.StringArray:
        """All texts as one array."""
        return pa.concat_arrays([self.texts, pa.array(self.more, pa.string())]) if self.more else self.texts


def names(texts: pa.StringArray) -> Names:
    """Names of texts that are all different."""
    name_N, prefix_N = _hashed(texts)
    order_N = np.argsort(name_N)
    return Names(texts, name_N[order_N], order_N, _kinds(prefix_N))


def _hashed(texts: pa.StringArray) -> tuple[Hashes, Hashes]:
    count = len(texts)
    name_N, kind_N = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    if count:
        _, begin, data = texts.buffers()
        begin_N = np.frombuffer(begin, np.int32, count=count + 1, offset=4 * texts.offset)
        name_hashes(read_only(np.frombuffer(data or b"", np.uint8)), read_only(begin_N), name_N, kind_N)
    return name_N, kind_N


@cache
def _kind_hashes() -> tuple[Hashes, Ints]:
    """Hashes of the kinds that we know, ascending, and the number of each."""
    hash_K = _hashed(pa.array([f"{kind}:" for kind in KINDS[:-1]], pa.string()))[1]
    order_K = np.argsort(hash_K)
    return hash_K[order_K], order_K


def _kinds(prefix_N: Hashes) -> NDArray[np.int8]:
    hash_K, order_K = _kind_hashes()
    place_N = np.minimum(np.searchsorted(hash_K, prefix_N), len(order_K) - 1)
    return np.where(hash_K[place_N] == prefix_N, order_K[place_N], UNKNOWN_KIND).astype(np.int8)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which names are of one thing: the number of the name that is shown, for each number."""

    same_N: NDArray[np.int32]
    ambiguous: tuple[Ambiguous, ...]
    has_domains: bool  # some name of a host or switch has a domain


def identity(known: Names) -> Identity:
    """What is the same by its name: GPUs by UUID whatever the case, hosts with and without their domain."""
    same_N = np.arange(len(known), dtype=np.int32)
    texts = known.whole()
    _merge_gpus(texts, np.flatnonzero(known.kind_N == KIND["gpu"]), same_N)
    ambiguous: list[Ambiguous] = []
    has_domains = False
    for family in _FAMILIES:
        place_N = np.flatnonzero(np.isin(known.kind_N, [KIND[kind] for kind in family]))
        own = texts.take(pa.array(place_N))
        if pc.any(pc.match_substring_regex(own, _DOMAIN)).as_py():
            has_domains = True
            ambiguous += _merge_domains(own.to_pylist(), place_N, family[0], same_N)
    return Identity(same_N, tuple(ambiguous), has_domains)


def may_change(added: Sequence[str], has_domains: bool) -> bool:
    """Whether new names could change which names are the same: those of GPUs, and of hosts where domains are used."""
    for text in added:
        kind, name = EntityId.of(text)
        if kind == "gpu":
            return True
        if any(kind in family for family in _FAMILIES) and (has_domains or "." in name.partition("/")[0]):
            return True
    return False


def spelled_so(texts: Sequence[str], entity: str) -> list[int]:
    """Places of the GPUs that have this UUID, whatever the case."""
    own = pa.array(texts, pa.string())
    same = pc.and_(pc.match_substring_regex(own, _UUID), pc.equal(pc.utf8_lower(own), entity.lower()))
    return pc.indices_nonzero(same).to_pylist()  # type: ignore[no-any-return]


def _merge_gpus(texts: pa.StringArray, place_N: Ints, same_N: NDArray[np.int32]) -> None:
    """GPUs whose UUIDs differ in case only are the one whose text sorts first."""
    own = texts.take(pa.array(place_N))
    is_uuid = pc.match_substring_regex(own, _UUID)
    place_N, own = place_N[is_uuid.to_numpy(zero_copy_only=False)], own.filter(is_uuid)
    code_N = pc.utf8_lower(own).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    count_C = np.bincount(code_N)
    spelled: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for place in np.flatnonzero(count_C[code_N] > 1).tolist():
        spelled[int(code_N[place])].append((own[place].as_py(), int(place_N[place])))
    for group in spelled.values():
        shown = min(group)[1]
        for _, number in group:
            same_N[number] = shown


def _merge_domains(texts: list[str], place_N: Ints, kind: str, same_N: NDArray[np.int32]) -> list[Ambiguous]:
    """Where both a short name and just one full name of it are used, they are one, shown short."""
    number = dict(zip(texts, place_N.tolist(), strict=True))
    full_of: dict[str, set[str]] = defaultdict(set)
    plain: set[str] = set()
    for text in texts:
        machine = _machine(text)
        if "." in machine and not _is_address(machine):
            full_of[machine.partition(".")[0]].add(machine)
        else:
            plain.add(machine)
    short_of = {min(full): short for short, full in full_of.items() if short in plain and len(full) == 1}
    for text in texts:
        machine = _machine(text)
        short = short_of.get(machine)
        if short is not None:
            shown = text.replace(f":{machine}", f":{short}", 1)
            same_N[number[text]] = number.get(shown, number[text])
    unclear = {short: full for short, full in full_of.items() if short in plain and len(full) > 1}
    using: dict[str, list[int]] = defaultdict(list)
    if unclear:
        for text in texts:
            if _machine(text) in unclear:
                using[_machine(text)].append(number[text])
    return [
        Ambiguous(f"{kind}:{short}", tuple(f"{kind}:{each}" for each in sorted(full)), tuple(using[short]))
        for short, full in sorted(unclear.items())
    ]


def _machine(text: str) -> str:
    return EntityId.of(text).first


def _is_address(machine: str) -> bool:
    return ":" in machine or machine.replace(".", "").isdigit()
