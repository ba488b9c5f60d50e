"""Users and permissions from an HTTP server, in the protocol of rabbitmq_auth_backend_http.

Four paths are asked, with GET or POST and the same parameters: whether a password is right, whether
a user may open a vhost, use a queue or an exchange, use a routing key. The server answers 200 or
201 with `allow` or `deny`; for a user, `allow` and tags with blanks between them. Anything else is
a problem of the server's, for the log, and counts as a refusal.

Connections are kept open. The server may close one just when it is used again, and then the
question is asked once more, on another.
"""

import ssl
from typing import NoReturn
from urllib.parse import quote_plus, urlsplit

import aiohttp
from yarl import URL

from broker.auth.backends.client_tls import client_context, shown_address
from broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from broker.config import Config

ALLOW, DENY = "allow", "deny"
SUCCESSES = (200, 201)
ANSWER_BYTES_MAX = 65_536
TRIES = 4
"""As many as RabbitMQ has, for connections that turn out to be closed."""
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class HttpBackend:
    """Both kinds of backend (broker/auth/identity.py)."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None
        for name in ("user", "vhost", "resource", "topic"):
            _check_url(f"auth_http.{name}_path", getattr(config, f"auth_http_{name}_path"))
        self._context: ssl.SSLContext = client_context(
            config.auth_http_tls_cacertfile,
            config.auth_http_tls_verify,
            config.auth_http_tls_certfile,
            config.auth_http_tls_keyfile,
            config.auth_http_tls_password,
        )

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, with the tags that the server gives it."""
        fields = {"username": attempt.name}
        if attempt.password is not None:
            fields["password"] = attempt.password
        url = self._config.auth_http_user_path
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
        """As the server says."""
        fields = {"username": identity.name, "vhost": vhost, "ip": peer_host}
        return await self._allows(self._config.auth_http_vhost_path, identity, fields)

    async def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """As the server says."""
        fields = {
            "username": identity.name, "vhost": vhost, "resource": kind, "name": name,
            "permission": permission,
        }  # fmt: skip
        return await self._allows(self._config.auth_http_resource_path, identity, fields)

    async def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """As the server says."""
        fields = {
            "username": identity.name, "vhost": vhost, "resource": "topic", "name": exchange,
            "permission": permission, "routing_key": routing_key,
            "variable_map.username": identity.name, "variable_map.vhost": vhost,
        }  # fmt: skip
        return await self._allows(self._config.auth_http_topic_path, identity, fields)

    async def _allows(self, url: str, identity: Identity, fields: dict[str, str]) -> bool:
        answer = await self._ask(url, fields | {"tags": " ".join(identity.tags)})
        if answer not in (ALLOW, DENY):
            _complain(url)
        return answer == ALLOW

    # Asking

    async def _ask(self, url: str, fields: dict[str, str]) -> str:
        """The answer, in small letters. Raises BackendUnavailable, without what was asked."""
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
        server_name = self._config.auth_http_tls_sni
        sni = None if server_name in ("", "none") else server_name
        if self._config.auth_http_method == "post":
            request = session.post(url, data=text.encode(), headers=FORM, server_hostname=sni)
        else:
            separator = "&" if urlsplit(url).query else "?"
            asked = URL(f"{url}{separator}{text}", encoded=True)
            request = session.get(asked, server_hostname=sni)
        async with request as response:
            if response.status not in SUCCESSES:
                raise BackendUnavailable(
                    f"{shown_address(url)} answered with status {response.status}"
                )
            content = b""
            async for part in response.content.iter_any():
                content += part
                if len(content) > ANSWER_BYTES_MAX:
                    _complain(url)
            return content.decode("utf-8", "replace").strip().lower()

    def _opened_session(self) -> aiohttp.ClientSession:
        """It belongs to the loop that runs: it cannot be made before there is one."""
        if self._session is None:
            total_ms = self._config.auth_http_timeout_ms
            connect_ms = self._config.auth_http_connection_timeout_ms
            timeout = aiohttp.ClientTimeout(
                total=total_ms / 1000,
                sock_connect=None if connect_ms is None else connect_ms / 1000,
            )
            connector = aiohttp.TCPConnector(ssl=self._context)
            self._session = aiohttp.ClientSession(
                timeout=timeout, connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _check_url(key: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{key} = '{url}' is no address; it begins with http:// or https://")


def _quoted(value: str) -> str:
    return quote_plus(value.encode("utf-8", "surrogateescape"))


def _was_closed(error: Exception) -> bool:
    """A connection that was open is no longer; one that cannot be made is another matter."""
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return True
    is_new = isinstance(error, aiohttp.ClientConnectorError)
    return isinstance(error, aiohttp.ClientOSError) and not is_new


def _reason(error: Exception) -> str:
    """What is safe to log: a text may have the address that was asked, and that the password."""
    if _was_closed(error):
        return "it closes every connection"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError):
        return str(getattr(error, "os_error", None) or getattr(error, "certificate_error", ""))
    return type(error).__name__


def _complain(url: str) -> NoReturn:
    """What it answered is not shown: a page that explains an error may repeat the password."""
    raise BackendUnavailable(f"{shown_address(url)} answered something else than allow or deny")
