"""Fetches the definitions of an upstream over its HTTP API, from Leveret or RabbitMQ.

The endpoints are tried in order, until one answers with definitions. With a Leveret upstream, an
ETag shows whether they have changed. It also reports which clusters it follows itself, which
RabbitMQ does not. So a sync that finds nothing new costs two small answers.

RabbitMQ compresses its definitions. They are decompressed in slices and up to limits
(content_coding.py), since the other end is not trusted.
"""

import asyncio
import base64
import os
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
from aiohttp import hdrs

from leveret.broker.auth.backends.client_tls import client_context
from leveret.broker.config.tls_settings import ClientTlsOptions
from leveret.broker.policies.parameters import INTERNAL_CLUSTER_ID
from leveret.broker.policies.schema_replication import UpstreamSetting
from leveret.broker.runtime.http_answers import open_session
from leveret.mgmt.definitions.contents import (
    NOT_JSON,
    DefinitionLists,
    DefinitionsError,
    fault_in_json,
    read_definitions,
)
from leveret.mgmt.http.content_coding import CODINGS, CodingError, codings_of, decoded
from leveret.mgmt.slices import GiveWay

CONNECT_SECONDS_MAX, SILENCE_SECONDS_MAX, ANSWER_SECONDS_MAX = 5.0, 30.0, 300.0
SAID_CHARACTERS_MAX = 200
CONTENT_BYTES_MAX = 100_000_000
"""Definitions may have 2,000,000 values; those of 200,000 queues and bindings have half of both."""
REPLICATION_BYTES_MAX = 1 << 18
READ_BYTES = 1 << 18
MAJOR_VERSIONS = (3, 4)
"""The versions of RabbitMQ whose definitions can be followed. Leveret reports one of them."""
PATH, REPLICATION_PATH = "/api/definitions", "/api/schema-replication"


class UpstreamError(Exception):
    """The definitions of the upstream cannot be fetched; the text has the reason and the remedy."""


class Fetched(NamedTuple):
    """An answer. endpoint: its source. content: the definitions; None if `etag` names them."""

    endpoint: str
    content: bytes | None
    etag: str


class _Replication(msgspec.Struct):
    """The upstream's own replication, as read here. follows: ids of clusters."""

    follows: list[str] = []


