"""The consumers of a quorum queue, and the order in which they get messages.

A consumer that may take messages is in the service order. The first consumer of the highest
priority takes a message and goes to the end. A full consumer leaves the order, and joins it at the
end when it has room again. With a single active consumer, only that one is ever in the order.
"""

from leveret.cluster.quorum.machine.held_runs import OrderedRuns, in_order_of_delivery
from leveret.cluster.quorum.machine.runs import Run


class ConsumerState:
    """A consumer, or a get whose message is not settled.

    sender, number: identify it. credit: how many messages it can hold. delivered: the number of its
    last delivery. is_once: it is a get. is_cancelled: it ends when the last message that it holds
    is settled. is_away: its node cannot be reached. held_since_ms: it holds nothing that was
    delivered before. timed_out: positions that it has held for too long, as intervals.
    is_in_service: it is in the service order. is_withheld, sent, unread_bytes: used by the member
    that leads (delivery_windows.py).
    """

    __slots__ = (
        "credit", "delivered", "details", "held", "held_since_ms", "is_away", "is_cancelled",
        "is_in_service", "is_once", "is_withheld", "no_ack", "number", "priority", "sender", "sent",
        "tag", "timed_out", "timeout_ms", "unread_bytes",
    )  # fmt: skip

    def __init__(
        self, sender: int, number: int, tag: str, credit: int, priority: int, no_ack: bool,
        timeout_ms: int, details: bytes, is_once: bool = False,
    ) -> None:  # fmt: skip
        self.sender = sender
        self.number = number
        self.tag = tag
        self.credit = credit
        self.priority = priority
        self.no_ack = no_ack
        self.timeout_ms = timeout_ms
        self.details = details
        self.is_once = is_once
        self.is_cancelled = False
        self.is_away = False
        self.is_in_service = False
        self.delivered = 0
        self.held = OrderedRuns()
        self.held_since_ms = 0
        self.timed_out: list[int] = []
        self.is_withheld = False
        self.sent = self.unread_bytes = 0

    @property
    def may_be_active(self) -> bool:
        """Whether it may become the single active consumer."""
        return not (self.is_cancelled or self.is_once or self.is_away or self.timed_out)

    @property
    def may_take(self) -> bool:
        """Whether it may take a message, provided that it is active."""
        return self.held.count < self.credit and self.may_be_active

    def held_until(self, until_ms: int, now_ms: int) -> list[int]:
        """The positions of what it holds since this time or earlier, as intervals.

        What it holds is looked at only if some of it may be that old.
        """
        found: list[int] = []
        if self.held_since_ms > until_ms:
            return found
        since_ms = now_ms
        for run in self.held.runs:
            if run.time_ms <= until_ms:
                found += (run.position, run.last)
            else:
                since_ms = min(since_ms, run.time_ms)
        self.held_since_ms = since_ms
        return found

    def held_after(self, received: int) -> list[Run]:
        """What it holds that was delivered after a number, in the order of deliveries."""
        runs: list[Run] = []
        for run in in_order_of_delivery(self.held.runs):
            lacked = run.delivery + run.count - 1 - received
            if lacked >= run.count:
                runs.append(run)
            elif lacked > 0:
                runs.append(run.part(run.count - lacked, lacked))
        return runs

    def named(self, positions: list[int]) -> None:
        """Forget timed out positions, which the client has settled or returned now."""
        left: list[int] = []
        for at in range(0, len(self.timed_out), 2):
            first, last = self.timed_out[at], self.timed_out[at + 1]
            for place in range(0, len(positions), 2):
                if positions[place] > last:
                    break
                if positions[place + 1] >= first:
                    if first < positions[place]:
                        left += (first, positions[place] - 1)
                    first = positions[place + 1] + 1
            if first <= last:
                left += (first, last)
        self.timed_out = left


