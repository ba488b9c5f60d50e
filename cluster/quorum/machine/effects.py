"""Effects: what the leader has to do after entries, in the given order.

Other members apply the same entries without collecting effects. If effects are lost with a leader,
clients get them from the next leader when they attach, and dead letters that are published at least
once are kept in the state.
"""

from enum import IntEnum

from leveret.cluster.quorum.machine.runs import Run


class Reason(IntEnum):
    """Why messages have died, as RabbitMQ writes it in x-death."""

    EXPIRED = 0
    REJECTED = 1
    MAXLEN = 2
    DELIVERY_LIMIT = 3


class Outcome(IntEnum):
    """The kinds of results. Most commands have no result."""

    REFUSED = 1
    """Messages of an `Enqueue` were refused, because the queue is full."""
    EMPTY = 2
    """The queue has no message for a `Get`."""
    GOT = 3
    """The message for a `Get` was delivered. value: how many are left in the queue."""
    SINGLE_ACTIVE = 4
    """A `Get` is not allowed, because the queue has a single active consumer."""
    PURGED = 5
    """The queue was purged. value: how many messages were dropped."""


class Effect:
    """Something that the leader has to do."""

    __slots__ = ()


class ForClient(Effect):
    """An effect for a client. sender: the client's."""

    __slots__ = ("sender",)

    def __init__(self, sender: int) -> None:
        self.sender = sender


class Applied(ForClient):
    """The commands of a sender through a number are applied. Comes after their results."""

    __slots__ = ("through",)

    def __init__(self, sender: int, through: int) -> None:
        super().__init__(sender)
        self.through = through


class Result(ForClient):
    """The result of a command. refused: places in an `Enqueue`: first, last, first, last ..."""

    __slots__ = ("number", "outcome", "refused", "value")

    def __init__(
        self, sender: int, number: int, outcome: Outcome, value: int = 0,
        refused: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        super().__init__(sender)
        self.number = number
        self.outcome = outcome
        self.value = value
        self.refused = refused


class Deliver(ForClient):
    """Send messages to a consumer. Their delivery numbers follow those of its last delivery."""

    __slots__ = ("consumer", "runs")

    def __init__(self, sender: int, consumer: int, runs: list[Run]) -> None:
        super().__init__(sender)
        self.consumer = consumer
        self.runs = runs


class Withheld(ForClient):
    """Messages of a cancelled consumer that are not sent to it: its client returns them.

    Like `Deliver`, this continues its delivery numbers.
    """

    __slots__ = ("consumer", "runs")

    def __init__(self, sender: int, consumer: int, runs: list[Run]) -> None:
        super().__init__(sender)
        self.consumer = consumer
        self.runs = runs


class ActiveChanged(ForClient):
    """A consumer has become the single active one of the queue, or no longer is."""

    __slots__ = ("consumer", "is_active")

    def __init__(self, sender: int, consumer: int, is_active: bool) -> None:
        super().__init__(sender)
        self.consumer = consumer
        self.is_active = is_active


class TimedOut(ForClient):
    """A consumer has held messages for too long. They were returned, and it gets no new ones.

    positions: intervals. Once the client has settled or returned them, the consumer gets messages
    again. The client does this once for each, since this effect may be repeated when it attaches.
    Or it cancels the consumer.
    """

    __slots__ = ("consumer", "positions")

    def __init__(self, sender: int, consumer: int, positions: list[int]) -> None:
        super().__init__(sender)
        self.consumer = consumer
        self.positions = positions


class UnknownSender(ForClient):
    """The queue does not know the sender: its client has to join again with a new number."""

    __slots__ = ()


class SenderEnded(ForClient):
    """The sender has ended. Its client was told about all of its commands that were applied."""

    __slots__ = ()


class Dropped(Effect):
    """Count messages that have died in a queue without dead-lettering."""

    __slots__ = ("reason", "runs")

    def __init__(self, reason: Reason, runs: list[Run]) -> None:
        self.reason = reason
        self.runs = runs


class PublishDeadLetters(Effect):
    """Publish dead letters.

    are_kept: they are published at least once; the queue keeps them until `LettersDone`.
    """

    __slots__ = ("are_kept", "reason", "runs")

    def __init__(self, reason: Reason, runs: list[Run], are_kept: bool) -> None:
        self.reason = reason
        self.runs = runs
        self.are_kept = are_kept


class Delayed(Effect):
    """Trace messages that wait for their retry until `time_ms` of their runs."""

    __slots__ = ("runs",)

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs


class RefusedDuplicates(Effect):
    """Trace messages that the queue did not take, because it knows their identifiers."""

    __slots__ = ("runs",)

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs


class LettersDropped(Effect):
    """The queue has dropped its dead letters, because its new options do not keep any."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class Expired(Effect):
    """Delete the queue, which was unused for too long. Repeated with each tick."""

    __slots__ = ()


class DelaysEnded(Effect):
    """An `EndDelays` was applied to this many messages."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class Effects:
    """Collects the effects of entries for the leader."""

    __slots__ = ("_applied", "_effects")

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._applied: dict[int, int] = {}

    def add(self, effect: Effect) -> None:
        """Add an effect."""
        self._effects.append(effect)

    def applied(self, sender: int, through: int) -> None:
        """The commands of a sender through a number are applied."""
        self._applied[sender] = through

    def take(self) -> list[Effect]:
        """All effects since the last call, with `Applied` at the end."""
        effects, self._effects = self._effects, []
        for sender, through in self._applied.items():
            effects.append(Applied(sender, through))
        self._applied = {}
        return effects
