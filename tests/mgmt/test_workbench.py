"""The workbench on a queue that is nearly all on disk only: it takes little at a time."""

import asyncio
from contextlib import asynccontextmanager

import msgspec

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.mgmt import slices
from leveret.mgmt.api import selection, workbench
from leveret.storage.messages.message import ENTRY_BYTES, Address, Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue.tiered_cursor import TieredCursor
from tests.mgmt.node_in_process import NodeInProcess
from tests.patience import until

MESSAGES = 200_000
BODY_BYTES = 100
ADDRESS = Address("", "paged", encode_address("", "paged"))
HEADER = read_header(encode_properties({"delivery_mode": 2}))
MEMORY_BYTES_MAX = 16 * 1024 * 1024
"""What a lazy queue may have in memory, and what is read at once."""


@asynccontextmanager
async def paged_queue(directory):
    """A node with a lazy queue, and nearly all of its messages on disk only."""
    async with NodeInProcess(directory) as served:
        body = {"durable": True, "arguments": {"x-queue-mode": "lazy"}}
        await ask(served, "PUT", "", body)
        queue = served.node.broker.services.vhosts["/"].queues["paged"]
        for first in range(0, MESSAGES, 1000):
            bodies = [b"%d " % number + bytes(BODY_BYTES) for number in range(first, first + 1000)]
            messages = [Message(ADDRESS, HEADER, one) for one in bodies]
            queue.backing.publish(run_of(messages), 0)
            await asyncio.sleep(0)
        await until(lambda: queue.backing.counts().paged_out >= MESSAGES * 0.99)
        yield served, queue


async def ask(served, method, path, body=None):
    where = f"api/queues/%2F/paged{path}"
    answer = await asyncio.to_thread(served.ask, where, body, method)
    return msgspec.json.decode(answer) if answer else None


class Watched:
    """What cursors read, and when: the turn of the loop, and the bytes in memory."""

    def __init__(self, monkeypatch, queue):
        self.turn = 0
        self.reads = []
        self.memory_bytes = 0
        read = TieredCursor.read

        def watched(cursor, bytes_max):
            entries = read(cursor, bytes_max)
            sizes = [len(entry.message.body) + ENTRY_BYTES for entry in entries]
            self.reads.append((self.turn, sum(sizes[:-1])))
            held = queue.backing.pageable_bytes + queue.backing.unpageable_bytes
            self.memory_bytes = max(self.memory_bytes, held)
            return entries

        monkeypatch.setattr(TieredCursor, "read", watched)
        monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
        self._task = asyncio.get_running_loop().create_task(self._count_turns())

    async def _count_turns(self):
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    def stop(self):
        self._task.cancel()
        turns = [turn for turn, _ in self.reads]
        assert len(turns) == len(set(turns)), "a turn of the loop read more than once"
        assert max(size for _, size in self.reads) < selection.READ_BYTES
        assert self.memory_bytes < MEMORY_BYTES_MAX


async def test_a_queue_of_paged_messages_is_read_a_little_at_a_time(tmp_path, monkeypatch):
    async with paged_queue(tmp_path) as (served, queue):
        watched = Watched(monkeypatch, queue)
        found = await ask(served, "GET", "/messages?body=%5E99999%20&count=1")
        assert found["scanned"] == workbench.SCANNED_MAX
        (message,) = found["messages"]
        assert message["payload"].startswith("99999 ")
        count = len(watched.reads)
        last = await ask(served, "GET", f"/messages?position={MESSAGES - 1}&count=1")
        assert last["messages"][0]["payload"].startswith(f"{MESSAGES - 1} ")
        assert len(watched.reads) <= count + 2, "a page far behind reads what is before it"
        body = {"all": True, "body": "^1999[0-9][0-9] "}
        assert (await ask(served, "POST", "/messages/delete", body))["done"] == 100
        body = {"ids": [message["id"], "0", "none"]}
        outcome = await ask(served, "POST", "/messages/delete", body)
        assert outcome["done"] == 2
        assert outcome["failed"] == [
            {"id": "none", "reason": "the message is no longer in the queue"}
        ]
        watched.stop()
        assert queue.backing.ready_count == MESSAGES - 102
        assert queue.backing.unacked_count == 0
        # Who looks at the result waits for the disk.
        served.node.broker._store.reads.worker = None
        assert not queue.backing.peek().redelivered
