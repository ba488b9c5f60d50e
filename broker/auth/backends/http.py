"""Users and permissions from an HTTP server, in the protocol of rabbitmq_auth_backend_http.

Four paths are asked, with GET or POST and the same parameters: whether a password is right, whether
a user may open a vhost, use a queue or an exchange, use a routing key. The server answers 200 with
`allow` or `deny`; for a user, `allow` and tags. Anything else counts as a problem of the server's,
and as a refusal.
"""

import aiohttp

from broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from broker.config import Config

ALLOW, DENY = "allow", "deny"


class HttpBackend:
    """Both kinds of backend (broker/auth/identity.py)."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, with the tags that the server gives it."""
        fields = {"username": attempt.name}
        if attempt.password is not None:
            fields["password"] = attempt.password
        answer = await self._ask(self._config.auth_http_user_path, fields)
        word, *tags = answer.replace(",", " ").split() or [DENY]
        if word.lower() != ALLOW:
            return None
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
        fields["tags"] = " ".join(identity.tags)
        return (await self._ask(url, fields)).strip().lower() == ALLOW

    async def _ask(self, url: str, fields: dict[str, str]) -> str:
        """The server's answer. Raises BackendUnavailable, without what was asked: secrets."""
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._config.auth_http_timeout_ms / 1000)
            self._session = aiohttp.ClientSession(timeout=timeout)
        is_post = self._config.auth_http_method == "post"
        try:
            if is_post:
                request = self._session.post(url, data=fields)
            else:
                request = self._session.get(url, params=fields)
            async with request as response:
                if response.status != 200:
                    raise BackendUnavailable(f"{url} answered {response.status}")
                return await response.text()
        except (TimeoutError, aiohttp.ClientError, ValueError) as error:
            raise BackendUnavailable(f"{url}: {type(error).__name__}") from None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
