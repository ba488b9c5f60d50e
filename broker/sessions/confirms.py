"""Publisher confirms: which messages of a session are settled, in as few frames as possible.

Messages are numbered from 1 as they are published, in runs. A message is confirmed as soon as it
has been handed to every queue it was routed to, unless one of them held its run (its holder
confirms the whole run later) or refused it. Messages that were settled since the last `take` are
coalesced as RabbitMQ does it (`rabbit_channel:send_confirms_and_nacks`): everything below the first
number that is still open or of the other kind goes into one ``multiple`` frame, the rest one by
one.
"""

from collections.abc import Callable

from leveret.broker.sessions.held_runs import HeldRuns

Settlement = tuple[bool, int, bool]
"""A settlement that is due to the publisher: whether it is a basic.ack (or a basic.nack), its
delivery tag, and whether it is multiple."""


class Confirms:
    """The confirms of one session: the `Publisher` that its queues see.

    published: the number of the message published last. refused_count: messages that a queue
    refused. due: called when there is something to send to the publisher.
    """

    __slots__ = ("_held", "_late", "_refused", "_taken", "due", "published", "refused_count")

    def __init__(self, due: Callable[[], object] = lambda: None) -> None:
        self.due = due
        self.published = 0
        self.refused_count = 0
        self._taken = 0
        self._held = HeldRuns()
        self._late: list[tuple[int, int]] = []
        self._refused: set[int] = set()

    @property
    def unconfirmed_count(self) -> int:
        """Messages that are held."""
        return self._held.message_count

    def hold(self, first: int, count: int, holder: object) -> None:
        """The holder will confirm a run later."""
        self._held.hold(first, count, holder)

    def confirm(self, first: int, holder: object) -> None:
        """A holder confirms a run that it held."""
        end = self._held.confirm(first, holder)
        if end is not None:
            self._settled(first, end)

    def refuse(self, number: int) -> None:
        """A queue refuses a message: the publisher gets a nack, even if other queues take it.

        It is due at once, unless another queue holds the run that the message is part of.
        """
        self.refused_count += 1
        self._refused.add(number)
        if self._held.end_of(number) == number + 1:
            self._held.drop(number)
            self._settled(number, number + 1)
        self.due()

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder is gone: count its runs as confirmed, or refuse them."""
        for first, end in self._held.of_holder(holder):
            if is_settled:
                self.confirm(first, holder)
                continue
            self._refused.update(range(first, end))
            self.refused_count += end - first
            self._held.drop(first)
            self._settled(first, end)

    def _settled(self, first: int, end: int) -> None:
        """A run is no longer held: it is due, unless `take` has not reached it yet."""
        if first <= self._taken:
            self._late.append((first, end))
            self.due()

    def take(self) -> list[Settlement]:
        """The settlements that became due to the publisher since the last call."""
        first, last = self._taken + 1, self.published
        self._taken = last
        if self._held or self._late or self._refused:
            return self._take_mixed(first, last)
        if first > last:
            return []
        return [(True, last, last > first)]

    def _take_mixed(self, first: int, last: int) -> list[Settlement]:
        settled = self._late + self._not_held(first, last + 1)
        self._late = []
        settled.sort()
        open_from = self._held.first or last + 1
        if self._refused:
            return self._take_refused(settled, open_from)
        below = [end for _, end in settled if end <= open_from]
        due = []
        if below:
            is_single = len(below) == 1 and settled[0][0] == below[0] - 1
            due.append((True, below[-1] - 1, not is_single))
        for start, end in settled[len(below) :]:
            due += [(True, number, False) for number in range(start, end)]
        return due

    def _not_held(self, first: int, end: int) -> list[tuple[int, int]]:
        """The runs from `first` up to, not including, `end` that no queue holds."""
        found = []
        for start, held_end in self._held.since(first):
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
            due = [(True, acks[0], False)]
        else:
            due = self._coalesce(True, acks, min([open_from, *nacks]))
        return due + self._coalesce(False, nacks, min([open_from, *acks]))

    @staticmethod
    def _coalesce(is_ack: bool, numbers: list[int], cutoff: int) -> list[Settlement]:
        below = [number for number in numbers if number < cutoff]
        due = [(is_ack, below[-1], True)] if below else []
        return due + [(is_ack, number, False) for number in numbers[len(below) :]]
