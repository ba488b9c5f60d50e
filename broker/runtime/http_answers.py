"""Answers of HTTP servers that a node queries, with limits that protect it from a hostile server.

aiohttp would decompress an answer while it reads it, whatever its expanded size. So answers are
requested without compression, and a compressed answer is refused nevertheless, like one that is too
long. The name and the password of a request are never in cookies.
"""

from typing import Any

import aiohttp
from aiohttp import hdrs

IDENTITY = "identity"
"""The coding of uncompressed content (RFC 9110, 12.5.3)."""


class AnswerError(Exception):
    """An answer is not accepted. The text is a predicate of which the answer is the subject."""


def open_session(**options: Any) -> aiohttp.ClientSession:
    """A session for such answers. options: aiohttp's. Called while an event loop runs."""
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={hdrs.ACCEPT_ENCODING: IDENTITY},
        auto_decompress=False,
        **options,
    )


async def content_of(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """The body of a server's answer. Raises AnswerError, and aiohttp's errors."""
    coding = response.headers.get(hdrs.CONTENT_ENCODING, IDENTITY)
    if coding.strip().lower() != IDENTITY:
        raise AnswerError(f"is compressed ({coding[:20]!r}), which was not asked for")
    content = bytearray()
    async for part in response.content.iter_any():
        content += part
        if len(content) > bytes_max:
            raise AnswerError(f"is too long: it has more than {bytes_max} bytes")
    return bytes(content)
