"""The stream protocol on three nodes: clients find the leader, and nothing is lost when it dies."""

import asyncio
import signal

import pytest

pytest.importorskip("rstream", reason="the extra [test] is not fully installed")

from rstream import Consumer, Producer, RawMessage

from tests.cluster.clustered_nodes import ClusteredNode, form
from tests.cluster.test_replicated_quorum_queues import leader_of
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

LOGIN = {"username": "guest", "password": "guest"}


class NodeWithStreams(ClusteredNode):
    """A node with a port for clients of the stream protocol."""

    def __init__(self, directory, name):
        self.stream_port = free_port()
        address = f"127.0.0.1:{self.stream_port}"
        super().__init__(directory, name, environment={"LEVERET_STREAM_LISTENERS_TCP": address})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    nodes = form(tmp_path_factory.mktemp("streams"), "a", "b", "c", kind=NodeWithStreams)
    yield nodes
    for node in nodes:
        node.stop()


async def published(node, stream, ids):
    """Publish messages with these ids as a named publisher, through a node."""
    async with Producer("127.0.0.1", node.stream_port, **LOGIN) as producer:
        await producer.create_stream(stream, exists_ok=True)
        for number in ids:
            message = RawMessage(b"%d" % number, number)
            await producer.send_wait(stream, message, publisher_name="orders")


async def read(node, stream, count):
    """The first messages of a stream, as a client gets them that connects to a node."""
    found, is_done = [], asyncio.Event()

    async def take(message, context):
        assert context.offset == len(found)
        found.append(int(message))
        if len(found) == count:
            is_done.set()

    async with Consumer("127.0.0.1", node.stream_port, **LOGIN) as consumer:
        await consumer.subscribe(stream, take)
        await asyncio.wait_for(is_done.wait(), PATIENCE_SECONDS)
    return found


async def test_clients_of_all_nodes(cluster):
    await published(cluster[0], "s", range(1, 51))
    assert [await read(node, "s", 50) for node in cluster] == [list(range(1, 51))] * 3


async def test_a_publisher_sends_again_to_the_next_leader(cluster):
    await published(cluster[1], "t", range(1, 51))
    leader, (other, last) = leader_of("t", cluster)
    leader.stop(signal.SIGKILL)
    await published(other, "t", range(31, 81))
    assert await read(last, "t", 80) == list(range(1, 81))
    leader.start()
    assert await read(leader, "t", 80) == list(range(1, 81))
