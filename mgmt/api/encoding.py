"""Encodes answers as JSON in slices: a list may have very many objects, or large payloads."""

from collections.abc import Iterator
from typing import Any

import msgspec

from leveret.mgmt.slices import GiveWay

ITEMS_AT_ONCE = 50
LARGE_TEXT, LETTERS_AT_ONCE = "payload", 500_000
"""The field of an object in a list that may be a large text. A text of this many letters takes half
a millisecond."""


async def encode(content: Any, give_way: GiveWay) -> list[bytes]:
    """The content as JSON, in pieces. A list, or the lists in an object, are encoded in slices."""
    if isinstance(content, list):
        return await _list(content, give_way)
    if not isinstance(content, dict) or not any(map(_is_long, content.values())):
        return [msgspec.json.encode(content)]
    parts: list[bytes] = []
    for name, value in content.items():
        parts.append(b"," if parts else b"{")
        parts.append(msgspec.json.encode(name) + b":")
        parts += await _list(value, give_way) if _is_long(value) else [msgspec.json.encode(value)]
    parts.append(b"}")
    return parts


def _is_long(value: Any) -> bool:
    return isinstance(value, list) and (len(value) > ITEMS_AT_ONCE or any(map(_is_large, value)))


def _is_large(item: Any) -> bool:
    text = item.get(LARGE_TEXT) if isinstance(item, dict) else None
    return isinstance(text, str) and len(text) > LETTERS_AT_ONCE


async def _list(items: list[Any], give_way: GiveWay) -> list[bytes]:
    parts = [b"["]
    for start in range(0, len(items), ITEMS_AT_ONCE):
        if start:
            parts.append(b",")
        some = items[start : start + ITEMS_AT_ONCE]
        if any(map(_is_large, some)):
            await _append_large(some, parts, give_way)
        else:
            parts.append(msgspec.json.encode(some)[1:-1])
        await give_way()
    parts.append(b"]")
    return parts


async def _append_large(items: list[Any], parts: list[bytes], give_way: GiveWay) -> None:
    """Append items, some of which have a large text."""
    for number, item in enumerate(items):
        if number:
            parts.append(b",")
        if not _is_large(item):
            parts.append(msgspec.json.encode(item))
            continue
        others = {name: value for name, value in item.items() if name != LARGE_TEXT}
        parts.append(msgspec.json.encode(others)[:-1])
        parts.append(b',"' if others else b'"')
        parts.append(LARGE_TEXT.encode() + b'":"')
        text = item[LARGE_TEXT]
        for start in range(0, len(text), LETTERS_AT_ONCE):
            parts.append(msgspec.json.encode(text[start : start + LETTERS_AT_ONCE])[1:-1])
            await give_way()
        parts.append(b'"}')


def batched(parts: list[bytes], size: int) -> Iterator[bytes]:
    """Joins parts into pieces of a minimum size in bytes; the last one may be smaller."""
    waiting: list[bytes] = []
    waiting_bytes = 0
    for part in parts:
        waiting.append(part)
        waiting_bytes += len(part)
        if waiting_bytes >= size:
            yield b"".join(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield b"".join(waiting)
