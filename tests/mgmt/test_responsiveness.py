"""Management requests about very many objects do not block the event loop for long.

The calls that Python makes in each turn of the loop are counted: a turn with 10,000 calls takes 2
to 4 ms. Unlike time, they do not depend on the machine.
"""

import asyncio
import base64

import pytest

from leveret.broker.queues.contract.publication import publication_of
from leveret.mgmt import slices
from leveret.storage.messages.message import Message
from tests.mgmt.node_in_process import NodeInProcess
from tests.unit.broker.queues.fakes import ADDRESS, HEADER

OBJECTS = 10_000
TURN_CALLS_MAX = 20_000
LARGE_BYTES = 4_000_000
TURN_BYTES_MAX = LARGE_BYTES // 2
"""A buffer that grows takes an eighth more in one turn."""


def definitions():
    """Queues with a binding each."""
    where = {"vhost": "/"}
    return {
        "queues": [
            {"name": f"q{number}", **where, "durable": True, "auto_delete": False,
             "arguments": {"x-max-length": number + 1}}
            for number in range(OBJECTS)
        ],
        "bindings": [
            {"source": "amq.direct", **where, "destination": f"q{number}",
             "destination_type": "queue", "routing_key": f"key {number}", "arguments": {}}
            for number in range(OBJECTS)
        ],
    }  # fmt: skip


REQUESTS = [
    "api/queues",
    "api/queues?page=3&page_size=100&sort=messages",
    "api/queues?page=3&page_size=100&sort=arguments.x-max-length&sort_reverse=true",
    "api/queues?page=1&page_size=500&name=1$&use_regex=true",
    "api/queues?columns=name,messages",
    "api/queues#lines",
    "api/bindings",
    "api/bindings#lines",
    "api/exchanges/%2F/amq.direct/bindings/source",
    "api/definitions",
    "api/overview",
    "api/vhosts",
    "metrics",
    "metrics/per-object",
]


async def test_no_turn_of_the_loop_is_long(tmp_path):
    async with NodeInProcess(tmp_path) as served:
        turns = {"import": await served.longest_turn("api/definitions", definitions())}
        for path in REQUESTS:
            turns[path] = await served.longest_turn(path)
        print(turns)
        assert {path: calls for path, calls in turns.items() if calls > TURN_CALLS_MAX} == {}


async def test_a_request_for_many_messages(tmp_path):
    async with NodeInProcess(tmp_path) as served:
        await asyncio.to_thread(served.ask, "api/queues/%2F/q", {}, "PUT")
        vhost = served.node.broker.services.vhosts["/"]
        messages = [Message(ADDRESS, HEADER, b"body") for _ in range(2000)]
        vhost.queues["q"].publish(publication_of(messages))
        wanted = {"count": 2000, "ackmode": "ack_requeue_true", "encoding": "auto"}
        assert await served.longest_turn("api/queues/%2F/q/get", wanted) < TURN_CALLS_MAX
        assert vhost.queues["q"].backing.ready_count == 2000


@pytest.mark.parametrize(("payload", "encoding"), [("€", "string"), ("x", "base64")])
async def test_a_message_with_a_large_payload_is_published(
    tmp_path, monkeypatch, payload, encoding
):
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0)
    text = payload * (LARGE_BYTES // len(payload.encode()))
    if encoding == "base64":
        text = base64.b64encode(text.encode()).decode()
    async with NodeInProcess(tmp_path) as served:
        await asyncio.to_thread(served.ask, "api/queues/%2F/q", {}, "PUT")
        message = {"routing_key": "q", "properties": {"delivery_mode": 2}, "payload": text}
        message |= {"payload_encoding": encoding}
        path = "api/exchanges/%2F/amq.default/publish"
        assert await served.most_memory_of_a_turn(path, message) < TURN_BYTES_MAX
        queue = served.node.broker.services.vhosts["/"].queues["q"]
        (entry,) = queue.backing.cursor().read(1)
        wanted = base64.b64decode(text) if encoding == "base64" else text.encode()
        assert entry.message.body == wanted
