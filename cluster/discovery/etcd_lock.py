"""The startup lock of new nodes in etcd: its lock service, with a lease in case the node dies.

POST /v3/lease/grant, POST /v3/lock/lock       answers when this node has the lock
POST /v3/lease/keepalive                       while it holds it
POST /v3/lock/unlock, POST /v3/lease/revoke
"""

from contextlib import suppress

import msgspec

from leveret.broker.config.formation_settings import EtcdSettings
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.discovery.etcd_api import EtcdApi, encoded
from leveret.cluster.discovery.json_api import UnreachableError

TIMEOUT_MIN_S = 30
"""RabbitMQ's value."""
RENEWALS_PER_TTL = 3


class Locked(msgspec.Struct):
    """The answer to lock/lock. key: the holder's key, in Base64."""

    key: str


class EtcdLock:
    """The lock; discovery.py has the contract. timeout_min_s: replaced in tests."""

    def __init__(
        self, settings: EtcdSettings, api: EtcdApi, timeout_min_s: float = TIMEOUT_MIN_S
    ) -> None:
        self._api = api
        self._timeout_s = max(settings.lock_timeout_s, timeout_min_s)
        self._ttl_s = max(settings.lock_timeout_s, TIMEOUT_MIN_S)
        self._name = (
            f"/rabbitmq/locks/{settings.key_prefix}/clusters/{settings.cluster_name}/registration"
        )
        self._lease = ""
        self._key = ""
        self.renewal_interval_s = self._ttl_s / RENEWALS_PER_TTL

    async def acquire(self) -> None:
        """Wait for the lock, `lock_timeout` at most: as long as the lease lasts."""
        self._lease = await self._api.grant_lease(self._ttl_s)
        body = {"name": encoded(self._name), "lease": self._lease}
        try:
            locked = await self._api.ask("/lock/lock", body, Locked, wait_s=self._timeout_s)
            self._key = locked.key
            await self.renew()
        except UnreachableError as error:
            raise DiscoveryError(
                f"the lock {self._name} is held too long (cluster_formation.etcd.lock_timeout); if "
                f"etcd answers, another node is starting, look at its log: {error}"
            ) from None
        finally:
            if not self._key:
                await self._give_up()

    async def renew(self) -> None:
        """Keep the lease alive."""
        if not await self._api.keep_alive(self._lease):
            raise DiscoveryError("the lease of the lock had expired")

    async def release(self) -> None:
        """Unlock, and revoke the lease."""
        await self._api.ask("/lock/unlock", {"key": self._key}, msgspec.Raw)
        self._key = ""
        await self._api.revoke_lease(self._lease)

    async def _give_up(self) -> None:
        """Leave the queue for the lock: otherwise the next node waits until the lease ends."""
        with suppress(DiscoveryError):
            await self._api.revoke_lease(self._lease)
