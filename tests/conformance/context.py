"""What a scenario is given: connections, unique names and ways to note what it saw."""

import contextlib
import re
import secrets
import time
from typing import NamedTuple

import pika
from pika import exceptions

from tests.conformance.management import ManagementApi
from tests.conformance.wire import SocketClosed, WireClient
from tests.patience import PATIENCE_SECONDS

HOST = "127.0.0.1"
USER = PASSWORD = "guest"


class Target(NamedTuple):
    """The broker that is asked. quiet_seconds: how long it is listened to for what may not come."""

    port: int
    management_port: int
    quiet_seconds: float = 0.4
    user: str = USER
    password: str = PASSWORD


class Context:
    """One scenario's view of the broker. Its names are unique, and cleaned up at the end."""

    def __init__(self, target):
        self.target = target
        self.prefix = f"conf_{secrets.token_hex(4)}_"
        self.names = []
        self.vhosts = []
        self.users = []
        self.connections = []
        self.wire_clients = []
        self.default_connection = None
        self.management = ManagementApi(HOST, target.management_port, USER, PASSWORD)

    def name(self, label):
        """A unique name; the transcript shows it as ``~label``."""
        unique = self.prefix + label
        self.names.append(unique)
        return unique

    # Connecting

    def connect(self, virtual_host="/", user=None, password=None):
        credentials = pika.PlainCredentials(user or USER, password or PASSWORD)
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(
                HOST, self.target.port, virtual_host, credentials, heartbeat=0
            )
        )
        self.connections.append(connection)
        return connection

    def channel(self):
        """A new channel on the scenario's default connection."""
        if self.default_connection is None or not self.default_connection.is_open:
            self.default_connection = self.connect()
        return self.default_connection.channel()

    def raw_socket(self):
        """A wire client that has sent nothing yet."""
        client = WireClient(HOST, self.target.port, USER, PASSWORD)
        client.quiet_seconds = self.target.quiet_seconds
        self.wire_clients.append(client)
        return client

    def wire(self, **options):
        """A wire client with an open connection and channel 1 open on it."""
        client = self.raw_socket()
        client.open_connection(**options)
        client.open_channel(1)
        return client

    # Setting up through the management API

    def vhost(self):
        vhost = self.prefix + "vhost"
        self.management.add_vhost(vhost, USER)
        self.vhosts.append(vhost)
        return vhost

    def user(self, label="user"):
        """A new user whose password is its name; it has no permissions yet."""
        user = self.prefix + label
        self.management.add_user(user, user)
        self.users.append(user)
        return user

    # Noting what the broker answered

    def attempt(self, call, *arguments, **keywords):
        """The broker's answer to a pika call, be it a method or a refusal."""
        try:
            answer = call(*arguments, **keywords)
        except exceptions.ChannelClosedByBroker as closed:
            return {"channel closed": [closed.reply_code, closed.reply_text]}
        except exceptions.ConnectionClosedByBroker as closed:
            return {"connection closed": [closed.reply_code, closed.reply_text]}
        except exceptions.ConsumerCancelled:
            return "consumer cancelled"
        return describe_method(answer.method) if hasattr(answer, "method") else answer

    def refusal(self, channel):
        """What the broker has to say on a channel after something it may not like."""
        return self.attempt(channel.basic_qos, prefetch_count=0)

    def get(self, channel, queue, auto_ack=True):
        method, properties, body = channel.basic_get(queue, auto_ack)
        return describe_delivery(method, properties, body) if method else "empty"

    def bodies(self, channel, queue):
        """Take everything that is in the queue now; its bodies in order."""
        return [delivery["body"] for delivery in self.deliveries(channel, queue)]

    def deliveries(self, channel, queue):
        taken = []
        while (delivery := self.get(channel, queue)) != "empty":
            taken.append(delivery)
        return taken

    def await_get(self, channel, queue, timeout=PATIENCE_SECONDS):
        """The next message, left unacknowledged, waiting for it if need be."""
        deadline = time.monotonic() + timeout
        while (delivery := self.get(channel, queue, auto_ack=False)) == "empty":
            if time.monotonic() > deadline:
                raise TimeoutError(f"no message came to {queue}")
            time.sleep(0.02)
        return delivery

    def await_deliveries(self, channel, queue, count, timeout=PATIENCE_SECONDS):
        """Take messages until there were ``count`` of them or the time is up."""
        deadline = time.monotonic() + timeout
        taken = []
        while len(taken) < count and time.monotonic() < deadline:
            delivery = self.get(channel, queue)
            if delivery == "empty":
                time.sleep(0.02)
            else:
                taken.append(delivery)
        return taken

    def await_message_count(self, channel, queue, count, timeout=PATIENCE_SECONDS):
        """Wait for a queue length; the length it has in the end."""
        deadline = time.monotonic() + timeout
        while True:
            found = channel.queue_declare(queue, passive=True).method.message_count
            if found == count or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def await_queue(self, vhost, queue, condition, timeout=PATIENCE_SECONDS):
        """What management shows of a queue, once it fulfils a condition."""
        deadline = time.monotonic() + timeout
        while True:
            shown = self.management.get("queues", vhost, queue)
            if condition(shown):
                return shown
            if time.monotonic() > deadline:
                raise TimeoutError(f"queue {queue} is shown as {shown}")
            time.sleep(0.05)

    def await_consumers(self, vhost, count, timeout=PATIENCE_SECONDS):
        """The consumers that management shows, as soon as there are `count`."""
        deadline = time.monotonic() + timeout
        while len(found := self.management.get("consumers", vhost)) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the consumers are {found}")
            time.sleep(0.05)
        return found

    def await_gone(self, queue, timeout=PATIENCE_SECONDS):
        """Whether a queue is gone before the time is up."""
        deadline = time.monotonic() + timeout
        while "queue.declare-ok" in self.attempt(self.channel().queue_declare, queue, passive=True):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    # Cleaning up

    def clean_up(self):
        for client in self.wire_clients:
            client.drop()
        for connection in self.connections:
            with contextlib.suppress(exceptions.AMQPError):
                # pika rejects what its consumers have left, and streams refuse that.
                connection.close()
        for vhost in self.vhosts:
            self.management.delete("vhosts", vhost)
        for user in self.users:
            self.management.delete("users", user)
        if self.names:
            self._delete_names()

    def _delete_names(self):
        client = self.raw_socket()
        client.open_connection()
        client.open_channel(1)
        for name in self.names:
            for method, argument in (("queue.delete", "queue"), ("exchange.delete", "exchange")):
                if client.call(1, method, **{argument: name})["method"] == "channel.close":
                    client.send(1, "channel.close-ok")
                    client.open_channel(1)
        client.call(0, "connection.close", reply_code=200)
        try:
            client.read_event(1)
        except (SocketClosed, TimeoutError):
            client.drop()


