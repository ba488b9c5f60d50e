"""Since when consumers have held messages and done nothing, as of one round of the statistics.

The message path counts nothing for this. A round reads the unsettled deliveries of each channel,
and how many it has settled so far. A consumer that holds messages has done nothing since its oldest
one was delivered, or since its channel last settled anything, whichever is later. If it holds as
many as its prefetch count allows, other consumers of the channel do not matter: it has settled
nothing since its newest delivery, else it would hold fewer.
"""

from leveret.mgmt.node_facade.facts import HeldByChannel


class Holding:
    """The consumers of one round. before: what each channel had settled in the round before."""

    def __init__(self, before: dict[str, tuple[int, int]] | None = None) -> None:
        self._before = before or {}
        self._settled: dict[str, tuple[int, int]] = {}
        """How many deliveries a channel has settled, and since when it has not settled another."""
        self._since_ms: dict[tuple[str, str], int] = {}

    def next_round(self) -> "Holding":
        """The round after this one, without consumers yet."""
        return Holding(self._settled)

    def add(self, channel: str, held: HeldByChannel, now_ms: int) -> None:
        """A channel, by its name, with its deliveries. now_ms: the broker's clock."""
        before, settled_since_ms = self._before.get(channel, (0, 0))
        if held.settled != before:
            settled_since_ms = now_ms
        self._settled[channel] = held.settled, settled_since_ms
        for tag, one in held.consumers.items():
            since_ms = one.newest_ms if one.is_full else max(one.oldest_ms, settled_since_ms)
            self._since_ms[channel, tag] = since_ms

    def since_ms(self, channel_name: str, tag: str) -> int | None:
        """Since when a consumer has done nothing with its messages; None if it holds none."""
        return self._since_ms.get((channel_name, tag))
