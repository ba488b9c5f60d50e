"""What a node alone has is written to a file, and published again; with one broker."""

import logging

import pytest
from msgspec.structs import replace

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.field_table import encode_table
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.config import Config, TcpSettings
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.declarations.values import (
    DeleteExchange,
    DeleteQueue,
    PutBinding,
    PutExchange,
    PutQueue,
)
from leveret.broker.node.broker import Broker
from leveret.broker.queues.classic.inspection import Inspection, read_on
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.registry.contents import contents, lost
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.cluster.partitions.leftovers.files import DiscardedReader, files
from leveret.cluster.partitions.leftovers.keeping import Keeping
from leveret.cluster.partitions.leftovers.publishing import (
    LeftoverConfirms,
    LeftoverPublishing,
    PublishedFile,
)
from leveret.storage.messages.message import Address, Message
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.patience import until

OTHERS = ("a@host", "b@host")
PERSISTENT, TRANSIENT = {"delivery_mode": 2, "message_id": "7"}, {"delivery_mode": 1}


class Losing:
    """A broker that is about to take the metadata of others."""

    def __init__(self, directory):
        self.directory = directory
        config = Config(tcp=TcpSettings(listeners=()))
        self.broker = Broker(config, SqliteMetadata(directory / "m.sqlite"), data_dir=directory)
        self.keeping = Keeping(directory, "c@host", self.broker.services.registry, lambda: OTHERS)

    @property
    def queues(self):
        return self.broker.services.vhosts["/"].queues

    @property
    def exchanges(self):
        return self.broker.services.vhosts["/"].exchanges

    async def declare(self, *declarations):
        for one in declarations:
            await in_task(self.broker.services.declarations.submit(one))

    async def publish(self, queue, *bodies, properties=PERSISTENT, exchange="events"):
        confirms = LeftoverConfirms()
        address = Address(exchange, "key", encode_address(exchange, "key"))
        header = read_header(encode_properties(properties))
        for number, body in enumerate(bodies):
            confirms.begin(number)
            message = Message(address, header, body)
            self.queues[queue].publish(publication_of([message], None, confirms, number))
            confirms.confirm(number, confirms)
        await confirms.wait(0)

    async def messages(self, queue):
        """What is in a queue: addresses, identities and bodies."""
        cursor = Inspection(self.queues[queue]).cursor()
        found = []
        while entries := await read_on(cursor, 1_000_000):
            found += [entry.message for entry in entries]
        cursor.close()
        return [
            (one.address.exchange, one.address.routing_key, one.header.properties, one.body)
            for one in found
        ]

    async def keep(self, theirs):
        mine = lost(contents(self.broker.services.registry), theirs)
        await given_in_task(self.keeping.keep_lost(OTHERS, mine, [[DeleteQueue("/", "old")]]))

    async def publish_again(self, *, declares=False):
        (path,) = files(self.directory)
        reader = DiscardedReader(path)
        try:
            publishing = LeftoverPublishing(self.broker.services, THE_NODE, declares=declares)
            return await publishing.run(reader)
        finally:
            reader.close()


@pytest.fixture
async def losing(tmp_path):
    made = Losing(tmp_path)
    await made.broker.start()
    yield made
    await made.keeping.stop()
    await made.broker.stop()


async def with_lost_queue(losing, *bodies):
    """Declare and fill a queue that the others do not have; what they have."""
    theirs = list(contents(losing.broker.services.registry))
    await losing.declare(
        PutExchange("/", "events", "topic", True),
        PutQueue("/", "lost", True),
        PutBinding("/", "events", "lost", "#"),
    )
    await losing.publish("lost", *bodies)
    return theirs


async def test_the_messages_of_a_queue_come_back_as_they_were(losing):
    theirs = await with_lost_queue(losing, b"1", b"2", b"3")
    before = await losing.messages("lost")
    await losing.keep(theirs)
    assert await losing.messages("lost") == before
    await losing.declare(DeleteQueue("/", "lost"))
    await losing.declare(PutQueue("/", "lost", True))
    assert await losing.publish_again() == PublishedFile(0, 3, 0, 0, ())
    assert await losing.messages("lost") == before


async def test_missing_objects_are_declared_on_demand(losing):
    theirs = await with_lost_queue(losing, b"1", b"2")
    await losing.keep(theirs)
    await losing.declare(DeleteQueue("/", "lost"))
    assert await losing.publish_again() == PublishedFile(0, 0, 0, 2, (("/", "lost"),))
    assert await losing.publish_again(declares=True) == PublishedFile(2, 2, 0, 0, ())
    assert losing.queues["lost"].bindings


LATER = PutExchange(
    "/",
    "later",
    "x-delayed-message",
    True,
    arguments=encode_table({"x-delayed-type": ("S", "fanout")}),
)


def delay(losing, *bodies, properties=PERSISTENT, exchange="later"):
    """Publish messages to an exchange of the type x-delayed-message, due an hour later each."""
    address = Address("events", "key", encode_address("events", "key"))
    header = read_header(encode_properties({**properties, "headers": {"x-delay": ("I", 1)}}))
    waiting = losing.exchanges[exchange].delayed
    for hours, body in enumerate(bodies, 1):
        waiting.add(publication_of([Message(address, header, body)]), hours * 3_600_000)


