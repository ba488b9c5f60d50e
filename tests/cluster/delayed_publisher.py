"""Programs that publish delayed messages with confirms, and take them when they are due."""

import threading
import time

import pika
from pika import exceptions

from tests.patience import PATIENCE_SECONDS

PAUSE_SECONDS = 0.01


class DelayedPublisher:
    """Publishes to the exchange `later` on whichever of these nodes runs, until it is stopped.

    confirmed: the due time of each confirmed message, in seconds since 1970. A message that was not
    confirmed is not published again.
    """

    def __init__(self, nodes, prefix, delays_ms):
        self._nodes = nodes
        self._prefix = prefix
        self._delays_ms = delays_ms
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.confirmed = {}

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._is_over.set()
        self._thread.join(PATIENCE_SECONDS)

    def _run(self):
        number = turn = 0
        while not self._is_over.wait(PAUSE_SECONDS):
            node = self._nodes[turn % len(self._nodes)]
            turn += 1
            try:
                with node.connect() as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    while not self._is_over.wait(PAUSE_SECONDS):
                        number += 1
                        self._publish(channel, number)
            except (exceptions.AMQPError, OSError):
                continue

    def _publish(self, channel, number):
        delay_ms = self._delays_ms[number % len(self._delays_ms)]
        body = f"{self._prefix}-{number}"
        properties = pika.BasicProperties(
            message_id=body, headers={"x-delay": delay_ms}, delivery_mode=2
        )
        due_s = time.time() + delay_ms / 1000
        channel.basic_publish("later", "", body.encode(), properties)
        self.confirmed[body] = due_s


def taken_until(node, queue, wanted):
    """Take messages until all that are wanted were; the times of each, by its body."""
    taken = {}
    left = set(wanted)
    with node.connect() as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=100)
        for method, _, body in channel.consume(queue, inactivity_timeout=PATIENCE_SECONDS):
            assert method is not None, f"{len(left)} messages have not come: {sorted(left)[:9]}"
            taken.setdefault(body.decode(), []).append(time.time())
            left.discard(body.decode())
            channel.basic_ack(method.delivery_tag)
            if not left:
                break
    return taken
