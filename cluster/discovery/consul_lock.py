"""The startup lock of new nodes in Consul: a key that a session holds.

    PUT /v1/session/create                       a session with a TTL
    PUT /v1/kv/PREFIX/CLUSTER/startup_lock?acquire=SESSION    true: this node has the lock
    GET /v1/kv/PREFIX/CLUSTER/startup_lock?index=N&wait=Ts    returns when the key changes
    PUT /v1/session/renew/SESSION                at half of the TTL, while waiting and holding
    PUT /v1/kv/...?release=SESSION, PUT /v1/session/destroy/SESSION

The session of a node that dies expires, and with it the lock. Consul then refuses the lock for
fifteen seconds (its lock-delay) although no session holds it: the node asks again each second.
"""

import asyncio
import logging
from contextlib import suppress

import msgspec

from leveret.broker.config.formation_settings import ConsulSettings
from leveret.cluster.discovery.consul_api import ConsulApi
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.discovery.json_api import StatusError
from leveret.cluster.discovery.presence import Sleep

TTL_MIN_S, TTL_MAX_S = 10, 86_400
"""The limits of Consul for a session."""
DELAYED_SECONDS = 1.0

logger = logging.getLogger("leveret.peer_discovery")


class ConsulSession(msgspec.Struct):
    """The answer to session/create."""

    ID: str


class ConsulKey(msgspec.Struct, rename="pascal"):
    """An entry of /v1/kv. session: the holder's session."""

    modify_index: int
    session: str = ""


class ConsulLock:
    """The lock; discovery.py has the contract. own: the name of this node."""

    def __init__(
        self, settings: ConsulSettings, own: str, api: ConsulApi, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._own = own
        self._api = api
        self._sleep = sleep
        self._path = f"/kv/{settings.lock_prefix}/{settings.cluster_name}/startup_lock"
        self._timeout_s = settings.lock_timeout_s
        self._ttl_s = min(max(settings.svc_ttl_s, TTL_MIN_S), TTL_MAX_S)
        self._session = ""
        self.renewal_interval_s = self._ttl_s / 2

    async def acquire(self) -> None:
        """Wait for the lock, `lock_timeout` at most."""
        session = {"Name": self._own, "TTL": f"{self._ttl_s}s"}
        created = await self._api.ask("PUT", "/session/create", ConsulSession, body=session)
        self._session = created.ID
        try:
            await self._acquire()
        except BaseException:
            # The session would expire; without it the next node need not wait for the expiry.
            with suppress(DiscoveryError):
                await self._destroy()
            raise

    async def _acquire(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        while not await self._put("acquire"):
            left_s = deadline - loop.time()
            if left_s <= 0:
                raise DiscoveryError(
                    f"another node has held {self._path[4:]} for {self._timeout_s} seconds "
                    "(cluster_formation.consul.lock_timeout): look at the logs of the other nodes, "
                    "one of which is starting"
                )
            await self._wait_for_change(min(left_s, self._ttl_s / 2))
            await self.renew()

    async def _wait_for_change(self, wait_s: float) -> None:
        try:
            key = (await self._api.ask("GET", self._path, list[ConsulKey]))[0]
        except StatusError as error:
            if error.status != 404:
                raise
            return
        except IndexError:
            return
        if not key.session:
            await self._sleep(DELAYED_SECONDS)
            return
        logger.info("another new node holds the startup lock in Consul; waiting for it")
        query = {"index": str(key.modify_index), "wait": f"{max(round(wait_s), 1)}s"}
        # Consul adds up to a sixteenth to the wait.
        await self._api.ask(
            "GET", self._path, list[ConsulKey], query=query, wait_s=wait_s * 17 / 16 + 1
        )

    async def renew(self) -> None:
        """Renew the session."""
        await self._api.tell(f"/session/renew/{self._session}")

    async def release(self) -> None:
        """Release the lock, and end the session."""
        has_released = await self._put("release")
        await self._destroy()
        if not has_released:
            raise DiscoveryError("the session of the lock had expired")

    async def _put(self, verb: str) -> bool:
        query = {verb: self._session}
        return await self._api.ask("PUT", self._path, bool, query=query)

    async def _destroy(self) -> None:
        await self._api.tell(f"/session/destroy/{self._session}")