HALF_AN_HOUR_MS = 30 * 60 * 1000


async def delayed(losing, exchange="later"):
    """What waits at an exchange: the time, the routing key and the body of each."""
    waiting = losing.exchanges[exchange].delayed
    entries, cursors = waiting.waiting()
    for cursor in cursors:
        while found := await read_on(cursor, 1_000_000):
            entries += found
        cursor.close()
    return sorted(
        (waiting.due_ms(one), one.message.address.routing_key, one.message.body) for one in entries
    )


async def test_messages_wait_again_for_the_rest_of_their_delay(losing):
    theirs = list(contents(losing.broker.services.registry))
    await losing.declare(LATER)
    delay(losing, *(b"%d" % hours for hours in range(1, 20)))
    before = await delayed(losing)
    await losing.keep(theirs)
    assert await delayed(losing) == before
    await losing.declare(DeleteExchange("/", "later"))
    assert await losing.publish_again() == PublishedFile(0, 0, 0, 19, (), (("/", "later"),))
    assert await losing.publish_again(declares=True) == PublishedFile(1, 19, 0, 0, ())
    after = await delayed(losing)
    assert [rest for _, *rest in after] == [rest for _, *rest in before]
    # What is left is counted in milliseconds, while the clock goes on. Messages are an hour apart.
    pairs = zip(after, before, strict=True)
    assert all(abs(due - due_before) < HALF_AN_HOUR_MS for (due, *_), (due_before, *_) in pairs)


async def test_a_restart_keeps_persistent_delayed_messages_and_the_rest_is_written(losing):
    passing = replace(LATER, name="passing", durable=False)
    await losing.declare(LATER, passing)
    delay(losing, b"persistent")
    delay(losing, b"transient", properties=TRANSIENT)
    delay(losing, b"1", b"2", exchange="passing")
    await losing.keeping.keep_passing(OTHERS)
    await losing.declare(DeleteExchange("/", "later"), DeleteExchange("/", "passing"))
    assert (await losing.publish_again(declares=True)).published == 3
    assert [body for *_, body in await delayed(losing)] == [b"transient"]
    assert [body for *_, body in await delayed(losing, "passing")] == [b"1", b"2"]


async def test_exchanges_at_which_nothing_waits_need_no_file(losing):
    await losing.declare(LATER)
    delay(losing, b"persistent")
    await losing.keeping.keep_passing(OTHERS)
    assert list(files(losing.directory)) == []


async def test_a_message_whose_delay_is_over_is_released_when_it_is_published_again(losing):
    await losing.declare(LATER, PutQueue("/", "due", True), PutBinding("/", "later", "due", ""))
    header = read_header(encode_properties({**PERSISTENT, "headers": {"x-delay": ("I", 1)}}))
    confirms = LeftoverConfirms()
    confirms.begin(1)
    message = Message(Address("later", "", encode_address("later", "")), header, b"late")
    losing.exchanges["later"].delayed.add_for(publication_of([message], None, confirms, 1), 1)
    confirms.confirm(1, confirms)
    await until(lambda: losing.queues["due"].backing.ready_count)
    assert losing.exchanges["later"].delayed.count == 0


async def test_large_messages_and_many_are_kept_in_pieces(losing):
    bodies = [b"x" * 300_000, *(b"%d" % number for number in range(2000))]
    theirs = await with_lost_queue(losing, *bodies)
    await losing.keep(theirs)
    await losing.declare(DeleteQueue("/", "lost"))
    assert (await losing.publish_again(declares=True)).published == 2001
    assert [body for *_, body in await losing.messages("lost")] == bodies


async def test_a_restart_keeps_persistent_messages_and_the_rest_is_written(losing):
    await losing.declare(PutQueue("/", "durable", True), PutQueue("/", "passing"))
    await losing.publish("durable", b"persistent")
    await losing.publish("durable", b"transient", properties=TRANSIENT)
    await losing.publish("passing", b"1", b"2")
    await losing.keeping.keep_passing(OTHERS)
    await losing.declare(DeleteQueue("/", "durable"), DeleteQueue("/", "passing"))
    assert (await losing.publish_again(declares=True)).published == 3
    assert [body for *_, body in await losing.messages("durable")] == [b"transient"]
    assert [body for *_, body in await losing.messages("passing")] == [b"1", b"2"]


async def test_the_log_names_the_file_and_there_is_none_without_need(losing, caplog):
    await losing.declare(PutQueue("/", "empty"), PutQueue("/", "durable", True))
    await losing.publish("durable", b"persistent")
    await losing.keeping.keep_passing(OTHERS)
    assert list(files(losing.directory)) == []
    theirs = await with_lost_queue(losing, b"1")
    with caplog.at_level(logging.ERROR):
        await losing.keep(theirs)
    (path,) = files(losing.directory)
    assert str(path) in caplog.text
    assert f"publish_discarded {path.name}" in caplog.text
    assert "3 declarations, 1 messages of 1 queues" in caplog.text


async def test_what_cannot_be_written_is_an_error_of_the_answer(losing):
    theirs = await with_lost_queue(losing, b"1")
    (losing.directory / "discarded").write_text("no directory")
    with pytest.raises(OSError, match="discarded"):
        await losing.keep(theirs)
