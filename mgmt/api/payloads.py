"""Payloads of messages and the texts that stand for them in JSON, converted in slices.

In one piece a payload of 17 MB takes up to 45 ms.
"""

import base64
import codecs
from typing import Any

from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.slices import GiveWay

SLICE = 300_000
"""Bytes or letters: less than a millisecond. Base64 has four letters for three bytes."""


async def decode_payload(payload: Any, encoding: Any, give_way: GiveWay) -> bytes:
    """The bytes of a payload in JSON. Raises 400."""
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding not in ("string", "base64"):
        raise bad_request(["unsupported_encoding", encoding])
    parts = []
    for start in range(0, len(payload), SLICE):
        letters = payload[start : start + SLICE]
        if encoding == "string":
            parts.append(letters.encode())
        else:
            is_last = start + SLICE >= len(payload)
            parts.append(_from_base64(letters, is_last, payload))
        await give_way()
    return b"".join(parts)


def _from_base64(letters: str, is_last: bool, payload: str) -> bytes:
    try:
        if is_last or "=" not in letters:
            return base64.b64decode(letters, validate=True)
    except ValueError:
        pass
    raise bad_request(["not_base64", payload])


async def encode_payload(payload: bytes, encoding: str, give_way: GiveWay) -> tuple[str, str]:
    """The payload and its encoding: a string if `auto` allows it and it is UTF-8, else base64."""
    if encoding == "auto":
        text = await _as_text(payload, give_way)
        if text is not None:
            return text, "string"
    parts = []
    for start in range(0, len(payload), SLICE):
        parts.append(base64.b64encode(payload[start : start + SLICE]).decode())
        await give_way()
    return "".join(parts), "base64"


async def _as_text(payload: bytes, give_way: GiveWay) -> str | None:
    """None if it is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    parts = []
    try:
        for start in range(0, len(payload), SLICE):
            parts.append(decoder.decode(payload[start : start + SLICE]))
            await give_way()
        parts.append(decoder.decode(b"", final=True))
    except UnicodeDecodeError:
        return None
    return "".join(parts)
