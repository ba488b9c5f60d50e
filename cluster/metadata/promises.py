"""The views that a node has promised to be bound to, as far as its disk has that.

A node agrees to proposals in the order of their ids (V1), and a restart must not undo that. It may
have agreed to a view, and ended before it was told that this view holds. If it had forgotten, it
could take part in another one with a lower id: two views, of which neither goes back to the other,
and the one that came to nothing would count as the later one when nodes start (`_knowledge` in
membership/start_order.py). So what was answered in the other one would be undone.

A promise is on disk before anybody relies on it: before `Accept` is sent, and before the proposer
installs its view. A view of one node begins without: no other node is to agree, and what is
answered in it waits for the disk, which has the view by then.
"""

from collections import deque
from collections.abc import Callable

from leveret.cluster.metadata.messages import View, ViewId


class Promises:
    """The promises of one node. written: the highest one of its runs before this one.

    write: asks for a promise to be written, and returns the number of the output.
    """

    def __init__(self, written: ViewId, write: Callable[[ViewId], int]) -> None:
        self._write = write
        self._on_disk = written
        self._under_way: deque[tuple[int, ViewId]] = deque()

    @property
    def highest(self) -> ViewId:
        """The highest one that a restart finds for certain."""
        return self._on_disk

    def make(self, view: View) -> None:
        """Be bound to a view, whose id is higher than all before."""
        if len(view.members) > 1:
            self._under_way.append((self._write(view.id), view.id))

    def hold(self, view: View) -> bool:
        """Whether a restart finds that the node is bound to a view, if that matters."""
        return len(view.members) == 1 or self._on_disk >= view.id

    def written(self, number: int) -> None:
        """Outputs up to this number are on disk."""
        while self._under_way and self._under_way[0][0] <= number:
            self._on_disk = self._under_way.popleft()[1]
