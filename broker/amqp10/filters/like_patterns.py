"""Patterns of the SQL operator LIKE: `%` is any text, `_` is any character.

A pattern is matched without backtracking, in time that grows with the pattern times the text: its
parts between `%` are searched one after the other, each as far to the left as it can be. RabbitMQ
matches with one regular expression, which takes far longer for some patterns.
"""

import re
from collections.abc import Callable
from typing import Any, Final

LikeMatch = Callable[[bytes], bool | None]
"""Whether a text matches; None if that is unknown, because it is not UTF-8."""
_ONE: Final = "_"
_ANY: Final = "%"
_Part = list[tuple[str, bool]]
"""Characters, and whether each one is a wildcard `_`."""


class PatternError(ValueError):
    """A pattern is not valid; the text says why."""


def compile_pattern(pattern: str, escape: str | None) -> LikeMatch:
    """Compile a pattern. escape: the character before a `%` or `_` that is meant as such.

    Raises PatternError.
    """
    parts = _read(pattern, escape)
    expressions = [_expression(part) for part in parts]
    if any(is_wildcard for part in parts for _, is_wildcard in part):
        matches = _matcher([re.compile(one, re.DOTALL) for one in expressions], len(parts[-1]))
        return lambda data: _match_text(matches, data)
    size = len("".join(character for character, _ in parts[-1]).encode())
    return _matcher([re.compile(one.encode()) for one in expressions], size)


def _read(pattern: str, escape: str | None) -> list[_Part]:
    """The parts of a pattern between the wildcards `%`."""
    parts: list[_Part] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                raise PatternError("it ends with the escape character")
            parts[-1].append((_checked(literal), False))
        elif character == _ANY:
            parts.append([])
        else:
            parts[-1].append((_checked(character), character == _ONE))
    return parts


def _checked(character: str) -> str:
    if character < " " or character == "\x7f":
        raise PatternError(f"it has the control character {character!r}")
    return character


def _expression(part: _Part) -> str:
    """A part as a regular expression, all of whose matches have one size."""
    return "".join("." if is_wildcard else re.escape(one) for one, is_wildcard in part)


def _match_text(matches: Callable[[str], bool], data: bytes) -> bool | None:
    """Match characters, which are not bytes."""
    try:
        return matches(data.decode())
    except UnicodeDecodeError:
        return None


def _matcher(parts: list[re.Pattern[Any]], last_size: int) -> Callable[[Any], bool]:
    """Match these parts in this order, in texts or bytes.

    last_size: of what the last part matches.
    """
    first, *others = parts
    if not others:
        return lambda text: first.fullmatch(text) is not None
    *middle, last = others

    def matches(text: Any) -> bool:
        found = first.match(text)
        end = len(text) - last_size
        for part in middle:
            if found is None:
                return False
            found = part.search(text, found.end())
        return found is not None and found.end() <= end and last.fullmatch(text, end) is not None

    return matches
