"""Text made locally, to train on: a small language with something to learn in it, and its vocabulary.

Nothing is downloaded and every run sees the same text. What a model can learn: a noun's class decides its
determiner and its verb's ending (agreement), a paragraph keeps to one topic (its nouns), common words are commoner
(Zipf). So the loss of a masked language model falls from ln(vocabulary) to well below the words' own entropy.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import cached_property

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")
PAD, CLS, SEP, MASK, UNK = range(len(SPECIAL))

CLASSES = 4  # of nouns, as genders are in many languages
TOPICS = 8
NOUNS_PER_TOPIC = 12  # of each class
VERBS, ADJECTIVES, ADVERBS, PREPOSITIONS = 40, 60, 24, 12
SENTENCES_PER_PARAGRAPH = 6
PARAGRAPHS_PER_SHARD = 320  # about 15,000 words, 100 KB

_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "st", "tr", "kl")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "eu")


class Language:
    """Words and grammar, the same for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        words = _words(random.Random(seed))

        def take(count: int) -> tuple[str, ...]:
            return tuple(itertools.islice(words, count))

        self.determiners = [take(2) for _ in range(CLASSES)]
        self.endings = ("a", "en", "is", "ot")
        self.nouns = [[take(NOUNS_PER_TOPIC) for _ in range(CLASSES)] for _ in range(TOPICS)]
        self.stems = take(VERBS)
        self.adjectives = take(ADJECTIVES)
        self.adverbs = take(ADVERBS)
        self.prepositions = take(PREPOSITIONS)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Number of every word, the special ones first."""
        verbs = [stem + ending for stem in self.stems for ending in self.endings]
        words = itertools.chain(
            SPECIAL, (".",), *self.determiners, *itertools.chain(*self.nouns), verbs,
            self.adjectives, self.adverbs, self.prepositions,
        )  # fmt: skip
        return {word: number for number, word in enumerate(dict.fromkeys(words))}

    def shard(self, number: int, seed: int = 0) -> str:
        """One file of training text: a paragraph per line. The same for the same number and seed."""
        rng = random.Random(f"{seed}/{number}")
        return "\n".join(self._paragraph(rng) for _ in range(PARAGRAPHS_PER_SHARD)) + "\n"

    def tokens(self, text: str) -> list[int]:
        """Numbers of the words of a text, lines joined by [SEP]. A word that is not known is [UNK]."""
        vocabulary = self.vocabulary
        found: list[int] = []
        for line in text.splitlines():
            found += [vocabulary.get(word, UNK) for word in line.split()]
            found.append(SEP)
        return found

    def _paragraph(self, rng: random.Random) -> str:
        topic = rng.randrange(TOPICS)
        return " ".join(self._sentence(rng, topic) for _ in range(SENTENCES_PER_PARAGRAPH))

    def _sentence(self, rng: random.Random, topic: int) -> str:
        subject_class = rng.randrange(CLASSES)
        words = self._noun_phrase(rng, topic, subject_class)
        words.append(_common(rng, self.stems) + self.endings[subject_class])
        if rng.random() < 0.4:
            words.append(_common(rng, self.adverbs))
        words += self._noun_phrase(rng, topic, rng.randrange(CLASSES))
        if rng.random() < 0.3:
            words += [_common(rng, self.prepositions), *self._noun_phrase(rng, topic, rng.randrange(CLASSES))]
        return " ".join([*words, "."])

    def _noun_phrase(self, rng: random.Random, topic: int, noun_class: int) -> list[str]:
        words = [_common(rng, self.determiners[noun_class])]
        if rng.random() < 0.35:
            words.append(_common(rng, self.adjectives))
        return [*words, _common(rng, self.nouns[topic][noun_class])]


def _common(rng: random.Random, words: tuple[str, ...]) -> str:
    """One of the words, the first ones more often: nearly Zipf's law, at the cost of one power."""
    return words[int(len(words) ** rng.random()) - 1]


def _words(rng: random.Random) -> Iterator[str]:
    """Made-up words without end, none twice."""
    seen: set[str] = set()
    while True:
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(rng.choice((1, 2, 2, 3))))
        if word not in seen:
            seen.add(word)
            yield word
