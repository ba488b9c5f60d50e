"""Programs that know all nodes and go on at another one when theirs stops: each keeps account.

Each program publishes and consumes in threads of its own, with one kind of client. `start` returns
when it is connected, `stop` when everything that was confirmed has been taken. Meanwhile
`confirmed_count` rises as long as the program can do its work. `account` raises AssertionError if a
confirmed message was lost.
"""

import asyncio
import contextlib
import itertools
import threading
import time

import aio_pika
from paho.mqtt.client import CallbackAPIVersion, Client
from pika import exceptions

from tests.cluster.clients import PERSISTENT, bodies
from tests.cluster.resuming_stream_clients import ResumingConsumer, ResumingPublisher
from tests.patience import LOOK_SECONDS, PATIENCE_SECONDS

HOST = "127.0.0.1"
QUEUES = ("on-a", "on-b", "on-c")
"""Classic queues that are declared on the nodes, one on each."""
ROBUST = {
    "robust-on-a": {},
    "mirrored": {},
    "quorum": {"x-queue-type": "quorum"},
    "stream": {"x-queue-type": "stream"},
}
"""The queues of the robust program, and their arguments."""
STREAM, TOPIC = "log", "meters/1"
LOST = (aio_pika.exceptions.AMQPError, RuntimeError, OSError, asyncio.CancelledError)
"""What aio-pika raises when a connection is lost: it also cancels what waits for an answer."""


class PikaProgram:
    """Publishes to queues in turn with pika, on whichever node runs, and consumes nothing."""

    def __init__(self, nodes):
        self._nodes = nodes
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._confirmed = {queue: set() for queue in QUEUES}

    @property
    def confirmed_count(self):
        return sum(map(len, self._confirmed.values()))

    def start(self):
        self._thread.start()

    def stop(self):
        self._is_done.set()
        self._thread.join()

    def account(self):
        for queue, confirmed in self._confirmed.items():
            assert confirmed
            assert confirmed <= set(bodies(self._nodes[0], queue))

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
            self._confirmed[queue].add(body)


class RobustProgram:
    """An aio-pika program with a robust connection to each node, which come back by themselves.

    It consumes a queue of each kind, each over one of the connections, and publishes to all of them
    over each connection.
    """

    def __init__(self, nodes):
        self._urls = [f"amqp://guest:guest@{HOST}:{node.port}/" for node in nodes]
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._is_connected = threading.Event()
        self._confirmed, self._taken = set(), set()

    @property
    def confirmed_count(self):
        return len(self._confirmed)

    def start(self):
        self._thread.start()
        assert self._is_connected.wait(PATIENCE_SECONDS)

    def stop(self):
        self._is_done.set()
        self._thread.join()

    def account(self):
        assert self._confirmed <= self._taken

    async def _run(self):
        connections = [
            await aio_pika.connect_robust(url, reconnect_interval=0.1) for url in self._urls
        ]
        for place, (queue, arguments) in enumerate(ROBUST.items()):
            channel = await connections[place % len(connections)].channel()
            await channel.set_qos(prefetch_count=100)
            declared = await channel.declare_queue(queue, durable=True, arguments=arguments)
            start = {"x-stream-offset": "first"} if queue == "stream" else None
            await declared.consume(self._take, arguments=start)
        channels = [await one.channel(on_return_raises=True) for one in connections]
        self._is_connected.set()
        await asyncio.gather(*map(self._publish, range(len(channels)), channels))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not self._confirmed <= self._taken:
                    await asyncio.sleep(0.02)
        for connection in connections:
            await connection.close()

    async def _take(self, message):
        is_first = message.body not in self._taken
        self._taken.add(message.body)
        # If its node goes down first, it is delivered again.
        with contextlib.suppress(*LOST):
            if is_first and message.routing_key == "quorum":
                await message.nack(requeue=True)
            else:
                await message.ack()

    async def _publish(self, place, channel):
        queues, number = tuple(ROBUST), 0
        while not self._is_done.is_set():
            number += 1
            body = b"%d of %d" % (number, place)
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await channel.default_exchange.publish(message, queues[number % len(queues)])
                self._confirmed.add(body)
            except (*LOST, TimeoutError):
                # Returned, refused, or the connection is lost and will come back.
                await asyncio.sleep(0.02)


