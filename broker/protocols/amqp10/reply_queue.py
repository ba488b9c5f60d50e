"""Direct reply-to for clients of AMQP 1.0: the source of replies of a link to a requester.

As RabbitMQ's rabbit_volatile_queue.erl, it has a name that cannot be guessed, which requests carry
in `reply-to`, and which is in no table of queues. It keeps no messages: a reply is dropped if the
link has no credit. Replies come from clients of any protocol and node (direct_replies.py).
"""

from typing import Final, cast

from leveret.broker.protocols.amqp10.addresses import queue_address
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.queue_client import Consumer, QueueClient, QueueLength
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.queues.dead_letters.header import MAXLEN
from leveret.broker.runtime.pending import Answer
from leveret.broker.vhost.direct_replies import Replies
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.messages.message import Entry, Message

VOLATILE_QUEUE: Final = QueueKind(
    "volatile", "rabbit_volatile_queue", (), ("x-priority", "x-consumer-timeout")
)


class ReplyQueue:
    """The replies for one link. name: identifies the link among all that get replies.

    It has the part of `QueueClient` that links and sessions use. Messages are sent settled, so none
    comes back.
    """

    kind = VOLATILE_QUEUE
    options = QueueOptions()
    is_deleted = may_redeliver = False

    def __init__(self, vhost: VirtualHost, replies: Replies) -> None:
        self.name = replies.add(self)
        self._vhost = vhost
        self._replies = replies
        self._link: Consumer | None = None
        self._position = 0

    def begin(self, link: Consumer) -> None:
        """Give the link its replies until `cancel` is called."""
        self._link = link

    @property
    def address(self) -> str:
        """The address for the property `reply-to` of a request."""
        return queue_address(self.name)

    def deliver_reply(self, message: Message) -> None:
        """Send a reply to the client, or drop it."""
        link = self._link
        if link is None or link.room() <= 0:
            self._vhost.note_discarded(cast(QueueClient, self), MAXLEN, 1)
            return
        self._position += 1
        link.deliver([Entry(message, self._position)])

    def cancel(
        self, link: Consumer, channel_ended: bool = False, answer: Answer[None] | None = None
    ) -> None:
        """The link has ended: further replies are dropped."""
        self._link = None
        self._replies.remove(self.name)
        if answer is not None:
            answer.give(None)

    def credit(self, link: Consumer) -> None:
        """Do nothing: no reply waits."""

    def length(self, answer: Answer[QueueLength]) -> None:
        """No reply waits."""
        answer.give(QueueLength(0, 1))
