"""The HTTP API of a Consul agent, with the ACL token, for all parts of the backend."""

from collections.abc import Mapping
from typing import TypeVar

from yarl import URL

from leveret.broker.auth.backends.client_tls import client_context
from leveret.broker.config.formation_settings import ConsulSettings
from leveret.broker.config.setting_error import SettingError
from leveret.cluster.discovery.json_api import Advice, JsonApi

TOKEN_HEADER = "X-Consul-Token"
ADVICE = Advice(
    "check that a Consul agent runs at cluster_formation.consul.host and port, and the scheme",
    "check cluster_formation.consul.acl_token: its policy needs service:write, service:read, "
    "node:read, session:write and key:write",
    "check that this is a Consul agent: cluster_formation.consul.host and port",
    "Consul",
)

Answer = TypeVar("Answer")


class ConsulApi:
    """The agent. Raises SettingError for TLS files that cannot be used."""

    def __init__(self, settings: ConsulSettings) -> None:
        context = None
        if settings.scheme == "https":
            try:
                context = client_context(settings.tls)
            except ValueError as error:
                raise SettingError("cluster_formation.consul.tls.cacertfile", str(error)) from None
        server = URL.build(scheme=settings.scheme, host=settings.host, port=settings.port)
        self._api = JsonApi((server,), ADVICE, context, settings.tls.server_name)
        self._api.hide(settings.acl_token)
        self._headers = {TOKEN_HEADER: settings.acl_token} if settings.acl_token else {}

    async def ask(
        self,
        method: str,
        path: str,
        answer: type[Answer],
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        wait_s: float = 0.0,
    ) -> Answer:
        """The answer; the arguments are those of JsonApi.ask. Raises DiscoveryError."""
        return await self._api.ask(
            method,
            f"/v1{path}",
            answer,
            query=query,
            headers=self._headers,
            body=body,
            wait_s=wait_s,
        )

    async def tell(
        self, path: str, *, query: Mapping[str, str] | None = None, body: object = None
    ) -> None:
        """Make a PUT, and ignore the content of the answer. Raises DiscoveryError."""
        await self._api.tell("PUT", f"/v1{path}", query=query, headers=self._headers, body=body)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()
