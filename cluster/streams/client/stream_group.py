"""The interface of the service that connects a stream's client on this node to its group.

The service finds the leader, on this node or another one, and sends it commands (machine/commands).
It calls `leader_found`, `leader_lost` and `told` of `StreamQueueClient`, as that of a quorum queue
does, `member_changed` when `own_log` is another one, and `asked` when another node asks the member
on this node.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.storage.stream_log.stream_log import StreamLog


class OwnLog(Protocol):
    """The member of a stream on this node, as readers use it.

    log: its chunks, which may be read up to committed_entry. committed_offset: the offset after
    their messages.
    """

    log: StreamLog

    @property
    def committed_entry(self) -> int:
        """The last chunk that is committed, and applied by this member's machine."""

    @property
    def committed_offset(self) -> int:
        """The offset after the last committed message."""

    def watch(self, committed: Callable[[], object] | None) -> None:
        """Have this called at the end of each turn in which chunks were committed."""


class StreamGroup(Protocol):
    """The group of one stream. is_new: the stream was not found by a restart: it is empty."""

    is_new: bool

    @property
    def own_log(self) -> OwnLog | None:
        """The member on this node; None if it has none, or if it cannot be read."""

    @property
    def leader(self) -> str:
        """The leader's node; empty if it is unknown."""

    @property
    def replicas(self) -> Sequence[str]:
        """The other nodes that have a member, and can be reached. Members may be behind."""

    def attach(self, session: int, sender: int, seen: int, received: Mapping[int, int]) -> None:
        """Start a session with the leader."""

    def send(self, session: int, commands: list[bytes]) -> None:
        """Send commands to the leader, which proposes them in this order."""

    def ask(self, question: bytes, answer: Callable[[bytes | None], object]) -> None:
        """Ask the leader (machine/questions).

        The answer is None if there is no leader, or if it is lost.
        """

    def ask_member(
        self, node: str, question: bytes, answer: Callable[[bytes | None], object]
    ) -> None:
        """Ask the client on another node, which has a member (`asked`), for example for chunks.

        It may answer after seconds. None as with `ask`.
        """

    def configure(self, options: QueueOptions) -> None:
        """Take options that policies have changed: ages and sizes of the log."""

    def close(self, is_deleted: bool) -> None:
        """End: the stream is deleted, or the node stops."""
