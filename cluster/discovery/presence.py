"""Renews the entries of a node in a backend: its registration, and the startup lock that it holds.

Consul and etcd drop entries that are not renewed. `Renewal` calls `renew` at the interval that the
backend gives, and continues after a failure: the next renewal may succeed before the entry expires,
and registers the node again if it has expired.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from leveret.cluster.discovery.discovery import Discovery, DiscoveryError

Sleep = Callable[[float], Awaitable[None]]

logger = logging.getLogger("leveret.peer_discovery")


class Renewal:
    """Calls `renew` every `interval_s` seconds. subject: names the entry in the log."""

    def __init__(
        self,
        interval_s: float,
        renew: Callable[[], Awaitable[None]],
        subject: str,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._interval_s = interval_s
        self._renew = renew
        self._subject = subject
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; the first renewal is after one interval."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop, and cancel a renewal in progress."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._sleep(self._interval_s)
            try:
                await self._renew()
            except DiscoveryError as error:
                logger.warning(
                    "failed to renew %s; retrying in %g seconds: %s",
                    self._subject,
                    self._interval_s,
                    error,
                )


class Presence:
    """The registration of this node, from its start to its stop. own: the name of this node."""

    def __init__(self, discovery: Discovery, own: str, sleep: Sleep = asyncio.sleep) -> None:
        self._discovery = discovery
        self._own = own
        self._sleep = sleep
        self._renewal: Renewal | None = None

    async def start(self) -> None:
        """Register, if the backend can. A failure is logged: the node runs, and tries again."""
        registration, name = self._discovery.registration, self._discovery.name
        if registration is None:
            return
        try:
            await registration.register()
        except DiscoveryError as error:
            logger.error("node %s is not registered with %s: %s", self._own, name, error)
        else:
            logger.info("node %s is registered with %s", self._own, name)
        if registration.renewal_interval_s is not None:
            subject = f"the registration of {self._own} with {name}"
            self._renewal = Renewal(
                registration.renewal_interval_s, registration.renew, subject, self._sleep
            )
            self._renewal.start()

    async def stop(self) -> None:
        """Remove the registration; a failure is logged, since the backend lets it expire."""
        if self._renewal is not None:
            await self._renewal.stop()
            self._renewal = None
        registration, name = self._discovery.registration, self._discovery.name
        if registration is None:
            return
        try:
            await registration.unregister()
        except DiscoveryError as error:
            logger.warning("node %s stays registered with %s: %s", self._own, name, error)