class Inbox:
    """A pika consumer that keeps what it is sent."""

    def __init__(self, channel, queue, **options):
        self.channel = channel
        self.received = []
        channel.add_on_cancel_callback(self._on_cancel)
        self.consumer_tag = channel.basic_consume(queue, self._on_message, **options)

    def _on_message(self, _channel, method, properties, body):
        self.received.append(describe_delivery(method, properties, body))

    def _on_cancel(self, frame):
        self.received.append(describe_method(frame.method))

    def wait_for(self, count, timeout=PATIENCE_SECONDS):
        """Everything received once there are ``count`` entries or the time is up."""
        deadline = time.monotonic() + timeout
        while len(self.received) < count and time.monotonic() < deadline:
            self.channel.connection.process_data_events(0.02)
        return self.received

    def settle(self, count, seconds):
        """Everything received after listening for a while to what may follow `count` entries."""
        self.wait_for(count)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.channel.connection.process_data_events(0.05)
        return self.received

    @property
    def bodies(self):
        return [entry["body"] for entry in self.received]


def describe_method(method):
    name = re.sub(r"(?<=[a-z])([A-Z])", r"-\1", method.NAME).lower()
    return {name: dict(vars(method))}


def describe_delivery(method, properties, body):
    described = dict(vars(method))
    described["body"] = body
    described["properties"] = {
        key: value for key, value in vars(properties).items() if value is not None
    }
    return described
