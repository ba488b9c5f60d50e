"""AMQP 1.0: alarms close the windows of sessions, and clients may settle what they consume."""

import pytest

from leveret.broker.protocols.amqp10.performatives import Accepted, Begin, Disposition, End, Flow
from leveret.broker.resources.alarms import MEMORY
from tests.protocol.amqp10_peer import Amqp10Node, bodies


@pytest.fixture
async def node():
    async with Amqp10Node() as node:
        yield node


@pytest.fixture
async def client(node):
    client = await node.client()
    await client.publisher("/queue/q")
    return client


def windows(frames):
    return [one.performative.incoming_window for one in frames]


def outcomes(performatives):
    return [one.state for one in performatives if isinstance(one, Disposition)]


async def test_an_alarm_closes_the_window_of_a_session(node, client):
    alarms = node.broker.services.alarms
    alarms.set(MEMORY)
    assert windows(await client.frames()) == [0]
    assert (await client.answers(Begin(None, 0, 1, 1), 1))[0].incoming_window == 0
    alarms.clear(MEMORY)
    assert windows(await client.frames()) == [400, 400]


async def test_what_is_under_way_is_taken_during_an_alarm(node, client):
    await client.consumer("/queue/q", 1)
    await client.publish("a")
    node.broker.services.alarms.set(MEMORY)
    assert outcomes(await client.publish("b")) == [Accepted()]
    assert client.connection.publishing_state == "running"
    client.settle(0)
    client.settle(1)
    await client.frames()
    assert not client.connection.incoming.sessions[0].unacked


async def test_more_than_a_window_during_an_alarm_ends_the_session(node, client):
    node.broker.services.alarms.set(MEMORY)
    for number in range(400):
        await client.publish(f"{number}", settled=True)
        client.connection.incoming.sessions[0].give_credit(
            client.connection.incoming.sessions[0].incoming[0]
        )
    answers = await client.publish("one more")
    (end,) = [one for one in answers if isinstance(one, End)]
    assert end.error[:2] == (
        "amqp:session:window-violation",
        "incoming window violation (tolerated excess tranfers: 400)",
    )


async def test_no_credit_opens_the_window_during_an_alarm(node, client):
    node.broker.services.alarms.set(MEMORY)
    await client.frames()
    answers = await client.publisher("/queue/q", 2)
    assert [one.incoming_window for one in answers if isinstance(one, Flow)] == [0]
    await client.publish("a")
    node.broker.services.alarms.clear(MEMORY)
    await client.consumer("/queue/q", 3)
    assert bodies(await client.received()) == ["a"]
