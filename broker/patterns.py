"""Regular expressions from users, compiled and matched in bounded time.

Permissions, policies and list filters contain expressions that users write. An expression such as
``(a+)+$`` takes exponential time in a backtracking matcher and would block the event loop. PCRE,
which RabbitMQ uses, stops after a number of steps, and then the expression does not match. Python's
`re` has no limit. The package `regex` accepts the same expressions (including lookaheads and back
references, which matchers without backtracking do not support) and has a timeout. So `re` validates
an expression, and `regex` matches it.

Most expressions cannot be slow on a name (`_is_quick`) and have no timeout: a machine that stands
still must not refuse what `.*` permits. Another one that was slow several times in short succession
gets a very short timeout for a while: otherwise it would use the full timeout for each of many
names. Compile time is bounded by limits on the expression's length and on its size with all
repetitions expanded, as `regex` expands them.
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
"""CPU time. Names are short, and a match without exponential backtracking takes microseconds."""
SLOW_SECONDS_MAX = 0.02
"""Total CPU time of an expression's slow matches before it is paused."""
PAUSE_SECONDS = 1.0
"""How long an expression is paused, and the time after which earlier slow matches do not count."""
PAUSED_MATCH_SECONDS = 0.000_005
"""Timeout of a match while the expression is paused. Most names need half of it, so one slow name
does not cause the refusal of other names, or queues without a policy."""
COMPILED_MAX = 1024
QUICK_LENGTH_MAX = 255
"""Of a name in AMQP, in bytes."""

logger = logging.getLogger("leveret.patterns")


class OutOfTimeError(Exception):
    """A match did not finish within its timeout."""


class Pattern(Generic[AnyStr]):
    """A compiled expression."""

    __slots__ = ("_compiled", "_is_quick", "_paused_until", "_slow_at", "_slow_seconds")

    def __init__(self, text: AnyStr, flags: int) -> None:
        self._compiled: Any = regex.compile(text, flags)
        self._is_quick = _is_quick(text)
        self._slow_seconds = self._slow_at = self._paused_until = 0.0

    def is_found_in(self, text: AnyStr) -> bool:
        """Whether the expression matches anywhere in a text. Raises OutOfTimeError."""
        if self._is_quick and len(text) <= QUICK_LENGTH_MAX:
            return self._compiled.search(text) is not None
        try:
            return self._compiled.search(text, timeout=MATCH_SECONDS) is not None
        except TimeoutError:
            raise OutOfTimeError from None

    def matches(self, text: AnyStr) -> bool:
        """As `is_found_in`, but False if the match times out."""
        if self._is_quick and len(text) <= QUICK_LENGTH_MAX:
            return self._compiled.search(text) is not None
        began = thread_time()
        is_pausing = self._paused_until and monotonic() < self._paused_until
        is_matching = self._is_found_in_cpu_time(
            text, began, PAUSED_MATCH_SECONDS if is_pausing else MATCH_SECONDS
        )
        took = thread_time() - began
        if took > SLOW_SECONDS:
            self._count(took)
        return is_matching

    def _is_found_in_cpu_time(self, text: AnyStr, began: float, seconds: float) -> bool:
        """As `is_found_in`, with a timeout in seconds of CPU time.

        The timeout of `regex` is wall-clock time, which includes the time of other processes; that
        must not make a match fail.
        """
        while True:
            try:
                return self._compiled.search(text, timeout=seconds) is not None
            except TimeoutError:
                if thread_time() >= began + seconds:
                    return False

    def _count(self, seconds: float) -> None:
        now = monotonic()
        if now - self._slow_at > PAUSE_SECONDS:
            self._slow_seconds = 0.0
        self._slow_at = now
        self._slow_seconds += seconds
        if self._slow_seconds <= SLOW_SECONDS_MAX:
            return
        self._slow_seconds, self._paused_until = 0.0, now + PAUSE_SECONDS
        logger.warning(
            "the regular expression %r takes too long to match and counts as not matching; "
            "repetitions within repetitions, as in (a+)+, make it slow", self._compiled.pattern
        )  # fmt: skip


@lru_cache(maxsize=COMPILED_MAX)
def compile_pattern(text: AnyStr, flags: int = 0) -> Pattern[AnyStr]:
    """Compile an expression. flags: those of `re`. Raises re.error if invalid or too large."""
    if len(text) > LENGTH_MAX:
        raise re.error(f"longer than {LENGTH_MAX} characters", text[:100])
    try:
        re.compile(text, flags)
        if expanded_size(text) > SIZE_MAX:
            raise re.error("too large with its repetitions written out", text)
        return Pattern(_with_literal_braces(text), flags)
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


def _is_quick(expression: AnyStr) -> bool:
    """Whether a match takes no more steps than the square of the name's length, by its form.

    It has alternatives in one group at most, since those of several are tried in all combinations.
    It repeats single items only, once, or twice if it is bound to the beginning of the name.
    """
    text = expression if isinstance(expression, str) else expression.decode("latin-1")
    if "|" in text and text.count("(") > 1:
        return False
    repetitions, before = 0, ""
    for piece in _PIECE.finditer(text):
        found = piece[0]
        if found[0] == "\\" and found[1:].isdigit():
            return False
        if found == "?" and before == "(":
            return False
        if found in ("*", "+", "?") or (found[0] == "{" and len(found) > 1):
            if before == ")":
                return False
            repetitions += 1
        before = found
    return repetitions <= (2 if text.startswith("^") and "|" not in text else 1)


_BRACE_IN_TEXT = r"""
      \\.                                             # an escape
    | \[ \^? \]? (?: \\. | [^\]\\] )* \]              # a set
    | \{ (?: [0-9]+ (?: ,[0-9]* )? | ,[0-9]* ) \}      # a repetition
    | (\{)                                           # any other brace
"""
_BRACE = re.compile(_BRACE_IN_TEXT, re.DOTALL | re.VERBOSE)
_BRACE_IN_BYTES = re.compile(_BRACE_IN_TEXT.encode(), re.DOTALL | re.VERBOSE)


def _with_literal_braces(expression: AnyStr) -> AnyStr:
    """The expression with braces that repeat nothing escaped, as they mean themselves in `re`.

    In `regex`, ``(orders){e}`` is a fuzzy match, of anything that is near.
    """
    if isinstance(expression, str):
        return _BRACE.sub(lambda found: "\\{" if found[1] else found[0], expression)
    return _BRACE_IN_BYTES.sub(lambda found: b"\\{" if found[1] else found[0], expression)


def expanded_size(expression: AnyStr) -> int:
    """The number of items of an expression with all bounded repetitions expanded."""
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
