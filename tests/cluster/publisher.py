"""A client that publishes with confirms for as long as a test lets it, and notes which are safe."""

import threading

from pika import exceptions

from tests.cluster.clients import PERSISTENT
from tests.patience import PATIENCE_SECONDS

PAUSE_SECONDS = 0.05
PUBLISH_SECONDS = 0.004
"""Between two messages. Without it, the client and all nodes that have the queue would keep the
processors busy for as long as a test waits for something else.
"""


class ConfirmedPublisher:
    """Publishes numbers to a queue through one node. confirmed: those that were confirmed.

    exchange: the one to publish to, with the queue's name as the key; what it routes to no queue
    does not count.
    """

    def __init__(self, node, queue, exchange=""):
        self._node = node
        self._queue = queue
        self._exchange = exchange
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.confirmed = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._is_over.set()
        # Longer than that it waits for a confirm of a queue that has no leader: its node ends it.
        self._thread.join(PATIENCE_SECONDS)

    def _run(self):
        number = 0
        while not self._is_over.wait(PAUSE_SECONDS):
            try:
                with self._node.connect() as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    while not self._is_over.wait(PUBLISH_SECONDS):
                        number += 1
                        self._publish(channel, b"%d" % number)
            except exceptions.AMQPError:
                # The node does not accept clients, or the queue's node is down: once more.
                continue

    def _publish(self, channel, body):
        try:
            channel.basic_publish(self._exchange, self._queue, body, PERSISTENT, mandatory=True)
        except (exceptions.UnroutableError, exceptions.NackError):
            self._is_over.wait(PAUSE_SECONDS)
        else:
            self.confirmed.append(body)
