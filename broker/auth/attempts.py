"""Rate limit for failed logins, by the client's address and the user's name.

From one address, logins of one name may fail `failures_per_minute` times at once; after that, tries
are restored at that rate. So an attacker that guesses passwords locks out neither other users at
that address nor the attacked user at other addresses. All names together may fail `NAMES` times as
often, except from loopback addresses: all clients behind a proxy on this machine have one.

A login with credentials that were accepted before is always checked, so that programs can reconnect
while their password is being guessed from their own address. The limiter remembers a keyed hash of
these credentials, and forgets it when they are refused.

A login beyond the limit is refused without a check and looks to the client like one with a wrong
password. Logins that take time (an authentication backend is asked) run concurrently only while
each of them may still fail; others wait (`turn`).
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from leveret.broker.auth.addresses import is_loopback, source_of
from leveret.broker.auth.identity import LoginAttempt
from leveret.broker.runtime.clock import Clock

KEPT_MAX = 10_000
"""How many limits and accepted credentials are remembered; the least recent are forgotten first."""
NAMES = 10
"""How many names may use up their limits from one address."""
MS_PER_MINUTE = 60_000
HASH_BYTES = 16


@dataclass(slots=True)
class Tries:
    """The logins that may still fail. left: as of `counted_ms`, on the broker's clock.

    per_minute: how many may fail at once, and are restored in a minute. under_way: logins that are
    being checked. ended: notified when one of them ends.
    """

    per_minute: int
    left: float
    counted_ms: int
    under_way: int = 0
    ended: asyncio.Condition = field(default_factory=asyncio.Condition)

    def refill(self, now_ms: int) -> None:
        """Add the tries that were restored since `counted_ms`."""
        gained = (now_ms - self.counted_ms) * self.per_minute / MS_PER_MINUTE
        self.left = min(float(self.per_minute), self.left + gained)
        self.counted_ms = now_ms

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Check a login in the block; wait until all logins being checked may still fail."""
        async with self.ended:
            await self.ended.wait_for(lambda: not 0 < self.left <= self.under_way)
            self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            async with self.ended:
                self.ended.notify()


class AttemptLimiter:
    """failures_per_minute: None for no limit."""

    def __init__(self, clock: Clock, failures_per_minute: int | None) -> None:
        self._clock = clock
        self._limit = failures_per_minute
        self._tries: OrderedDict[bytes, Tries] = OrderedDict()
        self._accepted: OrderedDict[bytes, None] = OrderedDict()
        self._key = secrets.token_bytes(HASH_BYTES)

    def may_try(self, attempt: LoginAttempt) -> bool:
        """Whether a login is to be checked."""
        if self._is_unlimited(attempt):
            return True
        now_ms = self._clock.now_ms()
        found = self._tries_of(attempt)
        for tries in found:
            tries.refill(now_ms)
        return all(tries.left >= 1 for tries in found)

    @asynccontextmanager
    async def turn(self, attempt: LoginAttempt) -> AsyncIterator[None]:
        """Check a login in the block; wait until all logins being checked may still fail."""
        async with AsyncExitStack() as turns:
            if not self._is_unlimited(attempt):
                for tries in self._tries_of(attempt):
                    await turns.enter_async_context(tries.turn())
            yield

    def note(self, attempt: LoginAttempt, *, succeeded: bool) -> None:
        """Count a login that was checked."""
        if self._limit is None:
            return
        credentials = self._credentials(attempt)
        if succeeded:
            self._accepted[credentials] = None
            self._accepted.move_to_end(credentials)
            _forget_oldest(self._accepted)
            return
        self._accepted.pop(credentials, None)
        for tries in self._tries_of(attempt):
            tries.left -= 1

    def _is_unlimited(self, attempt: LoginAttempt) -> bool:
        return self._limit is None or self._credentials(attempt) in self._accepted

    def _tries_of(self, attempt: LoginAttempt) -> list[Tries]:
        """The limits of the address with the name, and of the address alone."""
        assert self._limit is not None
        source = source_of(attempt.peer_host)
        found = [self._kept(self._hashed(source, attempt.name), self._limit)]
        if not is_loopback(attempt.peer_host):
            found.append(self._kept(self._hashed(source), NAMES * self._limit))
        return found

    def _kept(self, key: bytes, per_minute: int) -> Tries:
        tries = self._tries.get(key)
        if tries is None:
            tries = self._tries[key] = Tries(per_minute, float(per_minute), self._clock.now_ms())
            _forget_oldest(self._tries)
        self._tries.move_to_end(key)
        return tries

    def _credentials(self, attempt: LoginAttempt) -> bytes:
        return self._hashed(source_of(attempt.peer_host), attempt.name, attempt.password)

    def _hashed(self, *parts: str | None) -> bytes:
        """The kept part of a client's text, whose length the client chooses."""
        told = repr(parts).encode()
        return hashlib.blake2b(told, digest_size=HASH_BYTES, key=self._key).digest()


def _forget_oldest(kept: OrderedDict[Any, Any]) -> None:
    if len(kept) > KEPT_MAX:
        kept.popitem(last=False)
