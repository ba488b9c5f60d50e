"""A node in this process, with a store and management, whose objects come and go.

Clients are without sockets (tests/protocol/socketless.py), but for those of RawClient. Requests to
management go through a socket, one behind the other.
"""

import asyncio
import base64
import json
import sys
from pathlib import Path

from leveret.broker.config import Config, Listener, TcpSettings
from leveret.broker.moving.federation.link_definition import _link_id
from leveret.broker.node.broker import Broker
from leveret.broker.runtime.patterns import compile_pattern
from leveret.cluster.node.lone_node import LoneNode
from leveret.cluster.quorum.queue_groups.quorum_queues import QuorumQueues
from leveret.storage.metadata.metadata import SqliteMetadata
from leveret.testing.management_server import EmbeddedManagement
from tests.patience import PATIENCE_SECONDS
from tests.protocol.socketless import Client

LOOPBACK = "127.0.0.1"
CURSORS_KEPT = 200
LOGIN = base64.b64encode(b"guest:guest").decode()


class ChurnedNode:
    """A node whose objects come and go. host, port: where clients with a socket connect."""

    host = LOOPBACK

    def __init__(self, directory: Path):
        config = Config(tcp=TcpSettings(listeners=(Listener(LOOPBACK, 0),)))
        self._metadata = SqliteMetadata(directory / "metadata.sqlite")
        self._clustering = LoneNode(config, directory)
        self.broker = Broker(
            config, self._metadata, data_dir=directory, clustering=self._clustering
        )
        self.management = EmbeddedManagement(config, self.broker)

    async def __aenter__(self):
        await self.broker.start()
        await self.management.start(Listener(LOOPBACK, 0))
        # It has what there is at its time until the next one, which `rest` takes.
        self._sampler.stop()
        self.port = self.broker.listening_on[0].port
        return self

    async def __aexit__(self, *_exception):
        await self.management.stop()

    @property
    def vhost(self):
        return self.broker.services.vhosts["/"]

    async def until(self, condition):
        """Wait for a condition."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0.001)

    async def done(self, client):
        """Wait until all that a client has sent is handled, on disk, and answered."""

        def is_done():
            client.be_read()
            are_done = client.is_done and not client.waits
            return are_done and not self.broker.services.turns.waiting

        await self.until(is_done)

    async def used(self, *parts):
        """A client that sends these bytes, and ends when they are handled."""
        client = Client(self.broker)
        for part in parts:
            client.send(part)
        await self.done(client)
        assert not client.socket.is_closed, bytes(client.socket.written[-300:])
        client.disconnect()

    async def rest(self):
        """Wait until all that was declared and published is on disk, what was deleted is removed,
        and the audit is written. Then have the statistics forget what there is no more.
        """
        store = self.broker.store
        # The thread refers to the callbacks of its last sync.
        for _ in range(2):
            synced = asyncio.get_running_loop().create_future()
            self.broker._sync.when_synced(synced.set_result)
            await synced
        await self._audit.wait_until_written()
        await self.until(lambda: store.log.is_idle)
        # Files are removed by this thread, one queue behind the other.
        await store._page_worker.run(lambda: None)
        await self._sampler.sample()

    @property
    def _audit(self):
        return self.management._node.audit

    @property
    def _sampler(self):
        return self.management._node.sampler

    def empty_caches(self):
        """Empty what has room for more than the cycles of a window."""
        # sqlite3 keeps a reference to each cursor until there have been 200 more.
        for _ in range(CURSORS_KEPT + 1):
            blocks = sys.getallocatedblocks()
            self._metadata._connection.execute("SELECT 1")
            if sys.getallocatedblocks() < blocks:
                break
        # Entries that groups have written, up to a number of bytes.
        groups = self.broker.store.groups.log
        groups._recent.clear()
        groups._recent_bytes = 0
        self._clustering.kinds.find(QuorumQueues)._addresses._addresses.clear()
        self.broker.services.permissions._results.clear()
        self._audit._last.clear()
        # The last thousand messages that reached no queue.
        self.vhost.unroutable.forget()
        compile_pattern.cache_clear()
        _link_id.cache_clear()

    async def requests(self):
        """A client of management."""
        return await Requests.connected(self.management.listener.port)


class Requests:
    """One connection to management, which is kept alive."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    @classmethod
    async def connected(cls, port):
        return cls(*await asyncio.open_connection(LOOPBACK, port))

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_exception):
        self._writer.close()
        await self._writer.wait_closed()

    async def put(self, path, **body):
        await self.send("PUT", path, body)

    async def delete(self, path):
        await self.send("DELETE", path)

    async def get(self, path):
        return json.loads(await self.send("GET", path))

    async def send(self, method, path, body=None):
        """Send a request, which is to succeed; the body of the answer."""
        content = b"" if body is None else json.dumps(body).encode()
        self._writer.write(
            f"{method} /api/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {LOGIN}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        status = int(head.split(" ", 2)[1])
        headers = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if line)
        answer = await self._reader.readexactly(int(headers.get("content-length", 0)))
        assert status < 300, f"{method} {path}: {status} {answer.decode()}"
        return answer
