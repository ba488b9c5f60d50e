"""Removes the mask of a client's WebSocket frames. Pure.

aiohttp has a function in C for it, which is private to it. It takes a third of the time of ours for
256 bytes, and a twentieth for 64 KiB (docs/decisions/016-stomp-and-websockets.md), so it is used if
it is there.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Final

MASK_BYTES: Final = 4


def _find_mask_function() -> Callable[[bytes, bytearray], object] | None:
    try:
        module = import_module("aiohttp._websocket.mask")
    except ImportError:
        return None
    found: Callable[[bytes, bytearray], object] | None
    found = getattr(module, "_websocket_mask_cython", None)
    return found


_mask_in_place = _find_mask_function()


def unmasked(data: bytes, mask: bytes) -> bytes:
    """Bytes without their mask of four bytes."""
    if _mask_in_place is None:
        return unmasked_as_number(data, mask)
    changed = bytearray(data)
    _mask_in_place(mask, changed)
    return bytes(changed)


def unmasked_as_number(data: bytes, mask: bytes) -> bytes:
    """The same, by an exclusive or of two large integers."""
    size = len(data)
    key = (mask * (size // MASK_BYTES + 1))[:size]
    number = int.from_bytes(data, "little") ^ int.from_bytes(key, "little")
    return number.to_bytes(size, "little")
