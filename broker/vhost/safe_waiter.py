"""A `Waiter` of a backing queue that gives an answer."""

from leveret.broker.runtime.pending import Answer


class SafeWaiter:
    """Gives an answer when what the backing queue was told before is on disk."""

    def __init__(self, answer: Answer[None]) -> None:
        self._answer = answer

    def confirm(self, first: int, holder: object) -> None:
        """It is on disk."""
        self._answer.give(None)
