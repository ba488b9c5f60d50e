"""The fence: a node withholds its answers while it may no longer be in its view.

A node that was suspended may have been left out of the view; a node that learns of a later view
without itself has been left out. While it is fenced it orders and answers nothing. The fence falls
when all members of its view confirm the view, when the node is in a new view, or after
`FENCE_TICKS` ticks: then the node continues alone, if the partition rule allows it.
"""

from collections.abc import Iterable

FENCE_TICKS = 20
"""How long a node waits to be taken back before it continues alone."""


class Fence:
    """The fence of one node. is_up: it answers nothing. number: the current request's number."""

    def __init__(self, ticks: int = FENCE_TICKS) -> None:
        self._ticks = ticks
        self._ticks_left = 0
        self._unconfirmed: set[str] | None = None
        self.number = 0

    @property
    def is_up(self) -> bool:
        """Whether the node waits."""
        return self._ticks_left > 0

    def ask(self, members: Iterable[str]) -> int:
        """Wait until these have confirmed the view; return the number of the request to them."""
        self._ticks_left = self._ticks
        self._unconfirmed = set(members)
        self.number += 1
        return self.number

    def wait(self) -> None:
        """Wait to be taken into a view."""
        self._ticks_left = self._ticks
        self._unconfirmed = None

    def confirmed(self, name: str, number: int) -> None:
        """Note the answer of a member: it is in the same view."""
        if number != self.number or self._unconfirmed is None:
            return
        self._unconfirmed.discard(name)
        if not self._unconfirmed:
            self.fall()

    def doubt(self) -> None:
        """Note that the view can no longer be confirmed: the link with a member is lost."""
        self._unconfirmed = None

    def tick(self) -> None:
        """Count a tick."""
        self._ticks_left = max(0, self._ticks_left - 1)

    def fall(self) -> None:
        """End the fence: the node knows its view."""
        self._ticks_left = 0
        self._unconfirmed = None
