"""PCRE2, the library of the system, which matches by backtracking within limits.

Linux distributions have it for GNU grep and SELinux, and update it when it has a defect. It is
called through ctypes, with the GIL held: a match takes a microsecond, or as long as its limits
allow, and no other call uses the memory of matches in that time. Expressions are not compiled to
machine code (JIT): that takes longer than all matches of most expressions, and has separate limits.
"""

import ctypes
from ctypes import c_char_p, c_int, c_size_t, c_uint32, c_void_p
from ctypes.util import find_library
from functools import cache
from typing import Any, Final

FILES: Final = ("libpcre2-8.so.0", "libpcre2-8.so")
MISSING: Final = (
    "the library PCRE2 (libpcre2-8) is not installed on this system: install its package, which is "
    "called libpcre2-8-0 in Debian, Ubuntu and openSUSE, and pcre2 in Alpine, Fedora and Arch"
)
NAME: Final = "libpcre2-8"
ANCHORED: Final = 0x80000000
CASELESS: Final = 0x8
NEVER_BACKSLASH_C: Final = 0x100000
"""Some distributions refuse ``\\C``, as RabbitMQ 4 does, and others do not."""
OUT_OF_STEPS: Final = (-47, -53, -63)
"""The limits of matching, of depth and of memory."""
REASON_BYTES_MAX: Final = 256


class RefusedError(ValueError):
    """PCRE2 cannot compile an expression. place: the number of bytes before the mistake."""

    def __init__(self, reason: str, place: int) -> None:
        super().__init__(reason)
        self.reason, self.place = reason, place


class OutOfStepsError(Exception):
    """A match was not decided within its limits."""


def _load() -> ctypes.PyDLL:
    for file in FILES:
        try:
            return ctypes.PyDLL(file)
        except OSError:
            continue
    # This starts programs to search, and is needed for directories unknown to the linker.
    found = find_library("pcre2-8")
    if found is None:
        raise ImportError(MISSING, name=NAME)
    return ctypes.PyDLL(found)


_LIBRARY: Final = _load()


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_LIBRARY, f"pcre2_{name}_8")
    function.restype, function.argtypes = result, arguments
    return function


_compile: Final = _function(
    "compile", c_void_p, c_char_p, c_size_t, c_uint32, c_void_p, c_void_p, c_void_p
)
_free: Final = _function("code_free", None, c_void_p)
_match: Final = _LIBRARY.pcre2_match_8
"""Without `argtypes` a call takes half the time. Its arguments have C's types already."""
_get_error_message: Final = _function("get_error_message", c_int, c_int, c_char_p, c_size_t)
_create_match_context: Final = _function("match_context_create", c_void_p, c_void_p)
_set_match_limit: Final = _function("set_match_limit", c_int, c_void_p, c_uint32)
_set_heap_limit: Final = _function("set_heap_limit", c_int, c_void_p, c_uint32)
_create_match_data: Final = _function("match_data_create", c_void_p, c_uint32, c_void_p)

Limits = c_void_p
"""The steps and the memory that a match may take: `limits` makes it."""

_MATCH_DATA: Final = c_void_p(_create_match_data(1, None))
"""The place that a match writes its position to, and its memory, which the next match reuses."""
_START: Final = c_size_t(0)
_LENGTHS: Final = tuple(map(c_size_t, range(256)))


class Expression:
    """A compiled expression."""

    __slots__ = ("_code", "_release")

    def __init__(self, pattern: bytes, *, is_caseless: bool) -> None:
        """Compile an expression. Raises RefusedError."""
        self._release = _free
        error, place = c_int(), c_size_t()
        options = NEVER_BACKSLASH_C | (CASELESS if is_caseless else 0)
        self._code = c_void_p(
            _compile(pattern, len(pattern), options, ctypes.byref(error), ctypes.byref(place), None)
        )
        if not self._code:
            raise RefusedError(_reason(error.value), place.value)

    def __del__(self) -> None:
        """Free its memory."""
        self._release(self._code)

    def is_found_in(self, text: bytes, limits: Limits) -> bool:
        """Whether the expression matches anywhere. Raises OutOfStepsError.

        A recursion without end does not match, and neither does an expression that asks for UTF-8
        in a text that is not UTF-8.
        """
        length = _LENGTHS[len(text)] if len(text) < len(_LENGTHS) else c_size_t(len(text))
        return _is_match(_match(self._code, text, length, _START, 0, _MATCH_DATA, limits))

    def matches_at(self, start: int, text: bytes, limits: Limits) -> bool:
        """Whether the expression matches from this byte on. Raises OutOfStepsError."""
        where = c_size_t(len(text)), c_size_t(start)
        return _is_match(_match(self._code, text, *where, ANCHORED, _MATCH_DATA, limits))


def _is_match(found: int) -> bool:
    if found in OUT_OF_STEPS:
        raise OutOfStepsError
    return found >= 0


@cache
def limits(steps: int, heap_kib: int) -> Limits:
    """The limits of a match, which are never freed. An expression can lower, not raise them."""
    made = c_void_p(_create_match_context(None))
    _set_match_limit(made, steps)
    _set_heap_limit(made, heap_kib)
    return made


def _reason(error: int) -> str:
    text = ctypes.create_string_buffer(REASON_BYTES_MAX)
    _get_error_message(error, text, len(text))
    return text.value.decode()
