"""Bodies of requests, with limits on their time and size; json_bodies.py parses them.

Bodies are read only here. A body that takes too long, is too large or is cut off is refused, and
its memory is freed at once: the buffer that gathers it is closed, because the exception's traceback
keeps the buffer itself until the next collection. At the end the buffer has the body in one piece:
joining 17 MB would take 10 ms.

Before a login a body may have 64 KB and take 5 seconds, as in RabbitMQ, and may not be compressed.
After it, the limits are `management.http.max_body_size` and `management.tcp.inactivity_timeout`,
and content_coding.py decompresses. aiohttp decompresses nothing.
"""

import asyncio
import logging
from collections.abc import Sequence
from email.message import Message
from email.parser import BytesHeaderParser
from io import BytesIO
from typing import NamedTuple
from urllib.parse import parse_qsl

import aiohttp
from aiohttp import hdrs, web

from leveret.broker.config.management_settings import ManagementSettings
from leveret.mgmt.api.errors import ApiError, bad_request
from leveret.mgmt.http.content_coding import (
    CODINGS,
    CodingError,
    TooLargeError,
    codings_of,
    decoded,
)
from leveret.mgmt.slices import GiveWay

FIELDS_MAX = 100
NOT_BEFORE_LOGIN = "it may not be compressed before a login"

logger = logging.getLogger("leveret.management")


class BodyLimits(NamedTuple):
    """The limits of a body. too_large: status, error and reason of the refusal."""

    bytes_max: int
    timeout_ms: int
    too_large: tuple[int, str, str]
    too_slow: str

    def refusal(self) -> ApiError:
        """The refusal of a body that is too large; the rest of it is not read."""
        refusal = ApiError(*self.too_large)
        refusal.closes = True
        return refusal


BEFORE_LOGIN = BodyLimits(
    64_000,
    5_000,
    (413, "payload_too_large", "the body is over 64000 bytes"),
    "not there within 5000 ms",
)


def limits_of(settings: ManagementSettings) -> BodyLimits:
    """The limits of a user's requests."""
    return BodyLimits(
        settings.body_bytes_max,
        settings.body_timeout_ms,
        (400, "bad_request", "Exceeded HTTP request body size limit"),
        f"not there within {settings.body_timeout_ms} ms (management.tcp.inactivity_timeout)",
    )


async def read(request: web.Request, limits: BodyLimits, give_way: GiveWay) -> bytes:
    """The body of an authenticated request, decompressed.

    Raises 408 if it is too slow, 400 if it is cut off or cannot be decompressed, and the limits'
    refusal.
    """
    raw = await _read(request, limits)
    try:
        return await decoded(raw, _codings(request), limits.bytes_max, give_way)
    except TooLargeError:
        raise limits.refusal() from None
    except CodingError as error:
        raise _coding_refused(request, str(error), CODINGS) from None


def _codings(request: web.Request) -> list[str]:
    return codings_of(request.headers.getall(hdrs.CONTENT_ENCODING, ()))


def _coding_refused(request: web.Request, reason: str, accepted: Sequence[str]) -> ApiError:
    logger.warning("%s %s of %s: the body is refused: %s", request.method, request.path,
                   request.remote or "the control socket", reason)  # fmt: skip
    refusal = bad_request(f"the body cannot be read: {reason}")
    refusal.headers[hdrs.ACCEPT_ENCODING] = ", ".join(accepted)
    refusal.closes = True
    return refusal


async def _read(request: web.Request, limits: BodyLimits) -> bytes:
    """The body as it was sent. Raises 408, 400 if it is cut off, and the limits' refusal."""
    gathered = BytesIO()
    try:
        async with asyncio.timeout(limits.timeout_ms / 1000):
            await _gather(request, gathered, limits)
        return gathered.getvalue()
    except TimeoutError:
        raise _given_up(408, "request_timeout", limits.too_slow) from None
    except (ConnectionError, aiohttp.ClientError) as error:
        # aiohttp keeps this exception, whose traceback leads back to the request.
        error.__traceback__ = None
        raise _given_up(400, "bad_request", "not complete: the connection was closed") from None
    finally:
        gathered.close()


async def _gather(request: web.Request, gathered: BytesIO, limits: BodyLimits) -> None:
    while not request.content.at_eof():
        gathered.write(await request.content.readany())
        if gathered.tell() > limits.bytes_max:
            raise limits.refusal()


async def read_form(request: web.Request) -> dict[str, str]:
    """The fields of a form from any client. Raises 400 if the body is not a form, 408 and 413."""
    if _codings(request):
        raise _coding_refused(request, NOT_BEFORE_LOGIN, ("identity",))
    raw = await _read(request, BEFORE_LOGIN)
    try:
        pairs = parse_qsl(
            raw.decode("utf-8", "surrogateescape"),
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError as error:
        raise bad_request(f"the form cannot be read: {error}") from None
    return dict(pairs)


def file_of(raw: bytes, content_type: str) -> bytes:
    """The field `file` of a form with parts (RFC 7578). Raises 400 without one."""
    sent = Message()
    sent[hdrs.CONTENT_TYPE] = content_type
    boundary = sent.get_boundary()
    if not boundary:
        raise bad_request("the form cannot be read: its content type names no boundary")
    for part in (b"\r\n" + raw).split(b"\r\n--" + boundary.encode())[1:]:
        head, _, content = part.partition(b"\r\n\r\n")
        headers = BytesHeaderParser().parsebytes(head.lstrip())
        if headers.get_param("name", header=hdrs.CONTENT_DISPOSITION) == "file":
            return content
    raise bad_request("the form has no field 'file'")


def _given_up(status: int, error: str, reason: str) -> ApiError:
    refusal = ApiError(status, error, f"the body is {reason}")
    refusal.closes = True
    return refusal
