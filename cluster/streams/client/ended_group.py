"""Takes the place of the group of a stream that has ended, so that nothing refers to the group."""

from collections.abc import Callable, Mapping
from typing import Final

from leveret.broker.queues.contract.arguments import QueueOptions


class EndedStreamGroup:
    """A `StreamGroup` of a stream that is deleted, or whose node stops."""

    is_new = False
    own_log = None
    leader = ""
    replicas: tuple[str, ...] = ()

    def attach(self, session: int, sender: int, seen: int, received: Mapping[int, int]) -> None:
        """Do nothing."""

    def send(self, session: int, commands: list[bytes]) -> None:
        """Do nothing."""

    def ask(self, question: bytes, answer: Callable[[bytes | None], object]) -> None:
        """There is no leader."""
        answer(None)

    def ask_member(
        self, node: str, question: bytes, answer: Callable[[bytes | None], object]
    ) -> None:
        """There is no member."""
        answer(None)

    def configure(self, options: QueueOptions) -> None:
        """Do nothing."""

    def close(self, is_deleted: bool) -> None:
        """Do nothing."""


ENDED_GROUP: Final = EndedStreamGroup()
