"""Messages from members that have applied a newer record of the group than this one.

They wait for that record. Above a limit they are discarded, and a catch-up replaces them: the left
neighbour keeps all broadcasts that are not acknowledged. Later messages of the same member have the
same version or a newer one, so they are not processed before that catch-up either.
"""

from leveret.cluster.gm.activity import CATCH_UP_END, MessageHead

WAITING_BYTES_MAX = 64 * 1024 * 1024
"""A few seconds of a fast publisher, or its whole window of unconfirmed messages."""


class EarlyMessages:
    """The waiting messages, in the order of their arrival.

    lost_from, lost_through: the versions of discarded messages; 0 if there are none.
    """

    __slots__ = ("_bytes_max", "_waiting", "_waiting_bytes", "lost_from", "lost_through")

    def __init__(self, bytes_max: int) -> None:
        self._waiting: list[tuple[str, MessageHead, bytes]] = []
        self._waiting_bytes = 0
        self._bytes_max = bytes_max
        self.lost_from = self.lost_through = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def messages(self) -> list[tuple[str, bytes]]:
        """The waiting messages, with the nodes that sent them."""
        return [(node, message) for node, _, message in self._waiting]

    def add(self, node: str, head: MessageHead, message: bytes) -> None:
        """Keep a message of a node; above the limit keep only requests."""
        self._waiting.append((node, head, message))
        self._waiting_bytes += len(message)
        if self.lost_from or self._waiting_bytes > self._bytes_max:
            self._give_up()

    def _give_up(self) -> None:
        lost = [head.version for _, head, _ in self._waiting if head.kind <= CATCH_UP_END]
        if lost:
            self.lost_from = min(self.lost_from or lost[0], *lost)
            self.lost_through = max(self.lost_through, *lost)
        self._keep([one for one in self._waiting if one[1].kind > CATCH_UP_END])

    def _keep(self, waiting: list[tuple[str, MessageHead, bytes]]) -> None:
        self._waiting = waiting
        self._waiting_bytes = sum([len(message) for _, _, message in waiting])

    def caught_up(self, version: int) -> None:
        """A catch-up arrived: it replaces discarded messages, unless they are newer."""
        if version >= self.lost_through:
            self.lost_from = self.lost_through = 0

    def take(self, version: int) -> list[tuple[str, MessageHead, bytes]]:
        """Take out the messages that wait for no record newer than this version."""
        taken = [one for one in self._waiting if one[1].version <= version]
        self._keep([one for one in self._waiting if one[1].version > version])
        return taken
