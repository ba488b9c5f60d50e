"""Publisher confirms: which messages of a channel are settled, and how few frames can say so.

Messages are numbered from 1 as they are published. A message is confirmed as soon as it has been
handed to every queue it was routed to, unless one of them held it (its confirm comes later) or
refused it. What became settled since the last `take` is coalesced as RabbitMQ does it
(`rabbit_channel:send_confirms_and_nacks`): everything below the first number that is still open or
of the other kind goes into one ``multiple`` frame, the rest one by one.
"""

from typing import NamedTuple


class Settlement(NamedTuple):
    """A basic.ack (or basic.nack) that is due to the publisher."""

    is_ack: bool
    delivery_tag: int
    multiple: bool


class Confirms:
    """The confirms of one channel."""

    __slots__ = ("_held", "_late", "_refused", "_taken", "published")

    def __init__(self) -> None:
        self.published = 0
        """The number of the message published last."""
        self._taken = 0
        self._held: dict[int, int] = {}
        self._late: list[int] = []
        self._refused: set[int] = set()

    @property
    def unconfirmed_count(self) -> int:
        """Messages that a queue still holds."""
        return len(self._held)

    def hold(self, sequence: int) -> None:
        """One more queue will confirm the message later."""
        self._held[sequence] = self._held.get(sequence, 0) + 1

    def confirm(self, sequence: int) -> bool:
        """A queue that held the message confirms it; whether that settles it."""
        left = self._held.get(sequence, 0) - 1
        if left > 0:
            self._held[sequence] = left
            return False
        if self._held.pop(sequence, None) is None:
            return False
        if sequence <= self._taken:
            self._late.append(sequence)
        return True

    def refuse(self, sequence: int) -> None:
        """A queue does not take the message: the publisher gets a nack, whatever others say."""
        self._refused.add(sequence)
        if self._held.pop(sequence, None) is not None and sequence <= self._taken:
            self._late.append(sequence)

    def take(self) -> list[Settlement]:
        """What is due to the publisher since the last call."""
        first, last = self._taken + 1, self.published
        self._taken = last
        if not self._held and not self._refused and not self._late:
            if first > last:
                return []
            return [Settlement(True, last, last > first)]
        return self._take_mixed(first, last)

    def _take_mixed(self, first: int, last: int) -> list[Settlement]:
        held, refused = self._held, self._refused
        settled = {number for number in range(first, last + 1) if number not in held}
        settled.update(self._late)
        acks = sorted(settled - refused)
        nacks = sorted(settled & refused)
        self._late.clear()
        self._refused -= settled
        open_from = min(held, default=last + 1)
        if len(acks) == 1:
            due = [Settlement(True, acks[0], False)]
        else:
            due = self._coalesce(True, acks, min([open_from, *nacks]))
        return due + self._coalesce(False, nacks, min([open_from, *acks]))

    @staticmethod
    def _coalesce(is_ack: bool, numbers: list[int], cutoff: int) -> list[Settlement]:
        below = [number for number in numbers if number < cutoff]
        due = [Settlement(is_ack, below[-1], True)] if below else []
        return due + [Settlement(is_ack, number, False) for number in numbers[len(below) :]]
