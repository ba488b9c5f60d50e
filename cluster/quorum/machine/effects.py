"""What the member that leads has to do after entries, as values, in the given order.

Other members apply the same entries and ask for no effects. What is lost with a leader, clients get
from the next one when they attach, and dead letters that are published at least once are kept.
"""

from enum import IntEnum

from leveret.cluster.quorum.machine.runs import Run


class Reason(IntEnum):
    """Why messages have died. x-death has these, as RabbitMQ writes them."""

    EXPIRED = 0
    REJECTED = 1
    MAXLEN = 2
    DELIVERY_LIMIT = 3


class Outcome(IntEnum):
    """The results of commands. Commands without one of these have none."""

    REFUSED = 1
    """Messages of an `Enqueue` were refused, because the queue is full."""
    EMPTY = 2
    """There is no message for a `Get`."""
    GOT = 3
    """A `Get` has a message, which was delivered. value: how many are left."""
    SINGLE_ACTIVE = 4
    """No `Get` is possible, since there is a single active consumer."""
    PURGED = 5
    """value: how many messages were dropped."""


class Effect:
    """Something to do."""

    __slots__ = ()


class ForClient(Effect):
    """Something to tell a client. sender: the client's."""

    __slots__ = ("sender",)

    def __init__(self, sender: int) -> None:
        self.sender = sender


class Applied(ForClient):
    """The commands of a sender through a number are applied. Follows their results."""

    __slots__ = ("through",)

    def __init__(self, sender: int, through: int) -> None:
        super().__init__(sender)
        self.through = through


class Result(ForClient):
    """The result of a command. refused: places of an `Enqueue`: first, last, first, last ..."""

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
    """Send messages to a consumer. Those of one consumer continue its delivery numbers."""

    __slots__ = ("consumer", "runs")

    def __init__(self, sender: int, consumer: int, runs: list[Run]) -> None:
        super().__init__(sender)
        self.consumer = consumer
        self.runs = runs


class ActiveChanged(ForClient):
    """A consumer becomes the single active one of the queue, or is it no longer."""

    __slots__ = ("consumer", "is_active")

    def __init__(self, sender: int, consumer: int, is_active: bool) -> None:
        super().__init__(sender)
        self.consumer = consumer
        self.is_active = is_active


class TimedOut(ForClient):
    """A consumer has held messages for too long: they were returned, and it gets nothing new.

    positions: intervals. Once the client has settled or returned them, it gets messages again. It
    names each once, since this may come again when it attaches; or it cancels the consumer, as the
    clients of nodes do.
    """

    __slots__ = ("consumer", "positions")

    def __init__(self, sender: int, consumer: int, positions: list[int]) -> None:
        super().__init__(sender)
        self.consumer = consumer
        self.positions = positions


class UnknownSender(ForClient):
    """The sender is not or no longer known: its client begins again under another number."""

    __slots__ = ()


class SenderEnded(ForClient):
    """The sender has ended. Its client was told everything that was applied of it."""

    __slots__ = ()


class Dropped(Effect):
    """Messages have died, and the queue has no use for dead letters: count them."""

    __slots__ = ("reason", "runs")

    def __init__(self, reason: Reason, runs: list[Run]) -> None:
        self.reason = reason
        self.runs = runs


class DeadLetters(Effect):
    """Publish dead letters.

    are_kept: at least once; the queue keeps them until `LettersDone` names them.
    """

    __slots__ = ("are_kept", "reason", "runs")

    def __init__(self, reason: Reason, runs: list[Run], are_kept: bool) -> None:
        self.reason = reason
        self.runs = runs
        self.are_kept = are_kept


class LettersDropped(Effect):
    """Other options are in force, by which the queue keeps no dead letters: it dropped them."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class Expired(Effect):
    """The queue was not used for too long: delete it. Comes again with each tick."""

    __slots__ = ()


class Effects:
    """The effects of some entries, which the member that leads collects."""

    __slots__ = ("_applied", "_effects")

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._applied: dict[int, int] = {}

    def add(self, effect: Effect) -> None:
        """Add one."""
        self._effects.append(effect)

    def applied(self, sender: int, through: int) -> None:
        """The commands of a sender through a number are applied."""
        self._applied[sender] = through

    def take(self) -> list[Effect]:
        """All effects since the last call, those of `Applied` at the end."""
        effects, self._effects = self._effects, []
        for sender, through in self._applied.items():
            effects.append(Applied(sender, through))
        self._applied = {}
        return effects
