"""Publisher confirms: which messages of a channel are settled, and how few frames can say so.

Messages are numbered from 1 as they are published, in runs. A message is confirmed as soon as it
has been handed to every queue it was routed to, unless one of them held its run (the confirm comes
later, for the whole run) or refused it. What became settled since the last `take` is coalesced as
RabbitMQ does it (`rabbit_channel:send_confirms_and_nacks`): everything below the first number that
is still open or of the other kind goes into one ``multiple`` frame, the rest one by one.
"""

from typing import NamedTuple


class Settlement(NamedTuple):
    """A basic.ack (or basic.nack) that is due to the publisher."""

    is_ack: bool
    delivery_tag: int
    multiple: bool


class Confirms:
    """The confirms of one channel.

    A run that is held is known by its first number: [one more than its last, how many hold it].
    """

    __slots__ = ("_held", "_late", "_refused", "_taken", "published")

    def __init__(self) -> None:
        self.published = 0
        """The number of the message published last."""
        self._taken = 0
        self._held: dict[int, list[int]] = {}
        self._late: list[tuple[int, int]] = []
        self._refused: set[int] = set()

    @property
    def unconfirmed_count(self) -> int:
        """Messages that a queue still holds."""
        return sum(end - first for first, (end, _) in self._held.items())

    def hold(self, first: int, count: int) -> None:
        """One more queue will confirm a run later."""
        held = self._held.get(first)
        if held is None:
            self._held[first] = [first + count, 1]
        else:
            held[1] += 1

    def confirm(self, first: int) -> bool:
        """A queue that held a run confirms it; whether that settles it."""
        held = self._held.get(first)
        if held is None:
            return False
        held[1] -= 1
        if held[1]:
            return False
        del self._held[first]
        if first <= self._taken:
            self._late.append((first, held[0]))
        return True

    def refuse(self, number: int) -> None:
        """A queue does not take a message: the publisher gets a nack, whatever others say.

        At once, unless it is one of a run that another queue holds.
        """
        self._refused.add(number)
        held = self._held.get(number)
        if held is not None and held[0] == number + 1:
            del self._held[number]
            if number <= self._taken:
                self._late.append((number, number + 1))

    def take(self) -> list[Settlement]:
        """What is due to the publisher since the last call."""
        first, last = self._taken + 1, self.published
        self._taken = last
        if self._held or self._late or self._refused:
            return self._take_mixed(first, last)
        if first > last:
            return []
        return [Settlement(True, last, last > first)]

    def _take_mixed(self, first: int, last: int) -> list[Settlement]:
        settled = self._late + self._not_held(first, last + 1)
        self._late = []
        settled.sort()
        open_from = min(self._held, default=last + 1)
        if self._refused:
            return self._take_refused(settled, open_from)
        below = [end for _, end in settled if end <= open_from]
        due = []
        if below:
            is_single = len(below) == 1 and settled[0][0] == below[0] - 1
            due.append(Settlement(True, below[-1] - 1, not is_single))
        for start, end in settled[len(below) :]:
            due += [Settlement(True, number, False) for number in range(start, end)]
        return due

    def _not_held(self, first: int, end: int) -> list[tuple[int, int]]:
        """The runs from `first` up to, not including, `end` that no queue holds."""
        found = []
        for start, (held_end, _) in self._held.items():
            if start >= first:
                if start > first:
                    found.append((first, start))
                first = held_end
        if first < end:
            found.append((first, end))
        return found

    def _take_refused(self, settled: list[tuple[int, int]], open_from: int) -> list[Settlement]:
        refused = self._refused
        numbers = [number for start, end in settled for number in range(start, end)]
        acks = [number for number in numbers if number not in refused]
        nacks = [number for number in numbers if number in refused]
        refused.difference_update(nacks)
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
