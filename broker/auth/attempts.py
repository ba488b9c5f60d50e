"""Rate limit for failed logins, per source address.

An address may fail `failures_per_minute` times at once; after that, tries come back at that rate. A
login beyond the limit is refused without a check and looks to the client like one with a wrong
password. Logins that take time (an authentication backend is asked) run concurrently only while
each of them may still fail; others wait (`turn`).

An IPv6 address counts as its network of 64 bits, because a single host is assigned a whole network.
Attempts are also counted by outcome, and by address, for the management API and the metrics.
"""

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from leveret.broker.clock import Clock

ADDRESSES_MAX = 10_000
"""How many addresses are remembered; the least recently seen are forgotten first."""
MS_PER_MINUTE = 60_000
IPV6_HOST_BITS = 64


@dataclass(slots=True)
class Attempts:
    """The logins from one address. tries_left: as of `counted_ms`, on the broker's clock.

    under_way: logins that are being checked. ended: notified when one of them ends.
    """

    tries_left: float
    counted_ms: int
    succeeded: int = 0
    failed: int = 0
    under_way: int = 0
    ended: asyncio.Condition | None = None


class AttemptLimiter:
    """failures_per_minute: None for no limit."""

    def __init__(self, clock: Clock, failures_per_minute: int | None) -> None:
        self.succeeded = self.failed = 0
        self._clock = clock
        self._limit = failures_per_minute
        self._by_address: OrderedDict[str, Attempts] = OrderedDict()

    def may_try(self, address: str) -> bool:
        """Whether a login from this address is to be checked."""
        attempts = self._by_address.get(source_of(address))
        if self._limit is None or attempts is None:
            return True
        self._refill(attempts, self._limit)
        if attempts.tries_left >= 1:
            return True
        self.failed += 1
        attempts.failed += 1
        return False

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Check a login in the block; wait until every login under way may still fail."""
        attempts = self._of(address)
        ended = attempts.ended = attempts.ended or asyncio.Condition()
        async with ended:
            await ended.wait_for(lambda: self._limit is None or not _is_crowded(attempts))
            attempts.under_way += 1
        try:
            yield
        finally:
            attempts.under_way -= 1
            async with ended:
                ended.notify()

    def _refill(self, attempts: Attempts, limit: int) -> None:
        now_ms = self._clock.now_ms()
        gained = (now_ms - attempts.counted_ms) * limit / MS_PER_MINUTE
        attempts.tries_left = min(float(limit), attempts.tries_left + gained)
        attempts.counted_ms = now_ms

    def note(self, address: str, *, succeeded: bool) -> None:
        """Count a login that was checked."""
        attempts = self._of(address)
        if succeeded:
            self.succeeded += 1
            attempts.succeeded += 1
        else:
            self.failed += 1
            attempts.failed += 1
            attempts.tries_left -= 1

    def _of(self, address: str) -> Attempts:
        source = source_of(address)
        attempts = self._by_address.get(source)
        if attempts is not None:
            self._by_address.move_to_end(source)
            return attempts
        attempts = Attempts(float(self._limit or 0), self._clock.now_ms())
        self._by_address[source] = attempts
        if len(self._by_address) > ADDRESSES_MAX:
            self._by_address.popitem(last=False)
        return attempts

    def by_address(self) -> dict[str, Attempts]:
        """The remembered addresses with attempts since the last reset."""
        return {
            source: attempts
            for source, attempts in self._by_address.items()
            if attempts.succeeded or attempts.failed
        }

    def reset(self) -> None:
        """Set the counts to zero. The rate limit is not reset."""
        self.succeeded = self.failed = 0
        for attempts in self._by_address.values():
            attempts.succeeded = attempts.failed = 0


def _is_crowded(attempts: Attempts) -> bool:
    """Whether one more login would exceed the limit if all that are under way failed."""
    return 0 < attempts.tries_left <= attempts.under_way


def source_of(address: str) -> str:
    """The key under which an address is counted: itself, or its IPv6 network."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    if found.is_loopback or found.is_link_local:
        return str(found)
    return str(ipaddress.ip_network((found, IPV6_HOST_BITS), strict=False))
