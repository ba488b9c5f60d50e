"""The messages of a quorum queue as versions without groups stored them. Pure.

Such a queue had one member. Level 0 of its backing queue has its messages, level 1 those that were
returned to the front, and level 2 the dead letters that it kept. A message that was returned has a
header with the number of its returns, and a letter one with the reason of its death.
"""

from typing import NamedTuple

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.queues.dead_letters.header import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from leveret.cluster.quorum.machine.commands import TakenPlace
from leveret.storage.messages.message import Entry, Message

FRONT_LEVEL, LETTERS_LEVEL = 1, 2
RETURNS, DEATH = "x-leveret-returns", "x-leveret-death"
REASONS = {
    EXPIRED: TakenPlace.EXPIRED, REJECTED: TakenPlace.REJECTED, MAXLEN: TakenPlace.MAXLEN,
    DELIVERY_LIMIT: TakenPlace.DELIVERY_LIMIT,
}  # fmt: skip


class OlderMessage(NamedTuple):
    """A message as it was published. returns, place: as in `TakeOver`."""

    message: Message
    expires_at_ms: int
    returns: int
    place: TakenPlace


def older_message(entry: Entry, level: int) -> OlderMessage:
    """The message of an entry of a level."""
    header = entry.message.header
    assert isinstance(header, ContentHeader), "messages are restored with content headers"
    headers = dict(header.headers)
    marks = [headers.pop(name, None) for name in (RETURNS, DEATH)]
    if marks != [None, None]:
        header = header.replace(headers=headers or None)
    returned, died = marks
    # A message that was with a consumer when the node stopped was returned by the stop.
    returns = entry.redelivered + (0 if returned is None else returned[1][0][1])
    place = TakenPlace.FRONT if level == FRONT_LEVEL else TakenPlace.END
    if level == LETTERS_LEVEL and died is not None:
        place, returns = REASONS[died[1]], 0
    message = entry.message
    again = Message(message.address, header, message.body, message.stored, message.number)
    return OlderMessage(again, entry.expires_at_ms, returns, place)
