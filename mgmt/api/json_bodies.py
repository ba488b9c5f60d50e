"""JSON in the bodies of requests: decoded in slices, and only if it is small but for large texts.

Otherwise it may have millions of values. json_limits.py counts what it has. The texts that may be
large are those at the top, such as a message's payload and a parameter's value, and the new payload
of a message that is edited. They are decoded in slices, since a text of 17 MB takes 30 ms.
"""

import re
from typing import Any

import msgspec

from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.json_limits import refusal_of
from leveret.mgmt.slices import GiveWay

STRUCTURE_BYTES_MAX = 500_000
"""A field table has 128 KB, and JSON may escape its texts. To decode so much takes up to 20 ms."""
TEXT_BYTES = 500_000
"""A text of more bytes is decoded in slices of so many."""
TOO_LARGE = f"JSON may have {STRUCTURE_BYTES_MAX} bytes besides the texts of payload and value"
LARGE_TEXTS = ("payload", "value")
EDITED = "edit"
_CUT_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?$")
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?$")
_CHARACTER_BYTES_MAX = 4
_ESCAPE_BYTES_MAX = 12
"""Of a surrogate pair: two escapes of four digits."""


async def parse(raw: bytes, give_way: GiveWay) -> Any:
    """Decode JSON. Raises 400 if it is not valid, or has too many values."""
    try:
        if len(raw) <= STRUCTURE_BYTES_MAX:
            content = msgspec.json.decode(raw)
        else:
            content = await _decode_large(raw, (*LARGE_TEXTS, EDITED), give_way)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request("not_json") from None
    refusal = refusal_of(content)
    if refusal is not None:
        raise bad_request(refusal)
    return content


async def _decode_large(raw: bytes, large: tuple[str, ...], give_way: GiveWay) -> dict[str, Any]:
    """An object whose fields of these names may be large. Raises 400, msgspec.DecodeError."""
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    await give_way()
    encoded = {name: bytes(value) for name, value in fields.items()}
    texts = [name for name in encoded if name in large and encoded[name].startswith(b'"')]
    if EDITED in large and encoded.get(EDITED, b"").startswith(b"{"):
        texts.append(EDITED)
    small_bytes = len(raw) - sum(len(encoded[name]) for name in texts)
    if small_bytes > STRUCTURE_BYTES_MAX:
        raise bad_request(TOO_LARGE)
    content: dict[str, Any] = {}
    for name, value in encoded.items():
        if name not in texts or len(value) <= TEXT_BYTES:
            content[name] = msgspec.json.decode(value)
        elif name == EDITED:
            content[name] = await _decode_large(value, LARGE_TEXTS, give_way)
        else:
            content[name] = await _decode_text(value, give_way)
    return content


async def _decode_text(encoded: bytes, give_way: GiveWay) -> str:
    """A text of JSON, with its quotes. Raises msgspec.DecodeError."""
    parts = []
    start, end = 1, len(encoded) - 1
    while start < end:
        stop = end if end - start <= TEXT_BYTES else _place_to_cut(encoded, start)
        parts.append(msgspec.json.decode(b'"%b"' % encoded[start:stop], type=str))
        start = stop
        await give_way()
    return "".join(parts)


def _place_to_cut(encoded: bytes, start: int) -> int:
    """Where a slice ends that begins at `start`: not in an escape, nor in a character."""
    place = start + TEXT_BYTES
    for _ in range(_CHARACTER_BYTES_MAX - 1):
        if encoded[place] & 0xC0 == 0x80:
            place -= 1
    before = encoded[place - _ESCAPE_BYTES_MAX : place]
    for pattern in (_HIGH_SURROGATE, _CUT_ESCAPE):
        found = pattern.search(before)
        if found is not None:
            escape = place - len(before) + found.start()
            if _is_unescaped(encoded[start:escape]):
                return escape
    return place


def _is_unescaped(before: bytes) -> bool:
    """Whether a backslash that follows this is not escaped itself."""
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 0
