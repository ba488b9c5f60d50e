"""A client for a server with a JSON API over HTTP, with limits for time and size.

Each request has a time limit that includes the answer, and each answer a size limit. Answers are
decoded into a type, so an answer of another shape is an error that names the place. Redirects are
not followed: they could lead the node's token to another server. Every failure is a DiscoveryError
whose text says what was asked, what is wrong and what to do. The text of a server's error is shown
without the secrets given to `hide`.

Several servers of one service are asked in order, until one answers.
"""

import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import aiohttp
import msgspec
from yarl import URL

from leveret.broker.runtime.http_answers import AnswerError, content_of, open_session
from leveret.cluster.discovery.discovery import DiscoveryError

REQUEST_SECONDS = 5.0
ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""The endpoints of a Kubernetes service with 1,000 pods take a tenth of that."""
SHOWN_CHARACTERS_MAX = 300
SUCCESSES = (200, 201, 204)
SERVER_ERROR_MIN = 500

Answer = TypeVar("Answer")


class StatusError(DiscoveryError):
    """The server answered with a status other than success."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class UnreachableError(DiscoveryError):
    """The server did not answer, or not in time."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice for each failure: the ends of error texts.

    address: the server cannot be reached. credentials: it refuses the node. missing: it does not
    know the requested object. server: its name, for all other failures. refusals: the statuses with
    which it refuses a node.
    """

    address: str
    credentials: str
    missing: str
    server: str
    refusals: tuple[int, ...] = (401, 403)

    def for_status(self, status: int) -> str:
        """The advice for a status."""
        if status in self.refusals:
            return self.credentials
        if status == 404:
            return self.missing
        return f"look at the log of {self.server}"


@dataclass(slots=True)
class JsonApi:
    """The API. servers: the beginnings of the URLs of requests, at least one.

    context, server_name: for TLS. request_s: the time limit of a request.
    """

    servers: Sequence[URL]
    advice: Advice
    context: ssl.SSLContext | None = None
    server_name: str | None = None
    request_s: float = REQUEST_SECONDS
    _session: aiohttp.ClientSession | None = None
    _secrets: set[str] = field(default_factory=set)

    def hide(self, secret: str) -> None:
        """Leave a secret out of all texts, both unchanged and in JSON's encoding."""
        if secret:
            self._secrets |= {secret, msgspec.json.encode(secret).decode()[1:-1]}

    async def ask(
        self,
        method: str,
        path: str,
        answer: type[Answer],
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        wait_s: float = 0.0,
    ) -> Answer:
        """The answer to a request.

        path: begins with a slash. body: sent as JSON; None: no body. wait_s: the time that the
        server is asked to wait before it answers. Raises DiscoveryError.
        """
        asked, received = await self._ask_in_turn(method, path, query, headers, body, wait_s)
        try:
            return msgspec.json.decode(received, type=answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DiscoveryError(
                f"{asked} gave an answer that is not one of {self.advice.server} ({error}): "
                f"{self.advice.address}"
            ) from None

    async def tell(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: object = None,
    ) -> None:
        """Make a request, and ignore the content of the answer. Raises DiscoveryError."""
        await self._ask_in_turn(method, path, query, headers, body, 0.0)

    async def _ask_in_turn(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: object,
        wait_s: float,
    ) -> tuple[str, bytes]:
        """A description of the request, for error texts, and the first answer of a server."""
        content = None if body is None else msgspec.json.encode(body)
        failures: list[DiscoveryError] = []
        for server in self.servers:
            url = server.with_path(path).with_query(query or {})
            try:
                received = await self._request(method, url, headers or {}, content, wait_s)
                return f"{method} {url}", received
            except UnreachableError as error:
                failures.append(error)
            except StatusError as error:
                if error.status < SERVER_ERROR_MIN:
                    raise
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise UnreachableError("; ".join(map(str, failures)))

    async def _request(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        content: bytes | None,
        wait_s: float,
    ) -> bytes:
        asked, limit_s = f"{method} {url}", self.request_s + wait_s
        try:
            async with self._opened().request(
                method,
                url,
                headers={"Content-Type": "application/json", **headers},
                data=content,
                allow_redirects=False,
                server_hostname=self.server_name,
                timeout=aiohttp.ClientTimeout(total=limit_s),
            ) as response:
                received = await _read(response, asked, self.advice.server)
                if response.status not in SUCCESSES:
                    raise self._status_error(asked, response, received)
                return received
        except TimeoutError:
            raise UnreachableError(
                f"{asked} was not answered within {limit_s:g} seconds: {self.advice.address}"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            reason = self._shown(_reason(error))
            raise UnreachableError(f"{asked}: {reason}: {self.advice.address}") from None
        except ValueError:
            # The text of the error has the header in it.
            raise UnreachableError(
                f"{asked} cannot be sent: a header has characters that HTTP does not allow: "
                f"{self.advice.credentials}"
            ) from None

    def _status_error(
        self, asked: str, response: aiohttp.ClientResponse, received: bytes
    ) -> StatusError:
        status = response.status
        if 300 <= status < 400:
            # The target is not shown: the redirecting server can put anything into it.
            text = f"{asked} answered with status {status}, a redirect, which is not followed"
            return StatusError(f"{text}: {self.advice.address}", status)
        said = self._shown(received.decode("utf-8", "replace"))
        return StatusError(
            f"{asked} answered with status {status}{f' ({said})' if said else ''}: "
            f"{self.advice.for_status(status)}",
            status,
        )

    def _shown(self, text: str) -> str:
        """The beginning of a text from elsewhere, on one line and without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = text[:SHOWN_CHARACTERS_MAX]
        return " ".join("".join(c if c.isprintable() else " " for c in text).split())

    def _opened(self) -> aiohttp.ClientSession:
        """The session; it is made here because it needs a running event loop."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=True if self.context is None else self.context)
            self._session = open_session(connector=connector)
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _read(response: aiohttp.ClientResponse, asked: str, server: str) -> bytes:
    try:
        return await content_of(response, ANSWER_BYTES_MAX)
    except AnswerError as error:
        raise DiscoveryError(
            f"the answer to {asked} {error}: check that the address is that of {server}"
        ) from None


def _reason(error: Exception) -> str:
    """The failure of a connection, in words; the address is in the text already."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate is not accepted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        # asyncio has the address in place of the system's text; look-ups have negative numbers.
        number = error.os_error.errno or 0
        return os.strerror(number) if number > 0 else str(error.os_error.strerror)
    return str(error) or type(error).__name__
