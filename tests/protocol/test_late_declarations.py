"""Declarations whose answers come later, as in a cluster: what clients see of it."""

import pytest
from pamqp import commands

from leveret.broker.runtime.pending import Answer, given
from tests.protocol.raw_client import connection_count, opened, wait_until, wait_until_read


class LateLog:
    """A declaration log that keeps and applies what is submitted when the test says so."""

    def __init__(self, log):
        self.log = log
        self.waiting = []

    def submit(self, *declarations, answer=None, requester=None):
        answer = answer or Answer()
        self.waiting.append((declarations, answer))
        return answer

    def synced(self):
        return given(None)

    def release(self):
        waiting, self.waiting = self.waiting, []
        for declarations, answer in waiting:
            kept = self.log.submit(*declarations)
            kept.when_given(lambda kept=kept, answer=answer: answer.give(kept.result()))


@pytest.fixture(autouse=True)
def log(broker):
    """The broker's declaration log answers late, until the end of the test."""
    before = broker.call(lambda embedded: embedded.broker.services.declarations)

    def put(log):
        broker.call(lambda embedded: setattr(embedded.broker.services, "declarations", log))

    put(LateLog(before))
    yield
    put(before)


def release(broker):
    broker.call(lambda embedded: embedded.broker.services.declarations.release())


def wait_for_submitted(broker, count):
    wait_until(
        lambda: broker.call(lambda it: len(it.broker.services.declarations.waiting)) == count
    )


def queue_names(broker):
    return broker.call(lambda embedded: set(embedded.broker.services.vhosts["/"].queues))


def send_declare(client, queue, channel=1, **arguments):
    table = {"arguments": {}, "ticket": 0}
    client.send_method(channel, commands.Queue.Declare, queue=queue, **table, **arguments)


def test_a_channel_waits_and_others_go_on(broker):
    with opened(broker) as client:
        client.open_channel(2)
        send_declare(client, "q")
        wait_for_submitted(broker, 1)
        assert not queue_names(broker)
        client.call(2, commands.Basic.Qos, commands.Basic.QosOk, prefetch_size=0, prefetch_count=1)
        release(broker)
        assert client.read_method(1, commands.Queue.DeclareOk).queue == "q"
    assert queue_names(broker) == {"q"}


def test_of_two_that_declare_a_queue_the_second_gets_what_the_first_declared(broker):
    with opened(broker) as client:
        client.open_channel(2)
        send_declare(client, "q", durable=True)
        send_declare(client, "q", channel=2, durable=True)
        wait_for_submitted(broker, 2)
        release(broker)
        client.read_method(1, commands.Queue.DeclareOk)
        client.read_method(2, commands.Queue.DeclareOk)


def test_of_two_that_declare_it_differently_the_second_is_refused(broker):
    with opened(broker) as client:
        client.open_channel(2)
        send_declare(client, "q", durable=True)
        send_declare(client, "q", channel=2)
        wait_for_submitted(broker, 2)
        release(broker)
        client.read_method(1, commands.Queue.DeclareOk)
        closed = client.read_method(2, commands.Channel.Close)
        assert closed.reply_text.startswith("PRECONDITION_FAILED - inequivalent arg 'durable'")


def test_an_exclusive_queue_of_a_client_that_has_gone_is_left_out(broker):
    with opened(broker) as client:
        send_declare(client, "mine", exclusive=True)
        wait_for_submitted(broker, 1)
    wait_until(lambda: connection_count(broker) == 0)
    release(broker)
    assert not queue_names(broker)


def test_the_end_of_a_channel_does_not_undo_what_it_declared(broker):
    with opened(broker) as client:
        send_declare(client, "q", exclusive=True)
        wait_for_submitted(broker, 1)
        client.send_method(1, commands.Channel.Close, reply_code=200, reply_text="",
                           class_id=0, method_id=0)  # fmt: skip
        wait_until_read(broker, client)
        release(broker)
        wait_until(lambda: queue_names(broker) == {"q"})
    wait_until(lambda: connection_count(broker) == 0)
    # Its connection has ended, and so the queue is deleted: the vhost's own log answers at once.
    assert not queue_names(broker)
