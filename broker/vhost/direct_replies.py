"""Direct reply-to: the channels that consume from amq.rabbitmq.reply-to, and the path of a reply.

Such a channel has a name of its own, which requests carry in place of the general one. It has an
unguessable part, and ends with a number that stands for the node. A reply that is published to it
goes to the channel without a queue: to a channel of this node, or to the node whose number the name
has (`RepliesOfOtherNodes`). A reply to an unknown name is dropped.
"""

import zlib
from typing import Protocol

from leveret.broker.amqp.properties import DIRECT_REPLY_TO
from leveret.broker.runtime.generated_names import generate_name
from leveret.broker.runtime.pending import Answer
from leveret.storage.messages.message import Message


class ReplyConsumer(Protocol):
    """A channel that consumes from amq.rabbitmq.reply-to."""

    def deliver_reply(self, message: Message) -> None:
        """Send a reply to the client."""


class RepliesOfOtherNodes(Protocol):
    """The linked nodes of the cluster. node: the number in a name (`node_number`)."""

    def deliver(self, node: str, message: Message) -> None:
        """Send a reply to the node, whose channel has the message's routing key as its name."""

    def exists(self, node: str, name: str, answer: Answer[bool]) -> None:
        """Whether a channel of the node has this name."""


class Replies:
    """The names in use on this node. others: None while the node is not in a cluster."""

    def __init__(self, node: str) -> None:
        """node: the name of this node."""
        self.node = node
        self.others: RepliesOfOtherNodes | None = None
        self._consumers: dict[str, ReplyConsumer] = {}

    def add(self, consumer: ReplyConsumer) -> str:
        """Register a channel that begins to consume replies; return its name."""
        unguessable = generate_name(f"{DIRECT_REPLY_TO}.g1h").replace("g1h-", "g1h_")
        name = f"{unguessable}.{node_number(self.node)}"
        self._consumers[name] = consumer
        return name

    def remove(self, name: str) -> None:
        """Forget a channel that stops consuming replies."""
        self._consumers.pop(name, None)

    def deliver(self, message: Message) -> None:
        """Deliver a reply to the channel whose name is the message's routing key."""
        name = message.address.routing_key
        if not self.deliver_here(message) and self.others is not None:
            self.others.deliver(_node_of(name), message)

    def deliver_here(self, message: Message) -> bool:
        """Deliver a reply to this node's channel of this name; return whether there is one."""
        consumer = self._consumers.get(message.address.routing_key)
        if consumer is None:
            return False
        consumer.deliver_reply(message)
        return True

    def is_here(self, name: str) -> bool:
        """Whether a channel of this node has this name."""
        return name in self._consumers

    def exists(self, name: str, answer: Answer[bool]) -> None:
        """Whether a channel of any node has this name."""
        if self.is_here(name) or self.others is None:
            answer.give(self.is_here(name))
        else:
            self.others.exists(_node_of(name), name, answer)


def node_number(node: str) -> str:
    """The number that stands for a node in names, which may be shorter than the node's name."""
    return f"{zlib.crc32(node.encode()):08x}"


def _node_of(name: str) -> str:
    return name.rpartition(".")[2]
