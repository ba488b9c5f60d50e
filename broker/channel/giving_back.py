"""Giving back what a channel held when it ended: the deliveries that its client has not settled.

They go to their queues in the order of their tags, as many in each turn as there is work left for
(broker/turns.py): a connection may end with a million. Up to a turn's worth is back at once. Of
more, a queue gets the first before it delivers again, and the others faster than it delivers.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from leveret.broker.channel.unacked import SETTLE_WORK, Unacked
from leveret.broker.turns import Turns

Deliveries = list[tuple[int, Unacked]]


class GivingBack:
    """An actor that exists until everything is given back."""

    __slots__ = ("_channel_name", "_give_back", "_turns", "_unsettled", "is_awake")

    def __init__(
        self,
        turns: Turns,
        channel_name: str,
        unsettled: Iterator[tuple[int, Unacked]],
        give_back: Callable[[Deliveries], object],
    ) -> None:
        self._turns = turns
        self._channel_name = channel_name
        self._unsettled = unsettled
        self._give_back = give_back
        self.is_awake = False

    def __repr__(self) -> str:
        return f"<GivingBack of channel {self._channel_name}>"

    def take_turn(self) -> None:
        """Give back as much as there is work left for."""
        count = self._turns.affordable(SETTLE_WORK)
        taken = list(islice(self._unsettled, count))
        if taken:
            self._turns.work_left -= SETTLE_WORK * len(taken)
            self._give_back(taken)
        if len(taken) == count:
            self._turns.wake(self)
