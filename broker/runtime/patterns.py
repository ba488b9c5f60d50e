r"""Regular expressions from users, in PCRE's syntax, matched against names in bounded time.

Permissions, policies and list filters contain expressions that users write for RabbitMQ, which
takes them as PCRE does (Erlang's `re`): the expression matches anywhere in the bytes of a name. The
module `pcre2` is that library, so the meaning of an expression does not have to be translated.

PCRE searches by backtracking, and an expression such as ``(a+)+$`` takes exponential time. It stops
after a number of steps at each position of the name, and the expression then does not match, as in
RabbitMQ. But the cost of a step varies by a factor of 1,000: one step can examine the whole rest of
a name, and compare each byte with hundreds of properties. So a match first gets a few steps, enough
for nearly all, then ten times as many, and so on, until its time is over. These further attempts
start at one position after the other, check the clock after each, and count their processor time:
an expression that was slow several times in short succession is paused, and only gets the first
attempt until the pause is over. Otherwise it would take its full time for each of many names.

The cost of the first attempt grows with the length of the expression and the square of the text's,
so both are limited; a text longer than a name only gets the further attempts. The library limits
the compiled size: 65,535 items with all repetitions written out.
"""

import logging
import re
from functools import lru_cache
from time import monotonic, thread_time
from typing import Final

from leveret.broker.runtime.pcre2 import Expression, Limits, OutOfStepsError, RefusedError, limits

LENGTH_MAX = 2048
STEPS = (20, 200, 2_000, 20_000, 50_000)
"""Steps of each attempt, at each position of a name: the square of the longest name is enough."""
NAME_BYTES_MAX = 255
SECONDS_MAX = 0.05
"""Processor time of one match, without its first attempt and one at its last position."""
HEAP_KIB = 16 * 1024
"""Memory of one match. A match with all its steps takes 2 MiB."""
SLOW_SECONDS_MAX = 0.02
"""Total CPU time of an expression's slow matches before it is paused."""
PAUSE_SECONDS = 1.0
"""The length of a pause, and the time after which earlier slow matches do not count."""
COMPILED_MAX = 1024
TEXT_BYTES_MAX = 8192
"""Names have 255 in AMQP, and 8,190 in a path of the HTTP API before it is refused as too long."""

_TRIES: Final = tuple(limits(steps, HEAP_KIB) for steps in STEPS)


def _place_of(mistake: bytes) -> int:
    """The place that PCRE2 gives for a mistake in one byte: versions differ by 1."""
    try:
        Expression(mistake, is_caseless=False)
    except RefusedError as error:
        return error.place
    raise AssertionError(mistake)


_REASONS_OF_PCRE_8: Final = {
    "missing closing parenthesis": ("missing )", 0),
    "quantifier does not follow a repeatable item": ("nothing to repeat", _place_of(b"*")),
    "unmatched closing parenthesis": ("unmatched parentheses", _place_of(b")")),
}
"""The commonest mistakes in the words that clients of RabbitMQ see, and the offset of its place
before PCRE2's."""

logger = logging.getLogger("leveret.patterns")


class OutOfTimeError(Exception):
    """A match was not decided within the steps that it may take."""


