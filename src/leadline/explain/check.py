"""Which sentences of a language model hold: each must cite facts, and say nothing that those do not. Pure.

A model may err, and what it read may tell it to lie (log lines are written by anybody). So nothing is taken on trust:

    form        one plain sentence: no links, commands, mark-up
    cites       facts that are there; none of those that were considered and are not the cause
    names       every name and rule stands in Leadline's own words of the cited facts, not only in a text they quote
    numbers     every number stands there too, with its unit, rounded at most
    cause       who speaks of a cause cites the fact that names it, or says that it is unknown; no cause is denied
    words       components, faults and actions that are spoken of stand there, and so do most other words

What does not pass is dropped, and that is told. Dropping a true sentence costs little: the text of the verdict is
there without the model. The checks hold words against words; they do not understand. A sentence made of the right
words in the wrong order may pass: hence it is shown with its citations, beside the facts, and changes no verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leadline.explain.words import (
    CAUSAL,
    CERTAIN,
    COMMON,
    NEGATIONS,
    NUMBER_WORDS,
    SPOKEN_OF,
    UNITS,
    stem,
)
from leadline.model.ids import name_of
from leadline.views.incidents.facts import ACTION, CAUSE, CONSIDERED, SUPPRESSED, UNKNOWN, Fact, Sentence, one_line

TEXT_CHARS_MAX = 400
LOOKED_AT_MAX = 20  # sentences of one answer
SHARE_MIN = 2 / 3
"""Of the words of a sentence that carry meaning so many must stand in the facts it cites. Wording needs some freedom;
with half, sentences that were made up around one true word passed (tests)."""

_FORM = re.compile(r"https?:|www\.|[`<>{}|\\$]{1}|\$\(|\*\*|\]\(|^\s*[#>]")
_NAME = re.compile(r"[A-Za-z0-9_][\w:/.>~@+-]*[\w]|[A-Za-z0-9_]")
_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2})?Z?|\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(
    r"(?<![\w.:/-])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)\s?(%|[A-Za-z][A-Za-z/-]*)?(?![\w/]*\d)"
)
_GPU_TIME = re.compile(r"GPU-(hours|seconds)")  # a unit: it speaks of no GPU
_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")


@dataclass(frozen=True, slots=True)
class Checked:
    """What is left of an answer, and why the rest was dropped: one reason for each sentence that went."""

    sentences: tuple[Sentence, ...]
    dropped: tuple[str, ...]


def checked(answer: Any, facts: Sequence[Fact], rules: Iterable[str] = ()) -> Checked:
    """The sentences of an answer that hold.

    Inputs: `answer`, parsed JSON of any shape; `facts`, as the model saw them, with names as they are; `rules`, all
    names of rules: one that no cited fact has is another cause. Never raises.
    """
    found = answer.get("sentences") if isinstance(answer, Mapping) else None
    if not isinstance(found, list):
        return Checked((), ("the answer is no list of sentences",))
    case = _Case(facts, rules)
    kept: list[Sentence] = []
    dropped = []
    for each in found[:LOOKED_AT_MAX]:
        sentence, why = case.judged(each)
        if sentence is not None and sentence.text in {one.text for one in kept}:
            sentence, why = None, "said twice"
        if sentence is None:
            dropped.append(why)
        else:
            kept.append(sentence)
    dropped += ["more sentences than are looked at"] * (len(found) - LOOKED_AT_MAX)
    return Checked(tuple(kept), tuple(dropped))


class _Cited:
    """What the facts that one sentence cites say."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self.kinds = {each.kind for each in facts}
        self.said = "\n".join(each.said for each in facts)  # Leadline's words
        self.all = "\n".join(each.text for each in facts)  # with what they quote

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(stem(word) for word in _WORD.findall(_GPU_TIME.sub(" ", self.said).lower()))

    @cached_property
    def all_stems(self) -> frozenset[str]:
        return frozenset(stem(word) for word in _WORD.findall(self.all.lower()))

    @cached_property
    def numbers(self) -> list[tuple[float, str]]:
        return [(value, unit) for value, unit, _ in numbers_in(self.all)]

    def has_name(self, name: str) -> bool:
        """Whether a name stands in Leadline's words, whole or as a part of a longer one (`h3` of `port:h3/eth0`)."""
        if _TIME.fullmatch(name) and name in self.said:
            return True
        return contains(self.said, name)


