"""A broker and clients without sockets, so that a test sees each turn of the event loop.

The test decides which clients are read in a turn, as the loop does when it looks at its sockets;
one `await asyncio.sleep(0)` is one turn.
"""

import asyncio

from pamqp import commands

from leveret.broker.amqp.frames import PROTOCOL_HEADER
from leveret.broker.config import Config, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.cluster.node.lone_node import LoneNode
from tests.call_counts import counted_calls
from tests.protocol.raw_client import method_bytes

READ_BYTES = 256 * 1024
"""What the event loop reads at once."""
TURNS = 12
"""More turns of the loop than any answer takes here."""


class Socket:
    """A transport: what the broker wrote, and whether it reads.

    unsent_bytes: the size of its buffer, which a test fills and drains.
    """

    unsent_bytes = 0

    def __init__(self, peer_port=5672, tls=None):
        self.written, self.is_read, self.is_closed = bytearray(), True, False
        self._facts = {
            "peername": ("127.0.0.1", peer_port), "sockname": ("127.0.0.1", 5672),
            "ssl_object": tls,
        }  # fmt: skip

    def get_extra_info(self, name):
        return self._facts.get(name)

    def get_write_buffer_size(self):
        return self.unsent_bytes

    def set_write_buffer_limits(self, _high, _low):
        pass

    def write(self, data):
        self.written += data

    def writelines(self, pieces):
        self.written += b"".join(pieces)

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True

    def close(self):
        self.is_closed = True

    abort = close

    async def take_written(self):
        """The bytes that the broker has written since the last call."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        data = bytes(self.written)
        self.written.clear()
        return data


class Client:
    """A client with channel 1 open. send: keeps bytes until the broker reads them."""

    def __init__(self, broker):
        self.socket = Socket()
        self.connection = broker._accept()
        self.connection.connection_made(self.socket)
        self._unread = b""
        self._send_now(PROTOCOL_HEADER)
        start_ok = {"client_properties": {}, "mechanism": "PLAIN", "response": "\0guest\0guest"}
        self._send_now(method_bytes(0, commands.Connection.StartOk, locale="en_US", **start_ok))
        tuned = {"channel_max": 2047, "frame_max": 131_072, "heartbeat": 0}
        self._send_now(method_bytes(0, commands.Connection.TuneOk, **tuned))
        self._send_now(method_bytes(0, commands.Connection.Open, virtual_host="/"))
        self._send_now(method_bytes(1, commands.Channel.Open))

    def _send_now(self, data):
        self.connection.data_received(data)

    @property
    def channel(self):
        """The broker's side of channel 1."""
        return self.connection.channels[1]

    def send(self, data):
        self._unread += data

    def send_method(self, method, **arguments):
        self.send(method_bytes(1, method, **arguments))

    @property
    def is_done(self):
        """Everything that was sent is handled."""
        return not self._unread and not self.connection.incoming.steps.waiting

    @property
    def waits(self):
        """Whether a method that was sent waits for its answer, and what was sent after it."""
        return any(one.operation is not None for one in self.connection.channels.values())

    def be_read(self):
        """The event loop reads the socket, unless the broker has paused it."""
        if self._unread and self.socket.is_read:
            data, self._unread = self._unread[:READ_BYTES], self._unread[READ_BYTES:]
            self.connection.data_received(data)

    def disconnect(self):
        """The socket is closed."""
        self.connection.connection_lost(None)


class MemoryNode:
    """A broker without listeners and without a disk. Use as an asynchronous context manager."""

    def __init__(self, clock=None, *, is_lone=False, **config):
        """is_lone: it has the queues of clusters, too."""
        settings = Config(tcp=TcpSettings(listeners=()), **config)
        clustering = LoneNode(settings) if is_lone else None
        self.broker = Broker(settings, clock=clock, clustering=clustering)

    async def __aenter__(self):
        await self.broker.start()
        return self

    async def __aexit__(self, *_exception):
        for connection in tuple(self.broker.connections):
            connection.connection_lost(None)
        await self.broker.stop()

    @property
    def vhost(self):
        return self.broker.services.vhosts["/"]

    def queue(self, name):
        """A queue, as the broker sees it."""
        return self.vhost.queues[name]

    def queues(self):
        """The names of all queues."""
        return list(self.vhost.queues)


class Node(MemoryNode):
    """A node whose turns a test counts."""

    def __init__(self, clock=None):
        super().__init__(clock, is_lone=True)
        self._turns = self.broker.services.turns

    def clients(self, count):
        return [Client(self.broker) for _ in range(count)]

    async def turns(self, *clients, after=None):
        """Let turns pass until everything is done; before each, all clients are read.

        after: is called in the first turn. Yields the number of the calls that Python made in the
        turn, built-in functions included.
        """
        while True:
            with counted_calls() as count:
                if after is not None:
                    after()
                    after = None
                for client in clients:
                    client.be_read()
                await asyncio.sleep(0)
                calls = count.taken()
            yield calls
            if all(client.is_done for client in clients) and not self._turns.waiting:
                break
        # What was sent in the last turn is written in one more.
        await asyncio.sleep(0)


class HeldSync:
    """The sync of a node's declarations, which ends when the test says so.

    waiting: the callbacks that wait for it.
    """

    def __init__(self, node):
        node.broker.services.declarations._sync = self
        self.is_synced = False
        self.waiting = []

    def when_synced(self, callback):
        self.waiting.append(callback)

    def end(self, count=None, error=None):
        """Call a number of the waiting callbacks, or all of them."""
        count = len(self.waiting) if count is None else count
        ended, self.waiting = self.waiting[:count], self.waiting[count:]
        for callback in ended:
            callback(error)


async def most(turns):
    """The most calls of all turns."""
    return max([calls async for calls in turns])
