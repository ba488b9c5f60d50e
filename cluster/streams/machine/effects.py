"""Effects: messages of a stream's leader to the client of a node (machine/commands).

A client that attaches is told `Applied` with the last of its commands that is in the log, or
`UnknownSender`.
"""

from typing import NamedTuple, TypeAlias


class Applied(NamedTuple):
    """The commands of a sender through a number are in the log, and committed.

    next_offset: the offset after the messages of the chunk that they are in, and messages their
    number; 0 if they are in several chunks.
    """

    sender: int
    through: int
    next_offset: int = 0
    messages: int = 0


class UnknownSender(NamedTuple):
    """The stream does not know the sender: its first command is not in the log."""

    sender: int


Effect: TypeAlias = Applied | UnknownSender
