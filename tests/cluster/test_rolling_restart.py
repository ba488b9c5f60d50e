"""Programs that know all nodes survive a restart of each node in turn, without losing a message."""

import contextlib
import threading

import pika
import pytest
from pika import exceptions

from tests.cluster.clustered_nodes import form

PERSISTENT = pika.BasicProperties(delivery_mode=2)
QUEUES = ("on-a", "on-b", "on-c")


class Publisher:
    """Publishes to all queues in turn and notes what was confirmed, on whichever node runs."""

    def __init__(self, nodes):
        self._nodes = nodes
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.confirmed = {queue: set() for queue in QUEUES}

    def start(self):
        self._thread.start()

    def stop(self):
        self._is_done.set()
        self._thread.join()

    def _run(self):
        number = 0
        while not self._is_done.is_set():
            node = self._nodes[number % len(self._nodes)]
            number += 1
            # The node is down, or goes down: the next one is tried.
            with contextlib.suppress(exceptions.AMQPError), node.connect() as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                while not self._is_done.is_set():
                    number += 1
                    self._publish(channel, QUEUES[number % len(QUEUES)], number)

    def _publish(self, channel, queue, number):
        """Publish a message, which is returned or refused while the node of its queue is down."""
        with contextlib.suppress(exceptions.UnroutableError, exceptions.NackError):
            body = b"%d" % number
            channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)
            self.confirmed[queue].add(body)


def contents(node, queue):
    """Take all messages of a queue."""
    with node.connect() as connection:
        channel = connection.channel()
        bodies = set()
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            bodies.add(got[2])
        return bodies


@pytest.fixture
def nodes(tmp_path):
    nodes = form(tmp_path, "a", "b", "c")
    yield nodes
    for node in nodes:
        node.stop()


def test_no_confirmed_message_is_lost_in_a_rolling_restart(nodes):
    for node, queue in zip(nodes, QUEUES, strict=True):
        with node.connect() as connection:
            connection.channel().queue_declare(queue, durable=True)
    publisher = Publisher(nodes)
    publisher.start()
    try:
        for node in nodes:
            count = sum(map(len, publisher.confirmed.values()))
            node.stop()
            node.start()
            node.wait_until(
                lambda seen=count: sum(map(len, publisher.confirmed.values())) > seen,
                "more is confirmed",
            )
    finally:
        publisher.stop()
    for queue in QUEUES:
        assert publisher.confirmed[queue]
        assert publisher.confirmed[queue] <= contents(nodes[0], queue)