class Pattern:
    """A compiled expression."""

    __slots__ = (
        "_expression", "_needs_its_start", "_paused_until", "_slow_at", "_slow_seconds", "_text",
    )  # fmt: skip

    def __init__(self, text: str, *, is_caseless: bool) -> None:
        self._text = text
        self._expression = _compile(text, is_caseless=is_caseless)
        # The meaning of these depends on where a search begins: they only get the first attempt.
        self._needs_its_start = r"\G" in text or "(*" in text
        self._slow_seconds = self._slow_at = self._paused_until = 0.0

    def is_found_in(self, text: str) -> bool:
        """Whether the expression matches anywhere in a text. Raises OutOfTimeError."""
        name = text.encode("utf-8", "surrogateescape")
        tries = _TRIES
        if len(name) <= NAME_BYTES_MAX:
            try:
                return self._expression.is_found_in(name, tries[0])
            except OutOfStepsError:
                tries = tries[1:]
        if len(name) > TEXT_BYTES_MAX or self._needs_its_start or monotonic() < self._paused_until:
            raise OutOfTimeError
        began = thread_time()
        try:
            return self._is_found_with_more_steps(name, tries, began)
        finally:
            self._count(thread_time() - began)

    def _is_found_with_more_steps(
        self, name: bytes, tries: tuple[Limits, ...], began: float
    ) -> bool:
        for steps in tries:
            try:
                return self._is_found_from_each_position(name, steps, began)
            except OutOfStepsError:
                if (thread_time() - began) * 10 > SECONDS_MAX:
                    break
        raise OutOfTimeError

    def _is_found_from_each_position(self, name: bytes, steps: Limits, began: float) -> bool:
        for start in range(len(name) + 1):
            if self._expression.matches_at(start, name, steps):
                return True
            if thread_time() - began > SECONDS_MAX:
                raise OutOfTimeError
        return False

    def matches(self, text: str) -> bool:
        """Whether it matches anywhere; False if deciding takes too many steps."""
        try:
            return self.is_found_in(text)
        except OutOfTimeError:
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
            "repetitions within repetitions, as in (a+)+, make it slow", self._text
        )  # fmt: skip


@lru_cache(maxsize=COMPILED_MAX)
def compile_pattern(text: str, *, is_caseless: bool = False) -> Pattern:
    """Compile an expression. Raises re.error if it is invalid or too large."""
    if len(text) > LENGTH_MAX:
        raise re.error(f"longer than {LENGTH_MAX} characters", text[:100])
    return Pattern(text, is_caseless=is_caseless)


def _compile(text: str, *, is_caseless: bool) -> Expression:
    encoded = text.encode("utf-8", "surrogateescape")
    try:
        return Expression(_as_in_pcre_8(encoded), is_caseless=is_caseless)
    except RefusedError as error:
        reason, back = _REASONS_OF_PCRE_8.get(error.reason, (error.reason, 0))
        place = max(error.place - back, 0)
        raise re.error(reason, text, len(encoded[:place].decode(errors="replace"))) from None


_TOKEN = re.compile(
    rb"""
      \\Q .*? (?: \\E | $ )
    | \\ .
    | \[ \^? \]? (?: \[:\^?[a-z]+:\] | \\Q .*? (?: \\E | $ ) | \\ . | [^\]\\] )*+ \]?+
    """,
    re.DOTALL | re.VERBOSE,
)
"""A class without an end, which PCRE2 refuses, is one token up to the end. So no alternative is
tried, which could take exponential time."""
_CLASS_TOKEN = re.compile(
    rb"""
      \\Q .*? (?: \\E | $ )
    | (?P<items> \\[DHSVWdhsvw] | \[:\^?[a-z]+:\] ) -
    | \\ .
    """,
    re.DOTALL | re.VERBOSE,
)
_LETTERS = frozenset(rb"\%c" % letter for letter in b"FIJMOTYijmqy")
_LETTERS_IN_CLASS = _LETTERS | {rb"\B", rb"\R", rb"\X"}


def _as_in_pcre_8(pattern: bytes) -> bytes:
    r"""The expression with escapes for characters that PCRE 8, Erlang's, takes literally.

    PCRE2 refuses them: letters without a meaning after a backslash, and the hyphen in ``[\w-.]``.
    """
    return _TOKEN.sub(_token_as_in_pcre_8, pattern)


def _token_as_in_pcre_8(found: re.Match[bytes]) -> bytes:
    token = found[0]
    if token.startswith(b"["):
        return _CLASS_TOKEN.sub(_class_token_as_in_pcre_8, token)
    return token[1:] if token in _LETTERS else token


def _class_token_as_in_pcre_8(found: re.Match[bytes]) -> bytes:
    if found["items"] is not None:
        return found["items"] + rb"\-"
    return found[0][1:] if found[0] in _LETTERS_IN_CLASS else found[0]
