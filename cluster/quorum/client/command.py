"""A command of a node to a quorum queue, and what becomes of it.

A command is encoded once, when it gets its number, and the same bytes are sent again after a change
of the leader. Only if the group ends the sender (group_client.py), a command may be encoded once
more, for the next sender.
"""

from abc import abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Command:
    """One command. number: its place among those of its sender; 0 before it has one. payload: its
    bytes.
    """

    __slots__ = ("number", "payload")

    def __init__(self) -> None:
        self.number = 0
        self.payload = b""

    @abstractmethod
    def encode(self, sender: int, seen: int) -> bytes:
        """Its bytes, with its number. seen: all results through this number have arrived."""

    def applied(self, result: object) -> None:
        """The queue has done it. result: None if there is none."""

    def sender_ended(self) -> bool:
        """It was not applied before the group ended its sender, and never will be; whether the
        next sender is to send it. The consumers of the sender have ended, and what they held was
        returned.
        """
        return True

    def is_in_doubt(self) -> bool:
        """The group has forgotten its sender, so it is unknown whether it was applied; whether the
        next sender is to send it.
        """
        return self.sender_ended()

    def queue_ended(self, error: Exception, is_deleted: bool) -> None:
        """It will not be done: the queue is deleted, or the node stops.

        error: for callers that wait for an answer.
        """
