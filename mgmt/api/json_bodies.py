"""JSON in the bodies of requests: decoded only if it is small apart from large texts.

Otherwise it may have millions of values. json_limits.py counts them. The texts that may be large
are those at the top, a message's payload and a parameter's value, and the new payload of a message
that is edited. A payload is decoded to slices (large_texts.py), as it may have 17 MB.
"""

from typing import Any

import msgspec

from leveret.mgmt.api import large_texts
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.http.json_limits import refusal_of
from leveret.mgmt.slices import GiveWay

STRUCTURE_BYTES_MAX = 500_000
"""A field table has 128 KB, and JSON may escape its texts. Decoding that much takes up to 20 ms."""
TOO_LARGE = f"JSON may have {STRUCTURE_BYTES_MAX} bytes besides the texts of payload and value"
PAYLOAD, VALUE = "payload", "value"
EDITED = "edit"


async def parse(raw: bytes, give_way: GiveWay) -> Any:
    """Decode JSON. Raises 400 if it is not valid, or has too many values.

    A large payload is a `LargeText`.
    """
    try:
        if len(raw) <= STRUCTURE_BYTES_MAX:
            content = msgspec.json.decode(raw)
        else:
            content = await _decode_large(raw, give_way)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request("not_json") from None
    refusal = refusal_of(content)
    if refusal is not None:
        raise bad_request(refusal)
    return content


async def _decode_large(raw: bytes, give_way: GiveWay) -> dict[str, Any]:
    """An object with large texts. Raises 400, msgspec.DecodeError."""
    rest, places = await large_texts.cut(raw, STRUCTURE_BYTES_MAX, give_way)
    if rest is None:
        raise bad_request(TOO_LARGE)
    content: dict[str, Any] = msgspec.json.decode(rest, type=dict[str, Any])
    for where in (content, content.get(EDITED)):
        if not isinstance(where, dict):
            continue
        for name in (PAYLOAD, VALUE):
            stands_for = where.get(name)
            if isinstance(stands_for, str) and stands_for in places:
                start, end = places.pop(stands_for)
                text = await large_texts.decode(raw, start, end, give_way)
                where[name] = text if name == PAYLOAD else str(text)
    if places:
        raise bad_request(TOO_LARGE)
    return content
