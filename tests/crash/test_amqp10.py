"""Clients of AMQP 1.0 whose node is killed: accepted messages stay, unsettled ones come again."""

from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    Accepted,
    Disposition,
    End,
    Flow,
    Transfer,
)
from tests.crash.killed_node import Node
from tests.protocol.amqp10_socket import Amqp10Socket

MESSAGES = 300
SETTLED = 100
QUEUE = "/queue/accounts"


def publish_until_killed(node, enough):
    """Publish, and kill the node when enough messages are accepted; returns those."""
    client = Amqp10Socket(node.port)
    client.publisher(QUEUE, durable=1)
    accepted = set()
    for number in range(MESSAGES):
        client.publish(f"{number}")
        while len(accepted) < number - 40:
            first, last, outcome = client.outcome()
            assert outcome == Accepted()
            accepted |= set(range(first, last + 1))
        if len(accepted) >= enough:
            break
    node.kill()
    try:
        while True:
            first, last, _ = client.outcome()
            accepted |= set(range(first, last + 1))
    except (EOFError, ConnectionError):
        client.close()
    return accepted


def consume(node):
    """A client that has got all messages, and these: bodies by their delivery-ids."""
    client = Amqp10Socket(node.port)
    client.consumer(QUEUE, credit=MESSAGES)
    client.send(Flow(None, 1000, 0, 1000, 0, 0, MESSAGES, drain=True))
    client.expect(Flow, lambda flow: flow.handle == 0)
    found = {}
    for frame in client.unread:
        if isinstance(frame.performative, Transfer):
            found[frame.performative.delivery_id] = int(frame.message.data)
    return client, found


def test_accepted_messages_stay_and_unsettled_ones_come_again(tmp_path):
    node = Node(tmp_path / "data", LEVERET_COMPAT="4.0")
    assert node.start()
    accepted = publish_until_killed(node, 200)
    assert len(accepted) >= 200
    assert node.start()
    client, found = consume(node)
    assert accepted <= set(found.values())
    assert len(set(found.values())) == len(found)
    client.send(Disposition(RECEIVER, 0, SETTLED - 1, True, Accepted()))
    client.send(End())
    client.expect(End)
    node.kill()
    assert node.start()
    settled = {body for delivery_id, body in found.items() if delivery_id < SETTLED}
    again, left = consume(node)
    assert set(left.values()) >= set(found.values()) - settled
    again.close()
    client.close()
    node.stop()