class _Case:
    """All facts of an incident, against which sentences are held."""

    def __init__(self, facts: Sequence[Fact], rules: Iterable[str]) -> None:
        self._facts = {each.number: each for each in facts}
        names = {name for each in facts for name in each.names}
        # A name without its kind too: h6 for host:h6. A single letter or a plain number is no name by itself.
        plain = {name_of(name) for name in names}
        self._names = {name for name in names | plain | set(rules) if len(name) > 1 and not name.isdecimal()}

    def judged(self, each: Any) -> tuple[Sentence | None, str]:
        """The sentence, or None and why it is dropped."""
        if not isinstance(each, Mapping) or not isinstance(each.get("text"), str):
            return None, "no sentence with a text"
        text = _plain(each["text"])
        if not text or len(each["text"]) > TEXT_CHARS_MAX or _FORM.search(text):
            return None, "no plain sentence"
        cites = _cites(each.get("cites"))
        if not cites:
            return None, "cites nothing"
        if any(number not in self._facts for number in cites):
            return None, "cites what is not there"
        why = self._against(text, [self._facts[number] for number in cites])
        return (None, why) if why else (Sentence(text, cites), "")

    def _against(self, text: str, facts: Sequence[Fact]) -> str:
        """What the sentence says that its facts do not; empty: nothing."""
        cited = _Cited(facts)
        if CONSIDERED in cited.kinds:
            return "speaks of what was considered and is not the cause"
        if len([each for each in facts if each.kind == CAUSE]) > 1:
            return "mixes several causes"
        if why := self._cause(text, cited):
            return why
        # Who speaks of a cause takes its names from there: a part that only its evidence names is not it.
        source = cited
        if _is_causal(text):
            source = _Cited([each for each in facts if each.kind in (CAUSE, UNKNOWN)])
        for name in self._named(text):
            if not source.has_name(name):
                return f"names {name}, which the cited facts do not"
        for value, unit, digits in numbers_in(text):
            if not any(same_number(value, unit, digits, *other) for other in cited.numbers):
                return f"says {value:g}{' ' + unit if unit else ''}, which the cited facts do not"
        return _words(text, cited)

    def _named(self, text: str) -> Iterable[str]:
        """Names in a sentence: what looks like one, and what is one of the names or rules of this incident."""
        yield from (name for name in _NAME.findall(text) if looks_like_name(name))
        lower = text.lower()
        yield from (name for name in sorted(self._names) if contains(lower, name.lower()))

    def _cause(self, text: str, cited: _Cited) -> str:
        words = set(_WORD.findall(text.lower()))
        stems = {stem(word) for word in words}
        causal = _is_causal(text)
        if causal and not cited.kinds & {CAUSE, UNKNOWN}:
            return "speaks of a cause and cites none"
        denied = {word for word in words if word in NEGATIONS or word.endswith("n't")}
        if denied and not cited.kinds & {UNKNOWN, SUPPRESSED}:
            if causal or cited.kinds & {CAUSE, ACTION}:
                return "denies what the cited facts say"
            if not denied <= set(_WORD.findall(cited.said.lower())):
                return "denies what the cited facts do not"
        if stems & CERTAIN - cited.stems:
            return "is surer than the cited facts"
        return ""


def _is_causal(text: str) -> bool:
    return any(stem(word) in CAUSAL for word in _WORD.findall(text.lower()))


def _words(text: str, cited: _Cited) -> str:
    """Words that stand in no cited fact: of components, faults and actions none, of all others a third."""
    bare = _NUMBER.sub(" ", " ".join(" " if looks_like_name(word) else word for word in text.split()))
    words = [word for word in _WORD.findall(bare.lower()) if word not in COMMON]
    digits = {f"{value:g}" for value, _ in cited.numbers}
    for word in words:
        if stem(word) in SPOKEN_OF and stem(word) not in cited.stems:
            return f"speaks of {word!r}, which the cited facts do not"
        if word in NUMBER_WORDS and stem(word) not in cited.stems and NUMBER_WORDS[word] not in digits:
            return f"says {word!r}, which the cited facts do not"
    telling = [word for word in words if word not in NUMBER_WORDS and word not in NEGATIONS]
    known = sum(1 for word in telling if stem(word) in cited.all_stems)
    if telling and known < SHARE_MIN * len(telling):
        return "says what the cited facts do not"
    return ""


def _plain(text: str) -> str:
    return one_line(text[: TEXT_CHARS_MAX + 1])


def _cites(given: Any) -> tuple[int, ...]:
    """The numbers cited, each once; none if anything else stands there."""
    if not isinstance(given, list) or any(type(each) is not int for each in given):
        return ()
    return tuple(dict.fromkeys(given))


def contains(text: str, name: str) -> bool:
    """Whether a name stands in a text with no letter or digit beside it."""
    return re.search(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", text, re.IGNORECASE) is not None


def looks_like_name(word: str) -> bool:
    """Whether a word is a name by its looks: letters with digits, or with signs that names and rules have inside."""
    word = word.strip(".,;:!?()\"'")
    if word.lower() in UNITS:
        return False
    if word.isdecimal() or _NUMBER.fullmatch(word):
        return bool(_TIME.fullmatch(word))
    has_digit = any(each.isdigit() for each in word)
    return (has_digit and not re.fullmatch(r"[\d.,]+%?", word)) or any(each in word for each in ":/_>~@-")


def numbers_in(text: str) -> Iterable[tuple[float, str, int]]:
    """The numbers of a text that are no part of a name: value, unit of `UNITS` (or empty), digits after the point."""
    for found in _NUMBER.finditer(text):
        plain = found[1].replace(",", "")
        unit = UNITS.get((found[2] or "").lower().rstrip(".-/"), "")
        yield float(plain), unit, len(plain.partition(".")[2])


def same_number(value: float, unit: str, digits: int, other: float, other_unit: str) -> bool:
    """Whether a number of a sentence is one of a fact: the same unit, and the same but for rounding."""
    return unit == other_unit and abs(value - other) <= 0.5 * 10.0**-digits + 1e-9 * abs(other)
