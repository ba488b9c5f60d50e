"""Test doubles for users of queues of other nodes."""

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.queues.contract.publication import OWN_TTL, publication_of
from leveret.broker.runtime.pending import Answer
from leveret.storage.messages.message import Address, Message

ADDRESS = Address("", "q", encode_address("", "q"))


def expiring(*times_ms):
    """A publication of messages with times to live of their own, which are their bodies, too."""
    texts = [str(ttl_ms) for ttl_ms in times_ms]
    messages = [
        Message(ADDRESS, read_header(encode_properties({"expiration": text})), text.encode())
        for text in texts
    ]
    return publication_of(messages, OWN_TTL)


class Publisher:
    """Records what becomes of runs. owed: for each run, how often it is held."""

    def __init__(self):
        self.owed, self.confirmed, self.refused, self.died = {}, [], [], []

    def hold(self, first, count, holder):
        self.owed[first] = self.owed.get(first, 0) + 1

    def confirm(self, first, holder):
        assert first in self.owed, "a run is confirmed once"
        del self.owed[first]
        self.confirmed.append(first)

    def refuse(self, number):
        assert number not in self.refused, "a message is refused once"
        self.refused.append(number)

    def holder_died(self, holder, is_settled):
        self.died.append(is_settled)
        self.owed.clear()


def asked(nodes, ask, *arguments):
    """The answer to a question. Raises what it is refused with."""
    answer = Answer()
    ask(*arguments, answer)
    nodes.settle()
    return answer.result()


def consuming(nodes, queue, consumer):
    """The consumer, which gets messages from now on."""
    asked(nodes, queue.subscribe, consumer)
    return consumer
