"""Regular expressions for the texts of messages, in Python's syntax, matched in bounded time.

Bodies and headers of messages can be of any size. `leveret.broker.runtime.patterns` bounds a match
in steps, whose cost grows with the length of the text; here the bound is time. Python's `re` has no
timeout, and the package `regex` has one. So `re` validates an expression, and `regex` matches it.

The timeout is of CPU time: a machine that stands still makes no match fail. Compile time is bounded
by limits on the expression's length and on its size with all repetitions expanded, as `regex`
expands them.
"""

import re
from functools import lru_cache
from time import thread_time
from typing import Any

import regex

from leveret.broker.runtime.patterns import OutOfTimeError

LENGTH_MAX = 2048
SIZE_MAX = 10_000
MATCH_SECONDS = 0.01
COMPILED_MAX = 256


class TextPattern:
    """A compiled expression."""

    __slots__ = ("_compiled",)

    def __init__(self, expression: str) -> None:
        self._compiled: Any = regex.compile(expression)

    def is_found_in(self, text: str) -> bool:
        """Whether the expression matches anywhere in a text. Raises OutOfTimeError."""
        began = thread_time()
        while True:
            try:
                return self._compiled.search(text, timeout=MATCH_SECONDS) is not None
            except TimeoutError:
                # regex measures wall-clock time, which includes the time of other processes.
                if thread_time() >= began + MATCH_SECONDS:
                    raise OutOfTimeError from None


@lru_cache(maxsize=COMPILED_MAX)
def compile_text_pattern(expression: str) -> TextPattern:
    """Compile an expression. Raises re.error if it is invalid or too large."""
    if len(expression) > LENGTH_MAX:
        raise re.error(f"longer than {LENGTH_MAX} characters", expression[:100])
    try:
        re.compile(expression)
        if expanded_size(expression) > SIZE_MAX:
            raise re.error("too large with its repetitions written out", expression)
        return TextPattern(_with_literal_braces(expression))
    except (RecursionError, OverflowError):
        raise re.error("nested too deeply", expression) from None
    except regex.error as error:
        raise re.error(error.msg, expression, error.pos) from None


_PIECE = re.compile(
    r"""
      \\.                                   # an escape
    | \[ \^? \]? (?: \\. | [^\]\\] )* \]    # a set
    | \{ (\d*) (?: ,(\d*) )? \}             # a repetition
    | .
    """,
    re.DOTALL | re.VERBOSE,
)


_BRACE = re.compile(
    r"""
      \\.                                             # an escape
    | \[ \^? \]? (?: \\. | [^\]\\] )* \]              # a set
    | \{ (?: [0-9]+ (?: ,[0-9]* )? | ,[0-9]* ) \}      # a repetition
    | (\{)                                           # any other brace
    """,
    re.DOTALL | re.VERBOSE,
)


def _with_literal_braces(expression: str) -> str:
    """The expression with braces that repeat nothing escaped, as they mean themselves in `re`.

    In `regex`, ``(orders){e}`` is a fuzzy match, of anything that is near.
    """
    return _BRACE.sub(lambda found: "\\{" if found[1] else found[0], expression)


def expanded_size(expression: str) -> int:
    """The number of items of an expression with all bounded repetitions expanded."""
    open_groups, last = [0], 0
    for piece in _PIECE.finditer(expression):
        if piece[0] == "(":
            open_groups.append(0)
            continue
        if piece[0] == ")" and len(open_groups) > 1:
            last = open_groups.pop()
        elif piece.lastindex is not None and any(piece.groups()):
            times = max(int(number) for number in piece.groups() if number)
            open_groups[-1] -= last
            last *= times
        else:
            last = 1
        open_groups[-1] += last
    return sum(open_groups)