class StandbyUpstream:
    """The upstream of a setting. The authorities for its certificates are read once."""

    def __init__(self, setting: UpstreamSetting, give_way: GiveWay) -> None:
        self._setting = setting
        self._give_way = give_way
        self._context: ssl.SSLContext | None = None

    async def fetch(self, etag: str) -> Fetched:
        """Fetch the definitions, unless they are those of an ETag. Raises UpstreamError."""
        setting = self._setting
        reasons = []
        async with await self._session() as session:
            for endpoint in setting.endpoints:
                try:
                    return await self._ask(session, endpoint, etag)
                except UpstreamError as error:
                    reasons.append(f"{endpoint} {error}")
        raise UpstreamError("; ".join(reasons))

    async def follows(self, endpoint: str) -> tuple[str, ...]:
        """Fetch the ids of the clusters that the upstream follows: its own upstream's first, then
        that one's. Empty if it follows none or does not report them. Raises UpstreamError.
        """
        url = f"{endpoint}{REPLICATION_PATH}"
        try:
            async with (
                await self._session() as session,
                _answer(session, url, self._setting, {}) as response,
            ):
                content = await self._content(response, REPLICATION_BYTES_MAX)
        except UpstreamError as error:
            raise UpstreamError(f"{endpoint} {error}") from None
        try:
            return tuple(msgspec.json.decode(content, type=_Replication).follows)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ()

    async def _ask(self, session: aiohttp.ClientSession, endpoint: str, etag: str) -> Fetched:
        more = {"If-None-Match": etag} if etag else {}
        async with _answer(session, f"{endpoint}{PATH}", self._setting, more) as response:
            if response.status == 304:
                return Fetched(endpoint, None, etag)
            if response.status != 200:
                raise UpstreamError(await _refusal(response, self._setting))
            content = await self._content(response, CONTENT_BYTES_MAX)
            return Fetched(endpoint, content, response.headers.get("ETag", ""))

    async def _content(self, response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
        """The decompressed body of an answer. Raises UpstreamError, and aiohttp's errors."""
        raw = BytesIO()
        async for part in response.content.iter_chunked(READ_BYTES):
            raw.write(part)
            if raw.tell() > bytes_max:
                raise UpstreamError(f"gives an answer of more than {bytes_max} bytes")
        codings = codings_of(response.headers.getall(hdrs.CONTENT_ENCODING, ()))
        try:
            return await decoded(raw.getvalue(), codings, bytes_max, self._give_way)
        except CodingError as error:
            raise UpstreamError(f"gives an answer that cannot be read: {error}") from None

    async def _session(self) -> aiohttp.ClientSession:
        setting = self._setting
        timeout = aiohttp.ClientTimeout(
            total=ANSWER_SECONDS_MAX,
            sock_connect=CONNECT_SECONDS_MAX,
            sock_read=SILENCE_SECONDS_MAX,
        )
        if any(one.startswith("https:") for one in setting.endpoints) and self._context is None:
            # Reading the authorities of a system takes many milliseconds.
            self._context = await asyncio.to_thread(_context, setting)
        connector = aiohttp.TCPConnector(ssl=self._context or False)
        return open_session(timeout=timeout, connector=connector)


def _context(setting: UpstreamSetting) -> ssl.SSLContext:
    cacertfile = Path(setting.cacertfile) if setting.cacertfile else None
    try:
        return client_context(ClientTlsOptions(cacertfile=cacertfile, verify=setting.verify))
    except ValueError as error:
        raise UpstreamError(str(error)) from None


@asynccontextmanager
async def _answer(
    session: aiohttp.ClientSession, url: str, setting: UpstreamSetting, more: dict[str, str]
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send a request with more headers. Raises UpstreamError, even while the answer is read."""
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": ", ".join(CODINGS),
        "Authorization": _authorization(setting),
        **more,
    }
    try:
        async with session.get(url, headers=headers, allow_redirects=False) as response:
            yield response
    except TimeoutError:
        raise UpstreamError("does not answer in time") from None
    except (aiohttp.ClientError, OSError) as error:
        raise UpstreamError(_reason(error)) from None


def _authorization(setting: UpstreamSetting) -> str:
    login = f"{setting.username}:{setting.password}".encode("utf-8", "surrogateescape")
    return f"Basic {base64.b64encode(login).decode()}"


async def _refusal(response: aiohttp.ClientResponse, setting: UpstreamSetting) -> str:
    """The reason why the upstream does not return definitions."""
    said = await _said(response)
    if response.status == 401 and "dministrator" in said:
        return f"refuses user '{setting.username}': it must have the tag administrator there"
    if response.status in (401, 403):
        return (
            f"refuses user '{setting.username}': check the password, and that the user has the tag "
            f"administrator there{said and f' (it says: {said})'}"
        )
    if response.status >= 500:
        return f"answers with status {response.status}{said and f': {said}'}"
    return (
        f"answers with status {response.status} for {PATH}: it is not the management of RabbitMQ "
        "or Leveret, or has another path prefix"
    )


async def _said(response: aiohttp.ClientResponse) -> str:
    """The reason in an answer, on one line; empty if there is none."""
    try:
        body = msgspec.json.decode(await response.content.read(4096), type=dict[str, Any])
    except (msgspec.DecodeError, ValueError, RecursionError, aiohttp.ClientError, OSError):
        return ""
    reason = body.get("reason", "")
    return " ".join(str(reason).split())[:SAID_CHARACTERS_MAX]


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"has a certificate that is not trusted here: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientSSLError):
        return "does not speak TLS as expected: check http and https, and the port"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        # Errors for unknown names have negative numbers, and different texts.
        return (
            f"cannot be reached: {os.strerror(number) if number > 0 else error.os_error.strerror}"
        )
    if isinstance(error, aiohttp.ClientResponseError):
        return "does not speak HTTP: give the port of management, such as 15672, not that of AMQP"
    return "ended the connection before it answered"


async def definitions_of(content: bytes, give_way: GiveWay) -> DefinitionLists:
    """Read the definitions of an upstream. Raises UpstreamError."""
    try:
        found = await read_definitions(content, None, give_way)
    except DefinitionsError as error:
        why = fault_in_json(content) if error.reason == NOT_JSON else str(error)
        raise UpstreamError(f"the upstream's definitions cannot be read: {why}") from None
    version = found.version
    major = re.match(r"\d+", version)
    if not version:
        raise UpstreamError(
            "the upstream's answer names no version of RabbitMQ: these are no definitions"
        )
    if major is None or int(major[0]) not in MAJOR_VERSIONS:
        known = " and ".join(map(str, MAJOR_VERSIONS))
        raise UpstreamError(
            f"the upstream has version {version}, and definitions of versions {known} are followed"
        )
    return found


def cluster_id_of(definitions: DefinitionLists) -> str:
    """Return the id of the cluster of these definitions; empty if they have none."""
    for one in definitions.items("global_parameters"):
        if one.get("name") == INTERNAL_CLUSTER_ID:
            return str(one.get("value", ""))
    return ""
