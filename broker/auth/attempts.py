"""Failed logins are counted for each source address, and too many of them are not even checked.

An address may fail so many times at once; after that it gets one more try as time goes by. A login
that is refused for this reason looks to the client like one with a wrong password. Also counted,
for the management API and the metrics: attempts by their outcome, and for each address.
"""

from collections import OrderedDict
from dataclasses import dataclass

from broker.clock import Clock

ADDRESSES_MAX = 10_000
"""Addresses that are remembered; those that were not heard of for longest are forgotten first."""
MS_PER_MINUTE = 60_000


@dataclass(slots=True)
class Attempts:
    """The logins from one address. tries_left: as of `counted_ms`, on the broker's clock."""

    tries_left: float
    counted_ms: int
    succeeded: int = 0
    failed: int = 0


class AttemptLimiter:
    """failures_per_minute: None for no limit."""

    def __init__(self, clock: Clock, failures_per_minute: int | None) -> None:
        self.succeeded = self.failed = 0
        self._clock = clock
        self._limit = failures_per_minute
        self._by_address: OrderedDict[str, Attempts] = OrderedDict()

    def may_try(self, address: str) -> bool:
        """Whether a login from this address is to be looked at."""
        attempts = self._by_address.get(address)
        if self._limit is None or attempts is None:
            return True
        self._refill(attempts, self._limit)
        if attempts.tries_left >= 1:
            return True
        self.failed += 1
        attempts.failed += 1
        return False

    def _refill(self, attempts: Attempts, limit: int) -> None:
        now_ms = self._clock.now_ms()
        gained = (now_ms - attempts.counted_ms) * limit / MS_PER_MINUTE
        attempts.tries_left = min(float(limit), attempts.tries_left + gained)
        attempts.counted_ms = now_ms

    def note(self, address: str, name: str, *, succeeded: bool) -> None:
        """A login was looked at."""
        attempts = self._by_address.get(address)
        if attempts is None:
            attempts = Attempts(float(self._limit or 0), self._clock.now_ms())
            self._by_address[address] = attempts
            if len(self._by_address) > ADDRESSES_MAX:
                self._by_address.popitem(last=False)
        else:
            self._by_address.move_to_end(address)
        if succeeded:
            self.succeeded += 1
            attempts.succeeded += 1
        else:
            self.failed += 1
            attempts.failed += 1
            attempts.tries_left -= 1

    def by_address(self) -> dict[str, Attempts]:
        """All addresses that are remembered."""
        return dict(self._by_address)

    def reset(self) -> None:
        """Count from nothing."""
        self.succeeded = self.failed = 0
        self._by_address.clear()
