"""The two timers of a queue: when its first message expires, and when the queue itself does.

As in RabbitMQ a message expires only at the head of its queue, so one timer for the head is enough.
A queue with `x-expires` is deleted when it has had no consumer, basic.get or redeclaration for that
time.
"""

from collections.abc import Callable

from mypy_extensions import i64

from leveret.broker.runtime.clock import Clock, Timer


class HeadExpiry:
    """Calls back when the message at the head of a queue expires.

    is_wanted: the queue may hold messages that expire. first_ms: none of them expires before.
    """

    __slots__ = ("_clock", "_expired", "_timer", "_watched_ms", "first_ms", "is_wanted")

    def __init__(self, clock: Clock, expired: Callable[[], object], is_wanted: bool) -> None:
        self._clock = clock
        self._expired = expired
        self._timer: Timer | None = None
        self._watched_ms = 0
        self.is_wanted = is_wanted
        self.first_ms: i64 = 0

    def will_expire(self, expires_at_ms: i64) -> None:
        """Messages are published, of which the first expires at this time."""
        if not self.is_wanted:
            self.is_wanted, self.first_ms = True, expires_at_ms
        elif expires_at_ms < self.first_ms:
            self.first_ms = expires_at_ms

    def resume(self, is_wanted: bool) -> None:
        """Messages may expire again, of which nothing is known but whether some do."""
        self.is_wanted, self.first_ms = is_wanted, 0

    def watch(self, expires_at_ms: int) -> None:
        """The head expires at this time of the broker's clock; 0 if it does not."""
        if not expires_at_ms:
            return
        if self._timer is not None:
            if self._watched_ms <= expires_at_ms:
                return
            self._timer.cancel()
        self._watched_ms = expires_at_ms
        delay_ms = max(0, expires_at_ms - self._clock.now_ms())
        self._timer = self._clock.call_later_ms(delay_ms, self._call_back)

    def _call_back(self) -> None:
        self._timer = None
        self._expired()

    def stop(self) -> None:
        """Stop, because the queue ends, and drop the reference to it."""
        self._expired = _nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class UnusedExpiry:
    """Calls back when a queue has not been used for its `x-expires` time.

    in_use: whether the queue has a consumer, which counts as use. expired: called with the time
    for which the queue was unused, in milliseconds.
    """

    __slots__ = ("_clock", "_expired", "_expires_ms", "_in_use", "_last_used_ms", "_timer")

    def __init__(
        self, clock: Clock, in_use: Callable[[], bool], expired: Callable[[int], object]
    ) -> None:
        self._clock = clock
        self._in_use = in_use
        self._expired = expired
        self._expires_ms: int | None = None
        self._last_used_ms = 0
        self._timer: Timer | None = None

    def set_time(self, expires_ms: int | None) -> None:
        """The time that the queue may be unused, in milliseconds; None: unlimited."""
        if expires_ms == self._expires_ms:
            return
        self._expires_ms = expires_ms
        self._stop()
        self.touch()

    def touch(self) -> None:
        """The queue is being used: its time starts again."""
        if self._expires_ms is None:
            return
        self._last_used_ms = self._clock.now_ms()
        if self._timer is None:
            self._wait(self._expires_ms)

    def _wait(self, delay_ms: int) -> None:
        self._timer = self._clock.call_later_ms(delay_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._expires_ms is None:
            return
        unused_ms = self._clock.now_ms() - self._last_used_ms
        if self._in_use():
            self._wait(self._expires_ms)
        elif unused_ms >= self._expires_ms:
            self._expired(unused_ms)
        else:
            self._wait(self._expires_ms - unused_ms)

    def close(self) -> None:
        """Stop, because the queue ends, and drop the reference to it."""
        self._stop()
        self._expires_ms = None
        self._in_use = self._expired = _nothing

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _nothing(*_arguments: object) -> bool:
    """The callback of a queue that has ended."""
    return False
