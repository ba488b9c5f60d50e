"""A client that consumes a queue for as long as a test lets it, reconnecting when it has to."""

import threading

from pika import exceptions

LOOK_SECONDS = 0.05


class Consuming:
    """Takes messages and acknowledges each. bodies: of all that have arrived, in order."""

    def __init__(self, node, queue, prefetch=20):
        self._node = node
        self._queue = queue
        self._prefetch = prefetch
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.bodies = []

    def start(self):
        self._thread.start()

    def stop(self):
        self._is_over.set()
        self._thread.join()

    def _run(self):
        while not self._is_over.wait(LOOK_SECONDS):
            try:
                with self._node.connect() as connection:
                    self._consume(connection.channel())
            except exceptions.AMQPError:
                # The node is down, or has lost the consumer: once more.
                continue

    def _consume(self, channel):
        channel.basic_qos(prefetch_count=self._prefetch)
        for method, _, body in channel.consume(self._queue, inactivity_timeout=LOOK_SECONDS):
            if self._is_over.is_set():
                return
            if method is not None:
                self.bodies.append(body)
                channel.basic_ack(method.delivery_tag)
