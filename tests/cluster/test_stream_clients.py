"""The stream protocol on three nodes, with rstream: clients find the leader, and outlive it."""

import asyncio
import signal

import pytest

pytest.importorskip("rstream", reason="the extra [test] is not fully installed")

from rstream import Consumer, Producer, RawMessage

from tests.cluster.clustered_nodes import ClusteredNode, form
from tests.cluster.resuming_stream_clients import LOGIN, ResumingConsumer, ResumingPublisher
from tests.cluster.test_replicated_quorum_queues import leader_of
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port


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


async def test_programs_resume_over_the_kill_of_a_leader_and_the_restart_of_the_next(cluster):
    await published(cluster[1], "t", [])
    ports = [node.stream_port for node in cluster]
    publisher, consumer = ResumingPublisher(ports, "t"), ResumingConsumer(ports, "t")

    async def more():
        confirmed, found = publisher.confirmed, len(consumer.found)
        await until(lambda: publisher.confirmed > confirmed + 40 and len(consumer.found) > found)

    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as programs:
        publishing = programs.create_task(publisher.run())
        programs.create_task(consumer.run())
        await more()
        for number in (signal.SIGKILL, signal.SIGTERM):
            leader, _ = await asyncio.to_thread(leader_of, "t", cluster)
            await asyncio.to_thread(leader.stop, number)
            await more()
            await asyncio.to_thread(leader.start)
        await more()
        publisher.stop()
        await publishing
        consumer.stop_after(publisher.confirmed)
    assert publisher.resumed >= 2
    assert consumer.problems == []
    everything = list(range(1, publisher.confirmed + 1))
    assert [int(consumer.found[offset]) for offset in range(len(consumer.found))] == everything
    assert [await read(node, "t", publisher.confirmed) for node in cluster] == [everything] * 3
