"""How long a returned message waits before it is delivered again (x-delayed-retry-*). Pure.

Without a multiplier the delay grows by the minimum with each return, as in RabbitMQ 4.3; with one
it is multiplied each time. It never exceeds the maximum, which is the minimum unless one is set; a
multiplier without a maximum grows up to ten years. All calculations are with integers, so that all
members of a replicated queue get the same times.
"""

from typing import Final, NamedTuple

from leveret.broker.amqp.properties import TTL_MS_MAX
from leveret.broker.queues.contract.arguments import QueueOptions

DISABLED: Final = "disabled"
"""How a queue without delays is shown."""
NO_MULTIPLIER: Final = 0
THOUSAND: Final = 1000
GROWTHS_MAX: Final = 10_000
"""The number of returns after which a delay no longer grows: a bound for the loop."""


class RetryDelay(NamedTuple):
    """The delay of retries. multiplier_thousandths: NO_MULTIPLIER, or at least 1000.

    kind: which messages are delayed: `failed`, those whose delivery has failed, as when the channel
    ends; `returned`, those that a client gives back; or `all`.
    """

    kind: str
    least_ms: int
    most_ms: int
    multiplier_thousandths: int

    def ms(self, count: int) -> int:
        """The delay after a number of returns."""
        return delay_ms(count, self.least_ms, self.most_ms, self.multiplier_thousandths)

    def is_for(self, is_failed: bool) -> bool:
        """Whether a returned message is delayed."""
        return self.kind in ("all", "failed" if is_failed else "returned")


def delay_ms(count: int, least_ms: int, most_ms: int, multiplier_thousandths: int) -> int:
    """The delay after a number of returns; of one, if there was none."""
    count = max(1, count)
    if multiplier_thousandths == NO_MULTIPLIER:
        return min(least_ms * count, most_ms)
    if multiplier_thousandths == THOUSAND:
        return min(least_ms, most_ms)
    # In thousandths of a millisecond: otherwise a delay of 1 ms would not grow by half.
    delay = least_ms * THOUSAND
    for _ in range(min(count - 1, GROWTHS_MAX)):
        if delay >= most_ms * THOUSAND:
            break
        delay = delay * multiplier_thousandths // THOUSAND
    return min(delay // THOUSAND, most_ms)


def retry_delay(options: QueueOptions) -> RetryDelay | None:
    """The delay that the options of a queue ask for; None for none.

    As in RabbitMQ a minimum is necessary.
    """
    kind, least_ms = options.delayed_retry_type, options.delayed_retry_min_ms
    if kind not in ("all", "failed", "returned") or least_ms is None:
        return None
    multiplier, most_ms = options.delayed_retry_multiplier, options.delayed_retry_max_ms
    if most_ms is None:
        most_ms = least_ms if multiplier is None else TTL_MS_MAX
    thousandths = NO_MULTIPLIER if multiplier is None else round(multiplier * THOUSAND)
    return RetryDelay(kind, least_ms, most_ms, thousandths)


def delay_text(kind: str, least_ms: int, most_ms: int, multiplier_thousandths: int) -> str:
    """A `RetryDelay` as RabbitMQ shows it (`rabbit_quorum_queue:fmt_delayed_retry`)."""
    growth = ""
    if multiplier_thousandths != NO_MULTIPLIER:
        growth = f", multiplier: {multiplier_thousandths / THOUSAND:g}"
    return f"{kind} (min: {least_ms}ms, max: {most_ms}ms{growth})"
