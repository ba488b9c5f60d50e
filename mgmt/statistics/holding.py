"""Since when consumers hold messages and do nothing, as of one round of the statistics.

The message path counts nothing for this. A round reads the unsettled deliveries of each channel,
and how many it has settled so far. A consumer that holds messages has done nothing since its oldest
one was delivered, or since its channel last settled anything, whichever is later. If it holds as
many as its prefetch count allows, other consumers of the channel do not matter: it has settled
nothing since its newest delivery, else it would hold fewer.
"""

from leveret.broker.amqp.json_form import text
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.unacked_record import Unacked


class Holding:
    """The consumers of one round. before: what each channel had settled in the round before."""

    def __init__(self, before: dict[Session, tuple[int, int]] | None = None) -> None:
        self._before = before or {}
        self._settled: dict[Session, tuple[int, int]] = {}
        """How many deliveries a channel has settled, and since when it has not settled another."""
        self._since_ms: dict[tuple[str, str], int] = {}

    def next_round(self) -> "Holding":
        """The round after this one, without consumers yet."""
        return Holding(self._settled)

    def add(self, channel: Session, deliveries: list[Unacked], now_ms: int) -> None:
        """A channel with its oldest unsettled deliveries. now_ms: the broker's clock."""
        settled_since_ms = self._settled_since_ms(channel, now_ms)
        spans: dict[object, tuple[int, int]] = {}
        for one in deliveries:
            oldest_ms, _ = spans.get(one.consumer, (one.delivered_at_ms, 0))
            spans[one.consumer] = oldest_ms, one.delivered_at_ms
        are_all = len(deliveries) == len(channel.unacked)
        for consumer in channel.consumers.values():
            if consumer not in spans:
                continue
            oldest_ms, newest_ms = spans[consumer]
            is_full = are_all and consumer.held == consumer.prefetch_count
            since_ms = newest_ms if is_full else max(oldest_ms, settled_since_ms)
            self._since_ms[channel.name, text(consumer.tag)] = since_ms

    def _settled_since_ms(self, channel: Session, now_ms: int) -> int:
        counts = channel.counts
        settled = counts.delivered + counts.got - len(channel.unacked)
        before, since_ms = self._before.get(channel, (0, 0))
        if settled != before:
            since_ms = now_ms
        self._settled[channel] = settled, since_ms
        return since_ms

    def since_ms(self, channel_name: str, tag: str) -> int | None:
        """Since when a consumer does nothing with its messages; None if it holds none."""
        return self._since_ms.get((channel_name, tag))
