"""A queue whose record of members a node cannot read is down, and the other queues are not."""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.values import PutPlacement
from leveret.broker.registry import stored
from leveret.cluster.quorum.queue_groups.quorum_queues import QuorumQueues
from leveret.cluster.replicated_queues.membership import ChangeRefused
from leveret.cluster.replicated_queues.membership_record import (
    UNREADABLE,
    AddMember,
    encode,
    rename,
)
from leveret.storage.metadata.metadata import SqliteMetadata
from leveret.storage.metadata.metadata_rows import QueueRow
from tests.patience import until
from tests.stored_broker import StoredBroker

QUORUM = encode_table({"x-queue-type": ("S", "quorum")})
OF_NEWER_VERSION = b"\xc1"


@pytest.fixture
async def node(tmp_path):
    """A node with two quorum queues, and a record of one of them that it cannot read."""
    async with StoredBroker(tmp_path):
        pass
    metadata = SqliteMetadata(tmp_path / "metadata.sqlite")
    metadata.load()
    for name in ("damaged", "good"):
        metadata.put_queue(QueueRow("/", name, True, False, 0, QUORUM))
    stored.write(PutPlacement("/", "damaged", 7, "", OF_NEWER_VERSION), metadata)
    metadata.close()
    async with StoredBroker(tmp_path) as node:
        yield node


def queues_of(node):
    return node.broker.services.vhosts["/"].queues


async def test_the_node_starts_and_the_other_queues_work(node, caplog):
    await until(lambda: queues_of(node)["good"].own_counts() is not None)
    records = caplog.get_records("setup")
    (line,) = [one.message for one in records if "'damaged'" in one.message]
    assert line.startswith("quorum queue 'damaged' in vhost '/' is down: its members cannot be")
    assert "Traceback" not in caplog.text


async def test_the_reason_is_shown_and_changes_are_refused_with_it(node):
    groups, damaged = node.broker.clustering.kinds.find(QuorumQueues), queues_of(node)["damaged"]
    shown = groups.factory.details(damaged)["raft"]
    assert (shown["leader"], shown["members"], shown["reason"]) == (None, [], UNREADABLE)
    with pytest.raises(ChangeRefused, match="delete the queue and declare it again"):
        await groups.membership.add("/", "damaged", "b")
    with pytest.raises(ChannelFault, match="cannot change the members of queue 'damaged'"):
        groups.factory.complete("/", damaged, encode(AddMember("b")))


def test_a_record_that_cannot_be_read_does_not_keep_nodes_from_getting_other_names():
    assert rename(OF_NEWER_VERSION, {"a": "b"}) == OF_NEWER_VERSION
