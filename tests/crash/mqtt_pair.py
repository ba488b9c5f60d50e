"""A publisher and a subscriber of QoS 2: paho-mqtt, whose state survives its connections.

They are connected again once for each time that the node is back. paho-mqtt 2.1 forgets that it has
sent PUBREL when a second try in a row fails (`_messages_reconnect_reset_out`), and repeats PUBLISH,
which the standard forbids: a broker that has answered PUBREL cannot recognise it.
"""

import threading
from collections import Counter

from paho.mqtt.client import CallbackAPIVersion, Client, MQTTv5
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.patience import PATIENCE_SECONDS

HOST = "127.0.0.1"
STAYS_SECONDS = 3600
STEPS = (
    ("publisher", "Sending PUBLISH"), ("publisher", "Received PUBREC"),
    ("publisher", "Sending PUBREL"), ("publisher", "Received PUBCOMP"),
    ("subscriber", "Received PUBLISH"), ("subscriber", "Sending PUBREC"),
    ("subscriber", "Received PUBREL"), ("subscriber", "Sending PUBCOMP"),
)  # fmt: skip
"""What paho writes to its log before it does what the packet asks for, or sends it."""


class PahoPair:
    """The clients. name: of the topic and of the clients."""

    def __init__(self, name, publishes_with, subscribes_with):
        self.topic = f"pair/{name}"
        self.received = Counter()
        self.sent = 0
        self._arrived = threading.Condition()
        self._steps = {"publisher": None, "subscriber": None}
        self.publisher = self._client(f"{name}-publisher", publishes_with, "publisher")
        self.subscriber = self._client(f"{name}-subscriber", subscribes_with, "subscriber")
        self.subscriber.on_message = self._on_message
        self._protocols = {self.publisher: publishes_with, self.subscriber: subscribes_with}

    def _client(self, name, protocol, role):
        clean = {} if protocol == MQTTv5 else {"clean_session": False}
        client = Client(
            CallbackAPIVersion.VERSION2, name, protocol=protocol, reconnect_on_failure=False,
            **clean,
        )  # fmt: skip
        client.on_log = lambda _client, _data, _level, text: self._log(role, text)
        return client

    def _log(self, role, text):
        step = self._steps[role]
        if step is not None and text.startswith(step[0]):
            self._steps[role] = None
            step[1]()

    def at(self, role, step, act):
        """Call back in the thread of a client, when it comes to a step for the next time."""
        self._steps[role] = (step, act)

    def connect(self, port):
        """Connect both, for the first time or again."""
        for client in (self.subscriber, self.publisher):
            client.loop_stop()
            connected = threading.Event()
            client.on_connect = lambda _client, _data, _flags, code, _properties, event=connected: (
                None if code.is_failure else event.set()
            )
            options = {}
            if self._protocols[client] == MQTTv5:
                properties = Properties(PacketTypes.CONNECT)
                properties.SessionExpiryInterval = STAYS_SECONDS
                options = {"clean_start": False, "properties": properties}
            client.connect(HOST, port, **options)
            client.loop_start()
            assert connected.wait(PATIENCE_SECONDS)

    def subscribe(self):
        """Subscribe for the first time; the session keeps it."""
        subscribed = threading.Event()
        self.subscriber.on_subscribe = lambda *_: subscribed.set()
        self.subscriber.subscribe(self.topic, qos=2)
        assert subscribed.wait(PATIENCE_SECONDS)

    def publish(self, count=1):
        """Publish the next messages; paho repeats them until they are answered."""
        for _ in range(count):
            self.publisher.publish(self.topic, str(self.sent), qos=2)
            self.sent += 1

    def _on_message(self, _client, _data, message):
        with self._arrived:
            self.received[int(message.payload)] += 1
            self._arrived.notify_all()

    def wait(self):
        """Wait until everything has come; it came once."""
        with self._arrived:
            assert self._arrived.wait_for(
                lambda: len(self.received) == self.sent, PATIENCE_SECONDS
            ), f"lost: {set(range(self.sent)) - set(self.received)}"
            doubled = {number for number, count in self.received.items() if count > 1}
            assert not doubled, f"doubled: {doubled}"

    def end(self):
        """Disconnect both."""
        for client in (self.publisher, self.subscriber):
            client.disconnect()
            client.loop_stop()
