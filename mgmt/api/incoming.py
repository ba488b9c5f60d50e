"""Bodies of requests, with limits on their time, size and depth.

A request whose body takes too long is refused (`management.tcp.inactivity_timeout`), as is one
that is too large (`management.http.max_body_size`), and JSON that is nested too deeply
(nesting.py).
"""

import asyncio
from typing import Any

import msgspec
from aiohttp import web
from multidict import MultiDictProxy

from leveret.mgmt.api.errors import ApiError, bad_request
from leveret.mgmt.nesting import TOO_DEEP, is_too_deep

Form = MultiDictProxy[str | bytes | bytearray | web.FileField]


async def read(request: web.Request, timeout_ms: int) -> bytes:
    """The body. Raises 413 if it is too large, and 408 if it takes too long."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large() from None
    except TimeoutError:
        raise _too_slow(timeout_ms) from None


async def read_form(request: web.Request, timeout_ms: int) -> Form:
    """The form in the body. Raises 413, 408, and 400 if the body is not a form."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await request.post()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large() from None
    except TimeoutError:
        raise _too_slow(timeout_ms) from None
    except (ValueError, LookupError) as error:
        raise bad_request(f"the form cannot be read: {error}") from None


def _too_large() -> ApiError:
    return _given_up(413, "payload_too_large", "over management.http.max_body_size")


def _too_slow(timeout_ms: int) -> ApiError:
    reason = f"not there within {timeout_ms} ms (management.tcp.inactivity_timeout)"
    return _given_up(408, "request_timeout", reason)


def _given_up(status: int, error: str, reason: str) -> ApiError:
    refusal = ApiError(status, error, f"the body is {reason}")
    refusal.closes = True
    return refusal


def parse(raw: bytes) -> Any:
    """Decode JSON. Raises 400 if it is not valid."""
    try:
        content = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request("not_json") from None
    if is_too_deep(content):
        raise bad_request(TOO_DEEP)
    return content
