"""The promises of a node to be bound to views, and which of them are on its disk.

A node agrees to proposals in the order of their ids (V1), and a restart must not undo that. A node
may agree to a view, and end before it learns that this view holds. If it forgot its agreement, it
could take part in another view with a lower id: neither view would go back to the other, and the
failed one would count as the later one when nodes start (`_knowledge` in
membership/start_order.py). Operations answered in the other view would be undone.

A promise is on disk before any node relies on it: before `Accept` is sent, and before the proposer
installs its view. A view of one node begins without this wait: no other node has to agree, and
answers in the view wait for the disk, which has the view by then.
"""

from collections import deque
from collections.abc import Callable

from leveret.cluster.metadata.messages import View, ViewId


class Promises:
    """The promises of one node. written: the highest promise of its earlier runs.

    write: requests the write of a promise, and returns the number of the output.
    """

    def __init__(self, written: ViewId, write: Callable[[ViewId], int]) -> None:
        self._write = write
        self._on_disk = written
        self._under_way: deque[tuple[int, ViewId]] = deque()

    @property
    def highest(self) -> ViewId:
        """The highest promise that a restart is certain to find."""
        return self._on_disk

    def make(self, view: View) -> None:
        """Promise to be bound to a view, whose id is higher than all previous ones."""
        if len(view.members) > 1:
            self._under_way.append((self._write(view.id), view.id))

    def hold(self, view: View) -> bool:
        """Whether a restart is certain to find the promise of a view, if the view needs one."""
        return len(view.members) == 1 or self._on_disk >= view.id

    def written(self, number: int) -> None:
        """Outputs up to this number are on disk."""
        while self._under_way and self._under_way[0][0] <= number:
            self._on_disk = self._under_way.popleft()[1]