class MqttProgram:
    """A publisher with QoS 1 and a subscriber whose session stays, with paho.

    The queue of the session has to be on all nodes (`mqtt.durable_queue_type = quorum`). A message
    that was not acknowledged when its connection was lost is published again.
    """

    def __init__(self, nodes):
        self._ports = [node.mqtt_port for node in nodes]
        self._is_done, self._is_subscribed = threading.Event(), threading.Event()
        self._publishing = threading.Thread(target=self._publish_all)
        self._subscribing = threading.Thread(target=self._subscribe)
        self._confirmed, self._taken = set(), set()

    @property
    def confirmed_count(self):
        return len(self._confirmed)

    def start(self):
        self._subscribing.start()
        assert self._is_subscribed.wait(PATIENCE_SECONDS)
        self._publishing.start()

    def stop(self):
        self._is_done.set()
        self._publishing.join()
        self._subscribing.join()

    def account(self):
        assert self._confirmed <= self._taken

    def _subscribe(self):
        """Have the session's messages, at one node after another, until all are there."""
        give_up_at = None
        for port in itertools.cycle(self._ports):
            with connected("dashboard", port, take=self._take) as client:
                client.on_subscribe = self._note_subscription
                client.subscribe(TOPIC, qos=1)
                while client.is_connected():
                    time.sleep(LOOK_SECONDS)
                    if self._is_done.is_set() and not self._publishing.is_alive():
                        give_up_at = give_up_at or time.monotonic() + PATIENCE_SECONDS
                        if self._confirmed <= self._taken or time.monotonic() > give_up_at:
                            return

    def _note_subscription(self, client, _data, _message_id, reason_codes, _properties):
        """A refused one is tried again at another node."""
        if reason_codes[0].is_failure:
            client.disconnect()
        else:
            self._is_subscribed.set()

    def _take(self, _client, _data, message):
        self._taken.add(message.payload)

    def _publish_all(self):
        numbers = itertools.count()
        number = next(numbers)
        for port in itertools.cycle(self._ports):
            with connected("meter", port) as client:
                while not self._is_done.is_set():
                    if not self._is_published(client, b"%d" % number):
                        break
                    self._confirmed.add(b"%d" % number)
                    number = next(numbers)
            if self._is_done.is_set():
                return

    @staticmethod
    def _is_published(client, body):
        """Publish a message. Returns whether it was acknowledged before the connection was lost."""
        sent = client.publish(TOPIC, body, qos=1)
        # It raises if the connection was lost before the message was sent.
        with contextlib.suppress(RuntimeError):
            while not sent.is_published() and client.is_connected():
                sent.wait_for_publish(LOOK_SECONDS)
            return sent.is_published()
        return False


@contextlib.contextmanager
def connected(name, port, take=None):
    """A client of MQTT 3.1.1; not connected if its node cannot be reached.

    take: gets the messages of a session that stays, from the answer to CONNECT on.
    """
    client = Client(
        CallbackAPIVersion.VERSION2, name, clean_session=take is None, reconnect_on_failure=False
    )
    client.on_message = take
    client.username_pw_set("guest", "guest")
    is_answered = threading.Event()
    client.on_connect = lambda *_: is_answered.set()
    client.on_disconnect = lambda *_: is_answered.set()
    try:
        client.connect(HOST, port)
    except OSError:
        time.sleep(LOOK_SECONDS)
    else:
        client.loop_start()
        is_answered.wait(PATIENCE_SECONDS)
    yield client
    client.disconnect()
    client.loop_stop()


class StreamProgram:
    """A publisher that numbers its messages and a consumer that stores its offset, with rstream."""

    def __init__(self, nodes):
        ports = [node.stream_port for node in nodes]
        self._publisher = ResumingPublisher(ports, STREAM)
        self._consumer = ResumingConsumer(ports, STREAM)
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    @property
    def confirmed_count(self):
        return self._publisher.confirmed

    def start(self):
        self._thread.start()

    def stop(self):
        self._is_done.set()
        self._thread.join()

    def account(self):
        found, problems = self._consumer.found, self._consumer.problems
        assert problems == []
        wanted = range(1, self._publisher.confirmed + 1)
        assert [int(found[offset]) for offset in sorted(found)] == list(wanted)

    async def _run(self):
        publishing = asyncio.create_task(self._publisher.run())
        consuming = asyncio.create_task(self._consumer.run())
        while not self._is_done.is_set():
            await asyncio.sleep(LOOK_SECONDS)
        self._publisher.stop()
        await publishing
        self._consumer.stop_after(self._publisher.confirmed)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await consuming
