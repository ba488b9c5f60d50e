"""Retained messages of a node with a data directory."""

from leveret.broker.declarations.values import DeleteVhost, PutVhost
from leveret.broker.retained.retained_message import RetainedMessage
from leveret.broker.runtime.pending_in_task import in_task
from tests.stored_broker import StoredBroker

WARM = RetainedMessage(b"warm", qos=1, properties=b"p")


async def found(services, topic_filter, vhost="/"):
    """The messages that a filter finds, by topic."""
    messages = {}

    for step in services.retained.find_all(vhost, topic_filter, messages.__setitem__):
        if not isinstance(step, int):
            await in_task(step)
    return messages


async def test_a_retained_message_survives_a_restart(tmp_path):
    broker = StoredBroker(tmp_path)
    await broker.start()
    await in_task(broker.broker.services.retained.put("/", "a/b", WARM))
    await broker.stop()
    assert (tmp_path / "retained.sqlite").exists()

    await broker.start()
    assert await found(broker.broker.services, "a/#") == {"a/b": WARM}
    await broker.stop()


async def test_a_node_that_retains_nothing_has_no_file(tmp_path):
    broker = StoredBroker(tmp_path)
    await broker.start()
    await in_task(broker.broker.services.retained.remove("/", "a/b"))
    await broker.stop()
    assert not (tmp_path / "retained.sqlite").exists()


async def test_retained_messages_are_deleted_with_their_vhost(tmp_path):
    broker = StoredBroker(tmp_path)
    await broker.start()
    submit = broker.broker.services.declarations.submit
    await in_task(submit(PutVhost("v")))
    await in_task(broker.broker.services.retained.put("v", "a", WARM))
    await in_task(submit(DeleteVhost("v")))
    assert await found(broker.broker.services, "a", vhost="v") == {}
    assert broker.broker.services.retained.counts("v") == (0, 0)
    await broker.stop()
