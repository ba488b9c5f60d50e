"""Finds the bytes that every wanted record contains, much faster than parsing JSON.

Lines are made only of blocks of records that may have a wanted one: their bytes are searched first.
"""

import json
import re
from collections.abc import Callable, Iterable

from leveret.broker.tracing.block_format import MESSAGE
from leveret.broker.tracing.block_lines import RecordBlock
from leveret.broker.tracing.shown import bytes_shown_as

SINGLE_NUMBERS_MAX = 4
"""Up to this many numbers are searched one by one; more become one regular expression, whose cost
does not depend on their number."""

GAP_MARKS = (b'"gap"', b'"count":')
"""What records of gaps and purges contain."""

Find = Callable[[bytes, int], int]


class ByteFinder:
    """Searches one block after another.

    texts: values of JSON strings. with_gaps: also find records of gaps and purges.
    """

    def __init__(self, texts: Iterable[str], numbers: Iterable[int], with_gaps: bool) -> None:
        wanted = sorted(texts)
        gaps = GAP_MARKS if with_gaps else ()
        marks = [*(mark for text in wanted for mark in sorted(_marks_of(text))), *gaps]
        self._block_marks = [_finder(mark) for mark in (*map(bytes_shown_as, wanted), *gaps)]
        self._block_finders = self._block_marks
        self._marks = [_finder(mark) for mark in marks]
        self._numbers: set[int] = set()
        self._finders: list[Find] = self._marks
        self._next: dict[Find, int] = {}
        self.add(numbers)

    def add(self, numbers: Iterable[int]) -> None:
        """Also search for these message numbers."""
        self._numbers |= set(numbers)
        digits = sorted(str(number).encode() for number in self._numbers)
        self._finders = [*self._marks, *_finders(digits)]
        # Records of single events are lines in the block, those of messages have the number itself.
        encoded = sorted(MESSAGE.pack(number) for number in self._numbers if 0 <= number < 1 << 63)
        self._block_finders = [*self._block_marks, *_finders(digits), *_finders(encoded)]

    def may_be_in(self, block: RecordBlock) -> bool:
        """Tell whether lines of a block of records may have a match."""
        return any(find(block.data, 0) >= 0 for find in self._block_finders)

    def find(self, block: bytes, start: int) -> int:
        """Return the position of the first match from `start` on; -1 if there is none."""
        first = len(block)
        for finder in self._finders:
            at = self._next.get(finder, -1)
            if at < start:
                at = finder(block, start)
                self._next[finder] = at = len(block) if at < 0 else at
            first = min(first, at)
        return first if first < len(block) else -1

    def end_block(self) -> None:
        """Forget positions: the next call is about another block."""
        self._next.clear()


def _marks_of(text: str) -> set[bytes]:
    """Return how JSON can spell a text: as UTF-8, or with everything but ASCII escaped."""
    return {
        json.dumps(text, ensure_ascii=escaped).encode("utf-8", "replace")
        for escaped in (False, True)
    }


def _finder(mark: bytes) -> Find:
    return lambda block, start: block.find(mark, start)


def _finders(marks: list[bytes]) -> list[Find]:
    if len(marks) > SINGLE_NUMBERS_MAX:
        return [_pattern_finder(marks)]
    return [_finder(mark) for mark in marks]


def _pattern_finder(marks: list[bytes]) -> Find:
    pattern = re.compile(b"|".join(map(re.escape, marks)))

    def find(block: bytes, start: int) -> int:
        found = pattern.search(block, start)
        return -1 if found is None else found.start()

    return find
