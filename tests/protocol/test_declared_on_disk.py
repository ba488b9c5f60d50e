"""A declaration is answered when it is on disk, and no other client waits for that."""

import asyncio
import threading

import pytest
from pamqp import commands

from leveret.broker.auth.backends.internal import InternalBackend
from leveret.broker.auth.identity import Identity
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.sessions.declaring_queues import QueueProperties
from leveret.broker.sessions.direct import DirectConnection
from leveret.storage.metadata.metadata import MetadataError, MetadataFull, SqliteMetadata
from tests.patience import PATIENCE_SECONDS
from tests.protocol.raw_client import method_bytes, opened, wait_until
from tests.stored_broker import started

ARGUMENTS = {"ticket": 0, "arguments": {}}


class HeldMetadata(SqliteMetadata):
    """Metadata whose syncs wait until the test allows them. syncs: how many were begun."""

    def __init__(self, path):
        super().__init__(path)
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.syncs = 0
        self.problem = None

    def sync(self):
        self.syncs += 1
        assert self.may_sync.wait(PATIENCE_SECONDS)
        if self.problem is not None:
            raise self.problem
        super().sync()


@pytest.fixture
def stored(tmp_path):
    broker = started(tmp_path, make_metadata=HeldMetadata)
    broker.metadata = broker.call(lambda embedded: embedded.metadata)
    yield broker
    broker.metadata.problem = None
    broker.metadata.may_sync.set()
    broker.stop()


@pytest.fixture
def client(stored):
    """A client with two channels, and durable objects for it."""
    with opened(stored) as client:
        client.open_channel(2)
        declare(client, 1, "old", durable=True)
        for name in ("from", "to"):
            client.declare_exchange(name, "fanout", durable=True, **ARGUMENTS)
        client.bind("old", "from", **ARGUMENTS)
        yield client


def declare(client, channel, queue, **flags):
    return client.call(
        channel, commands.Queue.Declare, commands.Queue.DeclareOk, queue=queue, **ARGUMENTS, **flags
    )


def consume(client, queue):
    client.call(1, commands.Basic.Consume, commands.Basic.ConsumeOk, queue=queue,
                consumer_tag="reader", **ARGUMENTS)  # fmt: skip


