"""The JSON gateway of etcd 3.4 and later, with a user if one is configured.

Requests are POSTs of JSON; keys and values are Base64, numbers of 64 bits are texts. A token is
fetched with the user's name and password, and fetched again when etcd no longer knows it.
"""

import base64
from typing import TypeVar

import msgspec
from yarl import URL

from leveret.broker.auth.backends.client_tls import client_context
from leveret.broker.config.formation_settings import EtcdSettings
from leveret.broker.config.setting_error import SettingError
from leveret.broker.config.tls_settings import ClientTlsOptions
from leveret.cluster.discovery.json_api import REQUEST_SECONDS, Advice, JsonApi, StatusError

UNKNOWN_TOKEN = 401
ADVICE = Advice(
    "check that etcd runs at cluster_formation.etcd.endpoints, and the ssl_options",
    "check cluster_formation.etcd.username and password, and that the user's role has permission "
    "to read and write keys with the prefix /rabbitmq/",
    "this must be etcd 3.4 or later, with its JSON gateway switched on",
    "etcd",
    refusals=(400, 401, 403),  # 400: a wrong password, and a request without a user
)

Answer = TypeVar("Answer")


class EtcdToken(msgspec.Struct):
    """The answer to auth/authenticate."""

    token: str


class Lease(msgspec.Struct):
    """The answer to lease/grant."""

    ID: str


class LeaseState(msgspec.Struct):
    """A lease. The gateway leaves out a TTL of 0, which means that the lease is gone."""

    TTL: str = "0"


class LeaseKeptAlive(msgspec.Struct):
    """The first answer of the stream lease/keepalive."""

    result: LeaseState | None = None


class EtcdApi:
    """The servers. Raises SettingError for invalid settings."""

    def __init__(self, settings: EtcdSettings, request_s: float = REQUEST_SECONDS) -> None:
        endpoints = list(settings.endpoints)
        if settings.host:
            endpoints.append(f"{settings.host}:{settings.port}")
        if not endpoints:
            raise SettingError("cluster_formation.etcd.endpoints", "no etcd server is configured")
        has_tls = settings.scheme == "https" or settings.tls != ClientTlsOptions()
        scheme, context = "http", None
        if has_tls:
            scheme = "https"
            try:
                context = client_context(settings.tls)
            except ValueError as error:
                raise SettingError("cluster_formation.etcd.tls.cacertfile", str(error)) from None
        servers = [URL(f"{scheme}://{endpoint}") for endpoint in endpoints]
        self._api = JsonApi(servers, ADVICE, context, settings.tls.server_name, request_s)
        self._api.hide(settings.password)
        self._settings = settings
        self._token = ""

    async def ask(
        self, path: str, body: object, answer: type[Answer], *, wait_s: float = 0.0
    ) -> Answer:
        """The answer; the arguments are those of JsonApi.ask. Raises DiscoveryError."""
        if not self._settings.username:
            return await self._api.ask("POST", f"/v3{path}", answer, body=body, wait_s=wait_s)
        if self._token:
            try:
                return await self._ask_as_user(path, body, answer, wait_s)
            except StatusError as error:
                if error.status != UNKNOWN_TOKEN:
                    raise
        await self._authenticate()
        return await self._ask_as_user(path, body, answer, wait_s)

    async def _ask_as_user(
        self, path: str, body: object, answer: type[Answer], wait_s: float
    ) -> Answer:
        headers = {"Authorization": self._token}
        return await self._api.ask(
            "POST", f"/v3{path}", answer, headers=headers, body=body, wait_s=wait_s
        )

    async def _authenticate(self) -> None:
        body = {"name": self._settings.username, "password": self._settings.password}
        answer = await self._api.ask("POST", "/v3/auth/authenticate", EtcdToken, body=body)
        self._token = answer.token
        self._api.hide(answer.token)

    async def grant_lease(self, ttl_s: int) -> str:
        """The ID of a new lease. Raises DiscoveryError."""
        return (await self.ask("/lease/grant", {"TTL": ttl_s}, Lease)).ID

    async def keep_alive(self, lease: str) -> bool:
        """Renew a lease for its whole TTL. Returns whether it is valid. Raises DiscoveryError."""
        answer = await self.ask("/lease/keepalive", {"ID": lease}, LeaseKeptAlive)
        return answer.result is not None and int(answer.result.TTL) > 0

    async def revoke_lease(self, lease: str) -> None:
        """End a lease, and with it its keys. Raises DiscoveryError."""
        await self.ask("/lease/revoke", {"ID": lease}, msgspec.Raw)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()


def encoded(text: str) -> str:
    """A key or a value, as the gateway takes it."""
    return base64.b64encode(text.encode()).decode()


def after_prefix(prefix: str) -> str:
    """The first key after all that begin with a prefix, encoded; the prefix ends in ASCII."""
    return encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))
