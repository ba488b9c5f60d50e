"""Looks up a key among patterns of keys, and finds the known key most similar to an unknown one.

A pattern is a key in which a word that begins with `$` stands for any word: `listeners.tcp.$name`.
A pattern without such a word takes precedence.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from difflib import get_close_matches

from leveret.broker.config.parser import key_of, words_of

WORD = re.compile(r"[a-z0-9]+")
LIKENESS_MIN = 0.6
"""difflib's threshold for a good match; a less similar key would be a random suggestion."""

Words = tuple[str, ...]


class KeyPatterns:
    """A set of patterns."""

    __slots__ = ("_by_length", "_exact")

    def __init__(self, patterns: Iterable[str]) -> None:
        self._exact: set[Words] = set()
        self._by_length: dict[int, list[Words]] = defaultdict(list)
        for words in map(words_of, patterns):
            if any(_is_variable(word) for word in words):
                self._by_length[len(words)].append(words)
            else:
                self._exact.add(words)

    def find(self, words: Words) -> str | None:
        """The pattern that a key matches."""
        if words in self._exact:
            return key_of(words)
        for pattern in self._by_length.get(len(words), ()):
            if _fill(pattern, words) == words:
                return key_of(pattern)
        return None

    def nearest(self, words: Words) -> str | None:
        """The known key most similar to one that matches no pattern; None if none is similar.

        A key with the same words is nearer than one with nearly the same letters.
        """
        candidates = [key_of(exact) for exact in self._exact]
        candidates += [
            key_of(_fill(pattern, words) if len(pattern) == len(words) else pattern)
            for patterns in self._by_length.values()
            for pattern in patterns
        ]
        meant = [key for key in candidates if _meaning(key) == _meaning(key_of(words))]
        close = meant or get_close_matches(key_of(words), candidates, n=1, cutoff=LIKENESS_MIN)
        return close[0] if close else None


def _meaning(key: str) -> list[str]:
    """The words of a key, in any order and number: `max_connections` is `connection_max`."""
    return sorted(word.removesuffix("s") for word in WORD.findall(key.lower()))


def _is_variable(word: str) -> bool:
    return word.startswith("$")


def _fill(pattern: Words, words: Words) -> Words:
    """The pattern with the words of a key in the place of its variables."""
    pairs = zip(pattern, words, strict=True)
    return tuple(word if _is_variable(expected) else expected for expected, word in pairs)