DURABLE = [
    (commands.Queue.Declare, commands.Queue.DeclareOk, {"queue": "new", "durable": True}),
    (commands.Queue.Bind, commands.Queue.BindOk,
     {"queue": "old", "exchange": "from", "routing_key": "other"}),
    (commands.Queue.Unbind, commands.Queue.UnbindOk,
     {"queue": "old", "exchange": "from", "routing_key": ""}),
    (commands.Exchange.Declare, commands.Exchange.DeclareOk,
     {"exchange": "new", "exchange_type": "topic", "durable": True}),
    (commands.Exchange.Bind, commands.Exchange.BindOk,
     {"destination": "to", "source": "from", "routing_key": "", "nowait": False}),
]  # fmt: skip
DELETIONS = [
    (commands.Queue.Delete, commands.Queue.DeleteOk,
     {"queue": "old", "if_unused": False, "if_empty": False, "nowait": False, "ticket": 0}),
    (commands.Exchange.Delete, commands.Exchange.DeleteOk,
     {"exchange": "from", "if_unused": False, "nowait": False, "ticket": 0}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "answer", "fields"),
    [(*rest, fields | ARGUMENTS) for *rest, fields in DURABLE] + DELETIONS,
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_answer_waits_for_the_sync_and_other_channels_do_not(
    stored, client, method, answer, fields
):
    stored.metadata.may_sync.clear()
    client.send_method(1, method, **fields)
    # The next frame from the broker is of channel 2.
    client.call(2, commands.Basic.Qos, commands.Basic.QosOk, prefetch_size=0, prefetch_count=1)
    stored.metadata.may_sync.set()
    client.read_method(1, answer)


def test_management_waits_for_the_sync(stored, client):
    stored.metadata.may_sync.clear()
    declared = stored.call(lambda embedded: asyncio.ensure_future(put_queue(embedded, "new")))
    wait_until(lambda: stored.call(lambda it: "new" in it.broker.services.vhosts["/"].queues))
    assert not declared.done()
    stored.metadata.may_sync.set()
    wait_until(declared.done)
    declared.result()


async def put_queue(embedded, name):
    """Declare a durable queue as `PUT /api/queues` does."""
    services = embedded.broker.services
    guest = Identity("guest", ("administrator",), authorization=InternalBackend(
        services.users, services.permissions))  # fmt: skip
    with DirectConnection(
        services, guest, services.vhosts["/"], "127.0.0.1", THE_NODE
    ) as connection:
        await connection.declare_queue(name, QueueProperties({}, durable=True))


def test_declarations_without_a_write_do_not_wait(stored, client):
    stored.metadata.may_sync.clear()
    client.send_method(1, commands.Queue.Declare, queue="new", durable=True, **ARGUMENTS)
    declare(client, 2, "transient")
    declare(client, 2, "exclusive", durable=True, exclusive=True)
    declare(client, 2, "auto-delete", auto_delete=True)
    client.delete("transient", channel=2)
    stored.metadata.may_sync.set()
    client.read_method(1, commands.Queue.DeclareOk)


def test_a_second_declaration_waits_for_the_first(stored, client):
    stored.metadata.may_sync.clear()
    client.send_method(1, commands.Queue.Declare, queue="new", durable=True, **ARGUMENTS)
    with opened(stored) as second:
        second.open_channel(2)
        second.send_method(1, commands.Queue.Declare, queue="new", durable=True, **ARGUMENTS)
        second.call(2, commands.Basic.Qos, commands.Basic.QosOk, prefetch_size=0, prefetch_count=1)
        stored.metadata.may_sync.set()
        second.read_method(1, commands.Queue.DeclareOk)
    client.read_method(1, commands.Queue.DeclareOk)


def test_many_channels_share_a_sync(stored, client):
    channels = range(3, 103)
    for channel in channels:
        client.open_channel(channel)
    before = stored.metadata.syncs
    stored.metadata.may_sync.clear()
    client.send_method(1, commands.Queue.Declare, queue="first", durable=True, **ARGUMENTS)
    wait_until(lambda: stored.metadata.syncs > before)
    client.send(b"".join(declare_bytes(channel, f"q{channel}") for channel in channels))
    client.call(2, commands.Basic.Qos, commands.Basic.QosOk, prefetch_size=0, prefetch_count=1)
    stored.metadata.may_sync.set()
    for channel in (1, *channels):
        client.read_method(channel, commands.Queue.DeclareOk)
    assert stored.metadata.syncs == before + 2


def test_declarations_of_one_channel_share_a_sync(stored, client):
    before = stored.metadata.syncs
    stored.metadata.may_sync.clear()
    client.send_method(1, commands.Queue.Declare, queue="first", durable=True, **ARGUMENTS)
    wait_until(lambda: stored.metadata.syncs > before)
    queues = [f"q{number}" for number in range(100)]
    client.send(b"".join(declare_bytes(1, queue) for queue in queues))
    wait_until(lambda: stored.call(queue_count) == 2 + len(queues))
    stored.metadata.may_sync.set()
    for queue in ("first", *queues):
        assert client.read_method(1, commands.Queue.DeclareOk).queue == queue
    assert stored.metadata.syncs == before + 2


def test_requests_of_management_share_a_sync(stored):
    before = stored.metadata.syncs
    queues = [f"q{number}" for number in range(20)]

    async def put_all(embedded):
        await asyncio.gather(*(put_queue(embedded, queue) for queue in queues))

    declared = stored.call(lambda embedded: asyncio.ensure_future(put_all(embedded)))
    wait_until(declared.done)
    assert stored.call(queue_count) == len(queues)
    assert stored.metadata.syncs == before + 1


def queue_count(embedded):
    return len(embedded.broker.services.vhosts["/"].queues)


def declare_bytes(channel, queue, **flags):
    return method_bytes(
        channel, commands.Queue.Declare, queue=queue, durable=True, **ARGUMENTS, **flags
    )


def test_declarations_without_an_answer_wait_for_nothing(stored, client):
    before = stored.metadata.syncs
    client.send(b"".join(declare_bytes(1, f"q{number}", nowait=True) for number in range(100)))
    declare(client, 1, "last", durable=True)
    assert stored.metadata.syncs == before + 1


@pytest.mark.parametrize("durable", [True, False])
def test_the_deletion_of_a_queue_is_answered_before_its_consumers_are_cancelled(
    stored, client, durable
):
    declare(client, 1, "read", durable=durable)
    consume(client, "read")
    stored.metadata.may_sync.clear()
    client.send_method(1, commands.Queue.Delete, queue="read", if_unused=False, if_empty=False,
                       nowait=False, ticket=0)  # fmt: skip
    if durable:
        client.call(2, commands.Basic.Qos, commands.Basic.QosOk, prefetch_size=0, prefetch_count=1)
        stored.metadata.may_sync.set()
    client.read_method(1, commands.Queue.DeleteOk)
    assert client.read_method(1, commands.Basic.Cancel).consumer_tag == "reader"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            MetadataFull,
            506,
            "RESOURCE_ERROR - the disk of the node is full; delete something or free space on it",
        ),
        (MetadataError, 541, "INTERNAL_ERROR - the node cannot write its metadata; see its log"),
    ],
)
def test_a_change_that_cannot_be_written_changes_nothing_and_is_refused(
    stored, client, monkeypatch, caplog, error, code, text
):
    consume(client, "old")

    def fail(*_):
        raise error("cannot be used")

    monkeypatch.setattr(stored.metadata, "_execute", fail)
    client.send_method(1, commands.Queue.Delete, queue="old", if_unused=False, if_empty=False,
                       nowait=False, ticket=0)  # fmt: skip
    closed = client.read_method(0, commands.Connection.Close)
    assert (closed.reply_code, closed.reply_text) == (code, text)
    assert (closed.class_id, closed.method_id) == (50, 40)
    assert stored.call(lambda embedded: "old" in embedded.broker.services.vhosts["/"].queues)
    monkeypatch.undo()
    caplog.clear()


def test_a_sync_that_fails_stops_the_node(stored, client, caplog):
    stored.metadata.problem = MetadataError("the disk is broken")
    client.send_method(1, commands.Queue.Declare, queue="new", durable=True, **ARGUMENTS)
    wait_until(lambda: stored.call(lambda embedded: embedded.broker.failure.done()))
    assert client.read_method(0, commands.Connection.Close).reply_code == 541
    caplog.clear()
