"""Erlang's terms as text, as RabbitMQ's tracing plugin writes properties and names.

    [{<<"message_id">>,longstr,<<"m-1">>},
     {<<"headers">>,table,[{<<"tries">>,signedint,3}]}]

A binary is text in quotes if all its bytes are letters of Latin 1, else a list of bytes. Either way
the bytes are what a client has sent, and that is UTF-8 as a rule.
"""

import re
from typing import Any

_TOKEN = re.compile(
    r'(?P<open>[\[{])|(?P<close>[\]}])|<<"(?P<quoted>(?:[^"\\]|\\.)*)"(?:/utf8)?>>'
    r"|<<(?P<bytes>[\d,\s]*)>>|(?P<word>[^\s,\[\]{}]+)",
    re.DOTALL,
)
_ESCAPED = {
    "n": "\n", "r": "\r", "t": "\t", "v": "\v", "b": "\b", "f": "\f", "e": "\x1b",
}  # fmt: skip


class ErlangTermError(ValueError):
    """It is no term, or none of those that are known here."""


def terms_of(text: str) -> list[Any]:
    """The terms in a text. Lists and tuples become lists; binaries, numbers and atoms text."""
    # There is no depth that a client cannot reach, so this does not call itself.
    depths: list[list[Any]] = [[]]
    for token in _TOKEN.finditer(text):
        if token["open"]:
            depths.append([])
        elif token["close"]:
            if len(depths) == 1:
                raise ErlangTermError("a bracket is closed that was not opened")
            depths[-2].append(depths.pop())
        else:
            depths[-1].append(_value(token))
    if len(depths) > 1:
        raise ErlangTermError("a bracket is not closed")
    return depths[0]


def _value(token: re.Match[str]) -> str:
    if token["quoted"] is not None:
        return re.sub(
            r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), token["quoted"], flags=re.S
        )
    if token["bytes"] is not None:
        numbers = [int(number) for number in token["bytes"].split(",") if number.strip()]
        return bytes(numbers).decode("utf-8", "replace")
    return token["word"]
