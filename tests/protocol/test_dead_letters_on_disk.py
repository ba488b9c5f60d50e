"""Dead letters of quorum queues with the strategy at-least-once survive a node that is killed."""

import pytest
from pamqp import commands

from tests.protocol.raw_client import opened, wait_until
from tests.protocol.test_delayed_on_disk import Node

SOURCE = {
    "x-queue-type": ("S", "quorum"), "x-dead-letter-exchange": ("S", "amq.fanout"),
    "x-dead-letter-strategy": ("S", "at-least-once"), "x-overflow": ("S", "reject-publish"),
}  # fmt: skip
COUNT = 40
"""More than the worker takes at once."""


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path)
    yield node
    node.disk.may_sync.set()
    node.broker.stop()


def publish(client, *bodies, **properties):
    """Publish messages to the source, and wait for their confirms."""
    for body in bodies:
        client.publish(1, "source", body, delivery_mode=1, **properties)
    last = 0
    while last < len(bodies):
        last = client.read_method(1, commands.Basic.Ack).delivery_tag


def reject_all(client):
    """Reject all messages of the source. They die when the broker has read that."""
    for _ in range(COUNT):
        client.send_method(1, commands.Basic.Get, queue="source", no_ack=False)
        tag = client.read_content(1, commands.Basic.GetOk).method.delivery_tag
    client.send_method(1, commands.Basic.Nack, delivery_tag=tag, multiple=True, requeue=False)


def declared(node, targets):
    client = opened(node.broker)
    client.declare("source", durable=True, arguments=SOURCE)
    for queue in targets:
        client.declare(queue, durable=True)
    client.call(1, commands.Confirm.Select, commands.Confirm.SelectOk)
    return client


def dlx(node):
    queue = node.broker.call(lambda it: it.broker.services.vhosts["/"].queues["source"])
    return node.broker.call(lambda it: queue.figures.counts().dlx)


def bodies(node, queue):
    with opened(node.broker) as client:
        return list(iter(lambda: client.get(queue), None))


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_letters_that_reach_no_queue_are_there_after_a_restart(node, way):
    numbers = [b"%d" % number for number in range(COUNT)]
    with declared(node, ["target"]) as client:
        publish(client, *numbers)
        reject_all(client)
        wait_until(lambda: dlx(node) == COUNT)
        # What is confirmed after them is on disk after them.
        publish(client, b"left")
    getattr(node, way)()
    wait_until(lambda: dlx(node) == COUNT)
    with opened(node.broker) as client:
        assert client.take("source").body == b"left"
        client.bind("target", "amq.fanout")
    wait_until(lambda: dlx(node) == 0)
    assert bodies(node, "target") == numbers


def test_a_message_that_expires_at_once_is_confirmed_when_its_letter_is_on_disk(node):
    with declared(node, ["target"]) as client:
        publish(client, b"a", expiration="0")
    node.kill()
    wait_until(lambda: dlx(node) == 1)
    with opened(node.broker) as client:
        client.bind("target", "amq.fanout")
    wait_until(lambda: dlx(node) == 0)
    with opened(node.broker) as client:
        message = client.take("target")
    ((_, death),) = message.properties["headers"]["x-death"][1]
    assert (message.body, death["reason"]) == (b"a", ("S", "expired"))
    assert message.properties["delivery_mode"] == 1


def test_the_letters_of_a_deleted_queue_are_gone_from_the_disk(node):
    with declared(node, ["target"]) as client:
        publish(client, b"a", expiration="0")
        client.delete("source")
    node.restart()
    with declared(node, ["target"]) as client:
        client.bind("target", "amq.fanout")
    assert (dlx(node), bodies(node, "target")) == (0, [])


WITHOUT_KEY = {
    "classic": {"x-dead-letter-exchange": ("S", "amq.direct")},
    "quorum": {"x-dead-letter-exchange": ("S", "amq.direct"), "x-queue-type": ("S", "quorum")},
    "at least once": {**SOURCE, "x-dead-letter-exchange": ("S", "amq.direct")},
}
"""Queues whose dead letters keep the routing keys of their messages."""
KEYS = ("source", "copied", "hidden")
COPIES = {"CC": ("A", [("S", "copied")]), "BCC": ("A", [("S", "hidden")])}


def reject_one(client):
    client.send_method(1, commands.Basic.Get, queue="source", no_ack=False)
    tag = client.read_content(1, commands.Basic.GetOk).method.delivery_tag
    client.send_method(1, commands.Basic.Nack, delivery_tag=tag, multiple=False, requeue=False)


def bind_every_key(client):
    """A queue for each key of a message with COPIES."""
    for key in KEYS:
        client.declare(f"to {key}")
        client.bind(f"to {key}", "amq.direct", key)


def assert_every_key_has_a_letter(node, client):
    for key in KEYS:
        wait_until(lambda key=key: node.broker.queue_length(f"to {key}") == 1)
    headers = client.take("to hidden").properties["headers"]
    assert (headers["CC"], "BCC" in headers) == (COPIES["CC"], False)


def publish_copied(client, arguments):
    """A message with COPIES, in a source with these arguments."""
    client.declare("source", durable=True, arguments=arguments)
    client.call(1, commands.Confirm.Select, commands.Confirm.SelectOk)
    client.publish(1, "source", b"a", delivery_mode=2, headers=COPIES)
    client.read_method(1, commands.Basic.Ack)


@pytest.mark.parametrize("way", ["restart", "kill"])
@pytest.mark.parametrize("kind", WITHOUT_KEY)
def test_a_message_that_dies_after_a_restart_goes_to_its_keys_of_cc_and_bcc(node, kind, way):
    with opened(node.broker) as client:
        publish_copied(client, WITHOUT_KEY[kind])
    getattr(node, way)()
    with opened(node.broker) as client:
        bind_every_key(client)
        reject_one(client)
        assert_every_key_has_a_letter(node, client)


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_a_letter_that_waits_during_a_restart_goes_to_its_keys_of_cc_and_bcc(node, way):
    with opened(node.broker) as client:
        publish_copied(client, SOURCE)
        reject_one(client)
        wait_until(lambda: dlx(node) == 1)
        publish(client, b"later")
    getattr(node, way)()
    with opened(node.broker) as client:
        bind_every_key(client)
        client.call(1, commands.Exchange.Bind, commands.Exchange.BindOk, source="amq.fanout",
                    destination="amq.direct", routing_key="", nowait=False)  # fmt: skip
        assert_every_key_has_a_letter(node, client)
