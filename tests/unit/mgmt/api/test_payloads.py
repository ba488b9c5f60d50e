"""Payloads are converted in slices."""

import asyncio
import base64
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from leveret.mgmt.api.encoding import encode
from leveret.mgmt.api.errors import ApiError
from leveret.mgmt.api.large_texts import LargeText
from leveret.mgmt.api.payloads import SLICE, decode_payload, encode_payload

LARGE = 3 * SLICE + 1


class Turns:
    """Counts slices."""

    count = 0

    async def give_way(self) -> None:
        self.count += 1


def sliced(converting: Any) -> Any:
    """The result of a coroutine that takes `give_way`; it has to take several slices."""
    turns = Turns()
    steps: Coroutine[Any, Any, Any] = converting(turns.give_way)
    result = asyncio.run(steps)
    assert turns.count > 3
    return result


@pytest.mark.parametrize("payload", [b"\xff\x00" * LARGE, "é€😀a".encode() * LARGE, b"a" * LARGE])
def test_base64(payload: bytes) -> None:
    text = base64.b64encode(payload).decode()
    encoded = sliced(lambda give_way: encode_payload(payload, "base64", give_way))
    assert encoded == (text, "base64")
    assert sliced(lambda give_way: decode_payload(text, "base64", give_way)) == payload


@pytest.mark.parametrize("letters", ["é", "€", "😀", "a"])
def test_texts(letters: str) -> None:
    text = "a" + letters * LARGE
    assert sliced(lambda give_way: decode_payload(text, "string", give_way)) == text.encode()
    encoded = sliced(lambda give_way: encode_payload(text.encode(), "auto", give_way))
    assert encoded == (text, "string")


def test_binary_payloads_become_base64() -> None:
    payload = b"a" * LARGE + "é".encode()[:1]
    text, encoding = sliced(lambda give_way: encode_payload(payload, "auto", give_way))
    assert (base64.b64decode(text), encoding) == (payload, "base64")


@pytest.mark.parametrize("place", [0, SLICE - 1, LARGE])
@pytest.mark.parametrize("wrong", ["=", "%", "é", "\n"])
def test_invalid_base64_is_refused(place: int, wrong: str) -> None:
    text = base64.b64encode(bytes(LARGE)).decode()
    text = text[:place] + wrong + text[place + 1 :]
    with pytest.raises(ApiError):
        asyncio.run(decode_payload(text, "base64", Turns().give_way))


def in_slices_of(text: str, size: int) -> LargeText:
    return LargeText([text[start : start + size] for start in range(0, len(text), size)])


@pytest.mark.parametrize("size", [1, 3, 4, 5, 1000])
@pytest.mark.parametrize("length", [9, 10, 11])
def test_slices_of_base64_may_end_anywhere(size: int, length: int) -> None:
    payload = bytes(range(length))
    text = base64.b64encode(payload).decode()
    sliced = in_slices_of(text, size)
    assert asyncio.run(decode_payload(sliced, "base64", Turns().give_way)) == payload
    for wrong in (text[:-1], f"{text}x", f"{text}xxxx", f"{text}=", f"xx=={text}"):
        if not (wrong.endswith("x") and "=" not in text) or len(wrong) % 4:
            with pytest.raises(ApiError):
                asyncio.run(decode_payload(in_slices_of(wrong, size), "base64", Turns().give_way))


@pytest.mark.parametrize("fields", [{}, {"a": 1}])
def test_large_payloads_are_encoded_in_slices(fields: dict[str, Any]) -> None:
    items = [{"payload": 'é"\\\n' * 1_000_000, **fields}, {"payload": "small"}, 5]
    parts = sliced(lambda give_way: encode(items, give_way))
    assert msgspec.json.decode(b"".join(parts)) == items
