"""MQTT: very many clients that do the same at once. No turn of the event loop gets long."""

import asyncio
from collections import Counter

import pytest

from leveret.broker.protocols.mqtt.properties import SESSION_EXPIRY_INTERVAL, WILL_DELAY_INTERVAL
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.call_counts import counted_calls
from tests.protocol.long_turns import CALLS_MAX
from tests.protocol.mqtt_peer import MqttNode


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def node(clock):
    async with MqttNode(clock) as node:
        yield node


async def most_calls(node, until):
    """The most calls of a turn, until something holds."""
    most = 0
    with counted_calls() as count:
        while not until():
            await asyncio.sleep(0)
            most = max(most, count.taken())
    return most


class TestOneIdentifier:
    CLIENTS = 100

    async def clients_of_one_identifier(self, node, **options):
        clients = [
            await node.connect().connected("same", level=5, **options) for _ in range(self.CLIENTS)
        ]
        assert await clients[-1].subscribe("t", qos=1) == [1]
        for client in clients[:-1]:
            assert await client.closed_with() == 0x8E
        return clients[-1]

    @pytest.mark.parametrize("clean", [True, False])
    async def test_the_last_one_stays(self, node, clean):
        properties = {} if clean else {SESSION_EXPIRY_INTERVAL: 60}
        last = await self.clients_of_one_identifier(node, clean=clean, properties=properties)
        assert len(node.broker.connections) == len(node.broker.services.client_ids) == 1
        assert list(node.vhost.queues) == ["mqtt-subscription-sameqos1"]
        last.publish("t", b"once", qos=1)
        assert [one.payload for one in await last.delivered()] == [b"once"]

    async def test_of_those_that_connect_in_one_turn_one_stays(self, node):
        clients = [node.connect() for _ in range(self.CLIENTS)]
        found = Counter()
        await asyncio.gather(*(client.connect("same") for client in clients))
        for client in clients:
            found[client.socket.is_closed] += 1
        assert found == {True: self.CLIENTS - 1, False: 1}
        assert len(node.broker.services.client_ids) == 1


class TestLostClients:
    async def lose(self, node, clients, *properties):
        """Lose clients with wills in one turn; returns the most calls of a turn."""
        options = {"level": 5, "clean": False, "properties": {SESSION_EXPIRY_INTERVAL: 60}}
        lost = [
            await node.connect().connected(
                f"lost {number}", will=(f"gone/{number}", b"lost", 8, *properties), **options
            )
            for number in range(clients)
        ]

        def cut():
            for client in lost:
                client.lose()

        asyncio.get_running_loop().call_soon(cut)
        connections = node.broker.connections
        return await most_calls(node, lambda: len(connections) == 1)

    async def test_their_wills_are_published_in_order(self, node):
        watcher = await node.connect().connected("watcher", level=5)
        await watcher.subscribe("gone/#")
        assert await self.lose(node, 300) < CALLS_MAX
        delivered = []
        while len(delivered) < 300:
            delivered += await watcher.delivered()
        assert [one.topic for one in delivered] == [f"gone/{number}" for number in range(300)]

    async def test_a_client_that_is_back_before_its_will_waits_has_none(self, node, clock):
        watcher = await node.connect().connected("watcher", level=5)
        await watcher.subscribe("gone/#")
        await self.lose(node, 60, {WILL_DELAY_INTERVAL: 10})
        await node.connect().connected("lost 59", level=5)
        await watcher.packets()
        clock.advance(11)
        delivered = []
        while len(delivered) < 59:
            delivered += await watcher.delivered()
        assert "gone/59" not in [one.topic for one in delivered]


class TestSubscribersOfEverything:
    CLIENTS = 500

    async def test_a_message_reaches_them_in_bounded_turns(self, node):
        clients = [node.connect() for _ in range(self.CLIENTS)]
        for number, client in enumerate(clients):
            await client.connected(f"reader {number}")
            await client.subscribe("#")
        publisher = await node.connect().connected("publisher")
        publisher.publish("a/b", b"m", qos=1)
        most = await most_calls(node, lambda: all(one.socket.written for one in clients))
        assert most < CALLS_MAX
        assert await publisher.acked() == [1]


class TestRetainedMessages:
    MESSAGES = 1500

    async def test_a_reader_that_is_slow_gets_them_in_pieces(self, node):
        node.broker.services.retained.finds_wildcards = True
        publisher = await node.connect().connected("publisher")
        for number in range(self.MESSAGES):
            publisher.publish(f"kept/{number}", bytes(1000), qos=1, retain=True)
        acked = []
        while len(acked) < self.MESSAGES:
            acked += await publisher.acked()
        reader = await node.connect().connected("reader")
        reader.connection.pause_writing()
        await reader.subscribe("kept/#")
        delivered = await reader.delivered()
        assert len(delivered) < 10
        reader.connection.resume_writing()
        while len(delivered) < self.MESSAGES:
            delivered += await reader.delivered()
        assert len({one.topic for one in delivered}) == self.MESSAGES
