"""Regular expressions that users write, compiled and matched in bounded time.

Permissions, policies and filters of lists are expressions that somebody typed. One such as
``(a+)+$`` can keep a backtracking matcher busy for longer than anybody lives, and the broker's
event loop with it. PCRE, with which RabbitMQ matches, gives up after so many steps, and then the
expression does not match. Python's `re` never gives up; the package `regex` takes the same
expressions (lookaheads and back references among them, which a matcher without backtracking does
not) and can be told when to. So `re` says whether an expression is one, and `regex` matches it.

An expression that was slow several times gets next to no time for a while: with many names to look
at it would otherwise cost its time for each of them. Compiling is bounded by an expression's
length, and by its size with all repetitions written out, which is what `regex` makes of them.
"""

import logging
import re
from functools import lru_cache
from time import monotonic, thread_time
from typing import Any, AnyStr, Generic

import regex

LENGTH_MAX = 2048
SIZE_MAX = 10_000
MATCH_SECONDS = 0.01
SLOW_SECONDS = 0.001
"""Of the processor's time; names are short, and what is no trap takes some microseconds."""
SLOW_SECONDS_MAX = 0.02
"""What slow matches of an expression may take together before it has to pause."""
PAUSE_SECONDS = 1.0
PAUSED_MATCH_SECONDS = 0.000_005
"""What a match may take in the meantime. Most names need half of it: whoever makes up one that is
slow does not have others refused, or their queues without a policy."""
COMPILED_MAX = 1024

logger = logging.getLogger("leveret.patterns")


class OutOfTimeError(Exception):
    """Whether an expression matches could not be told in time."""


class Pattern(Generic[AnyStr]):
    """A compiled expression."""

    __slots__ = ("_compiled", "_paused_until", "_slow_seconds")

    def __init__(self, text: AnyStr, flags: int) -> None:
        self._compiled: Any = regex.compile(text, flags)
        self._slow_seconds = self._paused_until = 0.0

    def is_found_in(self, text: AnyStr) -> bool:
        """Whether it matches anywhere in a text. Raises OutOfTimeError."""
        try:
            return self._compiled.search(text, timeout=MATCH_SECONDS) is not None
        except TimeoutError:
            raise OutOfTimeError from None

    def matches(self, text: AnyStr) -> bool:
        """The same; not, if that cannot be told in time."""
        began = thread_time()
        is_pausing = self._paused_until and monotonic() < self._paused_until
        is_matching = self._is_found_in_own_time(
            text, began, PAUSED_MATCH_SECONDS if is_pausing else MATCH_SECONDS
        )
        took = thread_time() - began
        if took > SLOW_SECONDS:
            self._count(took)
        return is_matching

    def _is_found_in_own_time(self, text: AnyStr, began: float, seconds: float) -> bool:
        """Whether it is found in so many seconds of the processor's time.

        `regex` looks at the clock on the wall, which goes on while other programs are at work, and
        nobody is to be refused for that.
        """
        while True:
            try:
                return self._compiled.search(text, timeout=seconds) is not None
            except TimeoutError:
                if thread_time() >= began + seconds:
                    return False

    def _count(self, seconds: float) -> None:
        self._slow_seconds += seconds
        if self._slow_seconds <= SLOW_SECONDS_MAX:
            return
        self._slow_seconds, self._paused_until = 0.0, monotonic() + PAUSE_SECONDS
        logger.warning(
            "the regular expression %r takes too long to match and counts as not matching; "
            "repetitions within repetitions, as in (a+)+, make it slow", self._compiled.pattern
        )  # fmt: skip


@lru_cache(maxsize=COMPILED_MAX)
def compile_pattern(text: AnyStr, flags: int = 0) -> Pattern[AnyStr]:
    """An expression. flags: those of `re`. Raises re.error if it is none, or is too large."""
    if len(text) > LENGTH_MAX:
        raise re.error(f"longer than {LENGTH_MAX} characters", text[:100])
    try:
        re.compile(text, flags)
        if expanded_size(text) > SIZE_MAX:
            raise re.error("too large with its repetitions written out", text)
        return Pattern(text, flags)
    except (RecursionError, OverflowError):
        raise re.error("nested too deeply", text) from None
    except regex.error as error:
        raise re.error(error.msg, text, error.pos) from None


_PIECE = re.compile(
    r"""
      \\.                                   # an escape
    | \[ \^? \]? (?: \\. | [^\]\\] )* \]    # a set
    | \{ (\d*) (?: ,(\d*) )? \}             # a repetition
    | .
    """,
    re.DOTALL | re.VERBOSE,
)


def expanded_size(expression: AnyStr) -> int:
    """How many pieces an expression has, each as often as it is repeated at most."""
    text = expression if isinstance(expression, str) else expression.decode("latin-1")
    open_groups, last = [0], 0
    for piece in _PIECE.finditer(text):
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
