"""Test doubles for users of queues of other nodes."""

from leveret.broker.amqp.content import encode_address
from leveret.broker.runtime.pending import Answer
from leveret.storage.messages.message import Address

ADDRESS = Address("", "q", encode_address("", "q"))


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
