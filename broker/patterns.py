r"""Regular expressions from users, in PCRE's syntax, matched against names in bounded time.

Permissions, policies and list filters contain expressions that users write for RabbitMQ, which
takes them as PCRE does (Erlang's `re`): the expression matches anywhere in the bytes of a name. The
package `pcre2` is that library, so what an expression means does not have to be translated.

PCRE searches by backtracking, and an expression such as ``(a+)+$`` takes exponential time. It stops
after a number of steps at each position of the name, and the expression then does not match, as in
RabbitMQ. A match may take QUICK_STEPS first, which nearly all need less than. The few that need
more are tried once more with STEPS, and their processor time is counted: an expression that was
slow several times in short succession is paused, and has QUICK_STEPS only until the pause is over.
Otherwise it would take all its steps for each of many names.

What a step costs grows with the length of the text, so longer texts than TEXT_BYTES_MAX are
refused. The compiled size has a limit in the library: 65,535 items with all repetitions written
out. Nothing is compiled to machine code (JIT): that takes longer than all the matches of most.

The names `_cy.compile` and `_cy.match` are not part of the package's interface. Its `compile` reads
``\x{e9}`` as 233 times the letter x (an option of JavaScript's syntax that only `_cy.compile` can
leave out), and its `search` takes twenty times as long.
"""

import logging
import re
from functools import lru_cache
from time import monotonic, thread_time
from typing import Any, Final

from pcre2 import LibraryError, PatternError, _cy

LENGTH_MAX = 2048
QUICK_STEPS = 500
STEPS = 50_000
"""At each position of a name, for which the square of the longest name's length is enough."""
GROUPS_FOR_ALL_STEPS = 16
"""With more groups there are fewer steps, as each step copies what all groups have matched."""
HEAP_KIB = 16 * 1024
"""Memory of one match. One with all its steps takes 2 MiB."""
SLOW_SECONDS_MAX = 0.02
"""Total CPU time of an expression's slow matches before it is paused."""
PAUSE_SECONDS = 1.0
"""How long an expression is paused, and the time after which earlier slow matches do not count."""
COMPILED_MAX = 1024
TEXT_BYTES_MAX = 8192
"""A name in AMQP has 255, one in a path of the HTTP API 8,190, before it is refused as too long."""

_CASELESS: Final = _cy.CompileOption.CASELESS
_JAVASCRIPT_ESCAPES: Final = 0x2
"""PCRE2_ALT_BSUX."""
_OUT_OF_STEPS = (-47, -53, -63)
"""PCRE2_ERROR_MATCHLIMIT, _DEPTHLIMIT and _HEAPLIMIT."""
_REASONS_OF_PCRE_8 = {
    "missing closing parenthesis": ("missing )", 0),
    "quantifier does not follow a repeatable item": ("nothing to repeat", 1),
    "unmatched closing parenthesis": ("unmatched parentheses", 1),
}
"""The commonest mistakes in the words that clients of RabbitMQ see, and how far the place is before
that of PCRE2."""
_CONTEXT: Final = _cy.create_match_context()

logger = logging.getLogger("leveret.patterns")


class OutOfTimeError(Exception):
    """A match was not found out within the steps that it may take."""


class Pattern:
    """A compiled expression."""

    __slots__ = ("_options", "_paused_until", "_quick", "_slow_at", "_slow_seconds", "_text")

    def __init__(self, text: str, options: int) -> None:
        self._text, self._options = text, options
        self._quick = _compile(text, options, QUICK_STEPS)
        self._slow_seconds = self._slow_at = self._paused_until = 0.0

    def is_found_in(self, text: str) -> bool:
        """Whether the expression matches anywhere in a text. Raises OutOfTimeError."""
        name = text.encode("utf-8", "surrogateescape")
        if len(name) > TEXT_BYTES_MAX:
            raise OutOfTimeError
        try:
            return _is_found(self._quick, name)
        except OutOfTimeError:
            if self._paused_until and monotonic() < self._paused_until:
                raise
        began = thread_time()
        try:
            return _is_found(_compile(self._text, self._options, STEPS), name)
        finally:
            self._count(thread_time() - began)

    def matches(self, text: str) -> bool:
        """As `is_found_in`, but False if that takes too many steps."""
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
    return Pattern(text, _CASELESS if is_caseless else 0)


def _compile(text: str, options: int, steps: int) -> Any:
    # An expression that has limits of its own can lower these, but not raise them.
    allowed = steps * GROUPS_FOR_ALL_STEPS // max(GROUPS_FOR_ALL_STEPS, text.count("("))
    limits = b"(*LIMIT_MATCH=%d)(*LIMIT_HEAP=%d)" % (allowed, HEAP_KIB)
    encoded = text.encode("utf-8", "surrogateescape")
    try:
        return _cy.compile(limits + _as_in_pcre_8(encoded), options, _JAVASCRIPT_ESCAPES)
    except PatternError as error:
        reason = error.msg.partition("; ")[2]
        reason, back = _REASONS_OF_PCRE_8.get(reason, (reason, 0))
        place = max(error.pos - back - len(limits), 0)
        raise re.error(reason, text, len(encoded[:place].decode(errors="replace"))) from None


_TOKEN = re.compile(
    rb"""
      \\Q .*? (?: \\E | $ )
    | \\ .
    | \[ \^? \]? (?: \[:\^?[a-z]+:\] | \\Q .*? (?: \\E | $ ) | \\ . | [^\]\\] )*+ \]?+
    """,
    re.DOTALL | re.VERBOSE,
)
"""A class without an end, which PCRE2 refuses, is one token up to the end. So nothing is tried in
another way, which could take exponential time."""
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
    r"""The expression with escapes for what PCRE 8, Erlang's, takes literally and PCRE2 refuses.

    These are letters that mean nothing after a backslash, and the hyphen in ``[\w-.]``.
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


def _is_found(compiled: Any, name: bytes) -> bool:
    try:
        return _cy.match(compiled, name, len(name), 0, _CONTEXT)[0] is not None
    except LibraryError as error:
        if error.code in _OUT_OF_STEPS:
            raise OutOfTimeError from None
        # A recursion without end; or the expression asks for UTF-8, and the name is not.
        return False