class _Turns:
    """The consumers of one priority in the service order, the next one first."""

    __slots__ = ("consumers", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.consumers: list[ConsumerState] = []


class Consumers:
    """All consumers of a queue. subscribed: in the order of their subscription, without gets.

    active: the single active one; None if there is none, or the queue does not have this rule.
    is_quiescing: another consumer becomes active as soon as the active one holds no messages.
    """

    __slots__ = (
        "_turns", "active", "elects_by_priority", "is_quiescing", "is_single_active", "subscribed",
    )  # fmt: skip

    def __init__(self, is_single_active: bool, elects_by_priority: bool) -> None:
        self.is_single_active = is_single_active
        self.elects_by_priority = elects_by_priority
        self.subscribed: list[ConsumerState] = []
        self.active: ConsumerState | None = None
        self.is_quiescing = False
        self._turns: list[_Turns] = []

    def has_room(self, priority_min: int) -> bool:
        """Whether a consumer of at least this priority may take a message now."""
        return any(
            one.priority >= priority_min
            and one.may_take
            and (not self.is_single_active or one is self.active)
            for one in self.subscribed
        )

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer that has subscribed."""
        self.subscribed.append(consumer)
        self.update(consumer)

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer that has ended."""
        if not consumer.is_once:
            self.subscribed.remove(consumer)
        if consumer is self.active:
            self.active = None
        self._leave(consumer)

    def update(self, consumer: ConsumerState) -> None:
        """Update the order: the state of a consumer, or its messages, have changed."""
        if consumer.may_take and self._is_served(consumer):
            if not consumer.is_in_service:
                self._enter(consumer)
        elif consumer.is_in_service:
            self._leave(consumer)

    def _is_served(self, consumer: ConsumerState) -> bool:
        if not self.is_single_active:
            return True
        return consumer is self.active and not self.is_quiescing

    # The single active consumer

    def elect(self) -> bool:
        """Choose the single active consumer. Returns whether it has changed."""
        if not self.is_single_active:
            return False
        before, chosen = self.active, self._next_active()
        if before is not None and before.held.count and not before.is_cancelled:
            self.is_quiescing = chosen is not before
            self.update(before)
            return False
        self.active, self.is_quiescing = chosen, False
        if before is not None:
            self.update(before)
        if chosen is not None:
            self.update(chosen)
        return chosen is not before

    def _next_active(self) -> ConsumerState | None:
        """The consumer that becomes active as soon as the active one holds no messages."""
        active = self.active
        best: ConsumerState | None = None
        if active is not None and (active.may_be_active or self._is_only_away(active)):
            best = active
        for consumer in self.subscribed:
            if consumer.may_be_active and (
                best is None or (self.elects_by_priority and consumer.priority > best.priority)
            ):
                best = consumer
        return best

    def _is_only_away(self, active: ConsumerState) -> bool:
        return active.is_away and not (active.is_cancelled or active.timed_out)

    # The service order

    def _enter(self, consumer: ConsumerState) -> None:
        consumer.is_in_service = True
        turns, at = self._turns, 0
        while at < len(turns) and turns[at].priority > consumer.priority:
            at += 1
        if at == len(turns) or turns[at].priority != consumer.priority:
            turns.insert(at, _Turns(consumer.priority))
        turns[at].consumers.append(consumer)

    def _leave(self, consumer: ConsumerState) -> None:
        if not consumer.is_in_service:
            return
        consumer.is_in_service = False
        for at, one in enumerate(self._turns):
            if one.priority == consumer.priority:
                one.consumers.remove(consumer)
                if not one.consumers:
                    del self._turns[at]
                return

    @property
    def next(self) -> ConsumerState | None:
        """The next consumer to get a message; None if no consumer may take one."""
        return self._turns[0].consumers[0] if self._turns else None

    @property
    def next_is_alone(self) -> bool:
        """Whether the next consumer may take as many messages as it has room for."""
        return len(self._turns[0].consumers) == 1

    def took(self, consumer: ConsumerState) -> None:
        """The next consumer has taken messages."""
        if not consumer.may_take:
            self._leave(consumer)
            return
        consumers = self._turns[0].consumers
        if len(consumers) > 1:
            consumers.append(consumers.pop(0))

    # For snapshots

    def in_service(self) -> list[ConsumerState]:
        """The consumers in the service order."""
        return [consumer for one in self._turns for consumer in one.consumers]

    def restore_service(self, in_service: list[ConsumerState]) -> None:
        """Restore the service order of a snapshot."""
        self.is_quiescing = self.is_single_active and self._next_active() is not self.active
        for consumer in in_service:
            self._enter(consumer)
