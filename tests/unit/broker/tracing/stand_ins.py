"""Test doubles for what a sink receives, without a broker."""

from types import SimpleNamespace
from typing import NamedTuple

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.events.taps import TRACE_EXCHANGE
from leveret.storage.messages.message import Address, Entry, Message


class Connection:
    def __init__(self, name="127.0.0.1:4711 -> 127.0.0.1:5672", user="guest"):
        self.name = name
        self.user = SimpleNamespace(name=user)


class Channel:
    def __init__(self, number=1, connection=None):
        self.number = number
        self.connection = connection or Connection()


class Vhost:
    """A vhost. `bind`: sets whether its firehose's exchange has a binding."""

    def __init__(self, name="v"):
        self.name = name
        self.tracer = None
        self.is_traced = False
        self.routes_listener = None
        self.exchanges = {TRACE_EXCHANGE: SimpleNamespace(bindings={}, alternate=None)}

    def bind(self, is_bound=True):
        self.exchanges[TRACE_EXCHANGE].bindings = {"key": "binding"} if is_bound else {}
        self.routes_changed()

    def routes_changed(self):
        if self.routes_listener is not None:
            self.routes_listener()


class Queue:
    """A queue; a stream if `is_stream`."""

    def __init__(self, name="orders", is_stream=False):
        self.name = name
        self.kind = SimpleNamespace(removes_messages=not is_stream)


class Delivery(NamedTuple):
    entry: Entry
    queue: Queue


def message(number=7, exchange="", key="orders", body=b"body", **properties):
    address = Address(exchange, key, encode_address(exchange, key))
    return Message(address, read_header(encode_properties(properties)), body, None, number)


class KeptOutput:
    """An output that stores its batches. is_full: nothing can be written."""

    def __init__(self):
        self.name = "kept"
        self.is_full = self.is_closed = False
        self.batches = []

    @property
    def has_room_again(self):
        return not self.is_full

    def hand(self, data, time_us):
        self.batches.append((time_us, data))

    def close(self):
        self.is_closed = True

    @property
    def data(self):
        return b"".join(data for _, data in self.batches)
