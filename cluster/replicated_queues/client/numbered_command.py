"""A command of a node to the group of a queue, and how the node learns its outcome.

A command is encoded once, when it gets its number, and the same bytes are sent again after a change
of the leader. Only if the group ends the sender (group_client.py) may a command be encoded once
more, for the next sender.
"""

from abc import abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class NumberedCommand:
    """One command. number: its place among the commands of its sender; 0 before it has one.
    payload: its encoded bytes.
    """

    __slots__ = ("number", "payload")

    def __init__(self) -> None:
        self.number = 0
        self.payload = b""

    @abstractmethod
    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command and its number. seen: all results through this one have arrived."""

    def applied(self, result: object) -> None:
        """The group has applied the command. result: None if there is none."""

    def sender_ended(self) -> bool:
        """The group has ended the sender without applying the command, and never will apply it.
        Returns whether the next sender has to send it. The sender's consumers have ended, and the
        messages that they held were returned.
        """
        return True

    def sender_forgotten(self) -> bool:
        """The group has forgotten the sender, so it is unknown whether the command was applied.
        Returns whether the next sender has to send it.
        """
        return self.sender_ended()

    def queue_ended(self, error: Exception, is_deleted: bool) -> None:
        """The command will not be applied: the queue is deleted, or the node stops.

        error: for callers that wait for an answer.
        """
