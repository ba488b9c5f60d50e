"""Users and permissions from an HTTP server, in the protocol of rabbitmq_auth_backend_http.

Four URLs are asked, with GET or POST: whether a password is correct, and whether a user may access
a vhost, a queue or exchange, or a routing key. The server answers 200 or 201 with `allow` or
`deny`; for a user, `allow` is followed by tags, separated by blanks. Any other answer is logged as
an error of the server and counts as a refusal; redirects are followed to the same origin only
(redirects.py).

Connections are kept open. If the server closes one just when it is used again, the request is
repeated on another one.
"""

import ssl
from typing import NoReturn
from urllib.parse import quote_plus, urlsplit

import aiohttp
from yarl import URL

from leveret.broker.auth.backends.client_tls import client_context, shown_address
from leveret.broker.auth.backends.redirects import requested
from leveret.broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from leveret.broker.config import Config
from leveret.broker.config.authentication_settings import HttpSettings
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.http_answers import AnswerError, content_of, open_session

ALLOW, DENY = "allow", "deny"
SUCCESSES = (200, 201)
ANSWER_BYTES_MAX = 65_536
TRIES = 4
"""How often a request is sent on connections that the server has closed; as in RabbitMQ."""
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class HttpBackend:
    """An authentication and authorization backend (broker/auth/identity.py)."""

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        for name in ("user", "vhost", "resource", "topic"):
            _check_url(f"auth_http.{name}_path", getattr(settings, f"{name}_path"))
        self._context: ssl.SSLContext = client_context(settings.tls)

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, with the tags in the server's answer."""
        fields = {"username": attempt.name}
        if attempt.password is not None:
            fields["password"] = attempt.password
        url = self._settings.user_path
        answer = await self._ask(url, fields)
        if answer == DENY:
            return None
        word, *tags = answer.split() or [""]
        if word != ALLOW:
            _complain(url)
        return Identity(attempt.name, tuple(tags), authorization=self)

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The secret is a password."""
        return await self.authenticate(LoginAttempt(identity.name, secret, ""))

    async def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """Ask the server."""
        fields = {"username": identity.name, "vhost": vhost, "ip": peer_host}
        return await self._allows(self._settings.vhost_path, identity, fields)

    async def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """Ask the server."""
        fields = {
            "username": identity.name, "vhost": vhost, "resource": kind, "name": name,
            "permission": permission,
        }  # fmt: skip
        return await self._allows(self._settings.resource_path, identity, fields)

    async def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """Ask the server."""
        fields = {
            "username": identity.name, "vhost": vhost, "resource": "topic", "name": exchange,
            "permission": permission, "routing_key": routing_key,
            "variable_map.username": identity.name, "variable_map.vhost": vhost,
        }  # fmt: skip
        if identity.client_id:
            fields["variable_map.client_id"] = identity.client_id
        return await self._allows(self._settings.topic_path, identity, fields)

    async def _allows(self, url: str, identity: Identity, fields: dict[str, str]) -> bool:
        answer = await self._ask(url, fields | {"tags": " ".join(identity.tags)})
        if answer not in (ALLOW, DENY):
            _complain(url)
        return answer == ALLOW

    # Requests

    async def _ask(self, url: str, fields: dict[str, str]) -> str:
        """The answer in lower case. Raises BackendUnavailable, whose text has no parameters."""
        text = "&".join(f"{name}={_quoted(value)}" for name, value in fields.items())
        for tries_left in reversed(range(TRIES)):
            try:
                return await self._request(url, text)
            except TimeoutError:
                raise BackendUnavailable(f"{shown_address(url)} does not answer in time") from None
            except (aiohttp.ClientError, OSError) as error:
                if not tries_left or not _was_closed(error):
                    raise BackendUnavailable(f"{shown_address(url)}: {_reason(error)}") from None
        raise AssertionError("the last try raises")

    async def _request(self, url: str, text: str) -> str:
        session = self._opened_session()
        sni = self._settings.tls.server_name
        if self._settings.method == "post":
            request = requested(
                session, "POST", URL(url), data=text.encode(), headers=FORM, server_hostname=sni
            )
        else:
            separator = "&" if urlsplit(url).query else "?"
            asked = URL(f"{url}{separator}{text}", encoded=True)
            request = requested(session, "GET", asked, server_hostname=sni)
        async with request as response:
            if response.status not in SUCCESSES:
                raise BackendUnavailable(
                    f"{shown_address(url)} answered with status {response.status}"
                )
            try:
                content = await content_of(response, ANSWER_BYTES_MAX)
            except AnswerError as error:
                raise BackendUnavailable(f"the answer of {shown_address(url)} {error}") from None
            return content.decode("utf-8", "replace").strip().lower()

    def _opened_session(self) -> aiohttp.ClientSession:
        """The session; it is made here because it needs a running event loop."""
        if self._session is None:
            total_ms = self._settings.timeout_ms
            connect_ms = self._settings.connection_timeout_ms
            timeout = aiohttp.ClientTimeout(
                total=total_ms / 1000,
                sock_connect=None if connect_ms is None else connect_ms / 1000,
            )
            connector = aiohttp.TCPConnector(ssl=self._context)
            self._session = open_session(timeout=timeout, connector=connector)
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _check_url(key: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{key} = '{url}' is not a URL: it must begin with http:// or https://")


def _quoted(value: str) -> str:
    return quote_plus(value.encode("utf-8", "surrogateescape"))


def _was_closed(error: Exception) -> bool:
    """Whether the server closed an open connection, as opposed to refusing a new one."""
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return True
    is_new = isinstance(error, aiohttp.ClientConnectorError)
    return isinstance(error, aiohttp.ClientOSError) and not is_new


def _reason(error: Exception) -> str:
    """A text that is safe to log: the error's own may contain the URL, and that the password."""
    if _was_closed(error):
        return "it closes every connection"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError):
        return str(getattr(error, "os_error", None) or getattr(error, "certificate_error", ""))
    return type(error).__name__


def _complain(url: str) -> NoReturn:
    """Raise BackendUnavailable without the answer, which may repeat the password."""
    raise BackendUnavailable(f"{shown_address(url)} answered neither allow nor deny")


def http_backend(config: Config, clock: Clock) -> HttpBackend:
    """The backend that the settings describe. Raises ValueError, OSError."""
    return HttpBackend(config.auth_http)
